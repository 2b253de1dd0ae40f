// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"strings"
	"testing"

	"holdfast/tpm2"
)

// addKey puts an object into the TPM's state and returns its handle.
func addKey(t testing.TB, p *TPM, o *object) tpm2.Handle {
	t.Helper()
	if o.hierarchy == 0 {
		o.hierarchy = tpm2.RHOwner
	}
	if o.key == nil {
		o.key = &keyCache{}
	}
	if o.pub.Type != 0 {
		name, err := o.pub.Name()
		if err != nil {
			t.Fatal(err)
		}
		o.name = name
		o.qname = name
	}
	for i := range p.opt.Objects {
		if p.state.volatile.objects[i] == nil {
			p.state.volatile.objects[i] = o
			return tpm2.HandleTransientFirst + tpm2.Handle(i)
		}
	}
	t.Fatal("no object slot")
	return 0
}

func hmacKeyObject(key string, scheme tpm2.Scheme, a tpm2.ObjectAttributes) *object {
	return &object{
		pub: tpm2.Public{Type: tpm2.AlgKeyedHash, NameAlg: tpm2.AlgSHA256, Attributes: a | tpm2.ObjectUserWithAuth | tpm2.ObjectNoDA,
			Parms: tpm2.Parms{Scheme: scheme}, Unique: make([]byte, 32)},
		sens: tpm2.Sensitive{Type: tpm2.AlgKeyedHash, Value: []byte(key)},
	}
}

func mac(key, msg string) []byte {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(msg))
	return m.Sum(nil)
}

func TestHash(t *testing.T) {
	p := newTPM(t, Options{})
	q := func(data string, alg tpm2.Alg, h tpm2.Handle) request {
		return request{cc: tpm2.CCHash, params: func(w *tpm2.Writer) { w.Sized([]byte(data)); w.Alg(alg); w.Handle(h) }}
	}
	for _, c := range []struct {
		data   string
		h      tpm2.Handle
		ticket bool
	}{{"abc", tpm2.RHOwner, true}, {"abc", tpm2.RHNull, false}, {"\xffTCG structure", tpm2.RHOwner, false}, {"\xffTC", tpm2.RHOwner, true}, {"", tpm2.RHEndorsement, true}} {
		r := q(c.data, tpm2.AlgSHA256, c.h).ok(t, p)
		want := sha256.Sum256([]byte(c.data))
		digest := r.Sized(64)
		if !bytes.Equal(digest, want[:]) {
			t.Errorf("%q: %x", c.data, digest)
		}
		var tk tpm2.Ticket
		tk.UnmarshalTicket(r, tpm2.STHashcheck)
		if got := len(tk.HMAC) != 0; got != c.ticket || got != p.state.checkHashCheck(tk, tpm2.AlgSHA256, digest) || r.Len() != 0 {
			t.Errorf("%q: ticket %+v", c.data, tk)
		}
	}
	q("abc", tpm2.AlgNull, tpm2.RHOwner).refused(t, p, "null hash", tpm2.RCHash.Parameter(2))
	q("abc", tpm2.AlgSHAKE256_256, tpm2.RHOwner).refused(t, p, "SHAKE256", tpm2.RCHash.Parameter(2))
	q("abc", tpm2.AlgSHA256, tpm2.RHLockout).refused(t, p, "lockout", tpm2.RCValue.Parameter(3))
	q(strings.Repeat("x", tpm2.MaxBuffer+1), tpm2.AlgSHA256, tpm2.RHNull).refused(t, p, "long", tpm2.RCSize.Parameter(1))
}

