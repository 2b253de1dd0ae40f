// SPDX-License-Identifier: Apache-2.0

package tsstest

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"math/big"
	"testing"

	"holdfast/tpm2"
	"holdfast/tss"
)

func rsaKey(p *tpm2.Public) *rsa.PublicKey {
	return &rsa.PublicKey{N: new(big.Int).SetBytes(p.Unique), E: 65537}
}

func ecKey(p *tpm2.Public) *ecdsa.PublicKey {
	return &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(p.Point.X), Y: new(big.Int).SetBytes(p.Point.Y)}
}

// verify checks a signature with the standard library.
func verify(t *testing.T, p *tpm2.Public, digest []byte, s *tpm2.Signature) {
	t.Helper()
	switch s.Alg {
	case tpm2.AlgRSASSA:
		ok(t, rsa.VerifyPKCS1v15(rsaKey(p), s.Hash.CryptoHash(), digest, s.Sig))
	case tpm2.AlgECDSA:
		if !ecdsa.Verify(ecKey(p), digest, new(big.Int).SetBytes(s.R), new(big.Int).SetBytes(s.S)) {
			t.Fatal("bad ECDSA signature")
		}
	default:
		t.Fatalf("signature of %v", s.Alg)
	}
}

// testKeys: an SRK, a signing key and an AK below it; sign, verify, quote and
// certify, checked with the standard library.
func testKeys(t *testing.T, c *tss.TPM, k tss.Kind) {
	srk, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(k), nil)
	ok(t, err)
	defer flush(t, c, srk.Handle)
	if again, qn, err := c.ReadPublic(srk.Handle); err != nil || !bytes.Equal(again.Name, srk.Name) || len(qn) == 0 {
		t.Fatal(err)
	}
	secret := []byte("a secret that authorizes the key")
	made, err := c.Create(srk.Ref(nil), tss.SigningTemplate(k), &tss.Secret{Auth: secret})
	ok(t, err)
	key, err := c.Load(srk.Ref(nil), made.Private, &made.Public)
	ok(t, err)
	digest := sha256.Sum256([]byte("message"))
	sig, err := c.Sign(key.Ref(secret), digest[:], tpm2.NoScheme, tss.NullHashcheck)
	ok(t, err)
	verify(t, &key.Public, digest[:], sig)
	if _, err := c.VerifySignature(key.Ref(nil), digest[:], sig); err != nil {
		t.Fatal(err)
	}
	other := sha256.Sum256([]byte("another message"))
	if _, err := c.VerifySignature(key.Ref(nil), other[:], sig); !errors.Is(err, tpm2.RCSignature) {
		t.Fatalf("a signature of something else: %v", err)
	}
	if _, err := c.Sign(key.Ref([]byte("wrong")), digest[:], tpm2.NoScheme, tss.NullHashcheck); !errors.Is(err, tpm2.RCAuthFail) {
		t.Fatalf("wrong authValue: %v", err)
	}
	var e *tss.Error
	if _, err = c.Sign(key.Ref(nil), digest[:], tpm2.NoScheme, tss.NullHashcheck); !errors.As(err, &e) || e.Command != tpm2.CCSign {
		t.Fatalf("%v is no *Error of Sign", err)
	}
	ok(t, c.DictionaryAttackLockReset(tss.Lockout(nil)))

	madeAK, err := c.CreateWith(srk.Ref(nil), tss.AKTemplate(k), &tss.Secret{Auth: secret}, []byte("outside"), pcrs)
	ok(t, err)
	ak, err := c.Load(srk.Ref(nil), madeAK.Private, &madeAK.Public)
	ok(t, err)
	nonce := sha256.Sum256([]byte("nonce"))
	q, err := c.Quote(ak.Ref(secret), nonce[:], tpm2.NoScheme, pcrs)
	ok(t, err)
	at, s, err := q.Parse(tpm2.STAttestQuote)
	ok(t, err)
	want, err := c.PCRDigest(tpm2.AlgSHA256, pcrs)
	ok(t, err)
	if !bytes.Equal(at.ExtraData, nonce[:]) || !bytes.Equal(at.Quote.PCRDigest, want) {
		t.Fatal("the quote says something else")
	}
	sum := sha256.Sum256(q.Attest)
	verify(t, &ak.Public, sum[:], s)
	if _, _, err := q.Parse(tpm2.STAttestCertify); err == nil {
		t.Fatal("a quote was taken for a certificate")
	}
	if _, err := c.Sign(ak.Ref(secret), digest[:], tpm2.NoScheme, tss.NullHashcheck); err == nil {
		t.Fatal("a restricted key signed a digest from outside")
	}
	cert, err := c.Certify(key.Ref(secret), ak.Ref(secret), nonce[:], tpm2.NoScheme)
	ok(t, err)
	at, s, err = cert.Parse(tpm2.STAttestCertify)
	ok(t, err)
	if !bytes.Equal(at.Certify.Name, key.Name) {
		t.Fatal("the certificate is about another key")
	}
	sum = sha256.Sum256(cert.Attest)
	verify(t, &ak.Public, sum[:], s)
	flush(t, c, key.Handle)
	flush(t, c, ak.Handle)

	// A primary key with creation data, certified.
	p, err := c.CreatePrimaryWith(tss.Endorsement(nil), tss.AKTemplate(k), &tss.Secret{Auth: secret}, []byte("outside"), pcrs)
	ok(t, err)
	defer flush(t, c, p.Handle)
	if cd := sha256.Sum256(p.CreationData); !bytes.Equal(cd[:], p.CreationHash) {
		t.Fatal("creation hash")
	}
	var data tpm2.CreationData
	ok(t, tpm2.Decode(p.CreationData, &data))
	if string(data.OutsideInfo) != "outside" {
		t.Fatal("outside information")
	}
	if _, err := c.CertifyCreation(p.Ref(secret), p.Ref(nil), nil, p.CreationHash, tpm2.NoScheme, p.Ticket); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetTime(tss.Endorsement(nil), p.Ref(secret), nonce[:], tpm2.NoScheme); err != nil {
		t.Fatal(err)
	}
	ctx, err := c.ContextSave(p.Handle)
	ok(t, err)
	h, err := c.ContextLoad(ctx)
	ok(t, err)
	defer flush(t, c, h)
	if k2, _, err := c.ReadPublic(h); err != nil || !bytes.Equal(k2.Name, p.Name) {
		t.Fatal(err)
	}
}

