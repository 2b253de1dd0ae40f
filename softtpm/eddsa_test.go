// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
	"testing"

	"github.com/cloudflare/circl/sign/ed448"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func edTemplate(c tpm2.Curve, s tpm2.Alg, a tpm2.ObjectAttributes) tpm2.Public {
	return onCurve(eccTemplate(a, tpm2.Scheme{Alg: s}), c)
}

// edVerifies asks an implementation of EdDSA that the engine does not use for
// it: crypto/ed25519 and circl.
func edVerifies(pub *tpm2.Public, message, sig []byte) bool {
	ph := pub.Parms.Scheme.Alg == tpm2.AlgHashEdDSA
	if pub.Parms.Curve == tpm2.Curve448 {
		if ph {
			return ed448.VerifyPh(ed448.PublicKey(pub.Point.X), message, sig, "")
		}
		return ed448.Verify(ed448.PublicKey(pub.Point.X), message, sig, "")
	}
	if ph {
		d := sha512.Sum512(message)
		return ed25519.VerifyWithOptions(pub.Point.X, d[:], sig, &ed25519.Options{Hash: crypto.SHA512}) == nil
	}
	return ed25519.Verify(pub.Point.X, message, sig)
}

// Requests of the commands that sign and verify.
func signStart(h tpm2.Handle, context string) request {
	return request{cc: tpm2.CCSignSequenceStart, handles: []tpm2.Handle{h}, params: sized("", context)}
}

func signComplete(seq, key tpm2.Handle, last string) request {
	return request{cc: tpm2.CCSignSequenceComplete, handles: []tpm2.Handle{seq, key}, auth: []string{"", ""}, params: sized(last)}
}

func verifyStart(h tpm2.Handle, hint, context string) request {
	return request{cc: tpm2.CCVerifySequenceStart, handles: []tpm2.Handle{h}, params: sized("", hint, context)}
}

func verifyComplete(seq, key tpm2.Handle, s tpm2.Signature) request {
	return request{cc: tpm2.CCVerifySequenceComplete, handles: []tpm2.Handle{seq, key}, auth: noAuth, params: func(w *tpm2.Writer) { s.Marshal(w) }}
}

func seqUpdate(seq tpm2.Handle, data string) request {
	return request{cc: tpm2.CCSequenceUpdate, handles: []tpm2.Handle{seq}, auth: noAuth, params: sized(data)}
}

func digestSign(h tpm2.Handle, context string, d []byte, k tpm2.Ticket) request {
	return by(tpm2.CCSignDigest, h, func(w *tpm2.Writer) { w.Sized([]byte(context)); w.Sized(d); k.Marshal(w) })
}

func digestVerify(h tpm2.Handle, d []byte, s tpm2.Signature) request {
	return request{cc: tpm2.CCVerifyDigestSignature, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) { w.Sized(nil); w.Sized(d); s.Marshal(w) }}
}

func readSig(t testing.TB, r *tpm2.Reader) (s tpm2.Signature) {
	t.Helper()
	s.Unmarshal(r)
	r.End()
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	s.R, s.S, s.Sig = bytes.Clone(s.R), bytes.Clone(s.S), bytes.Clone(s.Sig)
	return s
}

func started(t testing.TB, p *TPM, q request) tpm2.Handle {
	t.Helper()
	rc, h := q.handle(t, p)
	if rc != 0 {
		t.Fatalf("%v: %v", q.cc, rc)
	}
	return h
}

// TestEdDSA: keys of both curves and both forms sign and verify by the commands
// that version 185 has for them (Part 3, table 115), and by no others.
func TestEdDSA(t *testing.T) {
	for _, curve := range []tpm2.Curve{tpm2.Curve25519, tpm2.Curve448} {
		for _, alg := range []tpm2.Alg{tpm2.AlgEdDSA, tpm2.AlgHashEdDSA} {
			t.Run(fmt.Sprint(curve, alg), func(t *testing.T) { testEdDSA(t, curve, alg) })
		}
	}
}

