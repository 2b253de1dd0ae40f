// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"testing"

	"holdfast/tpm2"
)

// steps runs a sequence made by hand and checks that both TPMs answer each
// step with the same code, the one that want has for its number (success
// where it has none).
func steps(t *testing.T, p *pair, want map[int]tpm2.RC, sequence ...*step) {
	t.Helper()
	if err := p.begin(); err != nil {
		t.Fatal(err)
	}
	for i, s := range sequence {
		s.id = i + 1
		d, err := p.both(sequence[:i+1])
		if err != nil {
			t.Fatal(err)
		}
		if d != nil {
			t.Fatalf("%v", d)
		}
		if got := p.ours.results[s.id].rc; got != want[i+1] {
			t.Fatalf("%v: both answer %#x (%v), want %#x", s, uint32(got), code(got), uint32(want[i+1]))
		}
	}
}

// external makes the step that loads a key from outside, of good form.
func external(k kind) *step {
	for seed := int64(0); ; seed++ {
		g := newGen(seed)
		sens, area := g.external(k, false)
		var s tpm2.Sensitive
		var pub tpm2.Public
		if tpm2.Decode(area, &pub) != nil || tpm2.Decode(sens, &s) != nil || pub.NameAlg != tpm2.AlgSHA256 || len(pub.AuthPolicy) != 0 ||
			pub.Attributes != k.attributes()|tpm2.ObjectNoDA || pub.Parms.Scheme.Alg != tpm2.AlgNull || pub.Parms.KDF.Alg != tpm2.AlgNull && k == eccDecrypt ||
			pub.Parms.Symmetric.Alg != tpm2.AlgNull || pub.Parms.Exponent != 0 || k == rsaDecrypt && pub.Parms.KeyBits != 2048 ||
			k == eccDecrypt && pub.Parms.Curve != tpm2.CurveP256 || len(s.Auth) != 0 {
			continue
		}
		return (&step{cc: tpm2.CCLoadExternal}).add(sized(sens), sized(area)).raw(func(w *tpm2.Writer) { w.Handle(tpm2.RHNull) })
	}
}

// open makes a StartAuthSession of an HMAC session with AES.
func open(key, bind handle, salt, encrypted []byte, bindAuth string) *step {
	s := &step{cc: tpm2.CCStartAuthSession, handles: []handle{key, bind}, salt: salt, bindAuth: bindAuth}
	s.add(sized(make([]byte, 16)), sized(encrypted))
	return s.raw(func(w *tpm2.Writer) {
		w.U8(uint8(tpm2.SEHMAC))
		tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: tpm2.AlgCFB}.Marshal(w)
		w.Alg(tpm2.AlgSHA256)
	})
}

// TestSessionsAlike: sessions salted by both kinds of keys and bound to
// hierarchies, with and without their authValues, and what they encrypt.
func TestSessionsAlike(t *testing.T) {
	p := newPair(t)
	null, owner := fixed(tpm2.RHNull), fixed(tpm2.RHOwner)
	all := tpm2.SessionContinue | tpm2.SessionDecrypt
	change := func(session int, old, value string, bad bool) *step {
		return &step{cc: tpm2.CCHierarchyChangeAuth, handles: []handle{owner}, auth: []auth{{session: session, attrs: all, value: old, bad: bad}},
			params: []param{sized([]byte(value))}}
	}
	for _, k := range []kind{rsaDecrypt, eccDecrypt} {
		o := object{kind: k, nameAlg: tpm2.AlgSHA256, oaep: tpm2.AlgNull}
		salt, encrypted := o.salt()
		bad := tpm2.RCBadAuth.Session(1)
		steps(t, p, map[int]tpm2.RC{3: bad, 6: bad, 8: bad},
			external(k),
			open(from(1), null, salt, encrypted, ""),
			change(2, "", "x", true),      // a spoilt HMAC
			change(2, "", "first", false), // salted
			open(from(1), owner, salt, encrypted, "first"),
			change(5, "other", "x", false), // bound, and a wrong authValue
			change(5, "first", "second", false),
			change(2, "first", "x", false), // the value is another by now
			change(2, "second", "third", false),
		)
	}
}

// TestReadLocked: an NV index that is locked for reading, until the next start.
func TestReadLocked(t *testing.T) {
	p := newPair(t)
	index, owner := fixed(0x01500001), fixed(tpm2.RHOwner)
	password := []auth{{attrs: tpm2.SessionContinue}}
	define := (&step{cc: tpm2.CCNVDefineSpace, handles: []handle{owner}, auth: password}).add(sized(nil)).raw(func(w *tpm2.Writer) {
		m := w.Begin()
		w.Handle(0x01500001)
		w.Alg(tpm2.AlgSHA256)
		w.U32(uint32(tpm2.NVAuthRead | tpm2.NVAuthWrite | tpm2.NVReadStClear | tpm2.NVNoDA))
		w.Sized(nil)
		w.U16(8)
		w.End(m)
	})
	on := func(cc tpm2.CC, f func(w *tpm2.Writer)) *step {
		s := &step{cc: cc, handles: []handle{index, index}, auth: password}
		if f != nil {
			s.raw(f)
		}
		return s
	}
	read := func() *step { return on(tpm2.CCNVRead, func(w *tpm2.Writer) { w.U16(8); w.U16(0) }) }
	certify := &step{cc: tpm2.CCNVCertify, handles: []handle{fixed(tpm2.RHNull), index, index}, auth: append(password, password...)}
	certify.raw(func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgNull); w.U16(8); w.U16(0) })
	again := *start
	steps(t, p, map[int]tpm2.RC{2: tpm2.RCNVUninitialized, 6: tpm2.RCNVLocked, 7: tpm2.RCNVLocked},
		define, read(),
		on(tpm2.CCNVWrite, func(w *tpm2.Writer) { w.Sized([]byte("contents")); w.U16(0) }),
		read(), on(tpm2.CCNVReadLock, nil), read(), certify,
		&step{cc: powerCycle}, &again, read())
}
