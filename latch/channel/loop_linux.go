// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"sync"
	"time"

	"holdfast/internal/hot"
)

// detach moves a connection that nobody reads or writes now out of Go's
// network poller.
func (q *queue) detach() (*hot.Conn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return nil, q.err
	}
	c, err := hot.Detach(q.conn)
	if err != nil {
		q.failLocked(err)
		return nil, err
	}
	q.conn = c // which writes by itself what it can at once
	return c, nil
}

// Join takes the connection out of Go's network poller and puts it into a set
// of the caller's: when the set tells its token, call RecvNow. Call it before
// the first Recv or Announce, and Recv never again.
func (c *Client) Join(p *hot.Poll, token int32) error {
	hc, err := c.q.detach()
	if err != nil {
		return err
	}
	c.conn, c.fr.r = hc, hc
	return hc.Join(p, token)
}

// RecvNow appends to dst events that are there, in the order and with the rules
// of Recv, and does not block: the set tells the token again if there are more.
// After an error the connection is of no more use.
func (c *Client) RecvNow(dst []Event) ([]Event, error) {
	c.path = c.path[:0]
	before := len(dst)
	for {
		f, err := c.fr.next()
		if err == nil && f == nil {
			if len(dst) > before { // reading on would move what they point at
				return dst, nil
			}
			var n int
			c.fr.room()
			n, err = c.conn.(*hot.Conn).TryRead(c.fr.buf[c.fr.to:])
			if c.fr.to += n; err == nil && n == 0 {
				return dst, nil
			}
			if err == nil {
				continue
			}
		}
		if err == nil {
			dst, err = c.event(dst, f)
		}
		if err != nil {
			c.q.close(err)
			return dst, err
		}
	}
}

// Loop reads the gates' connections from the agent's own goroutine, so that an
// announcement that need not be read yet wakes nobody.
type Loop struct {
	p      *hot.Poll
	tokens []int32

	mu      sync.Mutex
	conns   map[int32]*Conn
	next    int32
	resting []*Conn // above their limits, until Conn.until
}

// NewLoop makes a loop; give it to one server by ServerOptions.Loop.
func NewLoop() (*Loop, error) {
	p, err := hot.New()
	if err != nil {
		return nil, err
	}
	return &Loop{p: p, conns: map[int32]*Conn{}}, nil
}

// FD is readable while a connection waits to be read.
func (l *Loop) FD() int { return l.p.FD() }

// Close ends the loop, after the server was closed.
func (l *Loop) Close() error { return l.p.Close() }

// Read reads all that is there and hands it to the server's handler, in the
// calling goroutine. It does not block. It returns when it must be called next,
// whatever FD says; the zero time: need not.
func (l *Loop) Read(now time.Time) (next time.Time) {
	l.mu.Lock()
	rest := l.resting[:0]
	var ready []*Conn
	for _, c := range l.resting {
		if now.Before(c.until) {
			rest = append(rest, c)
		} else {
			ready = append(ready, c)
		}
	}
	clear(l.resting[len(rest):])
	l.resting = rest
	l.mu.Unlock()
	for _, c := range ready {
		if l.frames(c, now) {
			c.hot.Join(l.p, c.token)
		}
	}
	l.tokens, _ = l.p.Wait(l.tokens[:0], 0, true)
	for _, t := range l.tokens {
		l.mu.Lock()
		c := l.conns[t]
		l.mu.Unlock()
		if c != nil {
			l.read(c, now)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.resting {
		if next.IsZero() || c.until.Before(next) {
			next = c.until
		}
	}
	return next
}

// reads bounds how much of one gate is read before the next one's turn.
const reads = 16

func (l *Loop) read(c *Conn, now time.Time) {
	for range reads {
		c.fr.room()
		room := len(c.fr.buf) - c.fr.to
		n, err := c.hot.TryRead(c.fr.buf[c.fr.to:])
		c.fr.to += n
		if err != nil {
			l.leave(c, nil)
			return
		}
		if n == 0 || !l.frames(c, now) || n < room {
			return
		}
	}
}

// frames handles what is buffered; false when the connection is no longer read now.
func (l *Loop) frames(c *Conn, now time.Time) bool {
	if err := c.frames(); err != nil {
		if !c.bye.Load() {
			c.goodbye(CodeProtocol, err.Error())
		}
		l.leave(c, err)
		return false
	}
	if c.bye.Load() {
		l.leave(c, nil)
		return false
	}
	if c.penalty > 0 {
		c.until, c.penalty = now.Add(c.penalty), 0
		c.hot.Leave(l.p)
		l.mu.Lock()
		if l.conns[c.token] == c {
			l.resting = append(l.resting, c)
		}
		l.mu.Unlock()
		return false
	}
	return true
}

// leave gives the connection back to its own goroutine, which ends it.
func (l *Loop) leave(c *Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[c.token] != c {
		return
	}
	delete(l.conns, c.token)
	for i, r := range l.resting {
		if r == c {
			l.resting = append(l.resting[:i], l.resting[i+1:]...)
			break
		}
	}
	c.hot.Leave(l.p)
	c.left <- err
}

// looped is what Conn has of a Loop.
type looped struct {
	hot   *hot.Conn
	token int32
	until time.Time  // not to be read before
	left  chan error // why the loop let it go
}

// loop hands the connection to the server's loop, if it has one, and returns
// when the loop lets it go. done is false without one.
func (c *Conn) loop() (done bool, err error) {
	l := c.s.o.Loop
	if l == nil {
		return false, nil
	}
	hc, err := c.q.detach()
	if err != nil {
		return true, nil // closed meanwhile
	}
	c.conn, c.fr.r = hc, hc
	c.looped = looped{hot: hc, left: make(chan error, 1)}
	l.mu.Lock()
	l.next++
	for l.conns[l.next] != nil || l.next < 0 {
		l.next = max(l.next+1, 0)
	}
	c.token = l.next
	l.conns[c.token] = c
	l.mu.Unlock()
	if err := hc.Join(l.p, c.token); err != nil {
		l.leave(c, nil)
	}
	if c.bye.Load() { // said before the loop knew of it
		hc.SetReadDeadline(time.Now().Add(linger))
		l.leave(c, nil)
	}
	select {
	case err = <-c.left:
	case <-c.q.done: // closed, by Close or since the gate does not read
		if l.leave(c, nil); c.bye.Load() {
			break
		}
	}
	return true, err
}