func testEdDSA(t *testing.T, curve tpm2.Curve, alg tpm2.Alg) {
	n := map[tpm2.Curve]int{tpm2.Curve25519: 32, tpm2.Curve448: 57}[curve]
	p := newTPM(t, Options{Objects: 24})
	key := createPrimaryKey(t, p, tpm2.RHOwner, edTemplate(curve, alg, attrsSign))
	if len(key.pub.Point.X) != n || len(key.pub.Point.Y) != 0 {
		t.Fatalf("public key %+v", key.pub.Point)
	}
	message := string(bytes.Repeat([]byte("message "), 100))

	// Signing: the message of the pure form comes whole with the last command.
	seq := started(t, p, signStart(key.h, ""))
	first := message
	if alg == tpm2.AlgEdDSA {
		seqUpdate(seq, "m").refused(t, p, "one pass", tpm2.RCOneShotSignature.Handle(1))
	} else {
		seqUpdate(seq, message[:300]).ok(t, p)
		first = message[300:]
	}
	ctx := save(t, p, seq) // also through a saved context
	flush(t, p, seq)
	seq = started(t, p, loadRequest(ctx))
	sig := readSig(t, signComplete(seq, key.h, first).ok(t, p))
	if sig.Alg != alg || len(sig.Sig) != 2*n || !edVerifies(&key.pub, []byte(message), sig.Sig) {
		t.Errorf("signature %+v does not verify outside of the TPM", sig)
	}
	signStart(key.h, "c").refused(t, p, "context", tpm2.RCValue.Parameter(2))

	// Verifying, in pieces.
	hint := ""
	if alg == tpm2.AlgEdDSA {
		hint = string(sig.Sig[:n])
		verifyStart(key.h, hint[1:], "").refused(t, p, "short hint", tpm2.RCSize.Parameter(2))
		verifyStart(key.h, "", "").refused(t, p, "no hint", tpm2.RCSize.Parameter(2))
	} else {
		verifyStart(key.h, string(sig.Sig[:n]), "").refused(t, p, "hint", tpm2.RCValue.Parameter(2))
	}
	verifyStart(key.h, hint, "c").refused(t, p, "context", tpm2.RCValue.Parameter(3))
	check := func(message, hint string, s tpm2.Signature, want tpm2.RC) *tpm2.Reader {
		t.Helper()
		seq := started(t, p, verifyStart(key.h, hint, ""))
		seqUpdate(seq, message[:5]).ok(t, p)
		ctx := save(t, p, seq)
		flush(t, p, seq)
		seq = started(t, p, loadRequest(ctx))
		seqUpdate(seq, message[5:]).ok(t, p)
		if want != 0 {
			verifyComplete(seq, key.h, s).refused(t, p, "verification", want)
			flush(t, p, seq)
			return nil
		}
		return verifyComplete(seq, key.h, s).ok(t, p)
	}
	r := check(message, hint, sig, 0)
	if got := r.Rest(); !bytes.HasPrefix(got, unhex(t, "8026 40000001 0040")) {
		t.Errorf("ticket %x", got)
	}
	check("M"+message[1:], hint, sig, tpm2.RCSignature.Parameter(1))
	for _, at := range []int{0, n, 2*n - 2} {
		bad := sig
		bad.Sig = bytes.Clone(sig.Sig)
		bad.Sig[at] ^= 1
		check(message, hint, bad, tpm2.RCSignature.Parameter(1))
	}
	short := sig
	short.Sig = sig.Sig[:2*n-1]
	check(message, hint, short, tpm2.RCSignature.Parameter(1))
	if alg == tpm2.AlgEdDSA { // a hint of another signature
		second := readSig(t, signComplete(started(t, p, signStart(key.h, "")), key.h, "another").ok(t, p))
		check(message, string(second.Sig[:n]), sig, tpm2.RCSignature.Parameter(1))
	}
	otherAlg := sig
	otherAlg.Alg = tpm2.AlgEdDSA + tpm2.AlgHashEdDSA - alg
	check(message, hint, otherAlg, tpm2.RCScheme.Parameter(1))

	// Digests.
	digest := tpmcrypto.EdPrehash(uint16(curve), []byte(message))
	if alg == tpm2.AlgEdDSA {
		digestSign(key.h, "", digest, noTicket).refused(t, p, "a message, not a digest", tpm2.RCScheme.Handle(1))
		digestVerify(key.h, digest, sig).refused(t, p, "a message, not a digest", tpm2.RCScheme.Parameter(3))
	} else {
		s := readSig(t, digestSign(key.h, "", digest, noTicket).ok(t, p))
		if !bytes.Equal(s.Sig, sig.Sig) { // EdDSA has no randomness
			t.Error("the digest's signature is not the message's")
		}
		digestSign(key.h, "", digest[:63], noTicket).refused(t, p, "short", tpm2.RCSize.Parameter(2))
		digestSign(key.h, "c", digest, noTicket).refused(t, p, "context", tpm2.RCValue.Parameter(1))
		// The ticket's metadata is the hash that belongs to the curve.
		want := map[tpm2.Curve]string{tpm2.Curve25519: "8027 40000001 000D 0040", tpm2.Curve448: "8027 40000001 002E 0040"}[curve]
		if got := digestVerify(key.h, digest, s).ok(t, p).Rest(); !bytes.HasPrefix(got, unhex(t, want)) {
			t.Errorf("ticket %x", got)
		}
		bad := bytes.Clone(digest)
		bad[9] ^= 1
		digestVerify(key.h, bad, s).refused(t, p, "another digest", tpm2.RCSignature.Parameter(3))
		digestVerify(key.h, digest[1:], s).refused(t, p, "short", tpm2.RCSize.Parameter(2))
	}
	by(tpm2.CCSign, key.h, func(w *tpm2.Writer) { w.Sized(digest); tpm2.NoScheme.Marshal(w); noTicket.Marshal(w) }).refused(t, p, "Sign", tpm2.RCScheme.Parameter(2))
	by(tpm2.CCSign, key.h, func(w *tpm2.Writer) {
		w.Sized(digest)
		ecdsa256.Marshal(w)
		noTicket.Marshal(w)
	}).refused(t, p, "another scheme", tpm2.RCScheme.Parameter(2))
	request{cc: tpm2.CCVerifySignature, handles: []tpm2.Handle{key.h}, params: func(w *tpm2.Writer) { w.Sized(digest); sig.Marshal(w) }}.refused(t, p, "VerifySignature", tpm2.RCScheme.Parameter(2))
	request{cc: tpm2.CCECDHKeyGen, handles: []tpm2.Handle{key.h}}.refused(t, p, "no key exchange", tpm2.RCKey.Handle(1))

	testEdAK(t, p, curve, alg)
	testEdPolicies(t, p, key, sig)
}