// testCredential: credentials made by the TPM and in software, for an EK.
func testCredential(t *testing.T, c *tss.TPM, k tss.Kind) {
	ek, err := c.CreatePrimary(tss.Endorsement(nil), tss.EKTemplate(k), nil)
	ok(t, err)
	defer flush(t, c, ek.Handle)
	auth := []byte("ak")
	ak, err := c.CreatePrimary(tss.Owner(nil), tss.AKTemplate(tss.ECCP256), &tss.Secret{Auth: auth})
	ok(t, err)
	defer flush(t, c, ak.Handle)
	secret := []byte("credential secret, 32 bytes long")
	for i, make := range []func() ([]byte, []byte, error){
		func() ([]byte, []byte, error) { return c.MakeCredential(ek.Handle, ak.Name, secret) },
		func() ([]byte, []byte, error) { return tss.MakeCredential(&ek.Key.Public, ak.Name, secret) },
	} {
		id, enc, err := make()
		ok(t, err)
		s, err := c.EKAuth(k, nil)
		ok(t, err)
		got, err := c.ActivateCredential(ak.Ref(auth), ek.Use(s.With(nil)), id, enc)
		closeSession(t, c, s)
		if err != nil || !bytes.Equal(got, secret) {
			t.Fatalf("credential %d: %v", i, err)
		}
		id[len(id)-1] ^= 1
		s, err = c.EKAuth(k, nil)
		ok(t, err)
		if _, err := c.ActivateCredential(ak.Ref(auth), ek.Use(s.With(nil)), id, enc); !errors.Is(err, tpm2.RCIntegrity) {
			t.Fatalf("changed credential: %v", err)
		}
		closeSession(t, c, s)
	}
	if _, _, err := tss.MakeCredential(&ak.Key.Public, ak.Name, secret); err == nil {
		t.Fatal("a credential for a signing key")
	}
}

