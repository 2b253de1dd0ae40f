// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
)

// result is one report, made or not.
type result struct {
	tree   binder.Tree
	report evidence.Report
	took   time.Duration
	err    error
}

// reporter makes one report at a time in a goroutine of its own. After an
// error it closes the security processor and opens it again, waiting longer
// each time, up to two seconds.
type reporter struct {
	dial    func(context.Context) (provider.Provider, error)
	timeout time.Duration
	server  *channel.Server
	wake    func()

	ctx    context.Context
	cancel context.CancelFunc
	work   chan [][32]byte
	done   atomic.Pointer[result]
	active bool // loop's goroutine: a report was asked for and not taken
	ended  chan struct{}
	opened atomic.Uint64

	prov    provider.Provider // the goroutine's own
	known   map[[32]byte]bool // endorsements that the server has
	pause   time.Duration
	started bool
}

func newReporter(dial func(context.Context) (provider.Provider, error), timeout time.Duration, s *channel.Server, wake func()) *reporter {
	r := &reporter{dial: dial, timeout: timeout, server: s, wake: wake, work: make(chan [][32]byte, 1), ended: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// open opens the security processor, so that an agent without one does not start.
func (r *reporter) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := r.connect(ctx); err != nil {
		return err
	}
	r.started = true
	go r.run()
	return nil
}

func (r *reporter) connect(ctx context.Context) error {
	p, err := r.dial(ctx)
	if err != nil {
		return err
	}
	r.prov = p
	r.opened.Add(1)
	if err := r.endorsements(ctx); err != nil {
		r.disconnect()
		return err
	}
	return nil
}

func (r *reporter) disconnect() {
	if r.prov != nil {
		r.prov.Close()
		r.prov = nil
	}
}

// endorsements hands the provider's endorsements to the server.
func (r *reporter) endorsements(ctx context.Context) error {
	es, err := r.prov.Endorsements(ctx)
	if err != nil {
		return fmt.Errorf("endorsements: %w", err)
	}
	out := make([]channel.Endorsement, len(es))
	r.known = map[[32]byte]bool{}
	for i, e := range es {
		out[i] = channel.Endorsement{Type: e.Type, Body: e.Body}
		r.known[e.Hash()] = true
	}
	return r.server.SetEndorsements(out)
}

// busy says whether a report is being made or waits to be taken.
func (r *reporter) busy() bool { return r.active }

// make starts a report over the tree of leaves; not while busy.
func (r *reporter) make(leaves [][32]byte) {
	r.active = true
	r.work <- leaves
}

// result takes the finished report, once.
func (r *reporter) result() *result {
	x := r.done.Swap(nil)
	if x != nil {
		r.active = false
	}
	return x
}

func (r *reporter) run() {
	defer close(r.ended)
	defer r.disconnect()
	for {
		select {
		case <-r.ctx.Done():
			return
		case leaves := <-r.work:
			r.done.Store(r.one(leaves))
			r.wake()
		}
	}
}

func (r *reporter) one(leaves [][32]byte) *result {
	start := time.Now()
	x := new(result)
	x.err = x.tree.Build(leaves)
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	if x.err == nil && r.prov == nil {
		select {
		case <-ctx.Done():
		case <-time.After(r.pause):
		}
		if x.err = r.connect(ctx); x.err == nil {
			slog.Info("the security processor answers again")
		}
	}
	if x.err == nil {
		x.report, x.err = r.prov.Report(ctx, evidence.ReportData(binder.ReportData(x.tree.Root())))
	}
	if x.err == nil {
		for _, h := range x.report.Needs {
			if !r.known[h] {
				x.err = r.endorsements(ctx)
				break
			}
		}
	}
	if x.err == nil {
		r.pause = 0
	} else if r.ctx.Err() == nil {
		r.disconnect()
		r.pause = min(2*time.Second, max(50*time.Millisecond, 2*r.pause))
	}
	x.took = time.Since(start)
	return x
}

// close ends the goroutine and the security processor.
func (r *reporter) close() {
	r.cancel()
	if r.started {
		<-r.ended
	}
}
