// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"log/slog"
	"time"

	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
)

// gather makes the group of the ready sessions. Called with mu held.
func (a *Agent) gather(now time.Time) {
	keep := a.ready[:0]
	a.identify = false
	for i, s := range a.ready {
		if len(a.group) == a.o.MaxGroup {
			keep = append(keep, a.ready[i:]...)
			break
		}
		if s.closed {
			a.refuse(s, flow.SocketGone, flow.SocketGone.Text())
			continue
		}
		if s.proof != nil {
			if no := a.verifyClient(s, now); no != nil {
				a.refuse(s, no.code, no.text)
				continue
			}
		}
		a.src.Recheck(s.event.Listener, now)
		k, no := a.claims.check(&s.event)
		switch {
		case no != nil:
			a.refuse(s, no.code, no.text)
		case k == nil:
			keep = append(keep, s) // its listener is still being looked at
			a.identify = true
		default:
			s.claim = k
			b := s.event.BinderHello
			switch {
			case s.proof != nil:
				b = binder.MutualServer(s.event.Core, s.proof.leaf)
			case s.grade == binder.Share:
				b = s.event.BinderShare
			}
			s.leaf = binder.Leaf(b, k.digest)
			a.group = append(a.group, s)
		}
	}
	clear(a.ready[len(keep):])
	a.ready = keep
	a.leaves = a.leaves[:0]
	for _, s := range a.group {
		a.leaves = append(a.leaves, s.leaf)
	}
}

// finish answers the sessions of a report that was made, after a second look.
// Called with mu held, after the events that came while it was made.
func (a *Agent) finish(r *result) {
	a.stats.ReportMicros += uint64(r.took.Microseconds())
	if r.err != nil {
		a.stats.ReportsFailed++
		slog.Warn("no report from the security processor", "sessions", len(a.group), "error", r.err)
		for _, s := range a.group {
			a.refuse(s, flow.ReporterFailed, flow.ReporterFailed.Text())
		}
		a.group = a.group[:0]
		return
	}
	a.stats.Reports++
	a.stats.LargestGroup = max(a.stats.LargestGroup, len(a.group))
	per, paths := a.per, a.paths[:0]
	a.openDoors()
	for i, s := range a.group {
		id, err := s.event.Listener.Identity()
		switch {
		case s.shut:
			a.refuse(s, flow.ReporterFailed, "the door of this session could not be opened at the server")
			continue
		case s.closed:
			a.refuse(s, flow.SocketGone, flow.SocketGone.Text())
			continue
		case err != nil || id != nil && id.Executable != s.claim.id.Executable || id != nil && id.Unit != s.claim.id.Unit:
			a.refuse(s, flow.IdentityChanged, flow.IdentityChanged.Text())
			continue
		}
		a.match.done(s)
		a.stats.Attested++
		a.told(s)
		from := len(paths)
		paths = r.tree.AppendPath(paths, i)
		per[s.conn] = append(per[s.conn], channel.Session{CH: s.ch, Index: uint64(i), Path: paths[from:len(paths):len(paths)], Claims: s.claim.encoded})
	}
	report := channel.Report{ID: a.stats.Reports, Type: r.report.Type, Body: r.report.Body, Needs: r.report.Needs, Size: uint64(len(a.group))}
	for c, ss := range per {
		if len(ss) == 0 {
			delete(per, c) // for a whole report: that gate may be gone
			continue
		}
		c.Deliver(&report, ss) // an error means that the gate is gone
		clear(ss)
		per[c] = ss[:0]
	}
	a.paths = paths
	clear(a.group)
	a.group = a.group[:0]
}
