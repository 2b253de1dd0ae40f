// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/netns"
)

const (
	mtu     = 1500
	maxHeld = 1 << 15 // packets in one direction, 48 MB; what is beyond is lost, and counted
	maxRTT  = 2 * time.Second
)

// Link is a running wire.
type Link struct {
	client, server *netns.Namespace
	fd             [2]int // of the client's and the server's device
	event          int
	hold           atomic.Int64 // nanoseconds, each way
	dropped        atomic.Uint64
	closing        atomic.Bool
	done           chan struct{}
	once           sync.Once
}

// packet is held until due.
type packet struct {
	due time.Time
	b   []byte
}

// Pair makes two hosts with the addresses of netns.Pair and a wire of ours
// between them. Close the Link before the Net.
func Pair(n *netns.Net) (client, server *netns.Namespace, _ *Link, err error) {
	l := &Link{fd: [2]int{-1, -1}, event: -1, done: make(chan struct{})}
	for i, h := range []struct {
		name      string
		to        **netns.Namespace
		addresses []string
	}{{"client", &l.client, []string{netns.ClientV4 + "/16", netns.ClientV6 + "/32"}}, {"server", &l.server, []string{netns.ServerV4 + "/16", netns.ServerV6 + "/32"}}} {
		if *h.to, err = n.Namespace(h.name); err == nil {
			l.fd[i], err = (*h.to).TUN("eth0", h.addresses...)
		}
		if err != nil {
			l.release()
			return nil, nil, nil, err
		}
	}
	if l.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		l.release()
		return nil, nil, nil, fmt.Errorf("eventfd: %w", err)
	}
	go l.run()
	return l.client, l.server, l, nil
}

func (l *Link) release() {
	for _, fd := range []int{l.fd[0], l.fd[1], l.event} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Close removes the devices.
func (l *Link) Close() error {
	l.once.Do(func() {
		l.closing.Store(true)
		unix.Write(l.event, []byte{0: 1, 7: 0})
		<-l.done
		l.release()
	})
	return nil
}

// Dropped is the number of packets that were lost here; it should be 0.
func (l *Link) Dropped() uint64 { return l.dropped.Load() }

// run carries packets. Its thread has timers without slack (by default the
// kernel may be 50 µs late) and ends with it.
func (l *Link) run() {
	defer close(l.done)
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	var held [2][]packet
	var free [][]byte
	for !l.closing.Load() {
		wait := time.Duration(-1)
		for i := range held {
			for len(held[i]) > 0 {
				left := time.Until(held[i][0].due)
				if left > 0 {
					if wait < 0 || left < wait {
						wait = left
					}
					break
				}
				b := held[i][0].b
				if _, err := unix.Write(l.fd[1-i], b); err != nil {
					l.dropped.Add(1)
				}
				free = append(free, b[:mtu])
				held[i][0].b = nil
				held[i] = held[i][1:]
			}
		}
		fds := []unix.PollFd{{Fd: int32(l.fd[0]), Events: unix.POLLIN}, {Fd: int32(l.fd[1]), Events: unix.POLLIN}, {Fd: int32(l.event), Events: unix.POLLIN}}
		var ts *unix.Timespec
		if wait >= 0 {
			t := unix.NsecToTimespec(int64(wait))
			ts = &t
		}
		if _, err := unix.Ppoll(fds, ts, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for i := range held {
			if fds[i].Revents&unix.POLLIN == 0 {
				continue
			}
			for {
				var b []byte
				if n := len(free); n > 0 {
					b, free = free[n-1], free[:n-1]
				} else {
					b = make([]byte, mtu)
				}
				n, err := unix.Read(l.fd[i], b)
				if err != nil || n <= 0 {
					free = append(free, b)
					break
				}
				if len(held[i]) >= maxHeld {
					l.dropped.Add(1)
					free = append(free, b)
					continue
				}
				held[i] = append(held[i], packet{time.Now().Add(time.Duration(l.hold.Load())), b[:n]})
			}
		}
	}
}

// SetRTT makes the round-trip time d (0: as short as it gets). What the way
// through this process takes anyway is measured first and taken off. It returns
// the median of a few pings.
func (l *Link) SetRTT(d time.Duration) (measured time.Duration, err error) {
	if d < 0 || d > maxRTT {
		return 0, fmt.Errorf("round-trip time: %v, expected 0 to %v", d, maxRTT)
	}
	l.hold.Store(0)
	base, err := ping(l.client, netns.ServerV4, 21)
	if err != nil || d == 0 {
		return base, err
	}
	l.hold.Store(int64(max(0, d-base)) / 2)
	return ping(l.client, netns.ServerV4, 11)
}
