// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"

	"holdfast/tpm2"
)

func eccTemplate(a tpm2.ObjectAttributes, scheme tpm2.Scheme) tpm2.Public {
	p := tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: a,
		Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: scheme, Curve: tpm2.CurveP256, KDF: tpm2.NoScheme}}
	if a.Has(tpm2.ObjectRestricted | tpm2.ObjectDecrypt) {
		p.Parms.Symmetric = aes(128)
	}
	return p
}

func sealTemplate() tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgKeyedHash, NameAlg: tpm2.AlgSHA256, Attributes: tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectUserWithAuth,
		Parms: tpm2.Parms{Scheme: tpm2.NoScheme}}
}

var ecdsa256 = tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA256}

// TestStorageKeyLikeItsParent: a storage key with a fixed parent has its
// parent's nameAlg and symmetric algorithm (Part 3, 12.1.1); a duplicable one may differ.
func TestStorageKeyLikeItsParent(t *testing.T) {
	p := newTPM(t, Options{})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	create := func(f func(p *tpm2.Public)) request {
		pub := eccTemplate(attrsParent, tpm2.NoScheme)
		f(&pub)
		return request{cc: tpm2.CCCreate, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: writeCreate("", "", pub)}
	}
	sha384 := func(p *tpm2.Public) { p.NameAlg = tpm2.AlgSHA384 }
	aes256 := func(p *tpm2.Public) { p.Parms.Symmetric = aes(256) }
	create(sha384).refused(t, p, "another nameAlg", tpm2.RCHash.Parameter(2))
	create(aes256).refused(t, p, "another key size", tpm2.RCSymmetric.Parameter(2))
	create(func(*tpm2.Public) {}).ok(t, p)
	create(func(p *tpm2.Public) {
		sha384(p)
		aes256(p)
		p.Attributes &^= tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
	}).ok(t, p)
}

// TestPublicAreaAlone: LoadExternal looks at the schemes and the unique field
// of a public area without a private one too.
func TestPublicAreaAlone(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	load := func(f func(p *tpm2.Public)) request {
		pub := clonePublic(key.pub)
		f(&pub)
		return externalRequest(nil, pub, tpm2.RHOwner)
	}
	load(func(*tpm2.Public) {}).ok(t, p)
	load(func(p *tpm2.Public) { p.Parms.Symmetric = aes(128) }).refused(t, p, "symmetric of a signing key", tpm2.RCSymmetric.Parameter(2))
	load(func(p *tpm2.Public) { p.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgKDF2, Hash: tpm2.AlgSHA256} }).refused(t, p, "KDF", tpm2.RCKDF.Parameter(2))
	data := sealTemplate()
	data.NameAlg, data.Unique = tpm2.AlgNull, make([]byte, 32)
	externalRequest(nil, data, tpm2.RHNull).refused(t, p, "unique without a nameAlg", tpm2.RCKey.Parameter(2))
}

