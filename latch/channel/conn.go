// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// Conn is one gate as the agent sees it. Its methods may be called from any
// goroutine and do not block on the peer.
type Conn struct {
	s      *Server
	conn   net.Conn
	q      *queue
	bucket bucket // of the goroutine that reads

	bye         atomic.Bool // Goodbye was sent: ignore what still comes
	outstanding atomic.Int64
	fr          frameReader
	batch       []Announcement
	ready       bool  // the Hello came
	broken      error // sticky error of frames
	penalty     time.Duration
	sent        map[Hash]bool // endorsements that the gate has; guarded by q.mu
	software    string
	version     uint64
	batched     atomic.Bool // the gate asked for manifests
	remote      net.Addr
	looped
}

// Software is what the gate calls itself.
func (c *Conn) Software() string { return c.software }

// RemoteAddr is the gate's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// serve reads until the connection ends.
func (c *Conn) serve() {
	err := c.read()
	if c.bye.Load() {
		c.drain()
	}
	c.s.mu.Lock()
	switch {
	case errors.Is(c.q.reason(), errSlow):
		c.s.stats.Slow++
	case err != nil:
		c.s.stats.Turned++
	}
	c.s.mu.Unlock()
	c.q.close(net.ErrClosed)
	c.s.handler.Closed(c)
}

// read returns nil when the gate closed, an error when it broke a rule.
func (c *Conn) read() error {
	c.conn.SetReadDeadline(time.Now().Add(c.s.o.Limits.HelloTimeout))
	for {
		if err := c.frames(); err != nil {
			if !c.bye.Load() {
				c.goodbye(CodeProtocol, err.Error())
			}
			return err
		}
		if c.bye.Load() {
			return nil
		}
		if d := c.penalty; d > 0 {
			c.penalty = 0
			time.Sleep(d)
			continue
		}
		if c.ready {
			if done, err := c.loop(); done {
				return err
			}
		}
		if err := c.fr.fill(); err != nil {
			if ne := net.Error(nil); !c.ready && errors.As(err, &ne) && ne.Timeout() && !c.bye.Load() {
				c.goodbye(CodeProtocol, "no Hello came in time")
				return err
			}
			return nil
		}
	}
}

// frames handles the frames that are buffered, until there is a penalty to sit out.
func (c *Conn) frames() error {
	for !c.bye.Load() && c.broken == nil && c.penalty == 0 {
		f, err := c.fr.next()
		if err != nil || f == nil {
			c.broken = err
			break
		}
		m, err := decodeGate(f, c.batch[:0])
		switch {
		case err != nil:
		case (m.hello != nil) == c.ready:
			err = errors.New("channel: expected Hello as first message and only there")
		case m.hello != nil:
			if err = c.hello(m.hello); err == nil {
				c.ready = true
				c.conn.SetReadDeadline(time.Time{})
			}
		case m.announce != nil:
			c.batch = m.announce
			c.announced(c.batch)
		case m.own != nil:
			err = c.own(m.own)
		default:
			err = c.want(m.want)
		}
		c.broken = err
	}
	return c.broken
}

func (c *Conn) hello(h *gateHello) error {
	if h.low > VersionHigh || h.high < VersionLow {
		text := fmt.Sprintf("the gate speaks versions %d to %d, the agent %d to %d", h.low, h.high, VersionLow, VersionHigh)
		c.goodbye(CodeVersion, text)
		return errors.New("channel: " + text)
	}
	c.software, c.version = h.software, min(h.high, VersionHigh)
	c.batched.Store(slices.Contains(h.capabilities, CapabilityBatch))
	answer := agentHello{c.version, c.s.o.Software, c.s.o.Services}
	return c.q.send(func(b []byte) []byte {
		for _, x := range h.have {
			c.sent[x] = true
		}
		return frame(b, answer.append)
	})
}

// announced passes on what the limits allow and refuses the rest. A client
// above its limits is also read more slowly, so that refusing costs little.
func (c *Conn) announced(batch []Announcement) {
	l := &c.s.o.Limits
	n := min(len(batch), max(0, l.Outstanding-int(c.outstanding.Load())))
	n = c.bucket.take(n, time.Now())
	over := batch[n:]
	c.outstanding.Add(int64(n))
	c.s.mu.Lock()
	c.s.stats.Announced += uint64(n)
	c.s.stats.OverLimit += uint64(len(over))
	c.s.mu.Unlock()
	if n > 0 {
		c.s.handler.Announced(c, batch[:n])
	}
	if len(over) == 0 {
		return
	}
	c.q.send(func(b []byte) []byte {
		for i := range over {
			r := Refused{over[i].CH, CodeBusy, "this client is above its limit of announcements; try again later"}
			b = frame(b, r.append)
		}
		return b
	})
	c.penalty = time.Duration(len(over)) * 100 * time.Microsecond
}

func (c *Conn) want(hashes []Hash) error {
	return c.q.send(func(b []byte) []byte {
		for _, h := range hashes {
			if e := c.s.endorsement(h); e != nil && c.bucket.take(1, time.Now()) == 1 {
				c.sent[h] = true
				b = frame(b, e.append)
			}
		}
		return b
	})
}

// Deliver sends a report and the sessions of this gate that it covers, with
// one system call and before anything that is sent later. Session.Report is
// set to r.ID. Ids must rise. The memory of all arguments is the caller's again
// when Deliver returns.
func (c *Conn) Deliver(r *Report, sessions []Session) error {
	if err := r.check(); err != nil {
		return err
	}
	err := c.q.send(func(b []byte) []byte {
		for _, h := range r.Needs {
			if c.sent[h] {
				continue
			}
			if e := c.s.endorsement(h); e != nil {
				b = frame(b, e.append)
				c.sent[h] = true
			}
		}
		b = frame(b, r.append)
		for i := range sessions {
			sessions[i].Report = r.ID
			b = frame(b, sessions[i].append)
		}
		return b
	})
	c.outstanding.Add(-int64(len(sessions)))
	c.s.mu.Lock()
	c.s.stats.Reports++
	c.s.stats.Sessions += uint64(len(sessions))
	c.s.mu.Unlock()
	return err
}

// Refuse answers announcements that get no evidence, with one system call.
func (c *Conn) Refuse(refused []Refused) error {
	if len(refused) == 0 {
		return nil
	}
	err := c.q.send(func(b []byte) []byte {
		for i := range refused {
			b = frame(b, refused[i].append)
		}
		return b
	})
	c.outstanding.Add(-int64(len(refused)))
	c.s.mu.Lock()
	c.s.stats.Refused += uint64(len(refused))
	c.s.mu.Unlock()
	return err
}

// linger bounds how long a connection stays open after Goodbye.
const linger = time.Second

// goodbye sends the reason for the end; the reader then ends by itself.
func (c *Conn) goodbye(code, text string) {
	if len(text) > MaxText {
		text = "the reason is too long to be sent"
	}
	c.bye.Store(true)
	c.q.last(func(b []byte) []byte { return frame(b, (&goodbye{code, text}).append) }, linger)
}

// drain reads until the peer has seen the Goodbye and closed, or a bound.
func (c *Conn) drain() {
	io.Copy(io.Discard, io.LimitReader(c.conn, 4*MaxFrameFromGate))
}
