// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"math/big"
	"testing"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// other is s with one bit changed. A fixed octet in the place of a random one
// would be the same one now and then.
func other(s string) string {
	b := []byte(s)
	b[0] ^= 1
	return string(b)
}

// verifyECDAA checks s*G = E + T*Q, where T is the hash of r and the digest;
// e is the point E of the Commit.
func verifyECDAA(t *testing.T, curve *tpmcrypto.Curve, q, e tpm2.Point, digest []byte, sig *tpm2.Signature) {
	t.Helper()
	n := new(big.Int).SetBytes(curve.Parameters().N)
	T := new(big.Int).SetBytes([]byte(sha(string(sig.R), string(digest))))
	tq, err := curve.Mult(T.Mod(T, n).FillBytes(make([]byte, 32)), tpmcrypto.Point{X: q.X, Y: q.Y})
	if err != nil {
		t.Fatal(err)
	}
	right, err := curve.Add(tpmcrypto.Point{X: e.X, Y: e.Y}, tq)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := curve.BaseMult(sig.S); err != nil || !bytes.Equal(left.X, right.X) || !bytes.Equal(left.Y, right.Y) {
		t.Errorf("the signature does not verify: %v", err)
	}
}

func readPoint(r *tpm2.Reader) (p tpm2.Point) {
	in := r.Nested(200)
	p.Unmarshal(&in)
	r.Done(&in)
	return p
}

func point(p tpm2.Point) func(w *tpm2.Writer) {
	return func(w *tpm2.Writer) {
		m := w.Begin()
		p.Marshal(w)
		w.End(m)
	}
}

func eccKeyTemplate(a tpm2.ObjectAttributes, scheme tpm2.Scheme) tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: a,
		Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: scheme, Curve: tpm2.CurveP256, KDF: tpm2.NoScheme}}
}

func TestECCParameters(t *testing.T) {
	p := newTPM(t, Options{})
	q := func(curve uint16) request {
		return request{cc: tpm2.CCECCParameters, params: func(w *tpm2.Writer) { w.U16(curve) }}
	}
	r := q(3).ok(t, p)
	if id, size := r.U16(), r.U16(); id != 3 || size != 256 {
		t.Errorf("%d %d", id, size)
	}
	if kdf, h, sign := r.Alg(), r.Alg(), r.Alg(); kdf != tpm2.AlgKDF1SP800_56A || h != tpm2.AlgSHA256 || sign != tpm2.AlgNull {
		t.Errorf("%v %v %v", kdf, h, sign)
	}
	// SEC 2, 2.4.2: p, a, b.
	for _, want := range []string{"ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
		"ffffffff00000001000000000000000000000000fffffffffffffffffffffffc", "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b"} {
		if got := r.Sized(99); !bytes.Equal(got, unhex(t, want)) {
			t.Errorf("%x, want %s", got, want)
		}
	}
	x, y, n, h := r.Sized(99), r.Sized(99), r.Sized(99), r.Sized(99)
	if _, err := tpmcrypto.CurveByID(3).CheckPoint(x, y); err != nil || len(n) != 32 || !bytes.Equal(h, []byte{1}) || r.Len() != 0 || r.Err() != nil {
		t.Errorf("generator %v, order %x, cofactor %x", err, n, h)
	}
	q(0x11).refused(t, p, "BN-P638", tpm2.RCCurve.Parameter(1))
	q(0).refused(t, p, "none", tpm2.RCCurve.Parameter(1))
}

