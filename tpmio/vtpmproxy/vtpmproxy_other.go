// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package vtpmproxy

import (
	"net"
)

// Device is a TPM device of a Linux kernel; there is none here.
type Device struct{ Path string }

// New says that only Linux has a TPM proxy.
func New() (*Device, error) { return nil, ErrUnsupported }

// Conn has no device to talk to.
func (d *Device) Conn() net.Conn { return nil }