// testSessions: HMAC sessions plain, salted, bound, with both ways of
// parameter encryption, and every combination of who encrypts.
func testSessions(t *testing.T, c *tss.TPM, k tss.Kind) {
	srk, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(k), &tss.Secret{Auth: []byte("parent")})
	ok(t, err)
	defer flush(t, c, srk.Handle)
	xor := tpm2.SymDef{Alg: tpm2.AlgXOR, Hash: tpm2.AlgSHA256}
	parent := srk.Ref([]byte("parent"))
	for name, o := range map[string]tss.SessionOptions{
		"plain":            {},
		"sha384":           {Hash: tpm2.AlgSHA384},
		"salted":           {SaltKey: srk.Handle, SaltPublic: &srk.Key.Public},
		"salted, aes":      {SaltKey: srk.Handle, SaltPublic: &srk.Key.Public, Symmetric: tss.AES128CFB},
		"salted, xor":      {SaltKey: srk.Handle, SaltPublic: &srk.Key.Public, Symmetric: xor},
		"bound":            {Bind: &parent},
		"bound, aes":       {Bind: &parent, Symmetric: tss.AES256CFB},
		"salted and bound": {Bind: &parent, SaltKey: srk.Handle, SaltPublic: &srk.Key.Public, Symmetric: tss.AES256CFB, Hash: tpm2.AlgSHA512},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.StartSession(o)
			ok(t, err)
			defer closeSession(t, c, s)
			secret := []byte("sealed")
			for i := 0; i < 3; i++ {
				made, err := c.Create(srk.Use(s.With([]byte("parent"))), tss.SealTemplate(nil), &tss.Secret{Auth: []byte("auth"), Data: secret})
				ok(t, err)
				item, err := c.Load(srk.Use(s.With([]byte("parent"))), made.Private, &made.Public)
				ok(t, err)
				got, err := c.Unseal(item.Use(s.With([]byte("auth"))))
				if err != nil || !bytes.Equal(got, secret) {
					t.Fatal(err)
				}
				// As an extra session, beside a password.
				got, err = c.With(s).Unseal(item.Ref([]byte("auth")))
				if err != nil || !bytes.Equal(got, secret) {
					t.Fatal(err)
				}
				if _, err := c.Unseal(item.Use(s.With([]byte("wrong")))); !errors.Is(err, tpm2.RCAuthFail) {
					t.Errorf("wrong authValue: %v", err)
				}
				ok(t, c.DictionaryAttackLockReset(tss.Lockout(nil)))
				if r, err := c.With(s).GetRandom(16); err != nil || len(r) != 16 {
					t.Fatal(err)
				}
				flush(t, c, item.Handle)
			}
		})
	}
	// One session authorizes, another encrypts.
	a, err := c.StartSession(tss.SessionOptions{})
	ok(t, err)
	defer closeSession(t, c, a)
	e, err := c.StartSession(tss.SessionOptions{SaltKey: srk.Handle, SaltPublic: &srk.Key.Public, Symmetric: tss.AES128CFB})
	ok(t, err)
	defer closeSession(t, c, e)
	if _, err := c.With(e).Create(srk.Use(a.With([]byte("parent"))), tss.SealTemplate(nil), &tss.Secret{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	// Without continueSession the session is used up.
	one, err := c.StartSession(tss.SessionOptions{Symmetric: tss.AES128CFB, Bind: &parent})
	ok(t, err)
	one.Attributes &^= tpm2.SessionContinue
	if _, err := c.With(one).GetRandom(8); err != nil {
		t.Fatal(err)
	}
	if _, err := c.With(one).GetRandom(8); err == nil {
		t.Fatal("a session that ended was used")
	}
	if _, err := c.Create(tss.Ref{Handle: srk.Handle, Auth: a.With([]byte("parent"))}, tss.SealTemplate(nil), &tss.Secret{Data: []byte("x")}); err == nil {
		t.Fatal("a session without the Name of the object")
	}
}

// testSeal: data sealed to PCRs and a command, and the refusal after the PCR changed.
func testSeal(t *testing.T, c *tss.TPM) {
	ok(t, c.PCRReset(tss.PCR(16)))
	srk, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
	ok(t, err)
	defer flush(t, c, srk.Handle)
	digest, err := c.PCRDigest(tpm2.AlgSHA256, pcrs)
	ok(t, err)
	p := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	p.PCR(pcrs, digest)
	p.CommandCode(tpm2.CCUnseal)
	p.AuthValue()
	branch := p.Sum()
	p.OR(branch, make([]byte, 32))
	made, err := c.Create(srk.Ref(nil), tss.SealTemplate(p.Sum()), &tss.Secret{Auth: []byte("pin"), Data: []byte("sealed")})
	ok(t, err)
	item, err := c.Load(srk.Ref(nil), made.Private, &made.Public)
	ok(t, err)
	defer flush(t, c, item.Handle)
	unseal := func(pin string) ([]byte, error) {
		s, err := c.StartSession(tss.SessionOptions{Kind: tpm2.SEPolicy})
		ok(t, err)
		defer closeSession(t, c, s)
		ok(t, c.PolicyPCR(s, nil, pcrs))
		ok(t, c.PolicyCommandCode(s, tpm2.CCUnseal))
		ok(t, c.PolicyAuthValue(s))
		if err := c.PolicyOR(s, branch, make([]byte, 32)); err != nil {
			return nil, err
		}
		if d, err := c.PolicyGetDigest(s); err != nil || !bytes.Equal(d, p.Sum()) {
			t.Fatalf("policy digest: %v", err)
		}
		return c.Unseal(item.Use(s.With([]byte(pin))))
	}
	if got, err := unseal("pin"); err != nil || string(got) != "sealed" {
		t.Fatal(err)
	}
	if _, err := unseal("wrong"); !errors.Is(err, tpm2.RCAuthFail) {
		t.Fatal(err)
	}
	ok(t, c.DictionaryAttackLockReset(tss.Lockout(nil)))
	if _, err := c.Unseal(item.Ref([]byte("pin"))); err == nil {
		t.Fatal("unsealed without the policy")
	}
	ok(t, c.PCRExtend(tss.PCR(16), []tpm2.HA{{Alg: tpm2.AlgSHA256, Digest: make([]byte, 32)}}))
	if got, err := unseal("pin"); !errors.Is(err, tpm2.RCValue) || got != nil {
		t.Fatalf("after the PCR changed: %q, %v", got, err)
	}
	// PolicyPassword and a trial session.
	trial, err := c.StartSession(tss.SessionOptions{Kind: tpm2.SETrial})
	ok(t, err)
	ok(t, c.PolicyPassword(trial))
	d, err := c.PolicyGetDigest(trial)
	ok(t, err)
	closeSession(t, c, trial)
	made, err = c.Create(srk.Ref(nil), tss.SealTemplate(d), &tss.Secret{Auth: []byte("pin"), Data: []byte("p")})
	ok(t, err)
	item2, err := c.Load(srk.Ref(nil), made.Private, &made.Public)
	ok(t, err)
	defer flush(t, c, item2.Handle)
	s, err := c.StartSession(tss.SessionOptions{Kind: tpm2.SEPolicy})
	ok(t, err)
	defer closeSession(t, c, s)
	for i := 0; i < 2; i++ {
		ok(t, c.PolicyPassword(s))
		if got, err := c.Unseal(item2.Use(s.With([]byte("pin")))); err != nil || string(got) != "p" {
			t.Fatal(err)
		}
	}
	if err := c.PolicyPassword(&tss.Session{}); err == nil {
		t.Fatal("a policy assertion on an HMAC session")
	}
	private, err := c.ObjectChangeAuth(item.Use(tss.Password(nil)), srk.Ref(nil), []byte("new"))
	if err == nil || private != nil {
		t.Fatal("changed the authValue without the policy")
	}
}

func testNV(t *testing.T, c *tss.TPM) {
	const index = tpm2.Handle(0x01500001)
	secret := []byte("index secret")
	pub := tpm2.NVPublic{Index: index, NameAlg: tpm2.AlgSHA256, DataSize: 1200,
		Attributes: tpm2.NVAuthRead | tpm2.NVAuthWrite | tpm2.NVOwnerRead | tpm2.NVNoDA}
	ok(t, c.NVDefine(tss.Owner(nil), secret, pub))
	i, err := c.NVReadPublic(index)
	ok(t, err)
	data := bytes.Repeat([]byte("0123456789ab"), 100)
	ok(t, c.NVWrite(i.Ref(secret), i.Ref(nil), data, 0))
	i, err = c.NVReadPublic(index) // the Name changed: written
	ok(t, err)
	s, err := c.StartSession(tss.SessionOptions{})
	ok(t, err)
	ref := tss.Ref{Handle: index, Name: i.Name, Auth: s.With(secret)}
	got, err := c.NVRead(ref, ref, 1200, 0)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatal(err)
	}
	closeSession(t, c, s)
	got, err = c.NVRead(tss.Owner(nil), i.Ref(nil), 4, 10)
	if err != nil || string(got) != "ab01" {
		t.Fatal(string(got), err)
	}
	if err := c.NVWrite(tss.Owner(nil), i.Ref(nil), data[:4], 0); !errors.Is(err, tpm2.RCNVAuthorization) {
		t.Fatal(err)
	}
	ok(t, c.NVUndefine(tss.Owner(nil), i.Ref(nil)))
	if _, err := c.NVReadPublic(index); err == nil {
		t.Fatal("the index is still there")
	}
	for nt, f := range map[tpm2.NT]func(r tss.Ref) error{
		tpm2.NTCounter: func(r tss.Ref) error { return c.NVIncrement(r, r) },
		tpm2.NTBits:    func(r tss.Ref) error { return c.NVSetBits(r, r, 5) },
		tpm2.NTExtend:  func(r tss.Ref) error { return c.NVExtend(r, r, []byte("e")) },
	} {
		size := uint16(8)
		if nt == tpm2.NTExtend {
			size = 32
		}
		ok(t, c.NVDefine(tss.Owner(nil), nil, tpm2.NVPublic{Index: index, NameAlg: tpm2.AlgSHA256, DataSize: size,
			Attributes: (tpm2.NVAuthRead | tpm2.NVAuthWrite | tpm2.NVReadStClear | tpm2.NVWriteStClear).WithType(nt)}))
		i, err := c.NVReadPublic(index)
		ok(t, err)
		ok(t, f(i.Ref(nil)))
		v, err := c.NVRead(i.Ref(nil), i.Ref(nil), int(size), 0)
		ok(t, err)
		if nt == tpm2.NTBits && v[7] != 5 {
			t.Fatal(v)
		}
		ok(t, c.NVWriteLock(i.Ref(nil), i.Ref(nil)))
		if err := f(i.Ref(nil)); !errors.Is(err, tpm2.RCNVLocked) {
			t.Fatal(err)
		}
		ok(t, c.NVReadLock(i.Ref(nil), i.Ref(nil)))
		if _, err := c.NVRead(i.Ref(nil), i.Ref(nil), int(size), 0); !errors.Is(err, tpm2.RCNVLocked) {
			t.Fatal(err)
		}
		ok(t, c.NVUndefine(tss.Owner(nil), i.Ref(nil)))
	}
}

