// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"bytes"
	"testing"
	"time"

	"holdfast/latch/tlshello"
)

// Every code of the hello reader is in the vocabulary, with the same string.
func TestHelloCodesAreReasons(t *testing.T) {
	for _, c := range tlshello.Codes() {
		if !Reason(c).Known() {
			t.Errorf("code %q of package tlshello is no reason", c)
		}
	}
}

// With several agents the first refusals are not the end, and the reason that
// tells most is the one that is shown.
func TestTwoAgents(t *testing.T) {
	s := load(t, "x25519-go-go")
	run := func() (*wire, *rules, *Session) {
		r := newRules()
		w := start(r)
		w.t.AgentUp(t0, 1)
		w.t.AgentUp(t0, 2) // serves something else
		w.all(s)
		if o := w.flush(); len(o.Announce) != 1 || o.Announce[0].Agents != 3 {
			t.Fatalf("announced %+v", o.Announce)
		}
		w.t.out.Reset()
		return w, r, r.evidenceFor(s)
	}
	w, _, ev := run()
	w.t.AgentRefused(t0, 0, s.ch, NotObserved, "")
	w.t.AgentRefused(t0, 2, s.ch, Busy, "was not asked")
	if o := w.flush(); len(o.Refuse) != 0 {
		t.Fatal("refused although another agent was asked")
	}
	w.t.Session(t0, 2, ev) // nobody asked it
	if o := w.flush(); len(o.Release) != 0 {
		t.Fatal("took evidence of an agent that may not vouch for the service")
	}
	w.t.Session(t0, 1, ev)
	if o := w.flush(); len(o.Release) != 1 || o.Release[0].Agent != 1 {
		t.Fatalf("%+v", w.t.out)
	}

	w, _, _ = run()
	w.t.AgentRefused(t0, 1, s.ch, ShareReused, "twice")
	w.t.AgentRefused(t0, 0, s.ch, NotObserved, "")
	one(t, w.flush(), ShareReused)

	w, _, _ = run()
	w.t.AgentRefused(t0, 0, s.ch, NotObserved, "")
	w.t.AgentLost(t0, 1, AgentLost, "")
	one(t, w.flush(), AgentLost)

	w, _, _ = run()
	w.t.AgentRefused(t0, 0, s.ch, "", "")
	w.t.AgentRefused(t0, 1, s.ch, "new-code", "")
	one(t, w.flush(), AgentProtocol)

	// False evidence of one agent does not stop the true one, in any order.
	for _, bad := range []int{0, 1} {
		for _, early := range []bool{false, true} {
			r := newRules()
			w := start(r)
			w.t.AgentUp(t0, 1)
			ev := r.evidenceFor(s)
			wrong := *ev
			wrong.Index = 0
			w.out(0, s.chunks[0].data)
			if !early {
				w.all(s)
			}
			w.t.Session(t0, bad, &wrong)
			w.t.Session(t0, bad, ev) // a second word of the same agent does not count
			if !early && r.judged != 1 {
				t.Fatalf("judged %d", r.judged)
			}
			w.t.Session(t0, 1-bad, ev)
			if early {
				w.all(s)
			}
			if o := w.flush(); len(o.Release) != 1 {
				t.Fatalf("bad %d early %v: %+v", bad, early, o)
			} else if o.Release[0].Agent != 1-bad {
				t.Fatalf("released by the agent that lied: %+v", o)
			}
		}
	}
}

