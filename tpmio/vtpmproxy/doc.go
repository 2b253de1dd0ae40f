// SPDX-License-Identifier: Apache-2.0

// Package vtpmproxy gives a TPM to the kernel: a /dev/tpmN whose commands the
// kernel hands to us (module tpm_vtpm_proxy, device /dev/vtpmx). Call New and
// serve Conn as a swtpm data connection of its own.
package vtpmproxy

import "errors"

// controlDevice is where devices are made.
const controlDevice = "/dev/vtpmx"

// ErrUnsupported says that this kernel has no TPM proxy.
var ErrUnsupported = errors.New("this kernel offers no vTPM proxy: " + controlDevice + " is not there (load the module tpm_vtpm_proxy)")