func testEvict(t *testing.T, c *tss.TPM) {
	const handle = tpm2.Handle(0x81000010)
	k, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
	ok(t, err)
	ok(t, c.EvictControl(tss.Owner(nil), k.Ref(nil), handle))
	flush(t, c, k.Handle)
	p, _, err := c.ReadPublic(handle)
	if err != nil || !bytes.Equal(p.Name, k.Name) {
		t.Fatal(err)
	}
	ok(t, c.EvictControl(tss.Owner(nil), p.Ref(nil), handle))
	if _, _, err := c.ReadPublic(handle); err == nil {
		t.Fatal("the object is still there")
	}
}

func testRSA(t *testing.T, c *tss.TPM) {
	tmpl := tss.SigningTemplate(tss.RSA2048)
	tmpl.Attributes = tmpl.Attributes&^tpm2.ObjectSignEncrypt | tpm2.ObjectDecrypt
	tmpl.Parms.Scheme = tpm2.NoScheme
	k, err := c.CreatePrimary(tss.Owner(nil), tmpl, nil)
	ok(t, err)
	defer flush(t, c, k.Handle)
	oaep := tpm2.Scheme{Alg: tpm2.AlgOAEP, Hash: tpm2.AlgSHA256}
	ct, err := c.RSAEncrypt(k.Ref(nil), []byte("message"), oaep, []byte("label\x00"))
	ok(t, err)
	pt, err := c.RSADecrypt(k.Ref(nil), ct, oaep, []byte("label\x00"))
	if err != nil || string(pt) != "message" {
		t.Fatal(err)
	}
	ct, err = rsa.EncryptOAEP(sha256.New(), rand.Reader, rsaKey(&k.Key.Public), []byte("from Go"), nil)
	ok(t, err)
	pt, err = c.RSADecrypt(k.Ref(nil), ct, oaep, nil)
	if err != nil || string(pt) != "from Go" {
		t.Fatal(err)
	}
}