// testEdAK: a restricted key attests; it signs no statement of others (Part 3, 20.6, 20.7).
func testEdAK(t *testing.T, p *TPM, curve tpm2.Curve, alg tpm2.Alg) {
	ak := createPrimaryKey(t, p, tpm2.RHEndorsement, edTemplate(curve, alg, attrsAK))
	for _, cc := range []tpm2.CC{tpm2.CCQuote, tpm2.CCCertify, tpm2.CCGetTime} {
		r := attestation(cc, ak.h, ak.h, tpm2.NoScheme).ok(t, p)
		msg := bytes.Clone(r.Sized(4096))
		sig := readSig(t, r)
		if sig.Alg != alg || !edVerifies(&ak.pub, msg, sig.Sig) {
			t.Errorf("%v: the signature does not verify outside of the TPM", cc)
		}
		var a tpm2.Attest
		if err := tpm2.Decode(msg, &a); err != nil {
			t.Fatal(err)
		}
		if cc == tpm2.CCQuote && len(a.Quote.PCRDigest) != 32 { // of the nameAlg (Errata 2.6)
			t.Errorf("pcrDigest of %d octets", len(a.Quote.PCRDigest))
		}
	}
	attestation(tpm2.CCQuote, ak.h, ak.h, ecdsa256).refused(t, p, "another scheme", tpm2.RCScheme.Parameter(2))
	generated := "\xffTCG and more"
	signComplete(started(t, p, signStart(ak.h, "")), ak.h, generated).refused(t, p, "looks like a statement", tpm2.RCValue.Parameter(1))
	signComplete(started(t, p, signStart(ak.h, "")), ak.h, "a request").ok(t, p)
	if alg == tpm2.AlgEdDSA {
		return
	}
	digest := tpmcrypto.EdPrehash(uint16(curve), []byte("hashed here"))
	digestSign(ak.h, "", digest, noTicket).refused(t, p, "no ticket", tpm2.RCTicket.Parameter(3))
	if curve == tpm2.Curve448 {
		return // TPM2_Hash has no SHAKE256, so that there is no such ticket
	}
	r := request{cc: tpm2.CCHash, params: func(w *tpm2.Writer) {
		w.Sized([]byte("hashed here"))
		w.Alg(tpm2.AlgSHA512)
		w.Handle(tpm2.RHOwner)
	}}.ok(t, p)
	r.Sized(64)
	var ticket tpm2.Ticket
	ticket.UnmarshalTicket(r, tpm2.STHashcheck)
	ticket.HMAC = bytes.Clone(ticket.HMAC)
	digestSign(ak.h, "", digest, ticket).ok(t, p)
}

