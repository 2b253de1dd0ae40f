// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"holdfast/latch/agent"
	"holdfast/latch/audit"
	"holdfast/latch/metrics"
	"holdfast/latch/ops"
)

// agentStatus is what a running agent answers to `latch status --control`.
type agentStatus struct {
	Version  string       `json:"version"`
	PID      int          `json:"pid"`
	Since    time.Time    `json:"since"`
	Listen   []string     `json:"listen"`
	Counters agent.Stats  `json:"counters"`
	Audit    *auditCounts `json:"audit,omitempty"`
}

func agentEvent(d *agent.Decision) *audit.Event {
	e := &audit.Event{Time: d.At, Event: "refused", Service: d.Service, Reason: string(d.Reason), Detail: d.Detail}
	if d.Attested {
		e.Event, e.Local, e.Remote = "attested", d.Local.String(), d.Remote.String()
	}
	return e
}

// operateAgent serves the control socket and metrics and takes SIGHUP until
// the returned function is called.
func operateAgent(ctx context.Context, c ops.Config, r *agent.Running, log *audit.Log, start time.Time) (stop func(), err error) {
	again := func() error {
		err := log.Reopen()
		r.Reopen()
		log.Add(&audit.Event{Time: time.Now(), Event: "reload"})
		slog.Info("the security processor is opened again before the next report")
		return err
	}
	status := func() any {
		s := &agentStatus{Version: version, PID: os.Getpid(), Since: start, Counters: r.Stats()}
		for _, a := range r.Addrs() {
			s.Listen = append(s.Listen, a.Network()+":"+a.String())
		}
		if log != nil {
			w, m := log.Counts()
			s.Audit = &auditCounts{w, m}
		}
		return s
	}
	server, err := ops.Serve(c, ops.Subject{Status: status, Reload: again, Metrics: metrics.NewAgent(r.Stats, log)})
	if err != nil {
		return nil, err
	}
	log.Add(&audit.Event{Time: time.Now(), Event: "start", Detail: "version " + version})
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				if err := again(); err != nil {
					slog.Error("SIGHUP", "error", err)
				}
			}
		}
	}()
	return func() {
		signal.Stop(hup)
		cancel()
		log.Add(&audit.Event{Time: time.Now(), Event: "stop"})
		if err := server.Close(); err != nil {
			slog.Error("operations", "error", err)
		}
	}, nil
}
