// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"testing"

	"holdfast/tpm2"
)

// Errors of the commands that take a public area, one by one.

// withTemplate is a command with a public area as one of its parameters.
type withTemplate struct {
	cc   tpm2.CC
	make func(pub tpm2.Public) request
	at   int // number of the parameter
}

func sizedPublic(w *tpm2.Writer, p tpm2.Public) {
	m := w.Begin()
	if p.Type == tpm2.AlgSHA256 { // no type of an object: the writer has no form for it
		p.Type = tpm2.AlgECC
		at := w.Len()
		p.Marshal(w)
		w.Bytes()[at+1] = byte(tpm2.AlgSHA256)
	} else {
		p.Marshal(w)
	}
	w.End(m)
}

// fill takes all object slots that are left.
func fill(t testing.TB, p *TPM) (free func()) {
	saved := p.state.volatile.objects
	for i := range p.opt.Objects {
		if p.state.volatile.objects[i] == nil {
			addKey(t, p, hmacKeyObject("x", tpm2.NoScheme, tpm2.ObjectSignEncrypt))
		}
	}
	return func() { p.state.volatile.objects = saved }
}

func rsaTemplate(a tpm2.ObjectAttributes, s tpm2.Scheme) tpm2.Public {
	p := tpm2.Public{Type: tpm2.AlgRSA, NameAlg: tpm2.AlgSHA256, Attributes: a, Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: s, KeyBits: 1024}}
	if a.Has(tpm2.ObjectRestricted | tpm2.ObjectDecrypt) {
		p.Parms.Symmetric = aes(128)
	}
	return p
}

func symTemplate(a tpm2.ObjectAttributes, mode tpm2.Alg) tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgSymCipher, NameAlg: tpm2.AlgSHA256, Attributes: a, Parms: tpm2.Parms{Symmetric: tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: mode}}}
}

func loadObject(parent tpm2.Handle, private []byte, pub tpm2.Public) request {
	return request{cc: tpm2.CCLoad, handles: []tpm2.Handle{parent}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized(private); sizedPublic(w, pub) }}
}

func createLoadedRequest(parent tpm2.Handle, data string, pub tpm2.Public) request {
	return request{cc: tpm2.CCCreateLoaded, handles: []tpm2.Handle{parent}, auth: noAuth, params: func(w *tpm2.Writer) {
		m := w.Begin()
		(&tpm2.SensitiveCreate{Data: []byte(data)}).Marshal(w)
		w.End(m)
		sizedPublic(w, pub)
	}}
}

func importRequest(parent tpm2.Handle, key []byte, pub tpm2.Public, blob, seed []byte, sym tpm2.SymDef) request {
	return request{cc: tpm2.CCImport, handles: []tpm2.Handle{parent}, auth: noAuth, params: func(w *tpm2.Writer) {
		w.Sized(key)
		sizedPublic(w, pub)
		w.Sized(blob)
		w.Sized(seed)
		sym.Marshal(w)
	}}
}

func externalRequest(s *tpm2.Sensitive, pub tpm2.Public, h tpm2.Handle) request {
	return request{cc: tpm2.CCLoadExternal, params: func(w *tpm2.Writer) {
		m := w.Begin()
		if s != nil {
			s.Marshal(w)
		}
		w.End(m)
		sizedPublic(w, pub)
		w.Handle(h)
	}}
}

