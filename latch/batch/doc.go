// SPDX-License-Identifier: Apache-2.0

// Package batch is the delayed confirmation of sessions: no gate holds
// anything; the server's agent lists every session of an interval in a
// manifest with one report, and the client's watcher confirms that each session
// that it saw is listed in time.
//
// [Chain] numbers and links an agent's manifests; [Ledger] is the watcher's
// side. Both are pure: no I/O, no clock, no signatures. What a confirmation
// says, and when: after the interval, that the session's receiver was attested;
// until then the request has already left. It detects, it does not prevent.
package batch

import (
	"crypto/sha256"
	"errors"

	"holdfast/latch/binder"
)

// Group are the sessions of one listener.
type Group struct {
	Claims  []byte // canonical encoding
	Binders []byte // 32 bytes each
}

// Manifest lists the sessions of an interval.
type Manifest struct {
	Instance [16]byte // of the agent, new at each start
	Number   uint64   // from 1 on
	Previous [32]byte // head of the manifest before
	Groups   []Group
}

// Sessions is the number of binders.
func (m *Manifest) Sessions() (n int) {
	for i := range m.Groups {
		n += len(m.Groups[i].Binders) / 32
	}
	return n
}

var errEmpty = errors.New("batch: a manifest without sessions, or with more than binder.MaxLeaves")

// Head returns binder.BatchHead over the leaves of m.
func (m *Manifest) Head() (head [32]byte, err error) {
	n := m.Sessions()
	if n == 0 || n > binder.MaxLeaves {
		return head, errEmpty
	}
	leaves := make([][32]byte, 0, n)
	for i := range m.Groups {
		g := &m.Groups[i]
		claims := sha256.Sum256(g.Claims)
		for b := g.Binders; len(b) >= 32; b = b[32:] {
			leaves = append(leaves, binder.Leaf([32]byte(b[:32]), claims))
		}
	}
	var t binder.Tree
	if err := t.Build(leaves); err != nil {
		return head, err
	}
	return binder.BatchHead(m.Instance, m.Number, m.Previous, uint64(n), t.Root()), nil
}

// Chain is an agent's end: it numbers manifests and links each to the one
// before.
type Chain struct {
	Instance [16]byte
	number   uint64
	last     [32]byte
}

// Next fills number and previous head of a manifest whose Groups are set, and
// returns what the report must sign. Call Done when the report was made; until
// then Next gives the same number again.
func (c *Chain) Next(m *Manifest) ([32]byte, error) {
	m.Instance, m.Number, m.Previous = c.Instance, c.number+1, c.last
	return m.Head()
}

// Done moves on to the next number.
func (c *Chain) Done(head [32]byte) { c.number, c.last = c.number+1, head }
