// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noPwait2 is set on kernels before 5.11.
var noPwait2 atomic.Bool

// wait sleeps once, at most d (negative: no limit), and returns the number of
// events; 0 also when a signal came. raw: the runtime does not see it.
func (p *Poll) wait(d time.Duration, raw bool) (int, error) {
	call := unix.Syscall6
	if raw {
		call = unix.RawSyscall6
	}
	var ts *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		ts = &t
	}
	var n uintptr
	var e unix.Errno
	if !noPwait2.Load() {
		n, _, e = call(unix.SYS_EPOLL_PWAIT2, uintptr(p.ep), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(unsafe.Pointer(ts)), 0, 0)
		if e == unix.ENOSYS {
			noPwait2.Store(true)
		}
	}
	if noPwait2.Load() {
		fds := []unix.PollFd{{Fd: int32(p.ep), Events: unix.POLLIN}}
		if n, _, e = call(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 1, uintptr(unsafe.Pointer(ts)), 0, 0, 0); e == 0 && n > 0 {
			n, _, e = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.ep), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
		}
	}
	switch e {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, fmt.Errorf("epoll: %w", e)
}

// pause sleeps once; a signal ends it early.
func pause(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}

// pauseSeen is pause in a system call that the runtime sees: it gives the
// processor to other goroutines meanwhile.
func pauseSeen(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}

// readable waits for a descriptor without the runtime seeing it, at most d.
func readable(fd int, d time.Duration) bool {
	ts := unix.NsecToTimespec(int64(d))
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return e == 0 && n > 0
}

// rawRead and rawWrite are for descriptors that do not block: the runtime need
// not know of them, and does not start its monitor for them.
func rawRead(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func rawWrite(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
