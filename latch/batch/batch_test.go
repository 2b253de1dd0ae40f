// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"
)

var t0 = time.Unix(1_000_000, 0)

func hash(s string) [32]byte { return sha256.Sum256([]byte(s)) }

func manifest(names ...string) *Manifest {
	g := Group{Claims: []byte("claims")}
	for _, n := range names {
		h := hash(n)
		g.Binders = append(g.Binders, h[:]...)
	}
	return &Manifest{Groups: []Group{g}}
}

// signed is a manifest as the chain's agent would sign it.
func signed(t *testing.T, c *Chain, names ...string) (*Manifest, [32]byte) {
	t.Helper()
	m := manifest(names...)
	h, err := c.Next(m)
	if err != nil {
		t.Fatal(err)
	}
	c.Done(h)
	return m, h
}

func saw(t *testing.T, l *Ledger, name string, at time.Time) {
	t.Helper()
	if o := l.Saw(&Session{Binder: hash(name), Seen: at}); o != nil {
		t.Fatalf("%s: %+v", name, o)
	}
}

// TestHead: the head by hand for one session, where the tree is the leaf.
func TestHead(t *testing.T) {
	c := &Chain{Instance: [16]byte{9}}
	m := manifest("a")
	got, err := c.Next(m)
	if err != nil {
		t.Fatal(err)
	}
	b, cl := hash("a"), hash("claims")
	leaf := sha256.Sum256(append(append([]byte{0}, b[:]...), cl[:]...))
	in := append([]byte("holdfast/latch/v1/batch"), c.Instance[:]...)
	in = binary.BigEndian.AppendUint64(in, 1)
	in = append(in, make([]byte, 32)...)
	in = binary.BigEndian.AppendUint64(in, 1)
	in = append(in, leaf[:]...)
	if want := sha256.Sum256(in); got != want {
		t.Errorf("%x, expected %x", got, want)
	}
	if _, err := c.Next(&Manifest{}); err == nil {
		t.Error("an empty manifest has a head")
	}
}

// TestCoverage: in time, missing, late, and seen after its manifest.
func TestCoverage(t *testing.T) {
	l, c := NewLedger(Options{Deadline: 10 * time.Second}), &Chain{}
	saw(t, l, "in time", t0)
	saw(t, l, "missing", t0)
	saw(t, l, "late", t0.Add(time.Second))
	m, h := signed(t, c, "somebody else's", "in time", "seen later")
	if f := l.Check(m, h); f != "" {
		t.Fatal(f)
	}
	if out := l.Cover(m, t0.Add(5*time.Second), nil); len(out) != 1 || out[0].Verdict != Confirmed || out[0].Session.Binder != hash("in time") || string(out[0].Claims) != "claims" {
		t.Fatalf("%+v", out)
	}
	if o := l.Saw(&Session{Binder: hash("seen later"), Seen: t0.Add(6 * time.Second)}); o == nil || o.Verdict != Confirmed {
		t.Fatalf("%+v", o)
	}
	if out := l.Expire(t0.Add(10 * time.Second)); len(out) != 0 {
		t.Fatalf("before the deadline: %+v", out)
	}
	if out := l.Expire(t0.Add(10*time.Second + 1)); len(out) != 1 || out[0].Verdict != Unconfirmed || out[0].Session.Binder != hash("missing") {
		t.Fatalf("%+v", out)
	}
	// Listed after the deadline, but before anybody looked: late all the same.
	m, h = signed(t, c, "late", "missing")
	if f := l.Check(m, h); f != "" {
		t.Fatal(f)
	}
	out := l.Cover(m, t0.Add(12*time.Second), nil)
	if len(out) != 2 || out[0].Verdict != Late || out[1].Verdict != Late {
		t.Fatalf("%+v", out)
	}
	if l.Waiting() != 0 {
		t.Errorf("%d wait", l.Waiting())
	}
}

