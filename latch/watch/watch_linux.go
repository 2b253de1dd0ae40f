// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"

	"holdfast/attest/verify"
	"holdfast/latch/appraisal"
	"holdfast/latch/batch"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/gate"
	"holdfast/latch/observe"
	"holdfast/latch/sockdiag"
)

// pollEvery is how often the recorder is looked at.
const pollEvery = 100 * time.Millisecond

// Stats counts since the start.
type Stats struct {
	Sessions  uint64            `json:"sessions"`  // seen
	Confirmed uint64            `json:"confirmed"` // in time, by evidence that the policy accepts
	Alarms    map[string]uint64 `json:"alarms"`    // by reason; sessions and manifests
	Killed    uint64            `json:"killed"`
	Manifests uint64            `json:"manifests"` // that count
	Oldest    float64           `json:"oldest_confirmed_seconds"`
	Waiting   int               `json:"waiting"`
	Lost      uint64            `json:"lost"` // copies
}

type service struct {
	name   string
	rules  *appraisal.Rules
	agents map[gate.Address]bool
}

// seen is what a ledger's session is about.
type seen struct {
	observe.ClientSession
	service *service
	ended   bool
}

// judged is a manifest's report, judged by the rules of each service.
type judged struct {
	agent   gate.Address
	results map[*appraisal.Rules]*verify.Result
}

// Watcher is a running watcher.
type Watcher struct {
	c        *Config
	services map[string]*service
	agents   []gate.Address
	rec      *observe.Clients

	mu      sync.Mutex
	ledger  *batch.Ledger
	live    map[uint64]*seen // by cookie
	stats   Stats
	events  []observe.ClientSession
	stopped bool
}

// Open loads what the configuration names and starts to record the programs
// of the control group dir.
func Open(c *Config, dir string) (*Watcher, error) {
	w := &Watcher{c: c, services: map[string]*service{}, ledger: batch.NewLedger(batch.Options{Deadline: c.Deadline}), live: map[uint64]*seen{}, stats: Stats{Alarms: map[string]uint64{}}}
	known := map[gate.Address]bool{}
	var names []string
	for n := range c.Services {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		s := c.Services[n]
		rules, err := appraisal.Load(s.Trust, s.Policy, s.Collateral)
		if err != nil {
			return nil, fmt.Errorf("services.%s: %w", n, err)
		}
		sv := &service{n, rules, map[gate.Address]bool{}}
		for _, a := range s.Agents {
			sv.agents[a] = true
			if !known[a] {
				known[a] = true
				w.agents = append(w.agents, a)
			}
		}
		w.services[n] = sv
	}
	var err error
	w.rec, err = observe.OpenClients(dir)
	return w, err
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, a := range w.agents {
		wg.Go(func() { w.follow(ctx, a) })
	}
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		w.mu.Lock()
		w.poll(time.Now())
		w.mu.Unlock()
	}
	wg.Wait()
	return nil
}

// Close ends the recording.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	return w.rec.Close()
}

// Stats returns the counters.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Alarms = map[string]uint64{}
	for k, v := range w.stats.Alarms {
		s.Alarms[k] = v
	}
	s.Waiting, s.Lost = w.ledger.Waiting(), w.rec.Lost()
	return s
}

// poll takes what the recorder saw and ends what was not confirmed. Called
// with mu held.
func (w *Watcher) poll(now time.Time) {
	if w.stopped {
		return
	}
	w.events = w.rec.Poll(w.events[:0], now)
	for i := range w.events {
		w.session(&w.events[i], now)
	}
	for _, o := range w.ledger.Expire(now) {
		w.outcome(&o, now)
	}
}

func (w *Watcher) session(e *observe.ClientSession, now time.Time) {
	if e.Ended {
		if s := w.live[e.Cookie]; s != nil {
			s.ended = true
			delete(w.live, e.Cookie)
		}
		return
	}
	for _, d := range w.c.Plain {
		if d.Prefix.Contains(e.Remote.Addr()) && (d.Port == 0 || d.Port == e.Remote.Port()) {
			return
		}
	}
	s := &seen{ClientSession: *e, service: w.services[e.ServerName]}
	w.stats.Sessions++
	w.live[e.Cookie] = s
	switch {
	case e.Refusal != "":
		w.alarm(s, string(e.Refusal), e.Detail)
	case s.service == nil:
		w.alarm(s, "no-policy-for-name", "no service is configured for this server name")
	default:
		if o := w.ledger.Saw(&batch.Session{Binder: e.Binder, Seen: now, Data: s}); o != nil {
			w.outcome(o, now)
		}
	}
}

// outcome acts on a verdict of the ledger.
func (w *Watcher) outcome(o *batch.Outcome, now time.Time) {
	s := o.Session.Data.(*seen)
	switch o.Verdict {
	case batch.Confirmed:
		w.confirm(s, o, now)
	case batch.Late:
		if _, alarmed := w.live[s.Cookie]; alarmed || s.ended {
			slog.Warn("a manifest listed a session after its deadline; it stays unconfirmed", "service", s.service.name, "local", s.Local, "remote", s.Remote, "manifest", o.Number)
		}
		w.stats.Alarms[string(batch.Late)]++
	case batch.Unconfirmed:
		w.alarm(s, string(o.Verdict), fmt.Sprintf("no manifest of its agents listed the session within %v: its receiver is not known to be attested, and what was sent may have been read by somebody else", w.c.Deadline))
	default:
		w.alarm(s, string(o.Verdict), "")
	}
}