// TestCreateErrors: what templates may not say (Part 3, 12.1; Part 2, 8.3 and 12.2.3).
func TestCreateErrors(t *testing.T) {
	p := newTPM(t, Options{})
	with := func(f func(*tpm2.Public)) tpm2.Public {
		x := eccTemplate(attrsSign, ecdsa256)
		f(&x)
		return x
	}
	for _, c := range []struct {
		name       string
		auth, data string
		pub        tpm2.Public
		want       tpm2.RC
	}{
		{"fixedTPM without fixedParent", "", "", with(func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectFixedParent }), tpm2.RCAttributes.Parameter(2)},
		{"neither sign nor decrypt", "", "", with(func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectSignEncrypt }), tpm2.RCAttributes.Parameter(2)},
		{"restricted sign and decrypt", "", "", with(func(p *tpm2.Public) { p.Attributes |= tpm2.ObjectDecrypt | tpm2.ObjectRestricted }), tpm2.RCAttributes.Parameter(2)},
		{"data for an asymmetric key", "", "x", with(func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectSensitiveDataOrigin }), tpm2.RCAttributes.Parameter(2)},
		{"no data and no origin", "", "", with(func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectSensitiveDataOrigin }), tpm2.RCAttributes.Parameter(2)},
		{"policy of wrong size", "", "", with(func(p *tpm2.Public) { p.AuthPolicy = make([]byte, 20) }), tpm2.RCSize.Parameter(2)},
		{"authValue longer than nameAlg", string(bytes.Repeat([]byte{1}, 33)), "", with(func(p *tpm2.Public) {}), tpm2.RCSize.Parameter(1)},
		{"symmetric of a signing key", "", "", with(func(p *tpm2.Public) { p.Parms.Symmetric = aes(128) }), tpm2.RCSymmetric.Parameter(2)},
		{"restricted signing key without scheme", "", "", with(func(p *tpm2.Public) {
			p.Attributes |= tpm2.ObjectRestricted
			p.Parms.Scheme = tpm2.NoScheme
		}), tpm2.RCScheme.Parameter(2)},
		{"kdf of a signing key", "", "", with(func(p *tpm2.Public) { p.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgHKDF, Hash: tpm2.AlgSHA256} }), tpm2.RCKDF.Parameter(2)},
		{"curve not implemented", "", "", with(func(p *tpm2.Public) { p.Parms.Curve = tpm2.CurveP192 }), tpm2.RCCurve.Parameter(2)},
		{"nameAlg not implemented", "", "", with(func(p *tpm2.Public) { p.NameAlg = tpm2.AlgSHAKE256_256 }), tpm2.RCHash.Parameter(2)},
		{"parent without symmetric", "", "", func() tpm2.Public {
			x := eccTemplate(attrsParent, tpm2.NoScheme)
			x.Parms.Symmetric = tpm2.NoSym
			return x
		}(), tpm2.RCSymmetric.Parameter(2)},
		{"parent in another mode", "", "", func() tpm2.Public {
			x := eccTemplate(attrsParent, tpm2.NoScheme)
			x.Parms.Symmetric.Mode = tpm2.AlgCBC
			return x
		}(), tpm2.RCMode.Parameter(2)},
		{"ML-KEM that signs", "", "", func() tpm2.Public {
			x := mlkemTemplate(tpm2.MLKEM512, false)
			x.Attributes |= tpm2.ObjectSignEncrypt
			return x
		}(), tpm2.RCAttributes.Parameter(2)},
		{"ML-DSA that decrypts", "", "", mldsaTemplate(tpm2.MLDSA44, attrsFixed|tpm2.ObjectDecrypt, false), tpm2.RCAttributes.Parameter(2)},
		{"ML-KEM unrestricted with symmetric", "", "", func() tpm2.Public {
			x := mlkemTemplate(tpm2.MLKEM512, false)
			x.Parms.Symmetric = aes(128)
			return x
		}(), tpm2.RCSymmetric.Parameter(2)},
		{"RSA exponent", "", "", tpm2.Public{Type: tpm2.AlgRSA, NameAlg: tpm2.AlgSHA256, Attributes: attrsSign,
			Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: tpm2.NoScheme, KeyBits: 2048, Exponent: 3}}, tpm2.RCRange.Parameter(2)},
		{"sealed data with origin", "", "", func() tpm2.Public {
			x := sealTemplate()
			x.Attributes |= tpm2.ObjectSensitiveDataOrigin
			return x
		}(), tpm2.RCAttributes.Parameter(2)},
		{"firmware-limited", "", "", with(func(p *tpm2.Public) { p.Attributes |= tpm2.ObjectFirmwareLimited }), tpm2.RCAttributes.Parameter(2)},
	} {
		request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate(c.auth, c.data, c.pub)}.refused(t, p, c.name, c.want)
	}
	// What tpm2-tools' defaults ask for: a keyed hash for both uses, a
	// symmetric parent with a null mode.
	for _, pub := range []tpm2.Public{
		{Type: tpm2.AlgKeyedHash, NameAlg: tpm2.AlgSHA1, Attributes: attrsSign | tpm2.ObjectDecrypt, Parms: tpm2.Parms{Scheme: tpm2.NoScheme}},
		{Type: tpm2.AlgSymCipher, NameAlg: tpm2.AlgSHA1, Attributes: attrsParent, Parms: tpm2.Parms{Symmetric: tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: tpm2.AlgNull}}},
	} {
		createPrimaryKey(t, p, tpm2.RHOwner, pub)
	}
	sk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	request{cc: tpm2.CCCreate, handles: []tpm2.Handle{sk.h}, auth: noAuth, params: writeCreate("", "x", sealTemplate())}.refused(t, p, "parent is no storage key", tpm2.RCType.Handle(1))
	request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{sk.h}, auth: noAuth, params: writeCreate("", "x", sealTemplate())}.refused(t, p, "no hierarchy", tpm2.RCValue.Handle(1))
	request{cc: tpm2.CCCreate, handles: []tpm2.Handle{0x80000033}, auth: noAuth, params: writeCreate("", "x", sealTemplate())}.refused(t, p, "not loaded", tpm2.RCReferenceH0)
	request{cc: tpm2.CCCreate, handles: []tpm2.Handle{0x81000033}, auth: noAuth, params: writeCreate("", "x", sealTemplate())}.refused(t, p, "not persistent", tpm2.RCHandle.Handle(1))
	request{cc: tpm2.CCCreate, handles: []tpm2.Handle{sk.h}, params: writeCreate("", "x", sealTemplate())}.refused(t, p, "no sessions", tpm2.RCAuthMissing)
}

