// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
)

// agentClient is what the gate uses of channel.Client.
type agentClient interface {
	Announce(batch []channel.Announcement) error
	Recv(dst []channel.Event) ([]channel.Event, error)
	Close() error
}

// dialer connects to an agent; tests put a fake in its place.
type dialer func(ctx context.Context, a Address, have []channel.Hash) (agentClient, error)

func (c *Config) dialAgent(ctx context.Context, a Address, have []channel.Hash) (agentClient, error) {
	if a.Network == "nats" {
		return c.dialRendezvous(ctx, a, have)
	}
	return channel.Dial(ctx, a.Network, a.Addr, channel.Options{Software: "holdfast gate", Have: have, Dial: c.dial})
}

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// link is the kept connection to one agent. Its fields are guarded by the
// gate's lock.
type link struct {
	g     *Gate
	i     int // bit in flow.Service.Agents
	addr  Address
	store store

	cancel  context.CancelFunc
	retired bool        // no service of the configuration names it any more
	client  agentClient // nil while not connected
	left    chan error  // why the loop stopped reading it
	tried   chan struct{}
	lastErr error
	batch   []channel.Announcement
	sentOwn map[channel.Hash]bool // endorsements of this machine that the agent has

	claims       *binder.Claims // the last ones parsed: a listener's sessions all have the same
	claimsParsed []byte
}

// parseClaims is binder.ParseClaims with the last result remembered.
func (l *link) parseClaims(b []byte) (*binder.Claims, error) {
	if l.claims != nil && bytes.Equal(b, l.claimsParsed) {
		return l.claims, nil
	}
	c, err := binder.ParseClaims(b)
	if err != nil {
		return nil, err
	}
	l.claims, l.claimsParsed = c, append(l.claimsParsed[:0], b...)
	return c, nil
}

// run keeps the connection until the context ends.
func (l *link) run(ctx context.Context) {
	backoff := minBackoff
	first := true
	for ctx.Err() == nil {
		l.g.mu.Lock()
		have := append([]channel.Hash(nil), l.store.order...)
		l.g.mu.Unlock()
		start := time.Now()
		c, err := l.g.dial(ctx, l.addr, have)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { c.Close() })
			err = l.serve(c, func() {
				if first {
					close(l.tried)
					first = false
				}
			})
			stop()
			c.Close()
			if ctx.Err() != nil {
				return
			}
			l.g.linkDown(l, err)
			if time.Since(start) > maxBackoff {
				backoff = minBackoff
			}
		} else if ctx.Err() == nil {
			l.g.mu.Lock()
			if l.lastErr == nil || l.lastErr.Error() != err.Error() {
				slog.Warn("agent not reachable", "agent", l.addr.String(), "error", err)
			}
			l.lastErr = err
			l.g.mu.Unlock()
		}
		if first {
			close(l.tried)
			first = false
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// serveHere handles the agent's messages in the calling goroutine until the
// connection ends. up is called once the link is up.
func (l *link) serveHere(c agentClient, up func()) error {
	l.g.linkUp(l, c)
	up()
	return l.read(c)
}

// read handles the agent's messages until the connection ends.
func (l *link) read(c agentClient) error {
	var ev []channel.Event
	for {
		var err error
		if ev, err = c.Recv(ev[:0]); len(ev) > 0 {
			l.g.evidence(l, ev)
		}
		if err != nil {
			return err
		}
		clear(ev) // keeps no report alive
	}
}

func (g *Gate) linkUp(l *link, c agentClient) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || l.retired {
		return
	}
	l.client, l.lastErr = c, nil
	l.sentOwn = map[channel.Hash]bool{}
	l.store.clearReports()
	slog.Info("agent connected", "agent", l.addr.String())
	now := time.Now()
	g.drain()
	g.table.AgentUp(now, l.i)
	g.act()
}

func (g *Gate) linkDown(l *link, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || l.retired {
		return
	}
	l.client, l.lastErr = nil, err
	slog.Warn("agent lost", "agent", l.addr.String(), "error", err)
	reason := flow.AgentLost
	var bye *channel.GoodbyeError
	if errors.As(err, &bye) && bye.Code == string(flow.ClientUnknown) {
		reason = flow.ClientUnknown
	}
	g.drain()
	g.table.AgentLost(time.Now(), l.i, reason, err.Error())
	g.act()
}

// evidence takes a batch of the agent's messages: the wake-up in which a group
// is verified and released.
func (g *Gate) evidence(l *link, events []channel.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || l.retired {
		return
	}
	g.stats.EvidenceWakes++
	g.drain()
	g.take(l, events, time.Now())
	g.act()
}

// take gives the agent's messages to the state machine. Called with mu held.
func (g *Gate) take(l *link, events []channel.Event, now time.Time) {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case channel.KindEndorsement:
			l.store.addEndorsement(e.Endorsement)
		case channel.KindReport:
			g.stats.Reports++
			l.store.addReport(e.Report)
		case channel.KindSession:
			s := flow.Session{CH: e.Session.CH, Report: e.Session.Report, Index: e.Session.Index, Path: e.Session.Path, Claims: e.Session.Claims}
			if r := l.store.find(s.Report); r != nil {
				s.Size = r.size
			}
			g.table.Session(now, l.i, &s)
		case channel.KindRefused:
			g.table.AgentRefused(now, l.i, e.Refused.CH, flow.Reason(e.Refused.Code), printable(e.Refused.Text))
		}
	}
}

// printable keeps an agent's text from forging log lines or terminals.
func printable(s string) string {
	b := []rune(s)
	for i, r := range b {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			b[i] = '?'
		}
	}
	return string(b)
}