// confirm asks the policy about a session that a manifest listed in time.
func (w *Watcher) confirm(s *seen, o *batch.Outcome, now time.Time) {
	j := o.Tag.(*judged)
	res := j.results[s.service.rules]
	claims, err := binder.ParseClaims(o.Claims)
	switch {
	case !s.service.agents[j.agent] || res == nil:
		w.alarm(s, "untrusted", fmt.Sprintf("the session was listed by agent %s, which may not vouch for this service", j.agent))
		return
	case err != nil:
		w.alarm(s, "claims-invalid", err.Error())
		return
	}
	if f := s.service.rules.Evaluate(res, appraisal.Session{ServerName: s.ServerName, Group: s.Group, CipherSuite: s.Suite, Resumed: s.Resumed}, claims, now); len(f) > 0 {
		w.alarm(s, "policy", appraisal.Explain(f))
		return
	}
	w.stats.Confirmed++
	w.stats.Oldest = max(w.stats.Oldest, now.Sub(o.Session.Seen).Seconds())
	slog.Debug("confirmed", "service", s.service.name, "local", s.Local, "remote", s.Remote, "environment", res.Environment, "manifest", o.Number)
}

// alarm tells of a session, and ends it if the configuration says so.
func (w *Watcher) alarm(s *seen, reason, detail string) {
	w.stats.Alarms[reason]++
	killed := false
	if w.c.Action == "kill" && !s.ended {
		err := sockdiag.In("/proc/thread-self/ns/net", func(d *sockdiag.Diag) (err error) {
			killed, err = d.Destroy(s.Cookie, s.Local, s.Remote, 0)
			return err
		})
		if killed {
			w.stats.Killed++
		} else {
			slog.Debug("kill", "local", s.Local, "error", err)
		}
	}
	slog.Error("ALARM", "reason", reason, "service", s.ServerName, "local", s.Local, "remote", s.Remote, "killed", killed, "detail", detail)
}

// broken is an alarm about an agent and no single session.
func (w *Watcher) broken(a gate.Address, reason, detail string) {
	w.stats.Alarms[reason]++
	slog.Error("ALARM", "reason", reason, "agent", a.String(), "detail", detail)
}

// follow keeps the connection to one agent.
func (w *Watcher) follow(ctx context.Context, a gate.Address) {
	pause := 50 * time.Millisecond
	last := ""
	for ctx.Err() == nil {
		c, err := channel.Dial(ctx, a.Network, a.Addr, channel.Options{Software: "holdfast watch", Capabilities: []string{channel.CapabilityBatch}})
		if err == nil {
			slog.Info("agent connected", "agent", a.String())
			pause, last = 50*time.Millisecond, ""
			stop := context.AfterFunc(ctx, func() { c.Close() })
			err = w.read(a, c)
			stop()
			c.Close()
		}
		if ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			slog.Warn("no manifests", "agent", a.String(), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, 2*time.Second)
	}
}

func (w *Watcher) read(a gate.Address, c *channel.Client) error {
	var store appraisal.Store
	for {
		events, err := c.Recv(nil)
		for i := range events {
			switch e := &events[i]; e.Kind {
			case channel.KindEndorsement:
				store.AddEndorsement(e.Endorsement)
			case channel.KindManifest:
				w.manifest(a, &store, e.Manifest)
			}
		}
		if err != nil {
			return err
		}
	}
}

// manifest judges a manifest and confirms what it lists.
func (w *Watcher) manifest(a gate.Address, store *appraisal.Store, in *channel.Manifest) {
	m := &batch.Manifest{Instance: in.Instance, Number: in.Number, Previous: in.Previous}
	for i := range in.Groups {
		m.Groups = append(m.Groups, batch.Group{Claims: in.Groups[i].Claims, Binders: in.Groups[i].Binders})
	}
	head, err := m.Head()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.poll(now) // a session whose copy waits was seen before its manifest
	if err != nil {
		w.broken(a, string(batch.NoSessions), err.Error())
		return
	}
	r := store.AddReport(&channel.Report{ID: in.Number, Type: in.Type, Body: in.Body, Needs: in.Needs, Size: 1})
	j := &judged{a, map[*appraisal.Rules]*verify.Result{}}
	err = nil
	for _, s := range w.services {
		if !s.agents[a] {
			continue
		}
		res, e := store.Verify(r, s.rules, head, now)
		if e != nil {
			err = e
			continue
		}
		j.results[s.rules] = res
	}
	if len(j.results) == 0 {
		w.broken(a, "manifest-invalid", fmt.Sprintf("the report of manifest %d: %v", in.Number, err))
		return
	}
	switch f := w.ledger.Check(m, head); f {
	case "":
	case batch.Gap:
		w.broken(a, string(f), fmt.Sprintf("manifest %d came after others were left out; their sessions will stay unconfirmed", in.Number))
	default:
		w.broken(a, string(f), fmt.Sprintf("manifest %d does not continue the agent's manifests and counts for nothing", in.Number))
		return
	}
	w.stats.Manifests++
	for _, o := range w.ledger.Cover(m, now, j) {
		w.outcome(&o, now)
	}
}