func testECDH(t *testing.T, c *tss.TPM) {
	tmpl := tss.SigningTemplate(tss.ECCP256)
	tmpl.Attributes = tmpl.Attributes&^tpm2.ObjectSignEncrypt | tpm2.ObjectDecrypt
	tmpl.Parms.Scheme = tpm2.NoScheme
	k, err := c.CreatePrimary(tss.Owner(nil), tmpl, nil)
	ok(t, err)
	defer flush(t, c, k.Handle)
	z, eph, err := c.ECDHKeyGen(k.Ref(nil))
	ok(t, err)
	z2, err := c.ECDHZGen(k.Ref(nil), eph)
	if err != nil || !bytes.Equal(z.X, z2.X) {
		t.Fatal(err)
	}
	own, err := ecdh.P256().GenerateKey(rand.Reader)
	ok(t, err)
	pub := own.PublicKey().Bytes()
	z3, err := c.ECDHZGen(k.Ref(nil), tpm2.Point{X: pub[1:33], Y: pub[33:]})
	ok(t, err)
	peer, err := ecKey(&k.Key.Public).ECDH()
	ok(t, err)
	want, err := own.ECDH(peer)
	if err != nil || !bytes.Equal(z3.X, want) {
		t.Fatal(err)
	}
}

func testHash(t *testing.T, c *tss.TPM) {
	for _, n := range []int{0, 10, 1024, 1025, 3000} {
		data := bytes.Repeat([]byte{7}, n)
		want := sha256.Sum256(data)
		d, ticket, err := c.Hash(data, tpm2.AlgSHA256, tpm2.RHOwner)
		if err != nil || !bytes.Equal(d, want[:]) || len(ticket.HMAC) == 0 {
			t.Fatalf("%d bytes: %x %v", n, d, err)
		}
	}
	// A restricted key signs a digest with the TPM's ticket for it.
	ak, err := c.CreatePrimary(tss.Owner(nil), tss.AKTemplate(tss.ECCP256), nil)
	ok(t, err)
	defer flush(t, c, ak.Handle)
	d, ticket, err := c.Hash([]byte("harmless"), tpm2.AlgSHA256, tpm2.RHOwner)
	ok(t, err)
	sig, err := c.Sign(ak.Ref(nil), d, tpm2.NoScheme, ticket)
	ok(t, err)
	verify(t, &ak.Key.Public, d, sig)
}

