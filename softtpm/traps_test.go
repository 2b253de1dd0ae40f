// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/mlkem"
	"testing"

	"holdfast/tpm2"
)

// The traps of version 185 that other implementations fell into, each with a
// test of its own name. docs/specmap.md lists them.

// TestTrapEncapsulateOrder: the response of Encapsulate has the shared secret
// before the ciphertext (Part 3, table 61), unlike the C functions of FIPS 203.
func TestTrapEncapsulateOrder(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, mlkemTemplate(tpm2.MLKEM768, false))
	r := request{cc: tpm2.CCEncapsulate, handles: []tpm2.Handle{key.h}}.ok(t, p).Rest()
	if len(r) != 2+32+2+1088 || !bytes.Equal(r[:2], []byte{0, 32}) || !bytes.Equal(r[34:36], []byte{0x04, 0x40}) {
		t.Fatalf("%d octets that begin %x", len(r), r[:2])
	}
	k := p.state.object(key.h)
	priv, err := mlkem.NewDecapsulationKey768(k.sens.Value)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := priv.Decapsulate(r[36:]); err != nil || !bytes.Equal(want, r[2:34]) {
		t.Errorf("what comes first is not the secret of what comes second (%v)", err)
	}
}

// templateBytes is CreatePrimary with a public area as bytes.
func templateBytes(b []byte) request {
	return request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: func(w *tpm2.Writer) {
		m := w.Begin()
		(&tpm2.SensitiveCreate{}).Marshal(w)
		w.End(m)
		w.Sized(b)
		w.Sized(nil)
		w.U32(0)
	}}
}

// TestTrapAllowExternalMu: TPMS_MLDSA_PARMS ends in a YES_NO octet (Part 2,
// 12.2.3.6). Without it the public area is one octet short.
func TestTrapAllowExternalMu(t *testing.T) {
	p := newTPM(t, Options{})
	// type, nameAlg, attributes, no policy; ML-DSA-44; allowExternalMu; no unique.
	const head = "00A1 000B 00040072 0000  0001"
	templateBytes(unhex(t, head+"00 0000")).ok(t, p)
	templateBytes(unhex(t, head+"01 0000")).ok(t, p)
	templateBytes(unhex(t, head+"0000")).refused(t, p, "octet left out", tpm2.RCInsufficient.Parameter(2))
	templateBytes(unhex(t, head+"02 0000")).refused(t, p, "neither NO nor YES", tpm2.RCValue.Parameter(2))
}

// TestTrapSymmetricFirst: TPMS_MLKEM_PARMS has the symmetric algorithm before
// the parameter set (Part 2, 12.2.3.8).
func TestTrapSymmetricFirst(t *testing.T) {
	p := newTPM(t, Options{})
	templateBytes(unhex(t, "00A0 000B 00020072 0000  0010 0001 0000")).ok(t, p)
	templateBytes(unhex(t, "00A0 000B 00030072 0000  0006 0080 0043 0002 0000")).ok(t, p)
	templateBytes(unhex(t, "00A0 000B 00020072 0000  0001 0010 0000")).refused(t, p, "set first", tpm2.RCSymmetric.Parameter(2))
}

// TestTrapTicketMetadata: TPMT_TK_VERIFIED has metadata between hierarchy and
// HMAC only with the tag DIGEST_VERIFIED: the hash of the digest (Part 2, 10.6.5).
func TestTrapTicketMetadata(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	digest := []byte(sha("message"))
	var sig tpm2.Signature
	sig.Unmarshal(by(tpm2.CCSignDigest, key.h, func(w *tpm2.Writer) { w.Sized(nil); w.Sized(digest); noTicket.Marshal(w) }).ok(t, p))
	ticket := func(cc tpm2.CC, context bool) []byte {
		return request{cc: cc, handles: []tpm2.Handle{key.h}, params: func(w *tpm2.Writer) {
			if context {
				w.Sized(nil)
			}
			w.Sized(digest)
			sig.Marshal(w)
		}}.ok(t, p).Rest()
	}
	if got := ticket(tpm2.CCVerifyDigestSignature, true); !bytes.HasPrefix(got, unhex(t, "8027 40000001 000B 0040")) || len(got) != 6+2+2+64 {
		t.Errorf("DIGEST_VERIFIED: %x", got)
	}
	if got := ticket(tpm2.CCVerifySignature, false); !bytes.HasPrefix(got, unhex(t, "8022 40000001 0040")) || len(got) != 6+2+64 {
		t.Errorf("VERIFIED: %x", got)
	}
}

