// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"holdfast/latch/batch"
	"holdfast/latch/channel"
	"holdfast/latch/observe"
)

// batcher lists the sessions of batch services and has each interval's list
// attested with one report. It belongs to the loop.
type batcher struct {
	interval time.Duration
	only     bool // all services are batch services: no ServerHello need wake the loop
	chain    batch.Chain
	due      time.Time
	claims   []*claim // of groups, in order
	groups   []batch.Group
	index    map[*claim]int
	sessions int
	pending  []observe.Event // whose listener is still being looked at
	res      result
}

func (b *batcher) init(o *Options) error {
	if b.interval = o.BatchInterval; b.interval <= 0 {
		b.interval = 5 * time.Second
	}
	b.only = true
	for i := range o.Services {
		b.only = b.only && o.Services[i].Batch
	}
	b.index = map[*claim]int{}
	_, err := rand.Read(b.chain.Instance[:])
	return err
}

// batched takes an event of a batch service; false if it is none.
func (a *Agent) batched(e *observe.Event, now time.Time) bool {
	s := a.claims.service(e)
	if s == nil || !s.Batch {
		return false
	}
	if e.Refusal != "" {
		a.stats.Refused[string(e.Refusal)]++
		return true
	}
	k, no := a.claims.check(e)
	switch {
	case no != nil:
		a.stats.Refused[string(no.code)]++
	case k != nil:
		a.batch.add(k, e, now)
	case len(a.batch.pending) < a.o.MaxParked:
		a.batch.pending = append(a.batch.pending, *e)
	}
	return true
}

func (b *batcher) add(k *claim, e *observe.Event, now time.Time) {
	i, ok := b.index[k]
	if !ok {
		i = len(b.groups)
		b.index[k] = i
		b.groups = append(b.groups, batch.Group{Claims: k.encoded})
	}
	b.groups[i].Binders = append(b.groups[i].Binders, e.BinderHello[:]...)
	if b.sessions++; b.sessions == 1 && b.due.IsZero() {
		b.due = now.Add(b.interval)
	}
	if b.sessions >= channel.MaxManifest {
		b.due = now
	}
}

// seal makes the manifest of an interval that has ended, and sends it to the
// watchers. A failed report keeps the sessions for the next try.
func (a *Agent) seal(ctx context.Context, now time.Time) {
	b := &a.batch
	if len(b.pending) > 0 {
		again := b.pending
		b.pending = nil
		a.mu.Lock()
		for i := range again {
			a.src.Recheck(again[i].Listener, now)
			a.batched(&again[i], now)
		}
		a.mu.Unlock()
	}
	if b.sessions == 0 || now.Before(b.due) {
		return
	}
	groups, n := b.groups, b.sessions
	if n > channel.MaxManifest { // as many groups as fit; one listener's sessions of one Poll may be more
		groups, n = cut(groups, channel.MaxManifest)
	}
	m := &batch.Manifest{Groups: groups}
	head, err := b.chain.Next(m)
	if err == nil {
		a.rep.sign(ctx, head, &b.res)
		err = b.res.err
	}
	a.mu.Lock()
	a.stats.ReportMicros += uint64(b.res.took.Microseconds())
	if err != nil {
		a.stats.ReportsFailed++
		a.mu.Unlock()
		slog.Warn("no report over the manifest", "sessions", n, "error", err)
		b.due = now.Add(min(b.interval, time.Second))
		return
	}
	a.stats.Reports++
	a.stats.Attested += uint64(n)
	a.stats.Manifests++
	a.mu.Unlock()
	b.chain.Done(head)
	out := channel.Manifest{Instance: m.Instance, Number: m.Number, Previous: m.Previous, Type: b.res.report.Type, Body: b.res.report.Body, Needs: b.res.report.Needs}
	for i := range groups {
		out.Groups = append(out.Groups, channel.ManifestGroup{Claims: groups[i].Claims, Binders: groups[i].Binders})
	}
	if _, err := a.server.Broadcast(&out); err != nil {
		slog.Warn("manifest", "error", err)
	}
	b.forget(groups, n, now)
}

// cut returns the first n sessions.
func cut(groups []batch.Group, n int) ([]batch.Group, int) {
	var out []batch.Group
	left := n
	for _, g := range groups {
		k := min(left, len(g.Binders)/32)
		if k == 0 {
			break
		}
		out = append(out, batch.Group{Claims: g.Claims, Binders: g.Binders[:32*k]})
		left -= k
	}
	return out, n - left
}

// forget drops what was sent.
func (b *batcher) forget(sent []batch.Group, n int, now time.Time) {
	var rest []batch.Group
	for i, g := range b.groups {
		if i < len(sent) {
			g.Binders = g.Binders[len(sent[i].Binders):]
		}
		if len(g.Binders) > 0 {
			rest = append(rest, batch.Group{Claims: g.Claims, Binders: append([]byte(nil), g.Binders...)})
		}
	}
	clear(b.index) // the claims of a listener may be asked for anew
	b.groups, b.sessions = rest, b.sessions-n
	b.due = time.Time{}
	if b.sessions > 0 {
		b.due = now
	}
}

// wait bounds the loop's sleep for the batch; zero: nothing is due.
func (b *batcher) wait(now time.Time) time.Time {
	switch {
	case len(b.pending) > 0:
		return now.Add(50 * time.Millisecond)
	case b.sessions > 0:
		return b.due
	case b.only:
		return now.Add(b.interval / 4) // nobody wakes the loop for a first session
	}
	return time.Time{}
}
