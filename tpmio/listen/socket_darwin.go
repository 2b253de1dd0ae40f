// SPDX-License-Identifier: Apache-2.0

package listen

import "golang.org/x/sys/unix"

func unixSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// modeFirst does nothing: the file's mode is set between bind and listen, and
// before listen nobody can connect.
func modeFirst(int) error { return nil }

// peerOf tells who is at the other end of a unix socket: user and process.
func peerOf(fd uintptr) (uid, pid int, err error) {
	cred, err := unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid, err = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return int(cred.Uid), pid, err
}