// TestTemplateErrors: what all commands with a public area refuse alike
// (Part 3, 12.1 to 12.9, 13.3 and 24.1; Part 2, 12.2.3).
func TestTemplateErrors(t *testing.T) {
	p := newTPM(t, Options{Objects: 16})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	for _, c := range []withTemplate{
		{tpm2.CCCreatePrimary, func(pub tpm2.Public) request {
			return request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate("", "", pub)}
		}, 2},
		{tpm2.CCCreate, func(pub tpm2.Public) request {
			return request{cc: tpm2.CCCreate, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: writeCreate("", "", pub)}
		}, 2},
		{tpm2.CCCreateLoaded, func(pub tpm2.Public) request { return createLoadedRequest(srk.h, "", pub) }, 2},
		{tpm2.CCLoad, func(pub tpm2.Public) request { return loadObject(srk.h, make([]byte, 64), pub) }, 2},
		{tpm2.CCLoadExternal, func(pub tpm2.Public) request {
			pub.Attributes &^= tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectRestricted
			return externalRequest(&tpm2.Sensitive{Type: tpm2.AlgECC, Value: make([]byte, 32)}, pub, tpm2.RHNull)
		}, 2},
		{tpm2.CCImport, func(pub tpm2.Public) request {
			pub.Attributes &^= tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
			s := must[[]byte](t)(tpm2.EncodeSized(&tpm2.Sensitive{Type: tpm2.AlgECC, Value: make([]byte, 32)}))
			return importRequest(srk.h, nil, pub, s, nil, tpm2.NoSym)
		}, 2},
	} {
		try := func(name string, want tpm2.RC, f func(p *tpm2.Public)) {
			pub := eccTemplate(attrsSign, ecdsa256)
			f(&pub)
			c.make(pub).refused(t, p, name, want.Parameter(c.at))
		}
		try("neither sign nor decrypt", tpm2.RCAttributes, func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectSignEncrypt; p.Parms.Scheme = tpm2.NoScheme })
		try("nameAlg", tpm2.RCHash, func(p *tpm2.Public) { p.NameAlg = tpm2.AlgSHAKE256_256 })
		try("KDF", tpm2.RCKDF, func(p *tpm2.Public) { p.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgKDF1SP800_56A, Hash: tpm2.AlgSHA256} })
		try("scheme", tpm2.RCScheme, func(p *tpm2.Public) { p.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgECDH, Hash: tpm2.AlgSHA256} })
		try("symmetric of a signing key", tpm2.RCSymmetric, func(p *tpm2.Public) { p.Parms.Symmetric = aes(128) })
		try("policy size", tpm2.RCSize, func(p *tpm2.Public) { p.AuthPolicy = make([]byte, 20) })
		try("exponent", tpm2.RCRange, func(p *tpm2.Public) { *p = rsaTemplate(attrsSign, tpm2.NoScheme); p.Parms.Exponent = 3 })
		try("firmware-limited", tpm2.RCAttributes, func(p *tpm2.Public) { p.Attributes |= tpm2.ObjectFirmwareLimited })
		try("an algorithm that is no type", tpm2.RCType, func(p *tpm2.Public) { p.Type = tpm2.AlgSHA256 })
	}
	free := fill(t, p)
	for _, q := range []request{
		{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate("", "", sealTemplate())},
		createLoadedRequest(srk.h, "x", sealTemplate()),
		loadObject(srk.h, nil, eccTemplate(attrsSign, ecdsa256)),
		externalRequest(nil, srk.pub, tpm2.RHOwner),
	} {
		q.refused(t, p, "no slot", tpm2.RCObjectMemory)
	}
	free()
}

// TestCreateKinds: what Create and CreateLoaded make, and sizes of the data.
func TestCreateKinds(t *testing.T) {
	p := newTPM(t, Options{Objects: 16})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	a := attrsFixed&^tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectDecrypt
	create := func(data string, pub tpm2.Public) request {
		return request{cc: tpm2.CCCreate, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: writeCreate("", data, pub)}
	}
	create("fifteen octets.", symTemplate(a, tpm2.AlgCFB)).refused(t, p, "AES key of 15 octets", tpm2.RCKeySize.Parameter(2))
	create("sixteen octets..", symTemplate(a, tpm2.AlgCFB)).ok(t, p)
	rc, h := createLoadedRequest(srk.h, "sixteen octets..", symTemplate(a, tpm2.AlgCFB)).handle(t, p)
	if rc != 0 || !bytes.Equal(p.state.object(h).sens.Value, []byte("sixteen octets..")) {
		t.Errorf("CreateLoaded: %v", rc)
	}
	if rc, _ := createLoadedRequest(tpm2.RHEndorsement, "", eccTemplate(attrsAK, ecdsa256)).handle(t, p); rc != 0 {
		t.Errorf("CreateLoaded of a primary object: %v", rc)
	}
	createLoadedRequest(h, "x", sealTemplate()).refused(t, p, "an ordinary key as parent", tpm2.RCType.Handle(1))
	long := createLoadedRequest(srk.h, "", eccTemplate(attrsSign, ecdsa256))
	long.params = func(w *tpm2.Writer) {
		m := w.Begin()
		(&tpm2.SensitiveCreate{UserAuth: bytes.Repeat([]byte{1}, 33)}).Marshal(w)
		w.End(m)
		sizedPublic(w, eccTemplate(attrsSign, ecdsa256))
	}
	long.refused(t, p, "authValue beyond nameAlg", tpm2.RCSize.Parameter(1))
	parent := symTemplate(attrsParent, tpm2.AlgCFB)
	createPrimaryKey(t, p, tpm2.RHOwner, parent)
	parent.Parms.Symmetric.Mode = tpm2.AlgCTR
	create("", parent).refused(t, p, "storage key with CTR", tpm2.RCMode.Parameter(2))
	create("", symTemplate(attrsFixed|tpm2.ObjectSignEncrypt, tpm2.AlgCMAC)).ok(t, p)
	sm := eccTemplate(attrsParent, tpm2.NoScheme)
	sm.NameAlg, sm.Parms.Symmetric = tpm2.AlgSM3_256, tpm2.SymDef{Alg: tpm2.AlgSM4, KeyBits: 128, Mode: tpm2.AlgCFB}
	k := createPrimaryKey(t, p, tpm2.RHOwner, sm)
	q := create("secret", sealTemplate())
	q.handles = []tpm2.Handle{k.h}
	q.params = writeCreate("", "secret", sealTemplate())
	r := q.ok(t, p)
	private := bytes.Clone(r.Sized(4096))
	var pub tpm2.Public
	if err := tpm2.DecodeSized(append([]byte(nil), r.Bytes(2+int(peek16(r)))...), &pub); err != nil {
		t.Fatal(err)
	}
	rc, h = loadObject(k.h, private, pub).handle(t, p)
	if rc != 0 {
		t.Fatalf("loading under a parent with SM3 and SM4: %v", rc)
	}
	if got := (request{cc: tpm2.CCUnseal, handles: []tpm2.Handle{h}, auth: noAuth}).ok(t, p).Sized(64); string(got) != "secret" {
		t.Errorf("unsealed %q", got)
	}
	private[40] ^= 1
	loadObject(k.h, private, pub).refused(t, p, "private area changed", tpm2.RCIntegrity.Parameter(1))
}

