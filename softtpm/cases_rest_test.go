// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"crypto/x509"
	"testing"

	"holdfast/tpm2"
)

// TestRest: the errors that no other test of this package asks for.
func TestRest(t *testing.T) {
	p := newTPM(t, Options{Objects: 24})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	rsaSRK := createPrimaryKey(t, p, tpm2.RHOwner, rsaTemplate(attrsParent, tpm2.NoScheme))
	sk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	hml := createPrimaryKey(t, p, tpm2.RHOwner, hashMLDSATemplate(tpm2.MLDSA44, tpm2.AlgSHA256))
	daa := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, tpm2.Scheme{Alg: tpm2.AlgECDAA, Hash: tpm2.AlgSHA256}))
	kem := eccTemplate(attrsDecrypt, tpm2.NoScheme)
	kem.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgHKDF, Hash: tpm2.AlgSHA256}
	dh := createPrimaryKey(t, p, tpm2.RHOwner, kem)

	activate := func(key tpm2.Handle, secret []byte) request {
		return request{cc: tpm2.CCActivateCredential, handles: []tpm2.Handle{sk.h, key}, auth: []string{"", ""}, params: sized("blob", string(secret))}
	}
	activate(rsaSRK.h, make([]byte, 128)).refused(t, p, "RSA secret that is none", tpm2.RCValue.Parameter(2))
	activate(rsaSRK.h, make([]byte, 127)).refused(t, p, "RSA secret too short", tpm2.RCSize.Parameter(2))
	request{cc: tpm2.CCMakeCredential, handles: []tpm2.Handle{srk.h}, params: sized(string(make([]byte, 33)), string(sk.name))}.refused(t, p, "credential beyond nameAlg", tpm2.RCSize.Parameter(1))

	bits := rsaTemplate(attrsSign, tpm2.NoScheme)
	bits.Parms.KeyBits = 1000
	request{cc: tpm2.CCCreate, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: writeCreate("", "", bits)}.refused(t, p, "RSA-1000", tpm2.RCValue.Parameter(2))
	loadObject(srk.h, nil, bits).refused(t, p, "RSA-1000", tpm2.RCValue.Parameter(2))
	importRequest(srk.h, nil, bits, nil, nil, tpm2.NoSym).refused(t, p, "RSA-1000", tpm2.RCValue.Parameter(2))

	for _, cc := range []tpm2.CC{tpm2.CCEncryptDecrypt, tpm2.CCEncryptDecrypt2} {
		request{cc: cc, handles: []tpm2.Handle{sk.h}, auth: noAuth, params: func(w *tpm2.Writer) {
			if cc == tpm2.CCEncryptDecrypt2 {
				w.Sized([]byte("data"))
			}
			w.U8(2)
			w.Alg(tpm2.AlgCFB)
			w.Sized(make([]byte, 16))
			if cc == tpm2.CCEncryptDecrypt {
				w.Sized([]byte("data"))
			}
		}}.refused(t, p, "neither yes nor no", tpm2.RCValue.Parameter(map[tpm2.CC]int{tpm2.CCEncryptDecrypt: 1, tpm2.CCEncryptDecrypt2: 2}[cc]))
	}

	short := string(make([]byte, 31))
	for _, cc := range []tpm2.CC{tpm2.CCPolicyNameHash, tpm2.CCPolicyTemplate, tpm2.CCPolicyParameters} {
		on(cc, newPolicy(t, p, tpm2.AlgSHA256, false), sized(short)).refused(t, p, "31 octets of SHA-256", tpm2.RCSize.Parameter(1))
	}
	s := newPolicy(t, p, tpm2.AlgSHA256, false)
	sig := signFor(t, p, sk.h, be32(0)+short)
	request{cc: tpm2.CCPolicySigned, handles: []tpm2.Handle{sk.h, s}, params: func(w *tpm2.Writer) {
		sized("", short, "")(w)
		w.U32(0)
		sig.Marshal(w)
	}}.refused(t, p, "31 octets of SHA-256", tpm2.RCSize.Parameter(2))

	cp := sha("command")
	r := secret(tpm2.RHOwner, s, "", "", cp, "ref", -60).ok(t, p)
	timeout := string(r.Sized(8))
	var tk tpm2.Ticket
	tk.UnmarshalTicket(r, tpm2.STAuthSecret)
	tk.HMAC = append([]byte(nil), tk.HMAC...)
	other := newPolicy(t, p, tpm2.AlgSHA256, false)
	on(tpm2.CCPolicyCpHash, other, sized(sha("another command"))).ok(t, p)
	on(tpm2.CCPolicyTicket, other, func(w *tpm2.Writer) { sized(timeout, cp, "ref", be32(0x40000001))(w); tk.Marshal(w) }).refused(t, p, "a second cpHash", tpm2.RCCpHash)

	request{cc: tpm2.CCContextLoad, params: func(w *tpm2.Writer) {
		(&tpm2.Context{Sequence: 1, SavedHandle: savedOrdinary, Hierarchy: tpm2.RHOwner, Blob: []byte{0, 99, 1}}).Marshal(w)
	}}.refused(t, p, "integrity value beyond the end", tpm2.RCSize.Parameter(1))

	der, _ := partialCertificate(t, x509.KeyUsageDigitalSignature, false)
	for scheme, want := range map[tpm2.Scheme]tpm2.RC{{Alg: tpm2.AlgRSASSA, Hash: tpm2.AlgSHA256}: tpm2.RCScheme, {Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHAKE256_256}: tpm2.RCHash} {
		q := certify509(sk.h, sk.h, der)
		q.params = func(w *tpm2.Writer) { w.Sized(nil); scheme.Marshal(w); w.Sized(der) }
		q.refused(t, p, "scheme", want.Parameter(2))
	}

	d := make([]byte, 32)
	verify := func(context string, d []byte) request {
		return request{cc: tpm2.CCVerifyDigestSignature, handles: []tpm2.Handle{sk.h}, params: func(w *tpm2.Writer) { w.Sized([]byte(context)); w.Sized(d); sig.Marshal(w) }}
	}
	verify("", d[:31]).refused(t, p, "31 octets of SHA-256", tpm2.RCSize.Parameter(2))
	verify("c", d).refused(t, p, "context for ECDSA", tpm2.RCValue.Parameter(1))
	request{cc: tpm2.CCDecapsulate, handles: []tpm2.Handle{dh.h}, auth: noAuth, params: sized(string(make([]byte, 65)))}.refused(t, p, "DHKEM: no point", tpm2.RCValue.Parameter(1))
	request{cc: tpm2.CCSignSequenceStart, handles: []tpm2.Handle{sk.h}, params: sized("", "context")}.refused(t, p, "context for ECDSA", tpm2.RCValue.Parameter(2))
	request{cc: tpm2.CCVerifySequenceStart, handles: []tpm2.Handle{sk.h}, params: sized("", "", "context")}.refused(t, p, "context for ECDSA", tpm2.RCValue.Parameter(3))
	request{cc: tpm2.CCVerifySequenceStart, handles: []tpm2.Handle{hml.h}, params: sized("", "hint", "")}.refused(t, p, "hint", tpm2.RCValue.Parameter(2))
	seq := startSeq(t, p, request{cc: tpm2.CCSignSequenceStart, handles: []tpm2.Handle{daa.h}, params: sized("", "")})
	request{cc: tpm2.CCSignSequenceComplete, handles: []tpm2.Handle{seq, daa.h}, auth: []string{"", ""}, params: sized("m")}.refused(t, p, "ECDAA without a count", tpm2.RCSize.Handle(1))
}
