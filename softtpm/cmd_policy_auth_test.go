// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"testing"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func eccSigner() tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: attrsSign,
		Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA256}, Curve: tpm2.CurveP256, KDF: tpm2.NoScheme}}
}

// signFor signs a message with the private key of a loaded object, outside of
// any command.
func signFor(t testing.TB, p *TPM, h tpm2.Handle, msg string) tpm2.Signature {
	t.Helper()
	o := p.state.object(h)
	switch o.pub.Type {
	case tpm2.AlgMLDSA:
		k := must[*tpmcrypto.MLDSAPrivate](t)(o.mldsaPrivate())
		return tpm2.Signature{Alg: tpm2.AlgMLDSA, Sig: must[[]byte](t)(k.Sign(nil, []byte(msg)))}
	case tpm2.AlgECC:
		k := must[*tpmcrypto.ECPrivate](t)(o.ecPrivate())
		r, s, err := k.SignECDSA(tpmcrypto.SHA256.Sum([]byte(msg)))
		if err != nil {
			t.Fatal(err)
		}
		return tpm2.Signature{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA256, R: r, S: s}
	}
	t.Fatalf("type %v", o.pub.Type)
	return tpm2.Signature{}
}

func TestPolicySigned(t *testing.T) {
	for name, template := range map[string]tpm2.Public{"ECDSA": eccSigner(), "ML-DSA": mldsaTemplate(tpm2.MLDSA65, attrsSign, false)} {
		t.Run(name, func(t *testing.T) {
			p := newTPM(t, Options{})
			key := createPrimaryKey(t, p, tpm2.RHOwner, template)
			h := newPolicy(t, p, tpm2.AlgSHA256, false)
			nonce := string(p.state.session(h).nonce)
			cp := sha("cp")
			q := func(h tpm2.Handle, nonce, cp, ref string, expiration int32, sig tpm2.Signature) request {
				return request{cc: tpm2.CCPolicySigned, handles: []tpm2.Handle{key.h, h}, params: func(w *tpm2.Writer) {
					sized(nonce, cp, ref)(w)
					w.U32(uint32(expiration))
					sig.Marshal(w)
				}}
			}
			minus60 := be32(0xFFFFFFC4)
			sig := signFor(t, p, key.h, nonce+minus60+cp+"ref")
			q(h, nonce, cp, "rex", -60, sig).refused(t, p, "ref", tpm2.RCSignature.Parameter(5))
			q(h, "", cp, "ref", -60, sig).refused(t, p, "nonce left out", tpm2.RCSignature.Parameter(5))
			q(h, nonce, "", "ref", -60, sig).refused(t, p, "cpHash left out", tpm2.RCSignature.Parameter(5))
			q(h, nonce, cp, "ref", -61, sig).refused(t, p, "expiration", tpm2.RCSignature.Parameter(5))
			q(h, other(nonce), cp, "ref", -60, sig).refused(t, p, "nonce", tpm2.RCNonce.Parameter(1))
			r := q(h, nonce, cp, "ref", -60, sig).ok(t, p)
			timeout := string(r.Sized(8))
			var tk tpm2.Ticket
			tk.UnmarshalTicket(r, tpm2.STAuthSigned)
			want := sha(sha(zero32, be32(0x160), string(key.name)), "ref")
			if got := digestOf(t, p, h); got != want {
				t.Errorf("digest %x, want %x", got, want)
			}
			if string(p.state.session(h).policyAssert.cpHash) != cp || len(timeout) != 8 || tk.Hierarchy != tpm2.RHOwner {
				t.Errorf("cpHash, timeout %x, ticket %+v", timeout, tk)
			}
			other := newPolicy(t, p, tpm2.AlgSHA256, false)
			on(tpm2.CCPolicyTicket, other, func(w *tpm2.Writer) { sized(timeout, cp, "ref", string(key.name))(w); tk.Marshal(w) }).ok(t, p)
			if digestOf(t, p, other) != want {
				t.Error("the ticket does not do what the signature did")
			}
			trial := newPolicy(t, p, tpm2.AlgSHA256, true)
			r = q(trial, "", "", "ref", -60, tpm2.Signature{Alg: sig.Alg, Hash: sig.Hash, R: []byte{1}, S: []byte{1}, Sig: []byte{1}}).ok(t, p)
			if digestOf(t, p, trial) != want || len(r.Sized(8)) != 0 {
				t.Error("trial session")
			}
		})
	}
}