func TestHMAC(t *testing.T) {
	p := newTPM(t, Options{})
	none, sha := tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.Scheme{Alg: tpm2.AlgHMAC, Hash: tpm2.AlgSHA256}
	open := addKey(t, p, hmacKeyObject("key", none, tpm2.ObjectSignEncrypt))
	fixed := addKey(t, p, hmacKeyObject("key", sha, tpm2.ObjectSignEncrypt))
	restricted := addKey(t, p, hmacKeyObject("key", sha, tpm2.ObjectSignEncrypt|tpm2.ObjectRestricted))
	data := addKey(t, p, hmacKeyObject("key", none, 0))
	q := func(h tpm2.Handle, alg tpm2.Alg) request {
		return request{cc: tpm2.CCHMAC, handles: []tpm2.Handle{h}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized([]byte("abc")); w.Alg(alg) }}
	}
	for _, c := range []struct {
		h   tpm2.Handle
		alg tpm2.Alg
	}{{open, tpm2.AlgSHA256}, {fixed, tpm2.AlgSHA256}, {fixed, tpm2.AlgNull}} {
		if got := q(c.h, c.alg).ok(t, p).Sized(64); !bytes.Equal(got, mac("key", "abc")) {
			t.Errorf("%v %v: %x", c.h, c.alg, got)
		}
	}
	q(open, tpm2.AlgNull).refused(t, p, "no hash", tpm2.RCValue.Parameter(2))
	q(fixed, tpm2.AlgSHA1).refused(t, p, "another hash", tpm2.RCValue.Parameter(2))
	q(restricted, tpm2.AlgNull).refused(t, p, "restricted", tpm2.RCAttributes.Handle(1))
	q(data, tpm2.AlgSHA256).refused(t, p, "sealed data", tpm2.RCKey.Handle(1))
	seq := startSeq(t, p, request{cc: tpm2.CCHashSequenceStart, params: func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgSHA256) }})
	q(seq, tpm2.AlgSHA256).refused(t, p, "sequence", tpm2.RCType.Handle(1))
	q(open, tpm2.AlgSHA256).with("wrong").refused(t, p, "password", tpm2.RCBadAuth.Session(1))
}

// startSeq runs a request that returns a handle.
func startSeq(t testing.TB, p *TPM, q request) tpm2.Handle {
	t.Helper()
	if q.auth == nil {
		return q.ok(t, p).Handle()
	}
	// With sessions the handle comes before the parameter size.
	rc, h := q.handle(t, p)
	if rc != 0 {
		t.Fatalf("%v: %v", q.cc, rc)
	}
	return h
}

func seqRequest(cc tpm2.CC, h tpm2.Handle, password string, params func(w *tpm2.Writer)) request {
	return request{cc: cc, handles: []tpm2.Handle{h}, auth: []string{password}, params: params}
}

