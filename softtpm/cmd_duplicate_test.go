// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"testing"

	"holdfast/tpm2"
)

// underPolicy runs a command whose first handle is authorized by a policy
// session; a second authorization has an empty password.
func underPolicy(t testing.TB, p *TPM, cc tpm2.CC, session tpm2.Handle, auths int, handles []tpm2.Handle, params func(w *tpm2.Writer)) (tpm2.RC, *tpm2.Reader) {
	t.Helper()
	var w tpm2.Writer
	tpm2.Header{Tag: tpm2.STSessions, Code: uint32(cc)}.Marshal(&w)
	for _, h := range handles {
		w.Handle(h)
	}
	at := w.Len()
	w.U32(0)
	(&tpm2.AuthCommand{Handle: session, Attributes: tpm2.SessionContinue}).Marshal(&w)
	for range auths - 1 {
		(&tpm2.AuthCommand{Handle: tpm2.RSPW}).Marshal(&w)
	}
	w.PutU32(at, uint32(w.Len()-at-4))
	if params != nil {
		params(&w)
	}
	w.PutU32(2, uint32(w.Len()))
	rsp := p.Execute(0, w.Bytes())
	rc := rcOf(t, rsp)
	seen.record(cc, rc)
	r := tpm2.NewReader(rsp[tpm2.HeaderSize:])
	if rc == 0 {
		r = tpm2.NewReader(r.Bytes(int(r.U32())))
	}
	return rc, r
}

func parents(t testing.TB, p *TPM) map[string]made {
	t.Helper()
	rsa := tpm2.Public{Type: tpm2.AlgRSA, NameAlg: tpm2.AlgSHA256, Attributes: attrsParent,
		Parms: tpm2.Parms{Symmetric: aes(128), Scheme: tpm2.Scheme{Alg: tpm2.AlgNull}, KeyBits: 2048}}
	ecc := tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: attrsParent,
		Parms: tpm2.Parms{Symmetric: aes(128), Scheme: tpm2.Scheme{Alg: tpm2.AlgNull}, Curve: tpm2.CurveP256, KDF: tpm2.Scheme{Alg: tpm2.AlgNull}}}
	return map[string]made{
		"RSA":    createPrimaryKey(t, p, tpm2.RHOwner, rsa),
		"ECC":    createPrimaryKey(t, p, tpm2.RHOwner, ecc),
		"ML-KEM": createPrimaryKey(t, p, tpm2.RHOwner, mlkemTemplate(tpm2.MLKEM768, true)),
	}
}

// movable is an HMAC key that PolicyCommandCode(Duplicate) may duplicate.
func movable(a tpm2.ObjectAttributes) *object {
	pd := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	pd.CommandCode(tpm2.CCDuplicate)
	o := hmacKeyObject("a key that moves", tpm2.Scheme{Alg: tpm2.AlgHMAC, Hash: tpm2.AlgSHA256}, tpm2.ObjectSignEncrypt|a)
	o.pub.AuthPolicy = pd.Sum()
	o.sens.Auth = []byte("pw")
	o.sens.Seed = []byte(zero32)
	o.pub.Unique = tpm2.AlgSHA256.Sum(o.sens.Seed, o.sens.Value)
	return o
}

