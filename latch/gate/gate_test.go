// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"
	"time"

	"holdfast/latch/channel"
	"holdfast/latch/flow"
	"holdfast/latch/hold"
)

// Three sessions of one group: one verification, three releases.
func TestGroup(t *testing.T) {
	w := newWorld(t, worldOptions{})
	var hs []hellos
	for i := uint64(1); i <= 3; i++ {
		h := handshake(t, "shop.example")
		hs = append(hs, h)
		out, in := h.records(i)
		w.hold.put(true, out)
		w.hold.put(false, in)
	}
	w.announced(3)
	w.agent.events <- w.events(goodClaims, hs...)
	w.ends(3)
	if s := w.gate.Stats(); s.Verified != 1 || s.Waiting != 0 {
		t.Errorf("%+v: want one verification and nobody waiting", s)
	}
	for _, v := range w.hold.released {
		h := hs[v.ID.Cookie-1].server
		if end := 900 + uint32(5+int(h[3])<<8+int(h[4])); v.End != end || v.Examined != 1 {
			t.Errorf("verdict %+v: want end %d", v, end)
		}
	}
	if len(w.gate.proved) != 0 {
		t.Error("proofs are kept after the release")
	}
}

// A connection that ended with an alert is reset at its deadline, silently: the
// hold must not remember it for ever, nor send later what is queued in it.
func TestAlertIsDropped(t *testing.T) {
	w := newWorld(t, worldOptions{deadline: 200 * time.Millisecond})
	h := handshake(t, "shop.example")
	out, in := h.records(1)
	in.Data = []byte{21, 3, 3, 0, 2, 2, 40}
	in.Len = uint32(len(in.Data))
	w.hold.put(true, out)
	w.announced(1)
	w.hold.put(true, in)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		w.hold.mu.Lock()
		n := len(w.hold.refused)
		w.hold.mu.Unlock()
		if n == 1 {
			w.ends(0)
			return
		}
	}
	t.Error("the connection was not reset")
}

// The evidence comes before the ServerHello's copy.
func TestEvidenceFirst(t *testing.T) {
	w := newWorld(t, worldOptions{})
	h := handshake(t, "shop.example")
	out, in := h.records(1)
	w.hold.put(true, out)
	w.announced(1)
	w.agent.events <- w.events(goodClaims, h)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		w.hold.mu.Lock()
		n := w.hold.want
		w.hold.mu.Unlock()
		if n > 0 {
			break
		}
	}
	w.hold.put(false, in)
	w.ends(1)
}

// A release that the adapter could not carry out is tried again; one that
// stays impossible ends at the deadline.
func TestReleaseRetries(t *testing.T) {
	w := newWorld(t, worldOptions{deadline: 400 * time.Millisecond})
	w.hold.retries = []hold.Reason{hold.ReasonNotTaken, hold.ReasonNotTaken, hold.ReasonUnexamined}
	h := handshake(t, "shop.example")
	out, in := h.records(1)
	w.hold.put(true, out, in)
	w.announced(1)
	w.agent.events <- w.events(goodClaims, h)
	w.ends(1)
	if s := w.gate.Stats(); s.Retries != 3 {
		t.Errorf("%d retries", s.Retries)
	}
	for i := 0; i < 1000; i++ {
		w.hold.retries = append(w.hold.retries, hold.ReasonNotTaken)
	}
	h = handshake(t, "shop.example")
	out, in = h.records(2)
	w.hold.put(true, out, in)
	w.announced(1)
	w.agent.events <- w.events(goodClaims, h)
	w.ends(1, "release-failed")
}