func TestSequences(t *testing.T) {
	p := newTPM(t, Options{})
	start := request{cc: tpm2.CCHashSequenceStart, params: func(w *tpm2.Writer) { w.Sized([]byte("pw")); w.Alg(tpm2.AlgSHA512) }}
	complete := func(h tpm2.Handle, pw, data string) request {
		return seqRequest(tpm2.CCSequenceComplete, h, pw, func(w *tpm2.Writer) { w.Sized([]byte(data)); w.Handle(tpm2.RHOwner) })
	}
	h := startSeq(t, p, start)
	seqRequest(tpm2.CCSequenceUpdate, h, "wrong", sized("a")).refused(t, p, "password", tpm2.RCBadAuth.Session(1))
	seqRequest(tpm2.CCSequenceUpdate, h, "pw", sized("hello ")).ok(t, p)
	seqRequest(tpm2.CCSequenceUpdate, h, "pw", sized("wide ")).ok(t, p)
	r := complete(h, "pw", "world").ok(t, p)
	want := sha512.Sum512([]byte("hello wide world"))
	if got := r.Sized(64); !bytes.Equal(got, want[:]) {
		t.Errorf("%x", got)
	}
	var tk tpm2.Ticket
	tk.UnmarshalTicket(r, tpm2.STHashcheck)
	if !p.state.checkHashCheck(tk, tpm2.AlgSHA512, want[:]) {
		t.Errorf("ticket %+v", tk)
	}
	complete(h, "pw", "").refused(t, p, "gone", tpm2.RCReferenceH0)
	// Tickets: none if the message begins as a structure of a TPM, or if the
	// first block is too short to tell.
	for _, c := range []struct {
		first, last string
		ticket      bool
	}{{"\xffTCG", "x", false}, {"\xff", "TCGx", false}, {"", "\xffTCG", false}, {"", "abcd", true}, {"abcd", "", true}, {"ab", "", true}} {
		h := startSeq(t, p, start)
		if c.first != "" {
			seqRequest(tpm2.CCSequenceUpdate, h, "pw", sized(c.first)).ok(t, p)
		}
		r := complete(h, "pw", c.last).ok(t, p)
		want := sha512.Sum512([]byte(c.first + c.last))
		if got := r.Sized(64); !bytes.Equal(got, want[:]) {
			t.Errorf("%q %q: %x", c.first, c.last, got)
		}
		var tk tpm2.Ticket
		tk.UnmarshalTicket(r, tpm2.STHashcheck)
		if len(tk.HMAC) != 0 != c.ticket {
			t.Errorf("%q %q: ticket %v, want %v", c.first, c.last, len(tk.HMAC) != 0, c.ticket)
		}
	}
	key := addKey(t, p, hmacKeyObject("key", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt))
	seqRequest(tpm2.CCSequenceUpdate, key, "", sized("x")).refused(t, p, "no sequence", tpm2.RCMode.Handle(1))
	complete(key, "", "").refused(t, p, "no sequence", tpm2.RCMode.Handle(1))
	hm := startSeq(t, p, request{cc: tpm2.CCHMACStart, handles: []tpm2.Handle{key}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgSHA256) }})
	seqRequest(tpm2.CCSequenceUpdate, hm, "", sized("ab")).ok(t, p)
	r = complete(hm, "", "c").ok(t, p)
	if got := r.Sized(64); !bytes.Equal(got, mac("key", "abc")) {
		t.Errorf("HMAC %x", got)
	}
	tk.UnmarshalTicket(r, tpm2.STHashcheck)
	if len(tk.HMAC) != 0 {
		t.Error("a ticket for an HMAC")
	}
	start.params = func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgSHAKE256_256) }
	start.refused(t, p, "SHAKE256", tpm2.RCHash.Parameter(2))
	start.params = func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgSHA1) }
	for range p.opt.Objects - 1 { // the key has one slot
		startSeq(t, p, start)
	}
	start.refused(t, p, "slots", tpm2.RCObjectMemory)
}

func TestEventSequence(t *testing.T) {
	p := newTPM(t, Options{})
	event := request{cc: tpm2.CCHashSequenceStart, params: func(w *tpm2.Writer) { w.Sized([]byte("pw")); w.Alg(tpm2.AlgNull) }}
	h := startSeq(t, p, event)
	seqRequest(tpm2.CCSequenceUpdate, h, "pw", sized("ev")).ok(t, p)
	done := func(pcr, seq tpm2.Handle) request {
		return request{cc: tpm2.CCEventSequenceComplete, handles: []tpm2.Handle{pcr, seq}, auth: []string{"", "pw"}, params: sized("ent")}
	}
	seqRequest(tpm2.CCSequenceComplete, h, "pw", func(w *tpm2.Writer) { w.Sized(nil); w.Handle(tpm2.RHNull) }).refused(t, p, "event", tpm2.RCMode.Handle(1))
	done(20, h).refused(t, p, "locality", tpm2.RCLocality)
	l := tpm2.UnmarshalHAs(done(7, h).ok(t, p))
	d := sha256.Sum256([]byte("event"))
	if len(l) != numBanks || !bytes.Equal(l[1].Digest, d[:]) {
		t.Errorf("%v", l)
	}
	want := sha256.Sum256(append(make([]byte, 32), d[:]...))
	if _, _, v := readPCRs(t, p, tpm2.SelectPCRs(tpm2.AlgSHA256, 7)); !bytes.Equal(v[0], want[:]) {
		t.Errorf("PCR %x", v[0])
	}
	done(7, h).refused(t, p, "gone", tpm2.RCReferenceH0+1)
	plain := startSeq(t, p, request{cc: tpm2.CCHashSequenceStart, params: func(w *tpm2.Writer) { w.Sized([]byte("pw")); w.Alg(tpm2.AlgSHA256) }})
	done(7, plain).refused(t, p, "hash sequence", tpm2.RCMode.Handle(2))
}