// TestObjectErrors: Load, LoadExternal, Unseal, ObjectChangeAuth, EvictControl, FlushContext.
func TestObjectErrors(t *testing.T) {
	p := newTPM(t, Options{Objects: 4})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	r := request{cc: tpm2.CCCreate, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: writeCreate("pw", "secret", sealTemplate())}.ok(t, p)
	private, public := r.Sized(4096), r.Sized(4096)
	load := request{cc: tpm2.CCLoad, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: sized(string(private), string(public))}
	otherPublic := bytes.Clone(public)
	otherPublic[len(otherPublic)-1] ^= 1
	request{cc: tpm2.CCLoad, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: sized(string(private), string(otherPublic))}.refused(t, p, "other public", tpm2.RCIntegrity.Parameter(1))
	request{cc: tpm2.CCLoad, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: sized(string(private), "")}.refused(t, p, "empty public", tpm2.RCSize.Parameter(2))
	request{cc: tpm2.CCLoad, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: sized("", string(public))}.refused(t, p, "empty private", tpm2.RCInsufficient.Parameter(1))
	rc, blob := load.handle(t, p)
	if rc != 0 {
		t.Fatal(rc)
	}
	unseal := func(pw string) request {
		return request{cc: tpm2.CCUnseal, handles: []tpm2.Handle{blob}, auth: []string{pw}}
	}
	if got := unseal("pw\x00\x00").ok(t, p).Sized(64); string(got) != "secret" {
		t.Errorf("unsealed %q (trailing zeros of an authValue do not count)", got)
	}
	request{cc: tpm2.CCUnseal, handles: []tpm2.Handle{srk.h}, auth: noAuth}.refused(t, p, "a key", tpm2.RCType.Handle(1))

	rc, sk := request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate("", "", eccTemplate(attrsSign, ecdsa256))}.handle(t, p)
	if rc != 0 {
		t.Fatal(rc)
	}
	change := func(h, parent tpm2.Handle, pw, auth string) request {
		return request{cc: tpm2.CCObjectChangeAuth, handles: []tpm2.Handle{h, parent}, auth: []string{pw}, params: sized(auth)}
	}
	change(blob, sk, "pw", "x").refused(t, p, "not a parent", tpm2.RCType.Handle(2))
	change(sk, srk.h, "", "x").refused(t, p, "not its parent", tpm2.RCType.Handle(2))
	change(blob, srk.h, "pw", string(bytes.Repeat([]byte{1}, 40))).refused(t, p, "too long", tpm2.RCSize.Parameter(1))
	newPrivate := change(blob, srk.h, "pw", "new").ok(t, p).Sized(4096)

	evict := func(auth, obj, to tpm2.Handle) request {
		return request{cc: tpm2.CCEvictControl, handles: []tpm2.Handle{auth, obj}, auth: noAuth, params: func(w *tpm2.Writer) { w.Handle(to) }}
	}
	evict(tpm2.RHOwner, srk.h, 0x80000001).refused(t, p, "not a persistent handle", tpm2.RCValue.Parameter(1))
	evict(tpm2.RHOwner, srk.h, 0x81800000).refused(t, p, "platform's range", tpm2.RCRange.Parameter(1))
	evict(tpm2.RHPlatform, srk.h, 0x81800000).refused(t, p, "platform for an owner's object", tpm2.RCHierarchy.Handle(2))
	evict(tpm2.RHOwner, srk.h, 0x81000001).ok(t, p)
	evict(tpm2.RHOwner, srk.h, 0x81000001).refused(t, p, "taken", tpm2.RCNVDefined)
	evict(tpm2.RHOwner, 0x81000001, 0x81000002).refused(t, p, "other handle", tpm2.RCHandle.Handle(2))

	rc, again := request{cc: tpm2.CCLoad, handles: []tpm2.Handle{0x81000001}, auth: noAuth, params: sized(string(newPrivate), string(public))}.handle(t, p)
	if rc != 0 {
		t.Fatalf("load under the persistent parent: %v", rc)
	}
	request{cc: tpm2.CCUnseal, handles: []tpm2.Handle{again}, auth: []string{"new"}}.ok(t, p)
	load.refused(t, p, "slots full", tpm2.RCObjectMemory)
	flush := func(h tpm2.Handle) request {
		return request{cc: tpm2.CCFlushContext, params: func(w *tpm2.Writer) { w.Handle(h) }}
	}
	flush(0x81000001).refused(t, p, "persistent", tpm2.RCValue.Parameter(1))
	flush(0x80000009).refused(t, p, "not loaded", tpm2.RCHandle.Parameter(1))
	flush(0x02000009).refused(t, p, "no session", tpm2.RCHandle.Parameter(1))
	flush(again).ok(t, p)
	flush(sk).ok(t, p)
	evict(tpm2.RHOwner, 0x81000001, 0x81000001).ok(t, p)
	request{cc: tpm2.CCReadPublic, handles: []tpm2.Handle{0x81000001}}.refused(t, p, "gone", tpm2.RCHandle.Handle(1))

	// LoadExternal.
	external := func(s *tpm2.Sensitive, pub tpm2.Public, h tpm2.Handle) request {
		return request{cc: tpm2.CCLoadExternal, params: func(w *tpm2.Writer) {
			m := w.Begin()
			if s != nil {
				s.Marshal(w)
			}
			w.End(m)
			m = w.Begin()
			pub.Marshal(w)
			w.End(m)
			w.Handle(h)
		}}
	}
	pub := srk.pub
	key := tpm2.Sensitive{Type: tpm2.AlgECC, Value: bytes.Repeat([]byte{3}, 32)}
	external(&key, pub, tpm2.RHOwner).refused(t, p, "private in a hierarchy", tpm2.RCHierarchy.Parameter(3))
	external(&key, pub, tpm2.RHNull).refused(t, p, "private and restricted", tpm2.RCAttributes.Parameter(2))
	pub.Attributes, pub.Parms.Symmetric = tpm2.ObjectUserWithAuth|tpm2.ObjectDecrypt, tpm2.NoSym
	external(&key, pub, tpm2.RHNull).refused(t, p, "not a pair", tpm2.RCBinding.Parameter(2))
	rsa := key
	rsa.Type = tpm2.AlgRSA
	external(&rsa, pub, tpm2.RHNull).refused(t, p, "types", tpm2.RCType.Parameter(1))
	pub.Point.X = bytes.Repeat([]byte{1}, 32)
	external(nil, pub, tpm2.RHOwner).refused(t, p, "not on the curve", tpm2.RCECCPoint.Parameter(2))
	external(nil, srk.pub, tpm2.RHLockout).refused(t, p, "hierarchy", tpm2.RCValue.Parameter(3))
	external(nil, srk.pub, tpm2.RHOwner).ok(t, p)
}

