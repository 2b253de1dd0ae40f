// SPDX-License-Identifier: Apache-2.0

package listen

import "golang.org/x/sys/unix"

func unixSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

// modeFirst: on Linux the mode of the descriptor becomes that of the file.
func modeFirst(fd int) error { return unix.Fchmod(fd, 0o600) }

// peerOf tells who is at the other end of a unix socket: user and process.
func peerOf(fd uintptr) (uid, pid int, err error) {
	cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	return int(cred.Uid), int(cred.Pid), nil
}