func TestDuplicateAndImport(t *testing.T) {
	p := newTPM(t, Options{Objects: 10})
	session := func() tpm2.Handle {
		for i := range p.state.volatile.sessions {
			p.state.volatile.sessions[i] = nil
		}
		h := newPolicy(t, p, tpm2.AlgSHA256, false)
		on(tpm2.CCPolicyCommandCode, h, u32(uint32(tpm2.CCDuplicate))).ok(t, p)
		return h
	}
	none, inner := tpm2.SymDef{Alg: tpm2.AlgNull}, aes(128)
	dup := func(o, parent tpm2.Handle, key string, sym tpm2.SymDef) (tpm2.RC, [3]string) {
		rc, r := underPolicy(t, p, tpm2.CCDuplicate, session(), 1, []tpm2.Handle{o, parent}, func(w *tpm2.Writer) { w.Sized([]byte(key)); sym.Marshal(w) })
		return rc, [3]string{string(r.Sized(99)), string(r.Sized(2000)), string(r.Sized(2000))}
	}
	o := movable(0)
	h := addKey(t, p, o)
	all := parents(t, p)
	imp := func(parent tpm2.Handle, key string, pub tpm2.Public, blob, seed string, sym tpm2.SymDef) request {
		return request{cc: tpm2.CCImport, handles: []tpm2.Handle{parent}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized([]byte(key))
			m := w.Begin()
			pub.Marshal(w)
			w.End(m)
			sized(blob, seed)(w)
			sym.Marshal(w)
		}}
	}
	check := func(what string, parent made, private []byte) {
		t.Helper()
		rc, r := request{cc: tpm2.CCLoad, handles: []tpm2.Handle{parent.h}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized(private)
			m := w.Begin()
			o.pub.Marshal(w)
			w.End(m)
		}}.send(t, p)
		if rc != 0 {
			t.Errorf("%s: Load: %v", what, rc)
			return
		}
		n := r.Handle()
		got := seqRequest(tpm2.CCHMAC, n, "pw", func(w *tpm2.Writer) { w.Sized([]byte("abc")); w.Alg(tpm2.AlgNull) }).ok(t, p).Sized(64)
		if !bytes.Equal(got, mac("a key that moves", "abc")) {
			t.Errorf("%s: another key", what)
		}
		flush(t, p, n)
	}
	for name, parent := range all {
		for what, c := range map[string]struct {
			key string
			sym tpm2.SymDef
		}{"plain": {"", none}, "own key": {"sixteen octets!!", inner}, "made key": {"", inner}} {
			rc, d := dup(h, parent.h, c.key, c.sym)
			if rc != 0 {
				t.Fatalf("%s %s: Duplicate: %v", name, what, rc)
			}
			key := c.key
			if what == "made key" {
				key = d[0]
			} else if d[0] != "" {
				t.Errorf("%s %s: encryptionKeyOut %x", name, what, d[0])
			}
			q := imp(parent.h, key, o.pub, d[1], d[2], c.sym)
			check(name+" "+what, parent, q.ok(t, p).Sized(2000))
			// Anything changed: no import.
			flipped := []byte(d[1])
			flipped[len(flipped)-1] ^= 1
			imp(parent.h, key, o.pub, string(flipped), d[2], c.sym).refused(t, p, "blob", tpm2.RCIntegrity.Parameter(3))
			other := o.pub
			other.Attributes |= tpm2.ObjectAdminWithPolicy
			imp(parent.h, key, other, d[1], d[2], c.sym).refused(t, p, "public area", tpm2.RCIntegrity.Parameter(3))
			imp(parent.h, key+"x", o.pub, d[1], d[2], c.sym).refused(t, p, "key size", tpm2.RCSize.Parameter(1))
			if c.sym.Alg != tpm2.AlgNull {
				imp(parent.h, "another 16 octet", o.pub, d[1], d[2], c.sym).refused(t, p, "inner key", tpm2.RCIntegrity.Parameter(3))
			}
		}
	}
	// To no parent: the sensitive area in the clear, then imported so.
	rc, d := dup(h, tpm2.RHNull, "", none)
	if rc != 0 || d[2] != "" || !bytes.Contains([]byte(d[1]), []byte("a key that moves")) {
		t.Errorf("to the null parent: %v %x", rc, d)
	}
	ecc := all["ECC"]
	check("from the null parent", ecc, imp(ecc.h, "", o.pub, d[1], "", none).ok(t, p).Sized(2000))
	fixed := o.pub
	fixed.Attributes |= tpm2.ObjectFixedParent
	imp(ecc.h, "", fixed, d[1], "", none).refused(t, p, "fixedParent", tpm2.RCAttributes.Parameter(2))
	imp(h, "", o.pub, d[1], "", none).with("pw").refused(t, p, "no parent", tpm2.RCType.Handle(1))
	// Rewrap: from one parent to another, the inner wrapper stays.
	rc, d = dup(h, all["RSA"].h, "sixteen octets!!", inner)
	if rc != 0 {
		t.Fatal(rc)
	}
	rw := func(from, to tpm2.Handle, blob, name, seed string) request {
		return request{cc: tpm2.CCRewrap, handles: []tpm2.Handle{from, to}, auth: noAuth, params: sized(blob, name, seed)}
	}
	r := rw(all["RSA"].h, all["ML-KEM"].h, d[1], string(o.name), d[2]).ok(t, p)
	blob, seed := string(r.Sized(2000)), string(r.Sized(2000))
	check("rewrapped", all["ML-KEM"], imp(all["ML-KEM"].h, "sixteen octets!!", o.pub, blob, seed, inner).ok(t, p).Sized(2000))
	rw(all["RSA"].h, all["ECC"].h, d[1], string(o.name), "").refused(t, p, "no seed", tpm2.RCHandle.Handle(1))
	rw(tpm2.RHNull, all["ECC"].h, d[1], string(o.name), d[2]).refused(t, p, "seed without parent", tpm2.RCHandle.Handle(1))
	rw(all["RSA"].h, all["ECC"].h, d[1], "another name", d[2]).refused(t, p, "name", tpm2.RCIntegrity.Parameter(1))
	rw(all["ECC"].h, all["RSA"].h, d[1], string(o.name), d[2]).refused(t, p, "another parent", tpm2.RCValue.Parameter(3))
	rw(all["RSA"].h, h, d[1], string(o.name), d[2]).refused(t, p, "no parent", tpm2.RCType.Handle(2))
	// What Duplicate refuses.
	stay := addKey(t, p, movable(tpm2.ObjectFixedParent))
	enc := addKey(t, p, movable(tpm2.ObjectEncryptedDuplication))
	for name, c := range map[string]struct {
		o, parent tpm2.Handle
		key       string
		sym       tpm2.SymDef
		want      tpm2.RC
	}{
		"fixedParent":             {stay, ecc.h, "", none, tpm2.RCAttributes.Handle(1)},
		"to no parent":            {h, h, "", none, tpm2.RCType.Handle(2)},
		"key without cipher":      {h, ecc.h, "k", none, tpm2.RCSize.Parameter(1)},
		"short key":               {h, ecc.h, "k", inner, tpm2.RCSize.Parameter(1)},
		"must have inner wrapper": {enc, ecc.h, "", none, tpm2.RCSymmetric.Parameter(2)},
		"must have outer wrapper": {enc, tpm2.RHNull, "", inner, tpm2.RCHierarchy.Handle(2)},
	} {
		if rc, _ := dup(c.o, c.parent, c.key, c.sym); rc != c.want {
			t.Errorf("%s: %v, want %v", name, rc, c.want)
		}
	}
	request{cc: tpm2.CCDuplicate, handles: []tpm2.Handle{h, ecc.h}, auth: []string{"pw"}, params: func(w *tpm2.Writer) { w.Sized(nil); none.Marshal(w) }}.refused(t, p, "password", tpm2.RCAuthType)
}