func TestZGen2Phase(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, eccKeyTemplate(attrsDecrypt, tpm2.NoScheme))
	eph := request{cc: tpm2.CCECEphemeral, params: func(w *tpm2.Writer) { w.U16(3) }}
	r := eph.ok(t, p)
	q, count := readPoint(r), r.U16()
	curve := tpmcrypto.CurveByID(3)
	sB, _ := tpmcrypto.GenerateEC(curve, tpmcrypto.Random)
	eB, _ := tpmcrypto.GenerateEC(curve, tpmcrypto.Random)
	z := func(qs, qe *tpmcrypto.ECPrivate, scheme tpm2.Alg, count uint16) request {
		return by(tpm2.CCZGen2Phase, key.h, func(w *tpm2.Writer) {
			point(tpm2.Point{X: qs.X, Y: qs.Y})(w)
			point(tpm2.Point{X: qe.X, Y: qe.Y})(w)
			w.Alg(scheme)
			w.U16(count)
		})
	}
	z(sB, eB, tpm2.AlgECDH, count+1).refused(t, p, "no such counter", tpm2.RCValue.Parameter(4))
	z(sB, eB, tpm2.AlgNull, count).refused(t, p, "no scheme", tpm2.RCScheme.Parameter(3))
	z(sB, eB, tpm2.AlgRSASSA, count).refused(t, p, "RSA", tpm2.RCScheme.Parameter(3))
	bad := *eB
	bad.Y = append([]byte{bad.Y[0] ^ 1}, bad.Y[1:]...)
	z(&bad, eB, tpm2.AlgECDH, count).refused(t, p, "static point", tpm2.RCECCPoint.Parameter(1))
	z(sB, &bad, tpm2.AlgECDH, count).refused(t, p, "ephemeral point", tpm2.RCECCPoint.Parameter(2))
	r = z(sB, eB, tpm2.AlgECDH, count).ok(t, p)
	z1, z2 := readPoint(r), readPoint(r)
	w1, _ := sB.ECDH(key.pub.Point.X, key.pub.Point.Y)
	w2, _ := eB.ECDH(q.X, q.Y)
	if !bytes.Equal(z1.X, w1.X) || !bytes.Equal(z2.X, w2.X) || !bytes.Equal(z2.Y, w2.Y) {
		t.Error("the two sides differ")
	}
	z(sB, eB, tpm2.AlgECDH, count).refused(t, p, "counter used", tpm2.RCValue.Parameter(4))
	signer := createPrimaryKey(t, p, tpm2.RHOwner, eccSigner())
	key.h = signer.h
	z(sB, eB, tpm2.AlgECDH, count).refused(t, p, "signing key", tpm2.RCAttributes.Handle(1))
	key.h = addKey(t, p, hmacKeyObject("k", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt))
	z(sB, eB, tpm2.AlgECDH, count).refused(t, p, "HMAC key", tpm2.RCKey.Handle(1))
	eph.params = func(w *tpm2.Writer) { w.U16(0x11) }
	eph.refused(t, p, "curve", tpm2.RCCurve.Parameter(1))
}

// Commit and an ECDAA signature, checked as Part 1, C.4.2 says: s*G = E + T*Q.
func TestCommit(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, eccKeyTemplate(attrsSign, tpm2.Scheme{Alg: tpm2.AlgECDAA, Hash: tpm2.AlgSHA256}))
	q := func(p1 tpm2.Point, s2, y2 []byte) request {
		return by(tpm2.CCCommit, key.h, func(w *tpm2.Writer) { point(p1)(w); w.Sized(s2); w.Sized(y2) })
	}
	curve := tpmcrypto.CurveByID(3)
	r := q(tpm2.Point{}, nil, nil).ok(t, p)
	k, l, e, count := readPoint(r), readPoint(r), readPoint(r), r.U16()
	if len(k.X)+len(l.X) != 0 || len(e.X) != 32 || r.Len() != 0 {
		t.Errorf("K %x L %x E %x", k, l, e)
	}
	digest := []byte(sha("message"))
	sign := by(tpm2.CCSign, key.h, func(w *tpm2.Writer) {
		w.Sized(digest)
		w.Alg(tpm2.AlgECDAA)
		w.Alg(tpm2.AlgSHA256)
		w.U16(count)
		tpm2.Ticket{Tag: tpm2.STHashcheck, Hierarchy: tpm2.RHNull}.Marshal(w)
	})
	var sig tpm2.Signature
	sig.Unmarshal(sign.ok(t, p))
	verifyECDAA(t, curve, key.pub.Point, e, digest, &sig)
	if rc, _ := sign.do(t, p); rc == 0 {
		t.Error("a commit served twice")
	}
	// P2 by search: y^2 = x^3 - 3x + b for x = H(s2).
	prime, b := new(big.Int).SetBytes(curve.Parameters().P), new(big.Int).SetBytes(curve.Parameters().B)
	for i := byte(0); ; i++ {
		x := new(big.Int).SetBytes([]byte(sha(string([]byte{i}))))
		x.Mod(x, prime)
		y := new(big.Int).Exp(x, big.NewInt(3), prime)
		y.Sub(y, new(big.Int).Mul(big.NewInt(3), x)).Add(y, b).Mod(y, prime)
		if y = y.ModSqrt(y, prime); y == nil {
			continue
		}
		g := curve.Parameters()
		r := q(tpm2.Point{X: g.Gx, Y: g.Gy}, []byte{i}, y.Bytes()).ok(t, p)
		k, l, e := readPoint(r), readPoint(r), readPoint(r)
		priv, _ := p.state.object(key.h).ecPrivate()
		want, _ := priv.ECDH(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32)))
		if !bytes.Equal(k.X, want.X) || len(l.X) != 32 || len(e.X) != 32 {
			t.Errorf("K %x, want %x", k.X, want.X)
		}
		q(tpm2.Point{}, []byte{i}, []byte{1}).refused(t, p, "y2", tpm2.RCECCPoint.Parameter(2))
		q(tpm2.Point{X: g.Gx, Y: g.Gx}, nil, nil).refused(t, p, "P1", tpm2.RCECCPoint.Parameter(1))
		q(tpm2.Point{}, []byte{i}, nil).refused(t, p, "no y2", tpm2.RCSize.Parameter(3))
		break
	}
	key = createPrimaryKey(t, p, tpm2.RHOwner, eccSigner())
	q(tpm2.Point{}, nil, nil).refused(t, p, "ECDSA key", tpm2.RCScheme.Handle(1))
}

