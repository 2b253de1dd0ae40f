// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// slice bounds one sleep that the runtime does not see. Its monitor interrupts
// what runs for more than 10 ms, and then ticks fast for a millisecond.
const slice = 8 * time.Millisecond

// Poll is an epoll set. One goroutine may Wait; the other methods may be
// called from any.
type Poll struct {
	ep, event int
	events    [64]unix.EpollEvent
	yielded   time.Time // in the hot way; of Wait
	woken     atomic.Bool
	mu        sync.RWMutex // held for writing by Close
	closed    bool
}

// wakeToken marks the set's own event descriptor.
const wakeToken = -1

// New makes an empty set.
func New() (*Poll, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	p := &Poll{ep: ep}
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(ep)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if err := p.Add(p.event, wakeToken); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Add watches a descriptor: Wait returns its token (not negative) as long as
// it is readable, has ended or failed.
func (p *Poll) Add(fd int, token int32) error {
	return p.ctl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLRDHUP, token)
}

// AddEdge watches a descriptor for what wakes its waiters from now on: what is
// readable already wakes nobody, and each wake-up is told once.
func (p *Poll) AddEdge(fd int, token int32) error {
	return p.ctl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLET, token)
}

// AddOnce puts a descriptor in that wakes nobody until Arm.
func (p *Poll) AddOnce(fd int, token int32) error {
	return p.ctl(unix.EPOLL_CTL_ADD, fd, unix.EPOLLONESHOT, token)
}

// Arm makes Wait return once when the descriptor of AddOnce is readable, which may be now.
func (p *Poll) Arm(fd int, token int32) error {
	return p.ctl(unix.EPOLL_CTL_MOD, fd, unix.EPOLLIN|unix.EPOLLONESHOT, token)
}

// Disarm ends what Arm began.
func (p *Poll) Disarm(fd int, token int32) error {
	return p.ctl(unix.EPOLL_CTL_MOD, fd, unix.EPOLLONESHOT, token)
}

// Remove takes a descriptor out. Call it before the descriptor is closed.
func (p *Poll) Remove(fd int) error { return p.ctl(unix.EPOLL_CTL_DEL, fd, 0, 0) }

func (p *Poll) ctl(op, fd int, events uint32, token int32) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return errClosed
	}
	if err := unix.EpollCtl(p.ep, op, fd, &unix.EpollEvent{Events: events, Fd: token}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

var errClosed = errors.New("hot: the set is closed")

// FD is the set's own descriptor, readable when one of its members is: a set
// may be a member of another.
func (p *Poll) FD() int { return p.ep }

// Wake ends a Wait, the running one or the next.
func (p *Poll) Wake() {
	if !p.woken.CompareAndSwap(false, true) {
		return
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.closed {
		unix.Write(p.event, []byte{0: 1, 7: 0})
	}
}

// Wait sleeps until a member is ready, Wake was called, or d has passed
// (negative: no limit), and appends the tokens of ready members to dst. With hot set
// the runtime does not see the sleep; d must not be negative then. Errors other
// than a closed set do not occur.
func (p *Poll) Wait(dst []int32, d time.Duration, hot bool) ([]int32, error) {
	if p.woken.Load() {
		d = 0 // the event descriptor is readable, but no need to sleep for it
	}
	n, err := p.sleep(d, hot)
	if err != nil {
		return dst, err
	}
	// Who finds it set has changed something that the caller looks at next.
	p.woken.Swap(false)
	for i := range p.events[:n] {
		if t := p.events[i].Fd; t != wakeToken {
			dst = append(dst, t)
			continue
		}
		var b [8]byte
		unix.Read(p.event, b[:])
	}
	return dst, nil
}

func (p *Poll) sleep(d time.Duration, hot bool) (int, error) {
	if !hot || d == 0 || cool.Load() {
		return p.wait(d, d == 0) // looking only never blocks
	}
	now := time.Now()
	if now.Sub(p.yielded) > slice/2 { // else a loop that always finds work is interrupted
		yield()
		p.yielded = now
	}
	for end := now.Add(d); ; {
		n, err := p.wait(min(d, slice), true)
		if n > 0 || err != nil {
			return n, err
		}
		if d = time.Until(end); d <= 0 {
			return 0, nil
		}
		yield()
		p.yielded = time.Now()
	}
}

// yield lets others run where there is one processor only. Where there are
// more it would wake a thread that finds nothing to do.
func yield() {
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.Gosched()
	}
}

// cool is set by Cool.
var cool atomic.Bool

// Cool ends hot sleep in this process for good: for a program whose loop is not
// the only goroutine that sessions wait for.
func Cool() { cool.Store(true) }

// Sleep sleeps to the kernel's precision (the runtime's timers are as much as a
// millisecond late on an idle process) without the runtime seeing it; after
// Cool in a system call that it sees, as a device driver's.
func Sleep(d time.Duration) {
	if cool.Load() {
		for end := time.Now().Add(d); d > 0; d = time.Until(end) {
			pauseSeen(d)
		}
		return
	}
	for end := time.Now().Add(d); d > 0; d = time.Until(end) {
		pause(min(d, slice))
		yield()
	}
}

// OneProcessor is for programs that are little more than one loop: with
// GOMAXPROCS at 1 no thread is woken to look for work that is not there. The
// environment variable GOMAXPROCS overrules it.
func OneProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}

// Close closes the set; a Wait returns an error. The members stay open.
func (p *Poll) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	unix.Close(p.event)
	return unix.Close(p.ep)
}
