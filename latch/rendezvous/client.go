// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"holdfast/latch/channel"
)

// Bounds of what a gate keeps for what others publish.
const (
	maxEvents  = 1 << 14 // messages that wait for Recv
	maxAgents  = 256
	maxReports = 64 // numbers remembered per agent
)

// ErrLost is what Recv returns when the bus is lost.
var ErrLost = errors.New("rendezvous: the connection to the message system was lost")

// Client is the gate's end. Announce and Close may be called from any
// goroutine, Recv from one.
type Client struct {
	bus     Bus
	prefix  string
	token   Token
	subject string
	in      chan channel.Event
	dropped atomic.Uint64

	mu   sync.Mutex // have, buf
	have []channel.Hash
	buf  []byte

	// The subscription's goroutine only.
	agents map[Token]*reports
	next   uint64 // number that the next report gets on this client
}

// reports are the numbers of one agent's latest reports, and ours for them.
type reports struct {
	ids   map[uint64]uint64
	order []uint64
}

// Dial joins the bus as a gate. have are the endorsements that it has already.
// The client owns the bus.
func Dial(b Bus, prefix string, have []channel.Hash) (*Client, error) {
	c := &Client{bus: b, prefix: prefix, in: make(chan channel.Event, maxEvents), agents: map[Token]*reports{}}
	if _, err := rand.Read(c.token[:]); err != nil {
		return nil, err
	}
	c.have = append(c.have, have[:min(len(have), channel.MaxHave)]...)
	c.subject = gateSubject(prefix, c.token)
	if err := b.Subscribe(c.subject+".>", c.message); err != nil {
		return nil, err
	}
	return c, nil
}

// Announce calls all agents. It does not wait for an answer.
func (c *Client) Announce(batch []channel.Announcement) error {
	if len(batch) == 0 {
		return nil
	}
	if len(batch) > channel.MaxBatch {
		return fmt.Errorf("%w: %d announcements, at most %d", channel.ErrBatch, len(batch), channel.MaxBatch)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := channel.Call{Gate: c.token, Have: c.have, Batch: batch}
	c.buf = call.Append(c.buf[:0])
	return c.bus.Publish(callSubject(c.prefix), c.buf)
}

// Recv blocks until a message is there and appends to dst all that are.
// Numbers of reports are this client's own: rising, and unique among all
// agents.
func (c *Client) Recv(dst []channel.Event) ([]channel.Event, error) {
	select {
	case e := <-c.in:
		dst = append(dst, e)
	case <-c.bus.Done():
		return dst, ErrLost
	}
	for len(dst) < channel.MaxBatch {
		select {
		case e := <-c.in:
			dst = append(dst, e)
		default:
			return dst, nil
		}
	}
	return dst, nil
}

// Dropped is how many messages found no room.
func (c *Client) Dropped() uint64 { return c.dropped.Load() }

// Close leaves the bus; a blocked Recv returns.
func (c *Client) Close() error { return c.bus.Close() }

// message takes one message; what does not fit is ignored, since anybody may
// send anything.
func (c *Client) message(subject string, data []byte) {
	last, ok := strings.CutPrefix(subject, c.subject+".")
	if !ok || len(data) < channel.TokenSize {
		return
	}
	agent := Token(data[:channel.TokenSize])
	e, err := channel.ParseEvent(data[channel.TokenSize:])
	if err != nil {
		return
	}
	switch e.Kind {
	case channel.KindEndorsement:
		c.mu.Lock()
		if len(c.have) < channel.MaxHave {
			if h := e.Endorsement.Hash(); !has(c.have, h) {
				c.have = append(c.have, h)
			}
		}
		c.mu.Unlock()
	case channel.KindReport:
		e.Report.ID = c.number(agent, e.Report.ID)
	case channel.KindSession:
		a := c.agents[agent]
		if a == nil || hex.EncodeToString(e.Session.CH[:]) != last {
			return
		}
		id, known := a.ids[e.Session.Report]
		if !known {
			return // its report was lost, or is too old
		}
		e.Session.Report = id
	case channel.KindRefused:
		if hex.EncodeToString(e.Refused.CH[:]) != last {
			return
		}
	}
	select {
	case c.in <- *e:
	default:
		c.dropped.Add(1)
	}
}

// number gives a report of an agent a number of our own.
func (c *Client) number(agent Token, id uint64) uint64 {
	a := c.agents[agent]
	if a == nil {
		if len(c.agents) >= maxAgents {
			clear(c.agents) // somebody makes up agents; genuine ones come again with their next report
		}
		a = &reports{ids: map[uint64]uint64{}}
		c.agents[agent] = a
	}
	c.next++
	if _, again := a.ids[id]; !again {
		a.order = append(a.order, id)
		if len(a.order) > maxReports {
			delete(a.ids, a.order[0])
			a.order = a.order[1:]
		}
	}
	a.ids[id] = c.next
	return c.next
}

func has(list []channel.Hash, h channel.Hash) bool {
	for i := range list {
		if list[i] == h {
			return true
		}
	}
	return false
}
