// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// disconnect connects to AF_UNSPEC, which the unix package has no address for.
func disconnect(fd int) error {
	var sa unix.RawSockaddr
	sa.Family = unix.AF_UNSPEC
	if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa)), unix.SizeofSockaddrInet4); e != 0 {
		return e
	}
	return nil
}