// Everything that is not exactly right is refused with its reason.
func TestRefused(t *testing.T) {
	type step func(w *world, h hellos)
	good := func(w *world, h hellos) []channel.Event { return w.events(goodClaims, h) }
	edit := func(f func(ev []channel.Event)) step {
		return func(w *world, h hellos) {
			ev := good(w, h)
			f(ev)
			w.announced(1)
			w.agent.events <- ev
		}
	}
	for _, c := range []struct {
		name   string
		o      worldOptions
		sni    string
		step   step
		reason string
	}{
		{"unknown name", worldOptions{}, "other.example", nil, "no-policy-for-name"},
		{"agent refuses", worldOptions{}, "", func(w *world, h hellos) {
			_, ch := h.leaf(w.t, nil)
			w.announced(1)
			w.agent.events <- []channel.Event{{Kind: channel.KindRefused, Refused: channel.Refused{CH: ch, Code: "not-observed", Text: "no\nline"}}}
		}, "not-observed"},
		{"agent lost", worldOptions{}, "", func(w *world, h hellos) { w.announced(1); w.agent.Close() }, "agent-lost"},
		{"no agent", worldOptions{offline: true}, "", nil, "no-agent"},
		{"no evidence", worldOptions{deadline: 100 * time.Millisecond}, "", func(w *world, h hellos) { w.announced(1) }, "deadline"},
		{"evidence of another session", worldOptions{}, "", func(w *world, h hellos) {
			_, ch := h.leaf(w.t, nil)
			ev := good(w, handshake(w.t, "shop.example"))
			ev[2].Session.CH = ch
			w.announced(1)
			w.agent.events <- ev
		}, "binder-mismatch"},
		{"claims changed", worldOptions{}, "", edit(func(ev []channel.Event) {
			c := goodClaims
			c.Listener = "tcp 10.0.0.3:443"
			ev[2].Session.Claims, _ = c.Encode()
		}), "binder-mismatch"},
		{"claims not canonical", worldOptions{}, "", edit(func(ev []channel.Event) { ev[2].Session.Claims = append(ev[2].Session.Claims, 0) }), "claims-invalid"},
		{"path invalid", worldOptions{}, "", edit(func(ev []channel.Event) { ev[2].Session.Path = [][32]byte{{}} }), "path-invalid"},
		{"no endorsement", worldOptions{}, "", func(w *world, h hellos) {
			ev := good(w, h)
			w.announced(1)
			w.agent.events <- ev[1:]
		}, "endorsement-missing"},
		{"no report", worldOptions{}, "", func(w *world, h hellos) {
			ev := good(w, h)
			w.announced(1)
			w.agent.events <- ev[2:]
		}, "path-invalid"}, // without a report there is no tree
		{"report damaged", worldOptions{}, "", edit(func(ev []channel.Event) { ev[1].Report.Body[len(ev[1].Report.Body)-1] ^= 1 }), "evidence-invalid"},
		{"foreign root", worldOptions{foreign: true}, "", edit(func([]channel.Event) {}), "untrusted"},
		{"policy: other environment", worldOptions{policy: goodPolicy[:len(goodPolicy)-1] + "\nage: 1ns\n"}, "", edit(func([]channel.Event) {}), "policy"},
		{"policy: other service", worldOptions{}, "", func(w *world, h hellos) {
			c := goodClaims
			c.Service = "mail"
			w.announced(1)
			w.agent.events <- w.events(c, h)
		}, "policy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.o)
			if c.sni == "" {
				c.sni = "shop.example"
			}
			h := handshake(t, c.sni)
			out, in := h.records(1)
			w.hold.put(true, out, in)
			if c.step != nil {
				c.step(w, h)
			}
			w.ends(0, c.reason)
			w.hold.mu.Lock()
			defer w.hold.mu.Unlock()
			if len(w.hold.refused) != 1 || w.hold.refused[0] != out.ID || len(w.hold.released) != 0 {
				t.Errorf("reset %v, released %v: want one reset", w.hold.refused, w.hold.released)
			}
		})
	}
}

// What a hold denies is refused with the hold's reason.
func TestDenied(t *testing.T) {
	w := newWorld(t, worldOptions{})
	h := handshake(t, "shop.example")
	out, _ := h.records(1)
	w.hold.put(true, hold.Record{Kind: hold.Denied, Reason: hold.ReasonMPTCP, ID: out.ID, Local: out.Local, Remote: out.Remote})
	w.ends(0, "mptcp")
}

// Every reason of a hold that reaches people has a sentence.
func TestHoldReasonsAreKnown(t *testing.T) {
	for r := hold.ReasonNotTLS; r <= hold.ReasonPacket; r++ {
		if !flow.Reason(r.Code()).Known() {
			t.Errorf("reason %d: %q is not in the vocabulary of latch/flow", r, r.Code())
		}
	}
}

// Stop refuses what waits.
func TestStop(t *testing.T) {
	w := newWorld(t, worldOptions{})
	h := handshake(t, "shop.example")
	out, in := h.records(1)
	w.hold.put(true, out, in)
	w.announced(1)
	w.gate.Stop()
	if s := w.gate.Stats(); s.Refused["gate-stopping"] != 1 || len(w.hold.refused) != 1 {
		t.Errorf("%+v", s)
	}
	w.agent.events <- w.events(goodClaims, h) // too late: nothing happens
	time.Sleep(20 * time.Millisecond)
	if len(w.hold.released) != 0 {
		t.Error("released after Stop")
	}
}

// The agent comes back: who waits is announced again.
func TestReconnect(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.agent.Close()
	time.Sleep(20 * time.Millisecond)
	h := handshake(t, "shop.example")
	out, in := h.records(1)
	w.hold.put(true, out, in)
	w.mu.Lock()
	w.agent = newFakeAgent()
	w.mu.Unlock()
	w.announced(1)
	w.agent.events <- w.events(goodClaims, h)
	w.ends(1)
}

// The evidence that is kept is bounded.
func TestStoreBounds(t *testing.T) {
	var s store
	for i := uint64(0); i < 1000; i++ {
		s.addReport(&channel.Report{ID: i, Body: make([]byte, 60000), Size: 1})
		s.addEndorsement(&channel.Endorsement{Type: "t", Body: append(make([]byte, 1<<20), byte(i), byte(i>>8))})
	}
	if len(s.reports) > keepReports || s.reportBytes > keepReportBytes || len(s.endorsements) > keepEndorsements || s.endorseBytes > keepEndorseBytes || len(s.order) != len(s.endorsements) {
		t.Errorf("%d reports of %d bytes, %d endorsements of %d bytes", len(s.reports), s.reportBytes, len(s.endorsements), s.endorseBytes)
	}
	if s.find(999) == nil || s.find(0) != nil {
		t.Error("the oldest goes first")
	}
}