func TestNoAgent(t *testing.T) {
	s, r := load(t, "x25519-go-go"), newRules()
	w := &wire{t: New(Options{AgentWait: time.Second}, r), id: ID{1, 1}, now: t0}
	w.all(s)
	if o := w.flush(); len(o.Announce)+len(o.Refuse) != 0 {
		t.Fatalf("%+v", o)
	}
	if at := w.t.Next(); !at.Equal(t0.Add(time.Second)) {
		t.Errorf("next at %v", at.Sub(t0))
	}
	// An agent that comes in time is asked.
	w.now = t0.Add(900 * time.Millisecond)
	w.t.AgentUp(w.now, 1)
	if o := w.flush(); len(o.Announce) != 1 || o.Announce[0].Agents != 2 {
		t.Fatalf("%+v", o)
	}
	w.t.out.Reset()
	w.now = t0.Add(2 * time.Second)
	if o := w.flush(); len(o.Refuse) != 0 {
		t.Fatalf("%+v", o)
	}
	w.t.AgentLost(w.now, 1, AgentLost, "")
	one(t, w.flush(), AgentLost)

	w = &wire{t: New(Options{AgentWait: time.Second}, r), id: ID{1, 1}, now: t0}
	w.all(s)
	w.now = t0.Add(time.Second)
	one(t, w.flush(), NoAgent)
}

func TestDeadline(t *testing.T) {
	s := load(t, "x25519-go-go")
	for name, tc := range map[string]struct {
		run  func(w *wire, r *rules)
		want Reason
	}{
		"half a hello":  {func(w *wire, r *rules) { w.out(0, s.client[:60]) }, Deadline},
		"no answer":     {func(w *wire, r *rules) { w.out(0, s.client) }, Deadline},
		"no evidence":   {func(w *wire, r *rules) { w.all(s) }, Deadline},
		"lost copy":     {func(w *wire, r *rules) { w.count++; w.all(s); w.t.Session(t0, 0, r.evidenceFor(s)) }, LostCopy},
		"no confirming": {func(w *wire, r *rules) { w.all(s); w.t.Session(t0, 0, r.evidenceFor(s)); w.flush().Reset() }, ReleaseFailed},
		"never taken": {func(w *wire, r *rules) {
			w.all(s)
			w.t.Session(t0, 0, r.evidenceFor(s))
			w.flush().Reset()
			w.t.Retry(t0, w.id, ReleaseFailed)
		}, ReleaseFailed},
		"always another": {func(w *wire, r *rules) {
			w.all(s)
			w.t.Session(t0, 0, r.evidenceFor(s))
			w.flush().Reset()
			w.t.Retry(t0, w.id, Unexamined)
		}, Unexamined},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRules()
			w := start(r)
			tc.run(w, r)
			w.now = t0.Add(5*time.Second - 1)
			o := w.flush()
			if len(o.Refuse) != 0 {
				t.Fatalf("before the deadline: %+v", o.Refuse)
			}
			o.Reset()
			if at := w.t.Next(); at.After(t0.Add(5 * time.Second)) {
				t.Errorf("next at %v", at.Sub(t0))
			}
			w.now = t0.Add(5 * time.Second)
			one(t, w.flush(), tc.want)
			if w.t.Len() != 0 {
				t.Error("still held")
			}
		})
	}
}

func TestRetry(t *testing.T) {
	s, r := load(t, "x25519-go-go"), newRules()
	w := start(r)
	w.all(s)
	w.t.Session(t0, 0, r.evidenceFor(s))
	o := w.flush()
	before := o.Release[0].Examined
	o.Reset()
	// A segment was counted that we had not seen; it comes with the next drain.
	w.t.Retry(t0, w.id, Unexamined)
	w.in(0, s.server[:10])
	o = w.flush()
	if len(o.Release) != 1 || o.Release[0].Examined != before+1 || o.Release[0].Tries != 1 {
		t.Fatalf("%+v", o)
	}
	o.Reset()
	// TCP has not taken the bytes: wait a little.
	w.t.Retry(t0, w.id, ReleaseFailed)
	if o := w.flush(); len(o.Release) != 0 {
		t.Fatal("no pause")
	}
	at := w.t.Next()
	if !at.After(t0) || at.After(t0.Add(5*time.Millisecond)) {
		t.Fatalf("next at %v", at.Sub(t0))
	}
	w.now = at
	if o := w.flush(); len(o.Release) != 1 {
		t.Fatal("no second try")
	}
	w.t.out.Reset()
	// A forged hello for the same place, timed between release and opening.
	w.t.Retry(w.now, w.id, Unexamined)
	forged := bytes.Clone(s.server[:120])
	forged[100] ^= 1
	w.in(0, forged)
	one(t, w.flush(), Overlap)
	w.t.out.Reset()
	w.t.Retry(w.now, w.id, Unexamined)
	w.now = w.now.Add(time.Second)
	if o := w.flush(); len(o.Release) != 0 {
		t.Fatal("released after a refusal")
	}
}