// testEdPolicies: PolicySigned, and PolicyAuthorize with each ticket of a
// verification.
func testEdPolicies(t *testing.T, p *TPM, key made, sig tpm2.Signature) {
	o := p.state.object(key.h)
	curve := uint16(key.pub.Parms.Curve)
	sign := func(msg string) tpm2.Signature {
		k, err := o.edPrivate()
		if err != nil {
			t.Fatal(err)
		}
		s := tpm2.Signature{Alg: sig.Alg}
		if sig.Alg == tpm2.AlgEdDSA {
			s.Sig, err = k.Sign([]byte(msg))
		} else {
			s.Sig, err = k.SignPrehashed(tpmcrypto.EdPrehash(curve, []byte(msg)))
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	signed := func(ref string, s tpm2.Signature) request {
		return request{cc: tpm2.CCPolicySigned, handles: []tpm2.Handle{key.h, h}, params: func(w *tpm2.Writer) {
			sized("", "", ref)(w)
			w.U32(0)
			s.Marshal(w)
		}}
	}
	good := sign(be32(0) + "ref")
	signed("rex", good).refused(t, p, "ref", tpm2.RCSignature.Parameter(5))
	wrong := good
	wrong.Alg = tpm2.AlgEdDSA + tpm2.AlgHashEdDSA - good.Alg
	signed("ref", wrong).refused(t, p, "the other form", tpm2.RCScheme.Parameter(5))
	signed("ref", good).ok(t, p)
	if want := sha(sha(zero32, be32(0x160), string(key.name)), "ref"); digestOf(t, p, h) != want {
		t.Errorf("digest %x, want %x", digestOf(t, p, h), want)
	}
	ecc := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, tpm2.NoScheme))
	request{cc: tpm2.CCPolicySigned, handles: []tpm2.Handle{ecc.h, h}, params: func(w *tpm2.Writer) {
		sized("", "", "ref")(w)
		w.U32(0)
		good.Marshal(w)
	}}.refused(t, p, "a key of another curve without a scheme", tpm2.RCScheme.Parameter(5))

	approved := newPolicy(t, p, tpm2.AlgSHA256, false)
	policy := digestOf(t, p, approved)
	s := sign(policy + "ref")
	hint := ""
	if s.Alg == tpm2.AlgEdDSA {
		hint = string(s.Sig[:len(s.Sig)/2])
	}
	seq := started(t, p, verifyStart(key.h, hint, ""))
	seqUpdate(seq, policy+"ref").ok(t, p)
	replies := map[string]*tpm2.Reader{"message": tpm2.NewReader(bytes.Clone(verifyComplete(seq, key.h, s).ok(t, p).Rest()))}
	if s.Alg == tpm2.AlgHashEdDSA {
		replies["digest"] = tpm2.NewReader(bytes.Clone(digestVerify(key.h, tpmcrypto.EdPrehash(curve, []byte(policy+"ref")), s).ok(t, p).Rest()))
	}
	for name, r := range replies {
		var ticket tpm2.Ticket
		ticket.UnmarshalVerified(r)
		h := newPolicy(t, p, tpm2.AlgSHA256, false)
		q := func(ref string) request {
			return on(tpm2.CCPolicyAuthorize, h, func(w *tpm2.Writer) { sized(policy, ref, string(key.name))(w); ticket.Marshal(w) })
		}
		q("rex").refused(t, p, name+": ref", tpm2.RCValue.Parameter(4))
		q("ref").ok(t, p)
	}
}

