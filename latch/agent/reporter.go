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

// reporter makes reports, one at a time, in the loop's own goroutine: nothing
// could be done for a session meanwhile, and handing over to another thread and
// back costs more than all else (see Agent.turn). After an error it closes the
// security processor and opens it again, at growing intervals up to two seconds.
type reporter struct {
	dial    func(context.Context) (provider.Provider, error)
	timeout time.Duration
	server  *channel.Server
	opened  uint64
	again   atomic.Bool // close the security processor and open it anew

	prov  provider.Provider // nil: to be opened
	known map[[32]byte]bool // endorsements that the server has
	pause time.Duration
	next  time.Time // not to be opened before
	last  error
}

// open opens the security processor, so that an agent without one does not start.
func (r *reporter) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.connect(ctx)
}

func (r *reporter) connect(ctx context.Context) error {
	p, err := r.dial(ctx)
	if err != nil {
		return err
	}
	r.prov = p
	r.opened++
	if err := r.endorsements(ctx); err != nil {
		r.close()
		return err
	}
	return nil
}

// close closes the security processor.
func (r *reporter) close() {
	if r.prov != nil {
		if err := r.prov.Close(); err != nil {
			slog.Debug("closing the security processor", "error", err)
		}
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

// make has the root of the tree of leaves attested into x, whose memory it reuses.
func (r *reporter) make(ctx context.Context, leaves [][32]byte, x *result) {
	if x.err = x.tree.Build(leaves); x.err != nil {
		return
	}
	r.sign(ctx, x.tree.Root(), x)
}

// sign has the report data of a root, or of another head, attested into x.
func (r *reporter) sign(ctx context.Context, root [32]byte, x *result) {
	start := time.Now()
	x.report, x.err = evidence.Report{}, nil
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if r.again.Swap(false) {
		r.close()
		r.next = time.Time{}
	}
	if x.err == nil && r.prov == nil {
		if start.Before(r.next) {
			x.err = r.last
		} else if x.err = r.connect(ctx); x.err == nil {
			slog.Info("the security processor answers again")
		}
	}
	if x.err == nil {
		x.report, x.err = r.prov.Report(ctx, evidence.ReportData(binder.ReportData(root)))
	}
	if x.err == nil {
		for _, h := range x.report.Needs {
			if !r.known[h] {
				x.err = r.endorsements(ctx)
				break
			}
		}
	}
	now := time.Now()
	x.took = now.Sub(start)
	if x.err == nil {
		r.pause = 0
		return
	}
	if r.prov != nil || !start.Before(r.next) {
		r.pause = min(2*time.Second, max(50*time.Millisecond, 2*r.pause))
		r.next, r.last = now.Add(r.pause), x.err
	}
	r.close()
}
