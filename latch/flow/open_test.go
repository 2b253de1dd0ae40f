// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"testing"
)

// TestOpenAgent: on a rendezvous anybody may speak. False evidence and
// refusals end nothing, before the ServerHello or after it, and release
// nothing; good evidence still releases; the deadline names what was heard.
func TestOpenAgent(t *testing.T) {
	s := load(t, "x25519-go-go")
	for _, early := range []bool{false, true} {
		r := newRules()
		w := &wire{t: New(Options{Open: 1}, r), id: ID{7, 8}, now: t0}
		w.t.AgentUp(t0, 0)
		ev := r.evidenceFor(s)
		w.out(0, s.chunks[0].data)
		if !early {
			w.all(s)
		}
		for i := range 3 * maxOpen {
			wrong := *ev
			wrong.Index = uint64(i % 4) // 1 is right, but:
			if wrong.Index == 1 {
				wrong.Path = wrong.Path[:1]
			}
			w.t.Session(t0, 0, &wrong)
		}
		long := *ev
		long.Path = make([][32]byte, MaxPath+1)
		w.t.Session(t0, 0, &long)
		w.t.AgentRefused(t0, 0, s.ch, ShareReused, "says somebody")
		if o := w.flush(); len(o.Release)+len(o.Refuse) != 0 {
			t.Fatalf("early %v: junk decided: %+v", early, o)
		}
		w.t.Session(t0, 0, ev)
		if early {
			w.all(s)
		}
		if o := w.flush(); len(o.Release) != 1 || len(o.Refuse) != 0 {
			t.Fatalf("early %v: %+v", early, o)
		}
	}

	// Only junk: refused at the deadline, with the first thing that was heard.
	r := newRules()
	w := &wire{t: New(Options{Open: 1}, r), id: ID{7, 8}, now: t0}
	w.t.AgentUp(t0, 0)
	w.all(s)
	w.t.AgentRefused(t0, 0, s.ch, ShareReused, "")
	w.now = t0.Add(w.t.o.Deadline)
	one(t, w.flush(), ShareReused)

	// The rendezvous is lost: at once.
	w = &wire{t: New(Options{Open: 1}, r), id: ID{7, 8}, now: t0}
	w.t.AgentUp(t0, 0)
	w.all(s)
	w.t.AgentLost(t0, 0, AgentLost, "")
	one(t, w.flush(), AgentLost)
}