// TestEdTemplates: which keys there are on Curve25519 and Curve448 (Part 2,
// 12.2.3.5).
func TestEdTemplates(t *testing.T) {
	p := newTPM(t, Options{Objects: 24})
	create := func(pub tpm2.Public) request {
		return request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate("", "", pub)}
	}
	scheme := tpm2.RCScheme.Parameter(2)
	ecdh := tpm2.Scheme{Alg: tpm2.AlgECDH, Hash: tpm2.AlgSHA256}
	for _, c := range []tpm2.Curve{tpm2.Curve25519, tpm2.Curve448} {
		for _, s := range []tpm2.Scheme{tpm2.NoScheme, ecdsa256, ecdh, {Alg: tpm2.AlgECDAA, Hash: tpm2.AlgSHA256}, {Alg: tpm2.AlgECSchnorr, Hash: tpm2.AlgSHA256}, {Alg: tpm2.AlgSM2, Hash: tpm2.AlgSHA256}} {
			create(onCurve(eccTemplate(attrsSign, s), c)).refused(t, p, fmt.Sprint("signs by ", s.Alg), scheme)
		}
		for _, s := range []tpm2.Scheme{tpm2.NoScheme, {Alg: tpm2.AlgEdDSA}, {Alg: tpm2.AlgECMQV, Hash: tpm2.AlgSHA256}, {Alg: tpm2.AlgSM2, Hash: tpm2.AlgSHA256}} {
			create(onCurve(eccTemplate(attrsDecrypt, s), c)).refused(t, p, fmt.Sprint("decrypts by ", s.Alg), scheme)
		}
		for _, s := range []tpm2.Scheme{tpm2.NoScheme, {Alg: tpm2.AlgEdDSA}, ecdh} {
			create(onCurve(eccTemplate(attrsSign|tpm2.ObjectDecrypt, s), c)).refused(t, p, fmt.Sprint("both by ", s.Alg), scheme)
		}
		create(onCurve(eccTemplate(attrsParent, ecdh), c)).refused(t, p, "a storage key with a scheme", scheme)
		withKDF := edTemplate(c, tpm2.AlgEdDSA, attrsSign)
		withKDF.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgHKDF, Hash: tpm2.AlgSHA256}
		create(withKDF).refused(t, p, "a signing key with a KDF", tpm2.RCKDF.Parameter(2))
		create(onCurve(eccTemplate(attrsParent, tpm2.NoScheme), c)).ok(t, p)
		create(onCurve(eccTemplate(attrsDecrypt, ecdh), c)).ok(t, p)
		test := func(c tpm2.Curve, s tpm2.Scheme) request {
			return request{cc: tpm2.CCTestParms, params: func(w *tpm2.Writer) {
				w.Alg(tpm2.AlgECC)
				m := tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: s, Curve: c, KDF: tpm2.NoScheme}
				m.Marshal(w, tpm2.AlgECC)
			}}
		}
		test(c, tpm2.Scheme{Alg: tpm2.AlgEdDSA}).ok(t, p)
		test(c, ecdh).ok(t, p)
		test(c, ecdsa256).refused(t, p, "TestParms", tpm2.RCScheme.Parameter(1))
		test(tpm2.CurveP256, tpm2.Scheme{Alg: tpm2.AlgEdDSA}).refused(t, p, "TestParms", tpm2.RCScheme.Parameter(1))
	}
	create(edTemplate(tpm2.CurveP256, tpm2.AlgEdDSA, attrsSign)).refused(t, p, "EdDSA on P-256", scheme)
	create(edTemplate(tpm2.CurveP521, tpm2.AlgHashEdDSA, attrsSign)).refused(t, p, "HashEdDSA on P-521", scheme)
}