// TestTrapPasswordResponse: the session area of a response to a password has no
// nonce, continueSession set whatever the command said, and no HMAC (Part 1, 16.4).
func TestTrapPasswordResponse(t *testing.T) {
	p := newTPM(t, Options{})
	createPrimaryKey(t, p, tpm2.RHOwner, mlkemTemplate(tpm2.MLKEM512, false))
	ct := make([]byte, 768)
	for _, attrs := range []string{"00", "01"} {
		cmd := "8002 0000031D 000001A8 80000000 00000009 40000009 0000" + attrs + "0000 0300"
		rsp := p.Execute(0, append(unhex(t, cmd), ct...))
		if want := unhex(t, "0000 01 0000"); len(rsp) != 10+4+2+32+5 || !bytes.Equal(rsp[len(rsp)-5:], want) {
			t.Errorf("attributes %s: %d octets that end %x, want %x", attrs, len(rsp), rsp[max(0, len(rsp)-5):], want)
		}
	}
}

// TestTrapNoHashInScheme: an ML-DSA attestation key has no scheme with a hash:
// TPMT_SIG_SCHEME is two octets, the signature has no hash, and digests inside
// are by the key's nameAlg (Errata 2.3, 2.6 and 2.7).
func TestTrapNoHashInScheme(t *testing.T) {
	p := newTPM(t, Options{})
	template := mldsaTemplate(tpm2.MLDSA65, attrsAK, false)
	template.NameAlg = tpm2.AlgSHA384
	ak := createPrimaryKey(t, p, tpm2.RHEndorsement, template)
	for _, scheme := range []string{"0010", "00A1"} {
		r := by(tpm2.CCQuote, ak.h, func(w *tpm2.Writer) {
			w.Sized(nil)
			w.Raw(unhex(t, scheme))
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0)})
		}).ok(t, p)
		quoted := r.Sized(4096)
		var a tpm2.Attest
		if err := tpm2.Decode(quoted, &a); err != nil {
			t.Fatal(err)
		}
		if want := tpm2.AlgSHA384.Sum(make([]byte, 32)); !bytes.Equal(a.Quote.PCRDigest, want) {
			t.Errorf("pcrDigest %x, want %x", a.Quote.PCRDigest, want)
		}
		if sig := r.Rest(); len(sig) != 4+3309 || !bytes.Equal(sig[:4], unhex(t, "00A1 0CED")) {
			t.Errorf("signature of %d octets begins %x", len(sig), sig[:4])
		}
	}
}