func testHierarchy(t *testing.T, c *tss.TPM) {
	s, err := c.StartSession(tss.SessionOptions{})
	ok(t, err)
	defer closeSession(t, c, s)
	ok(t, c.HierarchyChangeAuth(tss.Ref{Handle: tpm2.RHOwner, Auth: s.With(nil)}, []byte("new")))
	if _, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil); !errors.Is(err, tpm2.RCBadAuth) {
		t.Fatal(err)
	}
	ok(t, c.HierarchyChangeAuth(tss.Ref{Handle: tpm2.RHOwner, Auth: s.With([]byte("new"))}, nil))
	ok(t, c.DictionaryAttackLockReset(tss.Lockout(nil)))
	ok(t, c.HierarchyChangeAuth(tss.Lockout(nil), []byte("lock")))
	ok(t, c.Clear(tss.Ref{Handle: tpm2.RHLockout, Auth: s.With([]byte("lock"))}))
}

func testPolicySigned(t *testing.T, c *tss.TPM) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	raw, err := signer.PublicKey.Bytes()
	ok(t, err)
	pub := tss.SigningTemplate(tss.ECCP256)
	pub.Attributes = tpm2.ObjectUserWithAuth | tpm2.ObjectSignEncrypt
	pub.Point = tpm2.Point{X: raw[1:33], Y: raw[33:]}
	key, err := c.LoadExternal(tpm2.RHOwner, nil, &pub)
	ok(t, err)
	defer flush(t, c, key.Handle)
	sign := func(digest []byte) *tpm2.Signature {
		r, s, err := ecdsa.Sign(rand.Reader, signer, digest)
		ok(t, err)
		return &tpm2.Signature{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA256, R: r.FillBytes(make([]byte, 32)), S: s.FillBytes(make([]byte, 32))}
	}
	s, err := c.StartSession(tss.SessionOptions{Kind: tpm2.SEPolicy})
	ok(t, err)
	defer closeSession(t, c, s)
	aHash := sha256.Sum256(append(s.NonceTPM(), 0, 0, 0, 0, 'r', 'e', 'f'))
	ok(t, c.PolicySigned(key.Ref(nil), s, s.NonceTPM(), []byte("ref"), sign(aHash[:])))
	p := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	p.Signed(key.Name, []byte("ref"))
	if d, err := c.PolicyGetDigest(s); err != nil || !bytes.Equal(d, p.Sum()) {
		t.Fatal(err)
	}
	// PolicyAuthorize: the same key approves this policy.
	approved := p.Sum()
	h := sha256.Sum256(append(bytes.Clone(approved), "pref"...))
	ticket, err := c.VerifySignature(key.Ref(nil), h[:], sign(h[:]))
	ok(t, err)
	ok(t, c.PolicyAuthorize(s, approved, []byte("pref"), key.Name, ticket))
	p.Authorize(key.Name, []byte("pref"))
	if d, err := c.PolicyGetDigest(s); err != nil || !bytes.Equal(d, p.Sum()) {
		t.Fatal(err)
	}
	ok(t, c.PolicyRestart(s))
	ok(t, c.PolicyLocality(s, tpm2.LocalityBit(0)))
	ok(t, c.PolicyNvWritten(s, true))
	q := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	q.Locality(tpm2.LocalityBit(0))
	q.NvWritten(true)
	if d, err := c.PolicyGetDigest(s); err != nil || !bytes.Equal(d, q.Sum()) {
		t.Fatal(err)
	}
}