// TestLoadMismatch: a public area that is not the private area's, with an
// integrity value that is right (as a duplicate of a hostile source would have).
func TestLoadMismatch(t *testing.T) {
	p := newTPM(t, Options{Objects: 16})
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	sk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	rsa := createPrimaryKey(t, p, tpm2.RHOwner, rsaTemplate(attrsSign, tpm2.NoScheme))
	wrapped := func(pub tpm2.Public, s tpm2.Sensitive) []byte {
		name := must[[]byte](t)(pub.Name())
		return p.wrap(p.state.object(srk.h), name, &s)
	}
	ecc, mod := sk.pub, clonePublic(rsa.pub)
	mod.Unique[0] &= 0x7F
	for _, c := range []struct {
		name string
		pub  tpm2.Public
		s    tpm2.Sensitive
		want tpm2.RC
	}{
		{"another scalar", ecc, tpm2.Sensitive{Type: tpm2.AlgECC, Value: bytes.Repeat([]byte{7}, 32)}, tpm2.RCBinding.Parameter(2)},
		{"type", ecc, tpm2.Sensitive{Type: tpm2.AlgRSA, Value: bytes.Repeat([]byte{7}, 32)}, tpm2.RCType.Parameter(2)},
		{"seed longer than a digest", ecc, tpm2.Sensitive{Type: tpm2.AlgECC, Seed: make([]byte, 33), Value: bytes.Repeat([]byte{7}, 32)}, tpm2.RCKeySize.Parameter(1)},
		{"modulus without its top bit", mod, tpm2.Sensitive{Type: tpm2.AlgRSA, Value: bytes.Repeat([]byte{7}, 64)}, tpm2.RCKey.Parameter(2)},
		{"another prime", rsa.pub, tpm2.Sensitive{Type: tpm2.AlgRSA, Value: bytes.Repeat([]byte{7}, 64)}, tpm2.RCBinding.Parameter(2)},
	} {
		at := func(sensitive int) tpm2.RC { // number of the parameter with the sensitive area
			if b := c.want.Base(); b == tpm2.RCType || b == tpm2.RCKeySize {
				return b.Parameter(sensitive)
			}
			return c.want
		}
		loadObject(srk.h, wrapped(c.pub, c.s), c.pub).refused(t, p, c.name, at(1))
		pub, s := c.pub, c.s
		pub.Attributes &^= tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
		externalRequest(&s, pub, tpm2.RHNull).refused(t, p, c.name, at(1))
		importRequest(srk.h, nil, pub, must[[]byte](t)(tpm2.EncodeSized(&s)), nil, tpm2.NoSym).refused(t, p, c.name, at(3))
	}
	off := ecc
	off.Attributes &^= tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
	off.Point.Y = bytes.Clone(off.Point.Y)
	off.Point.Y[31] ^= 1
	s := must[[]byte](t)(tpm2.EncodeSized(&tpm2.Sensitive{Type: tpm2.AlgECC, Value: bytes.Repeat([]byte{7}, 32)}))
	importRequest(srk.h, nil, off, s, nil, tpm2.NoSym).refused(t, p, "point not on the curve", tpm2.RCECCPoint.Parameter(2))
	good := clonePublic(ecc)
	good.Attributes &^= tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
	importRequest(srk.h, nil, good, append([]byte{0, 5}, s[2:7]...), nil, tpm2.NoSym).refused(t, p, "sensitive cut", tpm2.RCInsufficient.Parameter(3))
	importRequest(srk.h, nil, good, s, []byte{1, 2, 3}, tpm2.NoSym).refused(t, p, "seed that is none", tpm2.RCSize.Parameter(4))
	// A storage key from outside brings the seed that protects its children.
	parent := clonePublic(good)
	parent.Attributes = parent.Attributes&^tpm2.ObjectSignEncrypt | tpm2.ObjectRestricted | tpm2.ObjectDecrypt
	parent.Parms.Symmetric, parent.Parms.Scheme = aes(128), tpm2.NoScheme
	importRequest(srk.h, nil, parent, s, nil, tpm2.NoSym).refused(t, p, "storage key without a seed", tpm2.RCSize.Parameter(3))
	inner := tpm2.SymDef{Alg: tpm2.AlgCamellia, KeyBits: 128, Mode: tpm2.AlgCFB}
	importRequest(srk.h, make([]byte, 16), good, s, nil, inner).refused(t, p, "inner cipher", tpm2.RCSymmetric.Parameter(5))
}
