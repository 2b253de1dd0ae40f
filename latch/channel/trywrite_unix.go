// SPDX-License-Identifier: Apache-2.0

//go:build unix

package channel

import "syscall"

// tryWrite writes what the socket takes now, which may be nothing.
func tryWrite(raw syscall.RawConn, b []byte) (n int, err error) {
	if raw == nil {
		return 0, nil
	}
	rerr := raw.Write(func(fd uintptr) bool {
		for {
			n, err = syscall.Write(int(fd), b)
			if err != syscall.EINTR {
				return true // never wait here
			}
		}
	})
	if rerr != nil {
		return 0, rerr
	}
	if err == syscall.EAGAIN {
		return 0, nil
	}
	return max(n, 0), err
}

// tryRead reads what is there now; 0 for nothing, the end or an error, which a
// blocking read will meet again.
func tryRead(raw syscall.RawConn, b []byte) (n int) {
	if raw == nil {
		return 0
	}
	var err error
	if raw.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), b) }) != nil || err != nil {
		return 0
	}
	return max(n, 0)
}

// lowWater is how many bytes must wait before the kernel wakes a reader; n is
// 1 in normal use. Where it has no effect the reader is woken for nothing.
func lowWater(raw syscall.RawConn, n int) {
	if raw != nil {
		raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n) })
	}
}
