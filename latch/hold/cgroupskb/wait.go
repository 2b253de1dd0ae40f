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

// waiter sleeps until a ring has something. A ring that is not armed wakes nobody.
type waiter struct {
	out, in int
	p       *hot.Poll
	closed  atomic.Bool
	tokens  []int32
}

func newWaiter(out, in int) (*waiter, error) {
	p, err := hot.New()
	if err != nil {
		return nil, err
	}
	w := &waiter{out: out, in: in, p: p}
	if err := p.AddOnce(out, tokenOut); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.AddOnce(in, tokenIn); err != nil {
		p.Close()
		return nil, err
	}
	return w, nil
}

// until waits for an armed ring or the deadline (zero: for ever).
func (w *waiter) until(deadline time.Time) error {
	if w.closed.Load() || w.p.Arm(w.out, tokenOut) != nil {
		return net.ErrClosed
	}
	d := time.Duration(-1)
	if !deadline.IsZero() {
		d = max(time.Until(deadline), 0)
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
// ClientHello may end, and sleeps in the set itself. WantInbound works as with Wait.
func (h *Hold) Poll() *hot.Poll { return h.wait.p }

// Arm makes the set ready at the next ClientHello or denial, or now if there is one.
func (h *Hold) Arm() error { return h.wait.p.Arm(h.wait.out, tokenOut) }

// Again says that the last Drain left a record that was still being written:
// call it again within a fraction of a millisecond.
func (h *Hold) Again() bool { return h.again.Load() }
