// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection with a read buffer and the time rules of the package.
// One goroutine uses it.
type Conn struct {
	net.Conn
	limits Limits
	opened time.Time
	served atomic.Bool

	buf   []byte // buf[r:w] came in and is not consumed
	r, w  int
	timed bool // a read deadline is set
	until time.Time

	raw      syscall.RawConn // TCP only, for quickAck
	quickAck func(fd uintptr)

	// Descriptors that came over a unix socket (SCM_RIGHTS), if AcceptFiles
	// was called and nobody took them yet.
	files  []int
	accept bool
	oob    []byte
}

func newConn(nc net.Conn, l Limits) *Conn {
	c := &Conn{Conn: nc, limits: l, opened: time.Now(), buf: make([]byte, 4096)}
	if t, ok := nc.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			c.raw = raw
			c.quickAck = func(fd uintptr) {
				ackNow(fd)
			}
		}
	}
	return c
}

// AcceptFiles makes the connection take passed descriptors (unix sockets).
func (c *Conn) AcceptFiles() {
	c.accept = true
	c.oob = make([]byte, oobSize)
}

// TakeFiles returns the descriptors that came, and leaves them to the caller.
func (c *Conn) TakeFiles() []int {
	f := c.files
	c.files = nil
	return f
}

// Close closes the connection and all descriptors that nobody took.
func (c *Conn) Close() error {
	for _, fd := range c.TakeFiles() {
		closeFile(fd)
	}
	clear(c.buf)
	return c.Conn.Close()
}

// Served notes that the peer has sent a whole request, so that it is not the
// first to go when connections run out.
func (c *Conn) Served() {
	if !c.served.Load() {
		c.served.Store(true)
	}
}

// Buffered tells how many bytes came in and are not consumed.
func (c *Conn) Buffered() int { return c.w - c.r }

// Peek returns the next n bytes without consuming them; they are valid until
// the next call. With nothing buffered it waits for ever for the first byte;
// once one is there the rest must come within Limits.Request. It returns
// io.EOF if the peer ended between requests, io.ErrUnexpectedEOF within one.
func (c *Conn) Peek(n int) ([]byte, error) {
	for c.w-c.r < n {
		if c.r > 0 {
			copy(c.buf, c.buf[c.r:c.w])
			clear(c.buf[c.w-c.r : c.w])
			c.w, c.r = c.w-c.r, 0
		}
		if c.w == len(c.buf) {
			// Grow with what came in, not with what was announced.
			bigger := make([]byte, 2*len(c.buf))
			copy(bigger, c.buf)
			clear(c.buf)
			c.buf = bigger
		}
		if c.w > 0 && !c.timed {
			c.timed = true
			if err := c.SetReadDeadline(time.Now().Add(c.limits.Request)); err != nil {
				return nil, err
			}
		}
		m, err := c.fill(c.buf[c.w:])
		c.w += m
		if m == 0 && err != nil {
			if errors.Is(err, io.EOF) && c.w > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return c.buf[c.r : c.r+n], nil
}

// Discard consumes n bytes that Peek returned, and erases them: a command may
// hold an authorization value.
func (c *Conn) Discard(n int) {
	clear(c.buf[c.r : c.r+n])
	c.r += n
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
}

// EndRequest is to be called when a whole request was consumed: the next one
// may be long in coming.
func (c *Conn) EndRequest() error {
	c.Served()
	if !c.timed {
		return nil
	}
	c.timed = false
	return c.SetReadDeadline(time.Time{})
}

// fill reads once.
func (c *Conn) fill(p []byte) (int, error) {
	if c.raw != nil {
		// A client that sends a command in two writes waits 40 ms for a delayed
		// acknowledgement of the first one otherwise. The kernel forgets the
		// option, so it is set before each read.
		_ = c.raw.Control(c.quickAck)
	}
	u, ok := c.Conn.(*net.UnixConn)
	if !c.accept || !ok {
		return c.Conn.Read(p)
	}
	n, oobn, flags, _, err := u.ReadMsgUnix(p, c.oob)
	n = max(n, 0) // -1 beside an error
	if oobn > 0 {
		if e := c.keepFiles(c.oob[:oobn], flags); e != nil {
			return 0, e
		}
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write sends all of p; the peer must take it within Limits.Response.
func (c *Conn) Write(p []byte) (int, error) {
	// Moving the deadline costs more than looking at the clock.
	if now := time.Now(); c.until.Sub(now) < c.limits.Response/2 {
		c.until = now.Add(c.limits.Response)
		if err := c.SetWriteDeadline(c.until); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}
