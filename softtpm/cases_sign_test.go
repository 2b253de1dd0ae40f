// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"holdfast/tpm2"
)

// Errors of the commands that attest, sign and verify, one by one.

// attestation returns a request that attests with the key sign in the command's
// own form.
func attestation(cc tpm2.CC, sign, other tpm2.Handle, scheme tpm2.Scheme) request {
	q := request{cc: cc, handles: []tpm2.Handle{sign}, auth: noAuth}
	params := func(rest func(w *tpm2.Writer)) func(w *tpm2.Writer) {
		return func(w *tpm2.Writer) { w.Sized([]byte("qualifying")); scheme.Marshal(w); rest(w) }
	}
	q.params = params(func(w *tpm2.Writer) {})
	switch cc {
	case tpm2.CCCertify:
		q.handles, q.auth = []tpm2.Handle{other, sign}, []string{"", ""}
	case tpm2.CCGetTime, tpm2.CCGetCommandAuditDigest:
		q.handles, q.auth = []tpm2.Handle{tpm2.RHEndorsement, sign}, []string{"", ""}
	case tpm2.CCGetSessionAuditDigest:
		q.handles, q.auth = []tpm2.Handle{tpm2.RHEndorsement, sign, other}, []string{"", ""}
	case tpm2.CCNVCertify:
		q.handles, q.auth = []tpm2.Handle{sign, tpm2.RHOwner, other}, []string{"", ""}
		q.params = params(func(w *tpm2.Writer) { w.U16(4); w.U16(0) })
	case tpm2.CCQuote:
		q.params = params(func(w *tpm2.Writer) { tpm2.MarshalPCRSelections(w, nil) })
	}
	return q
}

// verifiesAttest reads TPM2B_ATTEST and TPMT_SIGNATURE, checks the signature
// with crypto/ecdsa's twin in tpmcrypto, and returns the attestation.
func verifiesAttest(t testing.TB, p *TPM, key tpm2.Handle, r *tpm2.Reader) tpm2.Attest {
	t.Helper()
	msg := bytes.Clone(r.Sized(4096))
	var sig tpm2.Signature
	sig.Unmarshal(r)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if rc := verifyMessage(p.state.object(key), &sig, msg); rc != 0 {
		t.Errorf("signature: %v", rc)
	}
	var a tpm2.Attest
	if err := tpm2.Decode(msg, &a); err != nil {
		t.Fatal(err)
	}
	if string(a.ExtraData) != "qualifying" {
		t.Errorf("qualifying data %q", a.ExtraData)
	}
	return a
}