// PolicyAuthorize with each of the three kinds of tickets.
func TestPolicyAuthorize(t *testing.T) {
	p := newTPM(t, Options{})
	policy := sha(zero32, be32(0x16B)) // PolicyAuthValue
	msg := policy + "ref"
	ready := func() tpm2.Handle {
		for i := range p.state.volatile.sessions {
			p.state.volatile.sessions[i] = nil
		}
		h := newPolicy(t, p, tpm2.AlgSHA256, false)
		on(tpm2.CCPolicyAuthValue, h, nil).ok(t, p)
		return h
	}
	q := func(h tpm2.Handle, approved, ref, name string, tk tpm2.Ticket) request {
		return on(tpm2.CCPolicyAuthorize, h, func(w *tpm2.Writer) { sized(approved, ref, name)(w); tk.Marshal(w) })
	}
	try := func(what string, key made, tk tpm2.Ticket) {
		t.Helper()
		name := string(key.name)
		q(ready(), policy, "rex", name, tk).refused(t, p, what+": ref", tpm2.RCValue.Parameter(4))
		q(ready(), sha("x"), "ref", name, tk).refused(t, p, what+": policy", tpm2.RCValue.Parameter(1))
		flipped := tk
		flipped.HMAC = append([]byte{tk.HMAC[0] ^ 1}, tk.HMAC[1:]...)
		q(ready(), policy, "ref", name, flipped).refused(t, p, what+": ticket", tpm2.RCValue.Parameter(4))
		q(ready(), policy, "ref", name, tpm2.Ticket{Tag: tk.Tag, Hierarchy: tpm2.RHNull, Hash: tk.Hash}).refused(t, p, what+": null ticket", tpm2.RCValue.Parameter(4))
		h := ready()
		q(h, policy, "ref", name, tk).ok(t, p)
		if want := sha(sha(zero32, be32(0x16A), name), "ref"); digestOf(t, p, h) != want {
			t.Errorf("%s: digest", what)
		}
	}
	readTicket := func(r *tpm2.Reader) (tk tpm2.Ticket) {
		tk.UnmarshalVerified(r)
		if r.Code() != 0 || len(tk.HMAC) == 0 {
			t.Fatalf("ticket %+v: %v", tk, r.Code())
		}
		return tk
	}
	ecc := createPrimaryKey(t, p, tpm2.RHOwner, eccSigner())
	sig := signFor(t, p, ecc.h, msg)
	try("VerifySignature", ecc, readTicket(on(tpm2.CCVerifySignature, ecc.h, func(w *tpm2.Writer) { w.Sized([]byte(sha(msg))); sig.Marshal(w) }).ok(t, p)))
	try("VerifyDigestSignature", ecc, readTicket(on(tpm2.CCVerifyDigestSignature, ecc.h, func(w *tpm2.Writer) { sized("", sha(msg))(w); sig.Marshal(w) }).ok(t, p)))
	mldsa := createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA65, attrsSign, false))
	for _, key := range []made{ecc, mldsa} {
		sig := signFor(t, p, key.h, msg)
		rc, seq := on(tpm2.CCVerifySequenceStart, key.h, sized("", "", "")).handle(t, p)
		if rc != 0 {
			t.Fatal(rc)
		}
		seqRequest(tpm2.CCSequenceUpdate, seq, "", sized(msg[:10])).ok(t, p)
		// The sequence survives a saved context.
		ctx := save(t, p, seq)
		flush(t, p, seq)
		seq = startSeq(t, p, loadRequest(ctx))
		seqRequest(tpm2.CCSequenceUpdate, seq, "", sized(msg[10:])).ok(t, p)
		tk := readTicket(request{cc: tpm2.CCVerifySequenceComplete, handles: []tpm2.Handle{seq, key.h}, auth: noAuth, params: func(w *tpm2.Writer) { sig.Marshal(w) }}.ok(t, p))
		try("VerifySequenceComplete", key, tk)
	}
	null := tpm2.Ticket{Tag: tpm2.STVerified, Hierarchy: tpm2.RHNull}
	q(ready(), policy, "", "x", null).refused(t, p, "short name", tpm2.RCSize.Parameter(3))
	q(ready(), policy, "", "\x00\x10"+zero32, null).refused(t, p, "no hash", tpm2.RCHash.Parameter(3))
	q(ready(), policy, "", "\x00\x0b"+zero32[1:], null).refused(t, p, "name size", tpm2.RCSize.Parameter(3))
	trial := newPolicy(t, p, tpm2.AlgSHA256, true)
	q(trial, sha("x"), "", string(ecc.name), null).ok(t, p)
}