func TestECCEncrypt(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, eccKeyTemplate(attrsDecrypt, tpm2.NoScheme))
	kdf2 := tpm2.Scheme{Alg: tpm2.AlgKDF2, Hash: tpm2.AlgSHA256}
	enc := func(s tpm2.Scheme) request {
		return on(tpm2.CCECCEncrypt, key.h, func(w *tpm2.Writer) { w.Sized([]byte("a text that is longer than one digest")); s.Marshal(w) })
	}
	r := enc(kdf2).ok(t, p)
	c1, c2, c3 := readPoint(r), string(r.Sized(99)), string(r.Sized(99))
	dec := func(c1 tpm2.Point, c2, c3 string, s tpm2.Scheme) request {
		return by(tpm2.CCECCDecrypt, key.h, func(w *tpm2.Writer) { point(c1)(w); sized(c2, c3)(w); s.Marshal(w) })
	}
	if got := string(dec(c1, c2, c3, kdf2).ok(t, p).Sized(99)); got != "a text that is longer than one digest" {
		t.Errorf("%q", got)
	}
	// The definition, with the private key in hand.
	priv, _ := p.state.object(key.h).ecPrivate()
	z, _ := priv.ECDH(c1.X, c1.Y)
	zz := string(z.X) + string(z.Y)
	mask := sha(zz, be32(1)) + sha(zz, be32(2))
	for i := range c2 {
		if c2[i]^mask[i] != "a text that is longer than one digest"[i] {
			t.Fatalf("octet %d", i)
		}
	}
	dec(c1, other(c2), c3, kdf2).refused(t, p, "C2", tpm2.RCValue)
	dec(c1, c2, other(c3), kdf2).refused(t, p, "C3", tpm2.RCValue)
	dec(tpm2.Point{X: c1.X, Y: c1.X}, c2, c3, kdf2).refused(t, p, "C1", tpm2.RCECCPoint.Parameter(1))
	dec(c1, c2, c3, tpm2.NoScheme).refused(t, p, "no scheme", tpm2.RCScheme.Parameter(4))
	enc(tpm2.NoScheme).refused(t, p, "no scheme", tpm2.RCScheme.Parameter(2))
	enc(tpm2.Scheme{Alg: tpm2.AlgKDF1SP800_108, Hash: tpm2.AlgSHA256}).refused(t, p, "another KDF", tpm2.RCScheme.Parameter(2))
	enc(tpm2.Scheme{Alg: tpm2.AlgKDF2, Hash: tpm2.AlgSHAKE256_256}).refused(t, p, "SHAKE256", tpm2.RCHash.Parameter(2))
	key = createPrimaryKey(t, p, tpm2.RHOwner, eccSigner())
	dec(c1, c2, c3, kdf2).refused(t, p, "signing key", tpm2.RCAttributes.Handle(1))
}

// ECDH_KeyGen looks at no attribute of the key; ECDH_ZGen does.
func TestECDHKeyGenOfAnyKey(t *testing.T) {
	p := newTPM(t, Options{})
	signer := createPrimaryKey(t, p, tpm2.RHOwner, eccSigner())
	r := on(tpm2.CCECDHKeyGen, signer.h, nil).ok(t, p)
	z, pub := readPoint(r), readPoint(r)
	priv, _ := p.state.object(signer.h).ecPrivate()
	if want, err := priv.ECDH(pub.X, pub.Y); err != nil || !bytes.Equal(want.X, z.X) || !bytes.Equal(want.Y, z.Y) {
		t.Errorf("the two sides differ: %v", err)
	}
	by(tpm2.CCECDHZGen, signer.h, point(pub)).refused(t, p, "signing key", tpm2.RCAttributes.Handle(1))
	hmac := addKey(t, p, hmacKeyObject("k", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt))
	on(tpm2.CCECDHKeyGen, hmac, nil).refused(t, p, "HMAC key", tpm2.RCKey.Handle(1))
}
