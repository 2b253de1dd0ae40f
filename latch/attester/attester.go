// SPDX-License-Identifier: Apache-2.0

// Package attester has leaves attested in groups, for the client of mutual
// sessions: the leaves that arrive while a report is being made form the tree
// of the next one. Call [New], then [Attester.Run]; give leaves with
// [Attester.Add].
package attester

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/latch/binder"
)

// MaxWaiting bounds the leaves that wait for a report.
const MaxWaiting = 1 << 14

// Item is a leaf with the caller's own word for it.
type Item struct {
	Leaf [32]byte
	Tag  any
}

// Group is one report, or the reason why there is none. Items[i] is leaf i of
// Tree. It is valid during the call of Options.Done.
type Group struct {
	Items        []Item
	Tree         *binder.Tree
	Report       evidence.Report
	Endorsements []evidence.Endorsement // that Report.Needs names
	Err          error
}

// Options of an Attester.
type Options struct {
	Open    func(context.Context) (provider.Provider, error) // opens the security processor; called again after it failed
	Timeout time.Duration                                    // of one report; default 3 s
	Done    func(*Group)                                     // called from Run's goroutine
}

// Attester makes the reports.
type Attester struct {
	o    Options
	wake chan struct{}

	mu      sync.Mutex
	waiting []Item

	prov  provider.Provider
	known map[[32]byte]evidence.Endorsement
	next  time.Time // the security processor is not opened again before
	pause time.Duration
	last  error
}

// New makes an attester and opens the security processor, so that a client
// without one does not start.
func New(ctx context.Context, o Options) (*Attester, error) {
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	a := &Attester{o: o, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := a.open(ctx); err != nil {
		return nil, fmt.Errorf("security processor: %w", err)
	}
	return a, nil
}

// Add gives leaves; it does not wait. What is beyond MaxWaiting is dropped and
// its session runs into the deadline.
func (a *Attester) Add(items ...Item) {
	a.mu.Lock()
	n := min(len(items), MaxWaiting-len(a.waiting))
	a.waiting = append(a.waiting, items[:n]...)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run makes reports until ctx ends, then closes the security processor.
func (a *Attester) Run(ctx context.Context) {
	defer a.close()
	var g Group
	var leaves [][32]byte
	var tree binder.Tree
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		for ctx.Err() == nil {
			a.mu.Lock()
			g.Items, a.waiting = a.waiting, g.Items[:0]
			a.mu.Unlock()
			if len(g.Items) == 0 {
				break
			}
			leaves = leaves[:0]
			for i := range g.Items {
				leaves = append(leaves, g.Items[i].Leaf)
			}
			g.Tree = &tree
			g.Endorsements = g.Endorsements[:0]
			if g.Err = tree.Build(leaves); g.Err == nil {
				g.Err = a.report(ctx, &g)
			}
			a.o.Done(&g)
			clear(g.Items)
		}
	}
}

// report makes one report over the tree's root.
func (a *Attester) report(ctx context.Context, g *Group) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	now := time.Now()
	if a.prov == nil {
		if now.Before(a.next) {
			return a.last
		}
		if err := a.open(ctx); err != nil {
			return a.failed(err)
		}
		slog.Info("the security processor answers again")
	}
	var err error
	if g.Report, err = a.prov.Report(ctx, evidence.ReportData(binder.ReportData(g.Tree.Root()))); err != nil {
		return a.failed(err)
	}
	for _, h := range g.Report.Needs {
		if _, ok := a.known[h]; !ok {
			if err := a.endorsements(ctx); err != nil {
				return a.failed(err)
			}
			break
		}
	}
	for _, h := range g.Report.Needs {
		if e, ok := a.known[h]; ok {
			g.Endorsements = append(g.Endorsements, e)
		}
	}
	a.pause = 0
	return nil
}

func (a *Attester) failed(err error) error {
	a.pause = min(2*time.Second, max(50*time.Millisecond, 2*a.pause))
	a.next, a.last = time.Now().Add(a.pause), err
	a.close()
	return err
}

func (a *Attester) open(ctx context.Context) error {
	p, err := a.o.Open(ctx)
	if err != nil {
		return err
	}
	a.prov = p
	if err := a.endorsements(ctx); err != nil {
		a.close()
		return err
	}
	return nil
}

func (a *Attester) endorsements(ctx context.Context) error {
	es, err := a.prov.Endorsements(ctx)
	if err != nil {
		return fmt.Errorf("endorsements: %w", err)
	}
	a.known = map[[32]byte]evidence.Endorsement{}
	for _, e := range es {
		a.known[e.Hash()] = e
	}
	return nil
}

func (a *Attester) close() {
	if a.prov == nil {
		return
	}
	if err := a.prov.Close(); err != nil {
		slog.Debug("closing the security processor", "error", err)
	}
	a.prov = nil
}
