// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a stream connection outside of Go's network poller, which therefore
// is not woken by what arrives. TryRead never blocks; Read and Write block a
// thread, and are meant for what is rare. A deadline counts for calls that
// begin after it was set.
type Conn struct {
	fd            int
	local, remote net.Addr
	mu            sync.RWMutex // held for reading while fd is used
	closed        atomic.Bool
	read, write   atomic.Int64 // deadlines, Unix ns; 0: none
	hot           time.Duration
}

// Detach takes a TCP or unix connection out of the network poller. c must not
// be used any more, also after an error.
func Detach(c net.Conn) (*Conn, error) {
	defer c.Close()
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("hot: %T has no descriptor", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	n := &Conn{local: c.LocalAddr(), remote: c.RemoteAddr()}
	var dup error
	if err := raw.Control(func(fd uintptr) { n.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dup != nil {
		return nil, fmt.Errorf("hot: %w", dup)
	}
	return n, nil
}

// SetHot makes Read wait up to d in the way that the runtime does not see, before
// it blocks its thread. Call it before the first Read.
func (c *Conn) SetHot(d time.Duration) { c.hot = d }

// FD is the descriptor, valid until Close.
func (c *Conn) FD() int { return c.fd }

// Join adds the connection to a set.
func (c *Conn) Join(p *Poll, token int32) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed.Load() {
		return net.ErrClosed
	}
	return p.Add(c.fd, token)
}

// Leave takes it out again. Close does that too.
func (c *Conn) Leave(p *Poll) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.closed.Load() {
		p.Remove(c.fd)
	}
}

func (c *Conn) LocalAddr() net.Addr  { return c.local }
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// TryRead reads what is there: 0 and nil when nothing is, io.EOF at the end.
func (c *Conn) TryRead(b []byte) (int, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := ignoreEINTR(func() (int, error) { return rawRead(c.fd, b) })
	switch {
	case err == unix.EAGAIN:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read: %w", err)
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		n, err := c.TryRead(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		if err := c.await(unix.POLLIN, &c.read); err != nil {
			return 0, err
		}
	}
}

// TryWrite writes what the socket takes now, which may be nothing.
func (c *Conn) TryWrite(b []byte) (int, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := ignoreEINTR(func() (int, error) { return rawWrite(c.fd, b) })
	switch {
	case err == unix.EAGAIN:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("write: %w", err)
	}
	return n, nil
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := c.TryWrite(b[done:])
		if done += n; err != nil {
			return done, err
		}
		if n == 0 {
			if err := c.await(unix.POLLOUT, &c.write); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// await blocks until the descriptor is ready or the deadline has passed.
func (c *Conn) await(events int16, deadline *atomic.Int64) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if events == unix.POLLIN && !cool.Load() {
		for end, d := time.Now().Add(c.hot), c.hot; d > 0 && !c.closed.Load(); d = time.Until(end) {
			if at := deadline.Load(); at != 0 && at < end.UnixNano() {
				break
			}
			if readable(c.fd, min(d, slice)) {
				return nil
			}
			yield()
		}
	}
	for !c.closed.Load() {
		var ts *unix.Timespec
		if at := deadline.Load(); at != 0 {
			left := at - time.Now().UnixNano()
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			t := unix.NsecToTimespec(left)
			ts = &t
		}
		fds := []unix.PollFd{{Fd: int32(c.fd), Events: events}}
		if n, err := unix.Ppoll(fds, ts, nil); n > 0 {
			return nil
		} else if err != nil && err != unix.EINTR {
			return fmt.Errorf("poll: %w", err)
		}
	}
	return net.ErrClosed
}

// CloseWrite ends the sending direction.
func (c *Conn) CloseWrite() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed.Load() {
		return net.ErrClosed
	}
	return unix.Shutdown(c.fd, unix.SHUT_WR)
}

// Close implements net.Conn. Whoever waits in Read or Write comes back first.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	unix.Shutdown(c.fd, unix.SHUT_RDWR)
	c.mu.Lock()
	defer c.mu.Unlock()
	return unix.Close(c.fd)
}

func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *Conn) SetReadDeadline(t time.Time) error  { c.read.Store(unixNano(t)); return nil }
func (c *Conn) SetWriteDeadline(t time.Time) error { c.write.Store(unixNano(t)); return nil }

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixNano(), 1)
}

func ignoreEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
