// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !amd64

package kvm

import "errors"

// Probe says that this system has no KVM for x86-64.
func Probe(Mode) (*Found, error) {
	return nil, errors.New("enclave/kvm: only Linux on x86-64 has this backend")
}