func TestAlertEnds(t *testing.T) {
	s, r := load(t, "x25519-go-go"), newRules()
	w := start(r)
	w.out(0, s.client)
	w.in(0, []byte{21, 3, 3, 0, 2, 2, 40})
	if o := w.flush(); len(o.Refuse) != 0 || w.t.In(Ended) != 1 {
		t.Fatalf("%+v %v", o, w.t)
	}
	w.t.out.Reset()
	w.in(7, s.server) // a hello behind the alert opens nothing
	w.t.Session(t0, 0, r.evidenceFor(s))
	w.now = t0.Add(time.Minute)
	if o := w.flush(); len(o.Release)+len(o.Refuse) != 0 || len(o.Drop) != 1 || o.Drop[0] != w.id || w.t.Len() != 0 {
		t.Fatalf("%+v", o)
	}
	w.t.out.Reset()
	if o := w.flush(); len(o.Drop) != 0 {
		t.Fatalf("%+v", o)
	}
}

func TestDuplicateHelloAndFull(t *testing.T) {
	s, r := load(t, "x25519-go-go"), newRules()
	w := &wire{t: New(Options{Connections: 2}, r), id: ID{1, 1}, now: t0}
	w.t.AgentUp(t0, 0)
	w.all(s)
	v := &wire{t: w.t, id: ID{1, 2}, now: t0} // the same socket, connected again
	v.all(s)
	one(t, w.flush(), DuplicateHello)
	w.t.out.Reset()
	u := &wire{t: w.t, id: ID{2, 1}, now: t0}
	u.out(0, s.client)
	one(t, w.flush(), TableFull)
	w.t.out.Reset()
	// The first one is untouched.
	w.t.Session(t0, 0, r.evidenceFor(s))
	if o := w.flush(); len(o.Release) != 1 || o.Release[0].ID != w.id {
		t.Fatalf("%+v", o)
	}
	w.t.out.Reset()
	w.t.RefuseAll(t0, GateStopping)
	one(t, w.flush(), GateStopping)
}

// The table recycles its memory: a connection from hello to release costs four
// small allocations at the most once the table is warm.
func TestNoAllocation(t *testing.T) {
	s, r := load(t, "x25519mlkem768-go-go"), newRules()
	w := start(r)
	ev := r.evidenceFor(s)
	n := testing.AllocsPerRun(200, func() {
		w.id.Nonce++
		w.count = 0
		w.all(s)
		w.t.Session(w.now, 0, ev)
		o := w.flush()
		if len(o.Release) != 1 {
			panic("not released")
		}
		o.Reset()
		w.t.Released(w.id)
	})
	// What remains: the state of the transcript hash, and the claims as texts.
	if n > 4 && !raceDetector {
		t.Errorf("%v allocations per connection", n)
	}
	t.Logf("%v allocations", n)
}

func BenchmarkConnection(b *testing.B) {
	s, r := load(b, "x25519mlkem768-go-go"), newRules()
	w := start(r)
	ev := r.evidenceFor(s)
	b.ReportAllocs()
	for b.Loop() {
		w.id.Nonce++
		w.count = 0
		w.all(s)
		w.t.Session(w.now, 0, ev)
		w.flush().Reset()
		w.t.Released(w.id)
	}
}
