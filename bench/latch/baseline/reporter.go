// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/latch/attester"
	"holdfast/latch/binder"
)

// reporter turns leaves into proofs.
type reporter interface {
	prove(leaf [32]byte) (*proof, error)
}

// serial makes one report for each leaf, one after the other: what designs do
// that have a report a session.
type serial struct{ p provider.Provider }

func newSerial(k *Kit, name string) (reporter, error) {
	p, err := k.processor(name)
	return serial{p}, err
}

func (s serial) prove(leaf [32]byte) (*proof, error) {
	r, err := s.p.Report(context.Background(), evidence.ReportData(binder.ReportData(leaf))) // a tree of one leaf is that leaf
	return &proof{size: 1, report: r}, err
}

// grouped is the latch's group commit for another design: leaves that come
// while a report is made are the tree of the next.
type grouped struct{ a *attester.Attester }

type proved struct {
	p   *proof
	err error
}

func newGrouped(k *Kit, name string) (reporter, error) {
	p, err := k.processor(name)
	if err != nil {
		return nil, err
	}
	a, err := attester.New(context.Background(), attester.Options{
		Open: func(context.Context) (provider.Provider, error) { return p, nil },
		Done: func(g *attester.Group) {
			for i, x := range g.Items {
				r := proved{&proof{size: uint32(len(g.Items)), index: uint32(i), report: g.Report}, g.Err}
				if g.Err == nil {
					r.p.path = g.Tree.Path(i)
				}
				x.Tag.(chan proved) <- r
			}
		},
	})
	if err != nil {
		return nil, err
	}
	go a.Run(context.Background()) // as long as the process
	return grouped{a}, nil
}

func (g grouped) prove(leaf [32]byte) (*proof, error) {
	c := make(chan proved, 1)
	g.a.Add(attester.Item{Leaf: leaf, Tag: c})
	r := <-c
	return r.p, r.err
}