// TestTrapActivateMLKEM: ActivateCredential takes an ML-KEM ciphertext as it
// is, without a structure around it, and derives the seed with the label IDENTITY (Part 1, 47.4).
func TestTrapActivateMLKEM(t *testing.T) {
	for set := tpm2.MLKEM512; set <= tpm2.MLKEM1024; set++ {
		p := newTPM(t, Options{})
		ek := createPrimaryKey(t, p, tpm2.RHEndorsement, mlkemTemplate(set, true))
		ak := createPrimaryKey(t, p, tpm2.RHEndorsement, mldsaTemplate(tpm2.MLDSA44, attrsAK, false))
		r := request{cc: tpm2.CCMakeCredential, handles: []tpm2.Handle{ek.h}, params: func(w *tpm2.Writer) { w.Sized([]byte("credential")); w.Sized(ak.name) }}.ok(t, p)
		blob, secret := bytes.Clone(r.Sized(4096)), bytes.Clone(r.Sized(4096))
		if len(secret) != set.CiphertextSize() {
			t.Errorf("set %d: secret of %d octets, want %d", set, len(secret), set.CiphertextSize())
		}
		activate := func(secret []byte) request {
			return request{cc: tpm2.CCActivateCredential, handles: []tpm2.Handle{ak.h, ek.h}, auth: []string{"", ""}, params: func(w *tpm2.Writer) { w.Sized(blob); w.Sized(secret) }}
		}
		if got := activate(secret).ok(t, p).Sized(99); string(got) != "credential" {
			t.Errorf("set %d: %q", set, got)
		}
		wrapped := append([]byte{byte(len(secret) >> 8), byte(len(secret))}, secret...)
		if rc, _ := activate(wrapped).do(t, p); rc == 0 {
			t.Errorf("set %d: a ciphertext with a size before it is taken", set)
		}
	}
}

// TestTrapSequenceContext: the context given at SignSequenceStart is part of
// the message that ML-DSA signs (FIPS 204, algorithm 2), and absent is not the same as another.
func TestTrapSequenceContext(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA44, attrsSign, false))
	for _, context := range []string{"", "a context"} {
		rc, seq := request{cc: tpm2.CCSignSequenceStart, handles: []tpm2.Handle{key.h}, params: func(w *tpm2.Writer) { w.Sized(nil); w.Sized([]byte(context)) }}.handle(t, p)
		if rc != 0 {
			t.Fatal(rc)
		}
		var sig tpm2.Signature
		sig.Unmarshal(request{cc: tpm2.CCSignSequenceComplete, handles: []tpm2.Handle{seq, key.h}, auth: []string{"", ""}, params: sized("message")}.ok(t, p))
		for _, other := range []string{"", "a context", "another"} {
			if got := circlVerify(t, tpm2.MLDSA44, key.pub.Unique, []byte("message"), []byte(other), sig.Sig); got != (other == context) {
				t.Errorf("context %q verifies as %q: %v", context, other, got)
			}
		}
	}
}

// TestTrapSeeds: private keys are seeds wherever they leave or enter the TPM:
// 32 octets of ML-DSA, 64 of ML-KEM; expanded keys are refused (Part 2, 12.3.2.3).
func TestTrapSeeds(t *testing.T) {
	p := newTPM(t, Options{Objects: 16})
	for _, c := range []struct {
		template       tpm2.Public
		seed, expanded int
	}{
		{mldsaTemplate(tpm2.MLDSA44, attrsSign, false), 32, 2560}, {mldsaTemplate(tpm2.MLDSA87, attrsSign, false), 32, 4896},
		{hashMLDSATemplate(tpm2.MLDSA65, tpm2.AlgSHA256), 32, 4032},
		{mlkemTemplate(tpm2.MLKEM512, false), 64, 1632}, {mlkemTemplate(tpm2.MLKEM1024, false), 64, 3168},
	} {
		key := createPrimaryKey(t, p, tpm2.RHOwner, c.template)
		value := p.state.object(key.h).sens.Value
		if len(value) != c.seed {
			t.Errorf("%v: a private key of %d octets, want %d", c.template.Type, len(value), c.seed)
		}
		pub := clonePublic(key.pub)
		pub.Attributes &^= tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
		load := func(v []byte) request {
			return externalRequest(&tpm2.Sensitive{Type: pub.Type, Value: v}, pub, tpm2.RHNull)
		}
		rc, h := load(value).handle(t, p)
		if rc != 0 {
			t.Fatalf("%v: seed refused: %v", c.template.Type, rc)
		}
		flush(t, p, h)
		rc, _ = load(make([]byte, c.expanded)).do(t, p)
		if b := rc.Base(); b != tpm2.RCKeySize && b != tpm2.RCSize {
			t.Errorf("%v: expanded key: %v", c.template.Type, rc)
		}
		flush(t, p, key.h)
	}
}