// TestEdExternal: the private keys of RFC 8032, 7.1 and 7.4, from outside make
// the signatures of the RFC; what does not fit is refused.
func TestEdExternal(t *testing.T) {
	const (
		seed25519 = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"
		pub25519  = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
		sig25519  = "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
		seed448   = "c4eab05d357007c632f3dbb48489924d552b08fe0c353a0d4a1f00acda2c463afbea67c5e8d2877c5e3bc397a659949ef8021e954e0a12274e"
		pub448    = "43ba28f430cdff456ae531545f7ecd0ac834a55d9358c0372bfa0c6c6798c0866aea01eb00742802b8438ea4cb82169c235160627b4c3a9480"
		sig448    = "26b8f91727bd62897af15e41eb43c377efb9c610d48f2335cb0bd0087810f4352541b143c4b981b7e18f62de8ccdf633fc1bf037ab7cd779805e0dbcc0aae1cbcee1afb2e027df36bc04dcecbf154336c19f0af7e0a6472905e799f1953d2a0ff3348ab21aa4adafd1d234441cf807c03a00"
	)
	p := newTPM(t, Options{Objects: 24})
	for _, v := range []struct {
		curve                   tpm2.Curve
		seed, pub, message, sig string
	}{{tpm2.Curve25519, seed25519, pub25519, "af82", sig25519}, {tpm2.Curve448, seed448, pub448, "03", sig448}} {
		pub := edTemplate(v.curve, tpm2.AlgEdDSA, tpm2.ObjectUserWithAuth|tpm2.ObjectSignEncrypt)
		pub.Point.X = unhex(t, v.pub)
		sens := tpm2.Sensitive{Type: tpm2.AlgECC, Value: unhex(t, v.seed)}
		rc, h := externalRequest(&sens, pub, tpm2.RHNull).handle(t, p)
		if rc != 0 {
			t.Fatalf("%v: %v", v.curve, rc)
		}
		sig := readSig(t, signComplete(started(t, p, signStart(h, "")), h, string(unhex(t, v.message))).ok(t, p))
		if !bytes.Equal(sig.Sig, unhex(t, v.sig)) {
			t.Errorf("%v: signature %x", v.curve, sig.Sig)
		}
		other := sens
		other.Value = bytes.Clone(sens.Value)
		other.Value[3] ^= 1
		externalRequest(&other, pub, tpm2.RHNull).refused(t, p, "another private key", tpm2.RCBinding.Parameter(2))
		other.Value = sens.Value[1:]
		externalRequest(&other, pub, tpm2.RHNull).refused(t, p, "a short private key", tpm2.RCKeySize.Parameter(1))
		for name, x := range map[string][]byte{
			"the neutral point": append([]byte{1}, make([]byte, len(pub.Point.X)-1)...),
			"short":             pub.Point.X[1:], "nothing": nil,
			"not canonical": bytes.Repeat([]byte{0xFF}, len(pub.Point.X)),
		} {
			bad := clonePublic(pub)
			bad.Point.X = x
			externalRequest(nil, bad, tpm2.RHOwner).refused(t, p, name, tpm2.RCECCPoint.Parameter(2))
		}
		bad := clonePublic(pub)
		bad.Point.Y = bytes.Clone(pub.Point.X)
		externalRequest(nil, bad, tpm2.RHOwner).refused(t, p, "a y-coordinate", tpm2.RCECCPoint.Parameter(2))
		// Below a parent, and back.
		srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
		r := request{cc: tpm2.CCCreate, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: writeCreate("", "", edTemplate(v.curve, tpm2.AlgHashEdDSA, attrsSign))}.ok(t, p)
		private := bytes.Clone(r.Sized(999))
		var made tpm2.Public
		if err := tpm2.DecodeSized(bytes.Clone(r.Bytes(2+int(peek16(r)))), &made); err != nil {
			t.Fatal(err)
		}
		loadObject(srk.h, private, made).ok(t, p)
	}
}

// TestEdGolden: the template and the commands of EdDSA as bytes typed from Part
// 2 (tables 199, 200, 215, 218, 221, 228) and Part 3. The key is 80000000, a
// sequence 80000001; the signature is that of RFC 8032, 7.1, test 3.
func TestEdGolden(t *testing.T) {
	p := newTPM(t, Options{})
	const (
		private   = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"
		public    = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
		r         = "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
		s         = "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
		sensitive = "0023 0000 0000 0020" + private
		// ecc, sha256, sign and userWithAuth, no policy; symmetric null, scheme eddsa
		// without details, curve 25519, kdf null; x of 32 octets, y empty.
		area     = "0023 000B 00040040 0000  0010 0060 0040 0010  0020" + public + " 0000"
		password = "00000009 40000009 0000 00 0000"
	)
	send := func(what, command, want string) {
		t.Helper()
		if rsp := mustRun(t, p, command); !bytes.HasPrefix(rsp, unhex(t, want)) {
			t.Errorf("%s: %x, want %s", what, rsp, want)
		}
	}
	send("LoadExternal", "8001 00000070 00000167  0028"+sensitive+" 0036"+area+" 40000007", "80000000")
	send("SignSequenceStart", "8001 00000012 000001AA 80000000 0000 0000", "80000001")
	send("SignSequenceComplete", "8002 0000002C 000001A4 80000001 80000000 00000012 40000009 0000 00 0000 40000009 0000 00 0000 0002 af82", "00000044 0060 0040"+r+s)
	// Authorization value, hint of 32 octets, context.
	send("VerifySequenceStart", "8001 00000034 000001A9 80000000 0000 0020"+r+" 0000", "80000001")
	send("SequenceUpdate", "8002 0000001F 0000015C 80000001"+password+"0002 af82", "00000000")
	// The ticket of a key of the null hierarchy has no HMAC.
	send("VerifySequenceComplete", "8002 00000063 000001A3 80000001 80000000"+password+"0060 0040"+r+s, "00000008 8026 40000007 0000")
}