// TestAttestations: each command that attests, with an ECDSA and an ML-DSA key,
// and its errors (Part 3, 18 and 31.16).
func TestAttestations(t *testing.T) {
	p := newTPM(t, Options{Objects: 16})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	x509 := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign|tpm2.ObjectX509Sign, ecdsa256))
	noHash := mldsaTemplate(tpm2.MLDSA44, attrsAK, false)
	define(tpm2.RHOwner, "", nvPublic(testIndex, tpm2.NVOwnerRead|tpm2.NVOwnerWrite|tpm2.NVAuthRead|tpm2.NVReadStClear, 8)).ok(t, p)
	define(tpm2.RHOwner, "", nvPublic(otherIndex, tpm2.NVAuthRead|tpm2.NVAuthWrite, 8)).ok(t, p)
	attestation(tpm2.CCNVCertify, tpm2.RHNull, testIndex, tpm2.NoScheme).refused(t, p, "not written", tpm2.RCNVUninitialized)
	write(tpm2.RHOwner, testIndex, "contents", 0).ok(t, p)
	audit := tpm2.HandleHMACFirst + 60
	p.state.volatile.sessions[60] = &session{handle: audit, hash: tpm2.AlgSHA256, nonce: make([]byte, 16), sym: tpm2.NoSym, audit: true, auditDigest: make([]byte, 32)}
	plain := tpm2.HandleHMACFirst + 61
	p.state.volatile.sessions[61] = &session{handle: plain, hash: tpm2.AlgSHA256, nonce: make([]byte, 16), sym: tpm2.NoSym}
	for _, template := range []tpm2.Public{eccTemplate(attrsAK, ecdsa256), noHash} {
		ak := createPrimaryKey(t, p, tpm2.RHOwner, template)
		for cc, other := range map[tpm2.CC]tpm2.Handle{
			tpm2.CCCertify: srk.h, tpm2.CCQuote: 0, tpm2.CCGetTime: 0, tpm2.CCGetCommandAuditDigest: 0, tpm2.CCGetSessionAuditDigest: audit, tpm2.CCNVCertify: testIndex,
		} {
			a := verifiesAttest(t, p, ak.h, attestation(cc, ak.h, other, tpm2.NoScheme).ok(t, p))
			at := 1 // number of the signing handle
			switch cc {
			case tpm2.CCCertify:
				at = 2
				if a.Type != tpm2.STAttestCertify || !bytes.Equal(a.Certify.Name, srk.name) {
					t.Errorf("Certify: %+v", a)
				}
			case tpm2.CCGetTime:
				at = 2
				if a.Type != tpm2.STAttestTime {
					t.Errorf("GetTime: %+v", a)
				}
			case tpm2.CCGetCommandAuditDigest:
				at = 2
				if a.Type != tpm2.STAttestCommandAudit || a.CommandAudit.DigestAlg != tpm2.AlgSHA256 {
					t.Errorf("command audit: %+v", a)
				}
			case tpm2.CCGetSessionAuditDigest:
				at = 2
				if a.Type != tpm2.STAttestSessionAudit || len(a.SessionAudit.SessionDigest) != 32 {
					t.Errorf("session audit: %+v", a)
				}
			case tpm2.CCNVCertify:
				if a.Type != tpm2.STAttestNV || string(a.NV.Contents) != "cont" {
					t.Errorf("NV_Certify: %+v", a)
				}
			}
			attestation(cc, srk.h, other, tpm2.NoScheme).refused(t, p, "storage key", tpm2.RCKey.Handle(at))
			// The attribute limits TPM2_Sign and its like only (Part 2, 8.3.3.15).
			attestation(cc, x509.h, other, tpm2.NoScheme).ok(t, p)
			attestation(cc, ak.h, other, tpm2.Scheme{Alg: tpm2.AlgRSAPSS, Hash: tpm2.AlgSHA256}).refused(t, p, "scheme", tpm2.RCScheme.Parameter(2))
		}
		p.state.volatile.objects[ak.h-tpm2.HandleTransientFirst] = nil
	}
	attestation(tpm2.CCGetSessionAuditDigest, tpm2.RHNull, plain, tpm2.NoScheme).refused(t, p, "no audit session", tpm2.RCType.Handle(3))
	nv := func(size, offset uint16) request {
		q := attestation(tpm2.CCNVCertify, tpm2.RHNull, testIndex, tpm2.NoScheme)
		q.params = func(w *tpm2.Writer) { w.Sized(nil); tpm2.NoScheme.Marshal(w); w.U16(size); w.U16(offset) }
		return q
	}
	nv(5, 4).refused(t, p, "beyond the end", tpm2.RCNVRange)
	nv(1025, 0).refused(t, p, "more than the buffer", tpm2.RCValue.Parameter(3))
	attestation(tpm2.CCNVCertify, tpm2.RHNull, otherIndex, tpm2.NoScheme).refused(t, p, "owner may not read", tpm2.RCNVAuthorization)
	onNV(tpm2.CCNVReadLock, tpm2.RHOwner, testIndex, nil).ok(t, p)
	nv(4, 0).refused(t, p, "locked", tpm2.RCNVLocked)
}

// TestCertifyCreation with the ticket of CreatePrimary (Part 3, 18.3).
func TestCertifyCreation(t *testing.T) {
	p := newTPM(t, Options{Objects: 16})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	ak := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsAK, ecdsa256))
	_, r := request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate("", "", eccTemplate(attrsSign, ecdsa256))}.send(t, p)
	h := r.Handle()
	r.U32()
	r.Sized(4096) // public
	r.Sized(4096) // creation data
	hash := bytes.Clone(r.Sized(64))
	var ticket tpm2.Ticket
	ticket.UnmarshalTicket(r, tpm2.STCreation)
	ticket.HMAC = bytes.Clone(ticket.HMAC)
	q := func(sign tpm2.Handle, hash []byte, s tpm2.Scheme) request {
		return request{cc: tpm2.CCCertifyCreation, handles: []tpm2.Handle{sign, h}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized([]byte("qualifying"))
			w.Sized(hash)
			s.Marshal(w)
			ticket.Marshal(w)
		}}
	}
	a := verifiesAttest(t, p, ak.h, q(ak.h, hash, tpm2.NoScheme).ok(t, p))
	if a.Type != tpm2.STAttestCreation || !bytes.Equal(a.Creation.CreationHash, hash) {
		t.Errorf("%+v", a)
	}
	q(srk.h, hash, tpm2.NoScheme).refused(t, p, "storage key", tpm2.RCKey.Handle(1))
	q(ak.h, hash, tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA512}).refused(t, p, "scheme", tpm2.RCScheme.Parameter(3))
	q(ak.h, hash[1:], tpm2.NoScheme).refused(t, p, "another hash", tpm2.RCTicket.Parameter(4))
}

