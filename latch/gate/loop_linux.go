// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"log/slog"
	"time"

	"holdfast/internal/hot"
	"holdfast/latch/channel"
	"holdfast/latch/hold/cgroupskb"
)

// hotFor is how long after the last waiting connection the loop sleeps in the
// hot way.
const hotFor = 100 * time.Millisecond

// loopHold is a hold that lets a loop wait for it and for other things at once.
type loopHold interface {
	Poll() *hot.Poll
	Arm() bool
	Disarm()
	Again() bool
}

var _ loopHold = (*cgroupskb.Hold)(nil)

// loopClient is an agent's connection that a loop can read.
type loopClient interface {
	Join(p *hot.Poll, token int32) error
	RecvNow(dst []channel.Event) ([]channel.Event, error)
	Done() <-chan struct{}
	Err() error
}

// loop does all of a gate's work in one goroutine: hellos, evidence and timers
// meet in one sleep, so that a group of sessions costs one wake-up and not one
// of each kind. Its fields but turning are the loop's own.
type loop struct {
	hold    loopHold
	p       *hot.Poll
	turning bool // the loop is the one that changes the table now; guarded by Gate.mu
	tokens  []int32
	events  []channel.Event
	active  time.Time // when a connection waited last
}

// startLoop starts the loop, or says that this gate must do without one.
func (g *Gate) startLoop() bool {
	h, ok := g.hold.(loopHold)
	if !ok {
		return false
	}
	g.loop = &loop{hold: h, p: h.Poll()}
	g.wg.Go(func() {
		if err := g.loop.run(g); err != nil {
			slog.Error("the hold cannot be read any more: nothing will be released", "error", err)
		}
	})
	return true
}

func (l *loop) run(g *Gate) error {
	for {
		d, warm, open := l.turn(g)
		if !open {
			return nil
		}
		var err error
		if l.tokens, err = l.p.Wait(l.tokens[:0], d, warm); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.closed {
				return nil
			}
			return err
		}
	}
}

// turn does all there is to do and says how long to sleep after it.
func (l *loop) turn(g *Gate) (d time.Duration, warm, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, false, false
	}
	l.turning = true
	defer func() { l.turning = false }()
	now := time.Now()
	if !g.due.IsZero() && !now.Before(g.due) {
		g.due = time.Time{}
		g.stats.TimerWakes++
	}
	g.drain()
	for _, t := range l.tokens {
		if t -= cgroupskb.FirstToken; t >= 0 && int(t) < len(g.links) {
			l.read(g, g.links[t], now)
		} else {
			g.stats.PacketWakes++
		}
	}
	g.act()

	now = time.Now()
	d = -1
	if !g.due.IsZero() {
		d = max(g.due.Sub(now), 0)
	}
	limit := func(x time.Duration) {
		if d < 0 || x < d {
			d = x
		}
	}
	n := g.waiting()
	switch {
	case n >= veryAt:
		l.hold.Disarm()
		limit(veryPause)
	case n >= busyAt:
		l.hold.Disarm()
		limit(busyPause)
	default:
		if l.hold.Arm() {
			limit(0)
		}
	}
	if l.hold.Again() {
		limit(100 * time.Microsecond)
	}
	if n > 0 {
		l.active = now
	}
	if left := hotFor - now.Sub(l.active); left > 0 {
		warm = true
		limit(left)
	}
	return d, warm, true
}

// read takes what one agent sent. Called with mu held.
func (l *loop) read(g *Gate, k *link, now time.Time) {
	c, ok := k.client.(loopClient)
	if !ok {
		return
	}
	var err error
	if l.events, err = c.RecvNow(l.events[:0]); len(l.events) > 0 {
		g.stats.EvidenceWakes++
		g.take(k, l.events, now)
	}
	clear(l.events) // keeps no report alive
	if err != nil && k.left != nil {
		k.left <- err // has room: one error ends the link
		k.left = nil
	}
}

// serve handles the agent's messages until the connection ends: in the gate's
// loop if there is one and the connection can be read there, or else here.
func (k *link) serve(c agentClient, up func()) error {
	lc, ok := c.(loopClient)
	if !ok || k.g.loop == nil {
		return k.serveHere(c, up)
	}
	left := make(chan error, 1)
	k.g.mu.Lock()
	k.left = left
	k.g.mu.Unlock()
	// Joined before anything is sent. Until the link is up the loop leaves it alone.
	if err := lc.Join(k.g.loop.p, cgroupskb.FirstToken+int32(k.i)); err != nil {
		return err
	}
	k.g.linkUp(k, c)
	up()
	select {
	case err := <-left:
		return err
	case <-lc.Done(): // closed here; what else it said does not count any more
		return lc.Err()
	}
}

// wake makes the loop look again, since something is due at another time.
func (l *loop) wake() { l.p.Wake() }