// TestSignErrors: Sign, VerifySignature, Quote, Certify, CertifyCreation.
func TestSignErrors(t *testing.T) {
	p := newTPM(t, Options{})
	sk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	ak := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsAK, ecdsa256))
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	d := sha256.Sum256([]byte("m"))
	sign := func(h tpm2.Handle, d []byte, s tpm2.Scheme, k tpm2.Ticket) request {
		return request{cc: tpm2.CCSign, handles: []tpm2.Handle{h}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized(d)
			s.Marshal(w)
			k.Marshal(w)
		}}
	}
	sign(srk.h, d[:], ecdsa256, noTicket).refused(t, p, "storage key", tpm2.RCKey.Handle(1))
	sign(sk.h, d[:20], tpm2.NoScheme, noTicket).refused(t, p, "digest size", tpm2.RCSize.Parameter(1))
	sign(sk.h, d[:], tpm2.Scheme{Alg: tpm2.AlgRSASSA, Hash: tpm2.AlgSHA256}, noTicket).refused(t, p, "other scheme", tpm2.RCScheme.Parameter(2))
	sign(sk.h, d[:], tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA1}, noTicket).refused(t, p, "other hash", tpm2.RCScheme.Parameter(2))
	sign(ak.h, d[:], tpm2.NoScheme, noTicket).refused(t, p, "restricted", tpm2.RCTicket.Parameter(3))
	forged := tpm2.Ticket{Tag: tpm2.STHashcheck, Hierarchy: tpm2.RHOwner, HMAC: make([]byte, 64)}
	sign(ak.h, d[:], tpm2.NoScheme, forged).refused(t, p, "forged ticket", tpm2.RCTicket.Parameter(3))
	sign(sk.h, d[:], tpm2.NoScheme, forged).refused(t, p, "forged ticket, unrestricted", tpm2.RCTicket.Parameter(3))
	// With a ticket of TPM2_Hash the restricted key signs.
	r := request{cc: tpm2.CCHash, params: func(w *tpm2.Writer) {
		w.Sized([]byte("m"))
		w.Alg(tpm2.AlgSHA256)
		w.Handle(tpm2.RHOwner)
	}}.ok(t, p)
	r.Sized(64)
	var ticket tpm2.Ticket
	ticket.Unmarshal(r)
	var sig tpm2.Signature
	sig.Unmarshal(sign(ak.h, d[:], tpm2.NoScheme, ticket).ok(t, p))

	verify := func(h tpm2.Handle, d []byte, s tpm2.Signature) request {
		return request{cc: tpm2.CCVerifySignature, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) {
			w.Sized(d)
			s.Marshal(w)
		}}
	}
	if got := verify(ak.h, d[:], sig).ok(t, p).Rest(); !bytes.HasPrefix(got, unhex(t, "8022 40000001 0040")) {
		t.Errorf("ticket %x", got)
	}
	verify(sk.h, d[:], sig).refused(t, p, "other key", tpm2.RCSignature.Parameter(2))
	verify(srk.h, d[:], sig).refused(t, p, "storage key", tpm2.RCAttributes.Handle(1))
	verify(ak.h, d[:31], sig).refused(t, p, "digest size", tpm2.RCSize.Parameter(1))
	rsaSig := tpm2.Signature{Alg: tpm2.AlgRSASSA, Hash: tpm2.AlgSHA256, Sig: make([]byte, 256)}
	verify(ak.h, d[:], rsaSig).refused(t, p, "scheme of another type", tpm2.RCScheme.Parameter(2))

	quote := func(h tpm2.Handle, s tpm2.Scheme, bank tpm2.Alg) request {
		return request{cc: tpm2.CCQuote, handles: []tpm2.Handle{h}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized(nil)
			s.Marshal(w)
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(bank, 1)})
		}}
	}
	quote(srk.h, tpm2.NoScheme, tpm2.AlgSHA256).refused(t, p, "storage key", tpm2.RCKey.Handle(1))
	quote(ak.h, tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA384}, tpm2.AlgSHA256).refused(t, p, "scheme", tpm2.RCScheme.Parameter(2))
	quote(ak.h, tpm2.NoScheme, tpm2.AlgSHAKE256_256).refused(t, p, "bank", tpm2.RCHash.Parameter(3))
	quote(ak.h, tpm2.NoScheme, tpm2.AlgSHA3_256).ok(t, p) // a hash that has no bank: nothing selected
	// The null handle: an attestation without a signature.
	r = quote(tpm2.RHNull, tpm2.NoScheme, tpm2.AlgSHA256).ok(t, p)
	r.Sized(4096)
	if got := r.Rest(); !bytes.Equal(got, []byte{0, 0x10}) {
		t.Errorf("signature %x, want the null signature", got)
	}
	request{cc: tpm2.CCCertifyCreation, handles: []tpm2.Handle{ak.h, sk.h}, auth: noAuth, params: func(w *tpm2.Writer) {
		w.Sized(nil)
		w.Sized(d[:])
		tpm2.NoScheme.Marshal(w)
		tpm2.Ticket{Tag: tpm2.STCreation, Hierarchy: tpm2.RHOwner, HMAC: make([]byte, 64)}.Marshal(w)
	}}.refused(t, p, "forged ticket", tpm2.RCTicket.Parameter(4))
	request{cc: tpm2.CCCertify, handles: []tpm2.Handle{sk.h, srk.h}, auth: []string{"", ""}, params: func(w *tpm2.Writer) {
		w.Sized(nil)
		tpm2.NoScheme.Marshal(w)
	}}.refused(t, p, "storage key signs", tpm2.RCKey.Handle(2))
}