// TestSigningErrors: Sign, SignDigest, the sequences and their verifying
// counterparts (Part 3, 17.5, 17.6 and 20).
func TestSigningErrors(t *testing.T) {
	p := newTPM(t, Options{Objects: 24})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	sk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	ak := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsAK, ecdsa256))
	open := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, tpm2.NoScheme))
	x509 := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign|tpm2.ObjectX509Sign, ecdsa256))
	ml := createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA44, attrsSign, true))
	hml := createPrimaryKey(t, p, tpm2.RHOwner, hashMLDSATemplate(tpm2.MLDSA44, tpm2.AlgSHA256))
	mac := addKey(t, p, hmacKeyObject("key", tpm2.Scheme{Alg: tpm2.AlgHMAC, Hash: tpm2.AlgSHA256}, tpm2.ObjectSignEncrypt))
	d := sha256.Sum256([]byte("message"))

	sign := func(h tpm2.Handle, d []byte, s tpm2.Scheme) request {
		return request{cc: tpm2.CCSign, handles: []tpm2.Handle{h}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized(d); s.Marshal(w); noTicket.Marshal(w) }}
	}
	sign(x509.h, d[:], tpm2.NoScheme).refused(t, p, "key for certificates", tpm2.RCAttributes.Handle(1))
	// Version 185, table 115: neither command is for ML-DSA keys of any kind.
	mu := make([]byte, 64)
	sign(ml.h, mu, tpm2.NoScheme).refused(t, p, "ML-DSA", tpm2.RCScheme.Parameter(2))
	sign(ml.h, mu, tpm2.Scheme{Alg: tpm2.AlgMLDSA}).refused(t, p, "ML-DSA", tpm2.RCScheme.Parameter(2))
	sign(hml.h, d[:], tpm2.NoScheme).refused(t, p, "HashML-DSA", tpm2.RCScheme.Parameter(2))

	signDigest := func(h tpm2.Handle, context string, d []byte, k tpm2.Ticket) request {
		return request{cc: tpm2.CCSignDigest, handles: []tpm2.Handle{h}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized([]byte(context)); w.Sized(d); k.Marshal(w) }}
	}
	signature := func(r *tpm2.Reader) (s tpm2.Signature) {
		s.Unmarshal(r)
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
		s.R, s.S, s.Sig = bytes.Clone(s.R), bytes.Clone(s.S), bytes.Clone(s.Sig)
		return s
	}
	ecSig := signature(signDigest(sk.h, "", d[:], noTicket).ok(t, p))
	muSig := signature(signDigest(ml.h, "", mu, noTicket).ok(t, p))
	hashSig := signature(signDigest(hml.h, "ctx", d[:], noTicket).ok(t, p))
	signDigest(srk.h, "", d[:], noTicket).refused(t, p, "storage key", tpm2.RCKey.Handle(1))
	signDigest(open.h, "", d[:], noTicket).refused(t, p, "null scheme", tpm2.RCScheme.Handle(1))
	signDigest(mac, "", d[:], noTicket).refused(t, p, "HMAC key", tpm2.RCScheme.Handle(1))
	signDigest(x509.h, "", d[:], noTicket).refused(t, p, "key for certificates", tpm2.RCAttributes.Handle(1))
	signDigest(ak.h, "", d[:], noTicket).refused(t, p, "restricted, no ticket", tpm2.RCTicket.Parameter(3))
	signDigest(sk.h, "c", d[:], noTicket).refused(t, p, "context for ECDSA", tpm2.RCValue.Parameter(1))

	verify := func(h tpm2.Handle, d []byte, s tpm2.Signature) request {
		return request{cc: tpm2.CCVerifySignature, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) { w.Sized(d); s.Marshal(w) }}
	}
	verify(sk.h, d[:], ecSig).ok(t, p)
	verify(ml.h, mu, muSig).refused(t, p, "ML-DSA", tpm2.RCScheme.Parameter(2))
	verify(hml.h, d[:], hashSig).refused(t, p, "HashML-DSA", tpm2.RCScheme.Parameter(2))
	macPublic := hmacKeyObject("", tpm2.Scheme{Alg: tpm2.AlgHMAC, Hash: tpm2.AlgSHA256}, tpm2.ObjectSignEncrypt)
	macPublic.publicOnly = true
	verify(addKey(t, p, macPublic), d[:], tpm2.Signature{Alg: tpm2.AlgHMAC, Hash: tpm2.AlgSHA256, Sig: make([]byte, 32)}).refused(t, p, "HMAC without the key", tpm2.RCHandle.Handle(1))

	verifyDigest := func(h tpm2.Handle, context string, d []byte, s tpm2.Signature) request {
		return request{cc: tpm2.CCVerifyDigestSignature, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) { w.Sized([]byte(context)); w.Sized(d); s.Marshal(w) }}
	}
	verifyDigest(hml.h, "ctx", d[:], hashSig).ok(t, p)
	verifyDigest(hml.h, "ctX", d[:], hashSig).refused(t, p, "another context", tpm2.RCSignature.Parameter(3))
	verifyDigest(srk.h, "", d[:], ecSig).refused(t, p, "storage key", tpm2.RCKey.Handle(1))
	verifyDigest(open.h, "", d[:], ecSig).refused(t, p, "null scheme", tpm2.RCScheme.Handle(1))
	verifyDigest(ml.h, "", mu, ecSig).refused(t, p, "ECDSA signature, ML-DSA key", tpm2.RCScheme.Parameter(3))

	start := func(cc tpm2.CC, h tpm2.Handle) request {
		return request{cc: cc, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) {
			w.Sized(nil)
			if cc == tpm2.CCVerifySequenceStart {
				w.Sized(nil)
			}
			w.Sized(nil)
		}}
	}
	for _, cc := range []tpm2.CC{tpm2.CCSignSequenceStart, tpm2.CCVerifySequenceStart} {
		start(cc, srk.h).refused(t, p, "storage key", tpm2.RCKey.Handle(1))
		start(cc, open.h).refused(t, p, "null scheme", tpm2.RCScheme.Handle(1))
		free := fill(t, p)
		start(cc, sk.h).refused(t, p, "no slot", tpm2.RCObjectMemory)
		free()
	}
	start(tpm2.CCSignSequenceStart, x509.h).refused(t, p, "key for certificates", tpm2.RCAttributes.Handle(1))

	signSeq := startSeq(t, p, start(tpm2.CCSignSequenceStart, sk.h))
	verifySeq := startSeq(t, p, start(tpm2.CCVerifySequenceStart, sk.h))
	end := func(seq, key tpm2.Handle) request {
		return request{cc: tpm2.CCSignSequenceComplete, handles: []tpm2.Handle{seq, key}, auth: []string{"", ""}, params: sized("message")}
	}
	end(verifySeq, sk.h).refused(t, p, "a sequence that verifies", tpm2.RCMode.Handle(1))
	end(signSeq, verifySeq).refused(t, p, "a sequence as key", tpm2.RCKey.Handle(2))
	end(signSeq, ak.h).refused(t, p, "another key", tpm2.RCSignContextKey.Handle(2))
	// Such a key is refused at the start; a sequence cannot be had for it.
	p.state.volatile.objects[signSeq-tpm2.HandleTransientFirst].seq.keyName = x509.name
	end(signSeq, x509.h).refused(t, p, "key for certificates", tpm2.RCAttributes.Handle(2))
	p.state.volatile.objects[signSeq-tpm2.HandleTransientFirst].seq.keyName = sk.name
	verifyEnd := func(seq, key tpm2.Handle, s tpm2.Signature) request {
		return request{cc: tpm2.CCVerifySequenceComplete, handles: []tpm2.Handle{seq, key}, auth: noAuth, params: func(w *tpm2.Writer) { s.Marshal(w) }}
	}
	seqRequest(tpm2.CCSequenceUpdate, verifySeq, "", sized("message")).ok(t, p)
	verifyEnd(signSeq, sk.h, ecSig).refused(t, p, "a sequence that signs", tpm2.RCMode.Handle(1))
	verifyEnd(verifySeq, signSeq, ecSig).refused(t, p, "a sequence as key", tpm2.RCKey.Handle(2))
	verifyEnd(verifySeq, ak.h, ecSig).refused(t, p, "another key", tpm2.RCSignContextKey.Handle(2))
	verifyEnd(verifySeq, sk.h, hashSig).refused(t, p, "another scheme", tpm2.RCScheme.Parameter(1))
	verifyEnd(verifySeq, sk.h, ecSig).ok(t, p)
	verify(sk.h, d[:], signature(end(signSeq, sk.h).ok(t, p))).ok(t, p)
}