// TestChain: replay, equivocation, a gap, a broken link, another instance.
func TestChain(t *testing.T) {
	l, c := NewLedger(Options{}), &Chain{Instance: [16]byte{1}}
	m1, h1 := signed(t, c, "a")
	fork := *c // the agent's second history
	m2, h2 := signed(t, c, "b")
	m3, h3 := signed(t, c, "c")
	m4, h4 := signed(t, c, "d")
	for i, s := range []struct {
		m    *Manifest
		h    [32]byte
		want Fault
	}{{m1, h1, ""}, {m1, h1, Replayed}, {m2, h2, ""}, {m1, h1, Replayed}, {m4, h4, Gap}, {m3, h3, Replayed}} {
		if f := l.Check(s.m, s.h); f != s.want {
			t.Errorf("step %d: %q, expected %q", i, f, s.want)
		}
	}
	e, eh := signed(t, &fork, "other b")
	if f := l.Check(e, eh); f != Equivocal {
		t.Errorf("a second number 2: %q", f)
	}
	broken := manifest("e")
	broken.Instance, broken.Number, broken.Previous = c.Instance, 5, hash("not the head of 4")
	bh, _ := broken.Head()
	if f := l.Check(broken, bh); f != Unlinked {
		t.Errorf("number 5 after another 4: %q", f)
	}
	m5, h5 := signed(t, c, "e")
	if f := l.Check(m5, h5); f != "" {
		t.Errorf("the true number 5: %q", f)
	}
	// A watcher that comes later begins where it is, and knows the link.
	late := NewLedger(Options{})
	if f := late.Check(m4, h4); f != "" {
		t.Errorf("the first that is seen: %q", f)
	}
	if f := late.Check(m3, h3); f != "" && f != Replayed {
		t.Errorf("older: %q", f)
	}
	if f := late.Check(m5, h5); f != "" {
		t.Errorf("the next: %q", f)
	}
	other := &Chain{Instance: [16]byte{2}}
	o1, oh := signed(t, other, "a")
	if f := l.Check(o1, oh); f != "" {
		t.Errorf("another instance: %q", f)
	}
	if f := l.Check(&Manifest{Number: 9}, hash("")); f != NoSessions {
		t.Errorf("an empty one: %q", f)
	}
}

// TestBounds: nothing grows for ever.
func TestBounds(t *testing.T) {
	l := NewLedger(Options{Deadline: time.Second, Sessions: 100})
	for i := range 150 {
		o := l.Saw(&Session{Binder: hash(string(rune(i + 1))), Seen: t0})
		if full := o != nil && o.Verdict == Full; full != (i >= 100) {
			t.Fatalf("session %d: %+v", i, o)
		}
	}
	if o := l.Saw(&Session{Binder: hash(string(rune(1))), Seen: t0}); o == nil || o.Verdict != Repeated {
		t.Errorf("%+v", o)
	}
	c := &Chain{}
	for i := range 3 * maxHeads {
		m, h := signed(t, c, string(rune(10_000+i)))
		if f := l.Check(m, h); f != "" {
			t.Fatal(f)
		}
		l.Cover(m, t0.Add(time.Duration(i)*10*time.Millisecond), nil)
		l.Expire(t0.Add(time.Duration(i) * 10 * time.Millisecond))
	}
	if len(l.known) > 150 || len(l.recent) > 150 || len(l.chains[c.Instance].heads) > maxHeads || len(l.waiting)+len(l.late)+len(l.lates) != 0 {
		t.Errorf("known %d recent %d heads %d waiting %d late %d", len(l.known), len(l.recent), len(l.chains[c.Instance].heads), len(l.waiting), len(l.late))
	}
	for i := range 3 * maxInstances {
		m, h := signed(t, &Chain{Instance: [16]byte{byte(i), 7}}, "x")
		l.Check(m, h)
	}
	if len(l.chains) > maxInstances {
		t.Errorf("%d chains", len(l.chains))
	}
}
