// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waiter sleeps until a ring has something. Both rings are in an epoll set of
// our own, which is in the Go runtime's set: the runtime's poller thread runs
// the gate at once, and a ring that is not armed wakes nobody.
type waiter struct {
	out, in int
	f       *os.File // the epoll set
	raw     syscall.RawConn
}

func newWaiter(out, in int) (*waiter, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	for _, r := range []int{out, in} {
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, r, &unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: int32(r)}); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("epoll of the ring: %w", err)
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	w := &waiter{out: out, in: in, f: os.NewFile(uintptr(fd), "rings")}
	if w.raw, err = w.f.SyscallConn(); err == nil {
		err = w.f.SetReadDeadline(time.Time{}) // fails if the runtime does not poll it
	}
	if err != nil {
		w.f.Close()
		return nil, fmt.Errorf("epoll of the rings: %w", err)
	}
	return w, nil
}

// arm makes the set ready at the next record of the ring, or now if there is one.
func (w *waiter) arm(ring int) error {
	var err error
	if closed := w.raw.Control(func(fd uintptr) {
		err = unix.EpollCtl(int(fd), unix.EPOLL_CTL_MOD, ring, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(ring)})
	}); closed != nil {
		return closed
	}
	return err
}

// until waits for an armed ring or the deadline (zero: for ever).
func (w *waiter) until(deadline time.Time) error {
	if err := w.arm(w.out); err != nil {
		return net.ErrClosed
	}
	if err := w.f.SetReadDeadline(deadline); err != nil {
		return net.ErrClosed
	}
	var bad error
	err := w.raw.Read(func(fd uintptr) bool {
		var ev [2]unix.EpollEvent
		n, err := unix.EpollWait(int(fd), ev[:], 0)
		if err != nil && err != unix.EINTR {
			bad = err
			return true
		}
		return n > 0
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err != nil:
		return net.ErrClosed
	}
	return bad
}

func (w *waiter) close() { w.f.Close() }
