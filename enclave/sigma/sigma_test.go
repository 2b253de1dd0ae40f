// SPDX-License-Identifier: Apache-2.0

package sigma

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
)

// evidenceOf stands for evidence: it names the report data that it is over.
func evidenceOf(d [64]byte) ([]byte, error) { return append([]byte("evidence"), d[:]...), nil }

var errNotAccepted = errors.New("not acceptable")

func accept(e []byte, d [64]byte) error {
	if want, _ := evidenceOf(d); !bytes.Equal(e, want) {
		return errNotAccepted
	}
	return nil
}

func TestExchange(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(h [32]byte) ([]byte, error) { return ed25519.Sign(key, h[:]), nil }
	peer := func(h [32]byte, sig []byte) error {
		if !ed25519.Verify(pub, h[:], sig) {
			return errNotAccepted
		}
		return nil
	}
	seen := map[Keys]bool{}
	for _, known := range []bool{false, true} {
		v, first, err := NewVerifier()
		if err != nil {
			t.Fatal(err)
		}
		a, second, err := Respond(first, evidenceOf)
		if err != nil {
			t.Fatal(err)
		}
		s, p := sign, peer
		if !known {
			s, p = nil, nil
		}
		third, kv, err := v.Finish(second, accept, s)
		if err != nil {
			t.Fatal(err)
		}
		ka, err := a.Finish(third, p)
		if err != nil {
			t.Fatal(err)
		}
		if *ka != *kv || ka.ToAttester == ka.ToVerifier || *ka == (Keys{}) || seen[*ka] {
			t.Errorf("keys %x and %x", ka, kv)
		}
		seen[*ka] = true
		if _, _, err := v.Finish(second, accept, s); !errors.Is(err, ErrUsed) {
			t.Errorf("a second end: %v", err)
		}
		if _, err := a.Finish(third, p); !errors.Is(err, ErrUsed) {
			t.Errorf("a second end: %v", err)
		}
	}
	v, first, _ := NewVerifier()
	a, second, _ := Respond(first, evidenceOf)
	third, _, err := v.Finish(second, accept, nil)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := a.Finish(third, peer); k != nil || !errors.Is(err, ErrPeer) {
		t.Errorf("a nameless verifier: %v", err)
	}
}

// TestChanged: a change of any byte of any message ends the exchange.
func TestChanged(t *testing.T) {
	for at := 0; at < headerSize+nonceSize+shareV; at += 37 {
		v, first, err := NewVerifier()
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(first)
		changed[at] ^= 1
		_, second, err := Respond(changed, evidenceOf)
		if err != nil {
			continue
		}
		if _, k, err := v.Finish(second, accept, nil); err == nil || k != nil {
			t.Fatalf("byte %d of the first message was changed: %v", at, err)
		}
	}
	v, first, _ := NewVerifier()
	a, second, err := Respond(first, evidenceOf)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(second); at += 29 {
		changed := bytes.Clone(second)
		changed[at] ^= 1
		w := *v
		if _, k, err := w.Finish(changed, accept, nil); err == nil || k != nil {
			t.Fatalf("byte %d of the second message was changed", at)
		}
	}
	third, _, err := v.Finish(second, accept, nil)
	if err != nil {
		t.Fatal(err)
	}
	for at := range third {
		changed := bytes.Clone(third)
		changed[at] ^= 1
		b := *a
		s := *a.s
		b.s = &s
		if k, err := b.Finish(changed, nil); err == nil || k != nil {
			t.Fatalf("byte %d of the third message was changed", at)
		}
	}
}

// TestRelay: an adversary in the middle with a share of its own has no evidence
// over it, and evidence of the genuine attester does not fit.
func TestRelay(t *testing.T) {
	v, first, err := NewVerifier()
	if err != nil {
		t.Fatal(err)
	}
	_, genuine, err := Respond(first, evidenceOf)
	if err != nil {
		t.Fatal(err)
	}
	g, err := parse2(genuine)
	if err != nil {
		t.Fatal(err)
	}
	_, mine, err := Respond(first, func([64]byte) ([]byte, error) { return g.evidence, nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, k, err := v.Finish(mine, accept, nil); k != nil || !errors.Is(err, errNotAccepted) {
		t.Errorf("%v", err)
	}
	// Evidence of another exchange does not fit either.
	w, _, err := NewVerifier()
	if err != nil {
		t.Fatal(err)
	}
	if _, k, err := w.Finish(genuine, accept, nil); k != nil || !errors.Is(err, ErrMAC) {
		t.Errorf("replayed: %v", err)
	}
}

func TestLowOrder(t *testing.T) {
	_, first, err := NewVerifier()
	if err != nil {
		t.Fatal(err)
	}
	clear(first[len(first)-xSize:])
	if _, _, err := Respond(first, evidenceOf); !errors.Is(err, ErrMalformed) {
		t.Errorf("a share of low order: %v", err)
	}
}

func FuzzMessages(f *testing.F) {
	v, first, _ := NewVerifier()
	_, second, _ := Respond(first, evidenceOf)
	third, _, _ := v.Finish(second, accept, nil)
	f.Add(first)
	f.Add(second)
	f.Add(third)
	f.Fuzz(func(t *testing.T, b []byte) {
		m1, e1 := parse1(b)
		m2, e2 := parse2(b)
		m3, e3 := parse3(b)
		for i, x := range []struct {
			nil bool
			err error
			enc func() []byte
		}{{m1 == nil, e1, func() []byte { return m1.encode() }}, {m2 == nil, e2, func() []byte { return m2.encode() }}, {m3 == nil, e3, func() []byte { return m3.encode() }}} {
			if x.nil != (x.err != nil) {
				t.Fatalf("message %d: nil %v with error %v", i+1, x.nil, x.err)
			}
			if !x.nil && !bytes.Equal(x.enc(), b) {
				t.Fatalf("message %d does not encode to the same bytes", i+1)
			}
			if x.err != nil && !errors.Is(x.err, ErrMalformed) {
				t.Fatal(x.err)
			}
		}
	})
}