// TestSessionErrors: the session area (Part 3, 5.5 and 5.6) and StartAuthSession.
func TestSessionErrors(t *testing.T) {
	p := newTPM(t, Options{})
	start := func(nonce int, salt string, kind tpm2.SE, sym tpm2.SymDef, hash tpm2.Alg) request {
		return request{cc: tpm2.CCStartAuthSession, handles: []tpm2.Handle{tpm2.RHNull, tpm2.RHNull}, params: func(w *tpm2.Writer) {
			w.Sized(make([]byte, nonce))
			w.Sized([]byte(salt))
			w.U8(uint8(kind))
			sym.Marshal(w)
			w.Alg(hash)
		}}
	}
	start(15, "", 0, tpm2.NoSym, tpm2.AlgSHA256).refused(t, p, "short nonce", tpm2.RCSize.Parameter(1))
	start(33, "", 0, tpm2.NoSym, tpm2.AlgSHA256).refused(t, p, "long nonce", tpm2.RCSize.Parameter(1))
	start(16, "x", 0, tpm2.NoSym, tpm2.AlgSHA256).refused(t, p, "salt without key", tpm2.RCValue.Parameter(2))
	start(16, "", 2, tpm2.NoSym, tpm2.AlgSHA256).refused(t, p, "type", tpm2.RCValue.Parameter(3))
	start(16, "", 0, tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: tpm2.AlgCBC}, tpm2.AlgSHA256).refused(t, p, "mode", tpm2.RCMode.Parameter(4))
	start(16, "", 0, tpm2.SymDef{Alg: tpm2.AlgCamellia, KeyBits: 128, Mode: tpm2.AlgCFB}, tpm2.AlgSHA256).refused(t, p, "cipher", tpm2.RCSymmetric.Parameter(4))
	start(16, "", 0, tpm2.NoSym, tpm2.AlgSHAKE256_256).refused(t, p, "hash", tpm2.RCHash.Parameter(5))
	rc, h := start(16, "", tpm2.SEHMAC, tpm2.NoSym, tpm2.AlgSHA256).handle(t, p)
	if rc != 0 {
		t.Fatal(rc)
	}
	_, trial := start(16, "", tpm2.SETrial, tpm2.NoSym, tpm2.AlgSHA256).handle(t, p)

	// NV_ReadPublic-like commands without authorization and ClockSet with one.
	area := func(cc string, handle string, sessions string, params string) string {
		s := unhex(t, sessions)
		body := append(unhex(t, handle), 0, 0, 0, byte(len(s)))
		body = append(append(body, s...), unhex(t, params)...)
		n := 10 + len(body)
		return "8002 000000" + hexByte(n) + cc + hexOf(body)
	}
	clockSet := func(sessions string) string { return area("00000128", "40000001", sessions, "0000000000000000") }
	hs := hexOf(tpm2.HandleName(h))
	ts := hexOf(tpm2.HandleName(trial))
	for _, c := range []struct {
		name, cmd string
		want      tpm2.RC
	}{
		{"area too short", "8002 00000012 00000128 40000001 00000004", tpm2.RCAuthSize},
		{"area beyond the end", "8002 0000001B 00000128 40000001 000000FF 40000009 0000 00 0000", tpm2.RCAuthSize},
		{"no session handle", clockSet("40000001 0000 00 0000"), tpm2.RCValue.Session(1)},
		{"session not loaded", clockSet("02000030 0000 00 0000"), tpm2.RCReferenceS0},
		{"reserved attribute", clockSet("40000009 0000 08 0000"), tpm2.RCReservedBits.Session(1)},
		{"password that audits", clockSet("40000009 0000 80 0000"), tpm2.RCAttributes.Session(1)},
		{"wrong password", clockSet("40000009 0000 00 0001 41"), tpm2.RCBadAuth.Session(1)},
		{"session twice", area("00000128", "40000001", hs+"0000 81 0000"+hs+"0000 81 0000", "0000000000000000"), tpm2.RCHandle.Session(2)},
		{"second password", area("00000128", "40000001", "40000009 0000 00 0000 40000009 0000 00 0000", "0000000000000000"), tpm2.RCHandle.Session(2)},
		{"session without a use", area("00000128", "40000001", "40000009 0000 00 0000"+hs+"0000 01 0000", "0000000000000000"), tpm2.RCAttributes.Session(2)},
		{"decrypt of no TPM2B", clockSet(hs + "0000 21 0000"), tpm2.RCAttributes.Session(1)},
		{"encrypt with null symmetric", area("0000017B", "", hs+"0000 41 0000", "0020"), tpm2.RCSymmetric.Session(1)},
		{"audit exclusive without audit", clockSet(hs + "0000 03 0000"), tpm2.RCAttributes.Session(1)},
		{"trial session authorizes", clockSet(ts + "0000 01 0000"), tpm2.RCAttributes.Session(1)},
		{"wrong HMAC", clockSet(hs + "0000 01 0004 01020304"), tpm2.RCBadAuth.Session(1)},
		{"four sessions", area("0000017B", "", hs+"0000 81 0000"+hs+"0000 81 0000"+hs+"0000 81 0000"+hs+"0000 81 0000", "0020"), tpm2.RCAuthSize},
	} {
		if rc, _ := run(t, p, c.cmd); rc != c.want {
			t.Errorf("%s: %v, want %v", c.name, rc, c.want)
		}
	}
	// An empty HMAC is right for a session with no secrets and an empty authValue.
	if rc, _ := run(t, p, area("00000128", "40000001", hs+"0000 01 0000", "0000000100000000")); rc != 0 {
		t.Errorf("empty HMAC: %v", rc)
	}
}

