// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"net"
	"sync/atomic"
	"time"

	"holdfast/internal/hot"
)

// Tokens of the rings in the set. Those from FirstToken on are free for others.
const (
	tokenOut int32 = iota
	tokenIn
	FirstToken
)

// Offsets in struct ctl of bpf/hold.bpf.c: who sleeps until a ring has something.
const (
	wordOut = 0
	wordIn  = 4
)

// waiter sleeps until a ring has something. A ring whose word is not set wakes nobody.
type waiter struct {
	p      *hot.Poll
	closed atomic.Bool
	tokens []int32
}

func newWaiter(out, in int) (*waiter, error) {
	p, err := hot.New()
	if err != nil {
		return nil, err
	}
	w := &waiter{p: p}
	if err := p.AddEdge(out, tokenOut); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.AddEdge(in, tokenIn); err != nil {
		p.Close()
		return nil, err
	}
	return w, nil
}

// until waits for an outbound record, for an inbound one if that was asked for, or for the deadline (zero: for ever).
func (w *waiter) until(h *Hold, deadline time.Time) error {
	if w.closed.Load() {
		return net.ErrClosed
	}
	d := time.Duration(-1)
	if !deadline.IsZero() {
		d = max(time.Until(deadline), 0)
	}
	if h.Arm() {
		d = 0
	}
	var err error
	if w.tokens, err = w.p.Wait(w.tokens[:0], d, false); err != nil || w.closed.Load() {
		return net.ErrClosed
	}
	return nil
}

func (w *waiter) interrupt() {
	w.closed.Store(true)
	w.p.Wake()
}

func (w *waiter) close() {
	w.interrupt()
	w.p.Close()
}

// Poll is the set in which Wait sleeps: a loop that waits for other things too
// adds them (tokens from FirstToken on), calls Arm before each sleep that a
// ClientHello may end, Disarm before others, and sleeps in the set itself.
// WantInbound works as with Wait.
func (h *Hold) Poll() *hot.Poll { return h.wait.p }

// Arm makes the next ClientHello or denial wake the set. True: there is one
// already, which wakes nobody. A record that is still being written does not
// count (see Again).
func (h *Hold) Arm() bool {
	h.words.Uint32(wordOut).Store(1)
	return !h.again.Load() && !h.out.Empty()
}

// Disarm ends what Arm began.
func (h *Hold) Disarm() { h.words.Uint32(wordOut).Store(0) }

// Again says that the last Drain left a record that was still being written:
// call it again within a fraction of a millisecond.
func (h *Hold) Again() bool { return h.again.Load() }
