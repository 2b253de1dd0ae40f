// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sort"
	"syscall"
	"time"

	"holdfast/latch/audit"
	"holdfast/latch/gate"
	"holdfast/latch/metrics"
	"holdfast/latch/ops"
)

// gateStatus is what a running gate answers to `latch status --control`.
type gateStatus struct {
	Version  string        `json:"version"`
	PID      int           `json:"pid"`
	Since    time.Time     `json:"since"`
	Scope    string        `json:"scope"`
	Services []string      `json:"services"`
	Agents   []gate.Link   `json:"agents"`
	Counters gate.Stats    `json:"counters"`
	Live     []ops.Session `json:"live"` // released and still there
	// LiveError says why Live could not be made.
	LiveError string        `json:"live_error,omitempty"`
	Refused   []audit.Event `json:"refused"` // the latest
	Audit     *auditCounts  `json:"audit,omitempty"`
}

type auditCounts struct {
	Written uint64 `json:"written"`
	Missing uint64 `json:"missing"`
}

// operations are what an operator holds of a running gate.
type operations struct {
	file    string // configuration
	scope   string
	start   time.Time
	log     *audit.Log
	held    *metrics.Held
	journal ops.Journal
	server  *ops.Server
	gate    *gate.Gate
	reload  func(*gate.Config) error
	live    func() (func(ops.Pair) bool, error)
	hup     chan os.Signal
}

// newOperations opens the audit log. The gate is given to serve, later: its
// watcher must be there before it starts.
func newOperations(file string, c *gate.Config) (*operations, error) {
	log, err := audit.Open(c.Operations.Audit)
	if err != nil {
		return nil, err
	}
	return &operations{file: file, start: time.Now(), log: log, held: metrics.NewHeld(), hup: make(chan os.Signal, 1)}, nil
}

// decided is the gate's watcher.
func (o *operations) decided(d *gate.Decision) {
	e := audit.Event{Time: d.At, ID: d.ID.String(), Service: d.Service, Reason: string(d.Reason), Detail: d.Detail, Local: d.Local.String(), Remote: d.Remote.String(),
		HeldMicros: d.Held.Microseconds(), Environment: d.Environment, Simulated: d.Simulated, PQ: d.PQ}
	if d.Released {
		e.Event = "released"
		o.held.Observe(d.Held)
		o.journal.Released(&ops.Session{At: d.At, Service: d.Service, Environment: d.Environment, Simulated: d.Simulated, PQ: d.PQ, Local: d.Local, Remote: d.Remote, HeldMicros: e.HeldMicros})
	} else {
		e.Event = "refused"
		o.journal.Refused(&e)
	}
	o.log.Add(&e)
}

// serve opens the control socket and metrics, and takes SIGHUP, until ctx ends.
func (o *operations) serve(ctx context.Context, c ops.Config, g *gate.Gate, scope string, reload func(*gate.Config) error, live func() (func(ops.Pair) bool, error)) (err error) {
	o.gate, o.scope, o.reload, o.live = g, scope, reload, live
	o.server, err = ops.Serve(c, ops.Subject{Status: func() any { return o.status() }, Reload: o.again, Metrics: metrics.NewGate(g, o.held, o.log)})
	if err != nil {
		return err
	}
	o.log.Add(&audit.Event{Time: time.Now(), Event: "start", Detail: "version " + version + ", scope " + scope})
	signal.Notify(o.hup, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-o.hup:
				if err := o.again(); err != nil {
					slog.Error("SIGHUP: the old configuration stays in force", "error", err)
				}
			}
		}
	}()
	return nil
}

// again opens the audit log again and reads the configuration again.
func (o *operations) again() error {
	err := o.log.Reopen()
	c, e := loadGate(o.file)
	if e == nil {
		e = o.reload(c)
	}
	ev := &audit.Event{Time: time.Now(), Event: "reload", Detail: "good"}
	if err = errors.Join(err, e); err != nil {
		ev.Detail = "refused: " + err.Error()
	} else {
		slog.Info("configuration read again", "file", o.file)
	}
	o.log.Add(ev)
	return err
}

func (o *operations) status() *gateStatus {
	s := &gateStatus{Version: version, PID: os.Getpid(), Since: o.start, Scope: o.scope, Services: o.gate.Names(), Agents: o.gate.Links(), Counters: o.gate.Stats(), Refused: o.journal.Refusals()}
	there, err := o.live()
	if err != nil {
		s.LiveError = err.Error()
	} else {
		s.Live = o.journal.Live(there)
	}
	if w, m := o.log.Counts(); o.log != nil {
		s.Audit = &auditCounts{w, m}
	}
	return s
}

// close ends what serve began.
func (o *operations) close() error {
	signal.Stop(o.hup)
	o.log.Add(&audit.Event{Time: time.Now(), Event: "stop"})
	var err error
	if o.server != nil {
		err = o.server.Close()
	}
	return errors.Join(err, o.log.Close())
}

// print shows a gate's status to people.
func (s *gateStatus) print(w interface{ Write([]byte) (int, error) }, sessions int) {
	fmt.Fprintf(w, "gate %d, version %s, since %s, gates %s\n", s.PID, s.Version, s.Since.Format(time.RFC3339), s.Scope)
	for _, a := range s.Agents {
		state := "connected"
		if !a.Connected {
			state = "NOT connected: " + a.Error
		}
		fmt.Fprintf(w, "agent %s  %s\n", a.Agent, state)
	}
	fmt.Fprintf(w, "released %d, live %d, waiting %d; reports %d, verified %d\n", s.Counters.Released, len(s.Live), s.Counters.Waiting, s.Counters.Reports, s.Counters.Verified)
	if s.LiveError != "" {
		fmt.Fprintf(w, "live sessions cannot be told: %s\n", s.LiveError)
	}
	var reasons []string
	for r := range s.Counters.Refused {
		reasons = append(reasons, r)
	}
	sort.Strings(reasons)
	for _, r := range reasons {
		fmt.Fprintf(w, "refused %d: %s\n", s.Counters.Refused[r], r)
	}
	if s.Audit != nil {
		fmt.Fprintf(w, "audit log: %d written, %d missing\n", s.Audit.Written, s.Audit.Missing)
	}
	from := max(0, len(s.Live)-sessions)
	for _, x := range s.Live[from:] {
		note := ""
		if x.Simulated {
			note = "  SIMULATED"
		}
		fmt.Fprintf(w, "live  %s  %s  %s -> %s  held %.1f ms  %s%s\n", x.At.Format(time.TimeOnly), x.Service, x.Local, x.Remote, float64(x.HeldMicros)/1e3, x.Environment, note)
	}
	if from > 0 {
		fmt.Fprintf(w, "(%d older live sessions; --sessions N shows more, --json all)\n", from)
	}
	for _, e := range s.Refused[max(0, len(s.Refused)-10):] {
		fmt.Fprintf(w, "refused  %s  %s  %s -> %s  held %.1f ms  %s\n", e.Time.Format(time.TimeOnly), e.Service, e.Local, e.Remote, float64(e.HeldMicros)/1e3, e.Reason)
		if e.Detail != "" {
			fmt.Fprintf(w, "         %s\n", e.Detail)
		}
	}
}