func hexByte(n int) string { return hexOf([]byte{byte(n)}) }

func hexOf(b []byte) string {
	const d = "0123456789ABCDEF"
	out := make([]byte, 0, 2*len(b))
	for _, x := range b {
		out = append(out, d[x>>4], d[x&15])
	}
	return string(out)
}

// TestLockout: failed tries count, durably, until the TPM locks, and heal with time.
func TestLockout(t *testing.T) {
	now := time.Unix(1000, 0)
	store := NewMemoryStore()
	p, err := New(store, Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, p, "8001 0000000C 00000144 0000")
	rc, h := request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate("pw", "x", sealTemplate())}.handle(t, p)
	if rc != 0 {
		t.Fatal(rc)
	}
	try := func(pw string) tpm2.RC {
		rc, _ := request{cc: tpm2.CCUnseal, handles: []tpm2.Handle{h}, auth: []string{pw}}.do(t, p)
		return rc
	}
	for i := 0; i < 3; i++ {
		if rc := try("bad"); rc != tpm2.RCAuthFail.Session(1) {
			t.Fatalf("try %d: %v", i, rc)
		}
		b, err := store.Load()
		if err != nil {
			t.Fatal(err)
		}
		var q permanent
		if err := q.decode(b); err != nil || q.failedTries != uint32(i+1) {
			t.Fatalf("try %d: the Store has %d failed tries (%v)", i, q.failedTries, err)
		}
	}
	if rc := try("pw"); rc != tpm2.RCLockout {
		t.Errorf("locked out: %v", rc)
	}
	now = now.Add(999 * time.Second)
	if rc := try("pw"); rc != tpm2.RCLockout {
		t.Errorf("too early: %v", rc)
	}
	now = now.Add(2 * time.Second)
	if rc := try("pw"); rc != 0 {
		t.Errorf("after recovery time: %v", rc)
	}
}

// TestSmallBuffers: with 4096-byte buffers a response that does not fit fails and changes nothing.
func TestSmallBuffers(t *testing.T) {
	p := newTPM(t, Options{CommandSize: 4096})
	ak := createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA87, attrsAK, false))
	request{cc: tpm2.CCQuote, handles: []tpm2.Handle{ak.h}, auth: noAuth, params: func(w *tpm2.Writer) {
		w.Sized(nil)
		w.Alg(tpm2.AlgNull)
		w.U32(0)
	}}.refused(t, p, "4627-byte signature", tpm2.RCSize)
	if rc, _ := run(t, p, "8001 00001001 0000017B"+string(bytes.Repeat([]byte("00"), 4097-10))); rc != tpm2.RCCommandSize {
		t.Errorf("long command: %v", rc)
	}
}
