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
