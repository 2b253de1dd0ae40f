// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"math/big"
	"testing"

	sm2ecdh "github.com/emmansun/gmsm/ecdh"
	"github.com/emmansun/gmsm/sm2"
)

// TestGenericAgreesWithNIST: the generic formulas with the parameters of P-256
// give what nistec gives.
func TestGenericAgreesWithNIST(t *testing.T) {
	c := CurveByID(P256)
	g := newGeneric(&c.domain)
	for i := range 8 {
		k := NewDRBG(SHA256, []byte{byte(i)})
		a, _ := c.CommitScalar(k)
		b, _ := c.CommitScalar(k)
		if i == 0 {
			a, b = make([]byte, 32), new(big.Int).Sub(c.domain.n, big.NewInt(1)).Bytes() // zero, and the order minus 1
		}
		want, err := c.ops.baseMult(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.baseMult(b)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x*G is %x, want %x (%v)", b, got, want, err)
		}
		wantA, err := c.ops.mult(a, want)
		if err != nil {
			t.Fatal(err)
		}
		if gotA, err := g.mult(a, got); err != nil || !bytes.Equal(gotA, wantA) {
			t.Fatalf("%x*%x is %x, want %x (%v)", a, got, gotA, wantA, err)
		}
		if i == 0 {
			continue
		}
		wantA, _ = c.ops.add(want, wantA)
		sum, _ := g.mult(a, got)
		if sum, err = g.add(got, sum); err != nil || !bytes.Equal(sum, wantA) {
			t.Fatalf("sum %x, want %x (%v)", sum, wantA, err)
		}
		if dbl, err := g.add(got, got); err != nil || !bytes.Equal(dbl, must(c.ops.add(want, want))) {
			t.Fatalf("double %x (%v)", dbl, err)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// affine is a second implementation, of the textbook, for a curve whose
// parameters only we have.
type affine struct{ p, a *big.Int }

func (c affine) add(p, q [2]*big.Int) [2]*big.Int {
	var l *big.Int
	if p[0].Cmp(q[0]) == 0 {
		l = new(big.Int).Mul(big.NewInt(3), new(big.Int).Mul(p[0], p[0]))
		l.Add(l, c.a).Mul(l, new(big.Int).ModInverse(new(big.Int).Lsh(p[1], 1), c.p))
	} else {
		l = new(big.Int).Sub(q[1], p[1])
		l.Mul(l, new(big.Int).ModInverse(new(big.Int).Mod(new(big.Int).Sub(q[0], p[0]), c.p), c.p))
	}
	x := new(big.Int).Mul(l, l)
	x.Sub(x, p[0]).Sub(x, q[0]).Mod(x, c.p)
	y := new(big.Int).Sub(p[0], x)
	y.Mul(y, l).Sub(y, p[1]).Mod(y, c.p)
	return [2]*big.Int{x, y}
}

// TestBNP256: the parameters are those of a curve of prime order (with the trace of a
// Barreto-Naehrig curve), and multiples agree with the textbook's formulas.
func TestBNP256(t *testing.T) {
	c := CurveByID(BNP256)
	d := c.domain
	if !d.p.ProbablyPrime(20) || !d.n.ProbablyPrime(20) {
		t.Fatal("field or order is not prime")
	}
	// p = 36u^4+36u^3+24u^2+6u+1, and t-1 = p-n = 6u^2.
	u := new(big.Int).Sub(d.p, d.n)
	if u.Mod(u, big.NewInt(6)).Sign() != 0 {
		t.Fatal("p-n is not 6u^2")
	}
	u.Sub(d.p, d.n).Div(u, big.NewInt(6)).Sqrt(u)
	poly := func(u *big.Int) *big.Int {
		r := big.NewInt(36)
		for _, k := range []int64{36, 24, 6, 1} {
			r.Mul(r, u).Add(r, big.NewInt(k))
		}
		return r
	}
	if neg := new(big.Int).Neg(u); poly(u).Cmp(d.p) != 0 && poly(neg).Cmp(d.p) != 0 {
		t.Fatalf("p is not the polynomial of u = %x", u)
	}
	w := affine{d.p, d.a}
	q := [2]*big.Int{d.gx, d.gy}
	r := w.add(q, q)
	for k := int64(3); k < 40; k++ {
		r = w.add(r, q)
		got, err := c.BaseMult(big.NewInt(k).Bytes())
		if err != nil || new(big.Int).SetBytes(got.X).Cmp(r[0]) != 0 || new(big.Int).SetBytes(got.Y).Cmp(r[1]) != 0 {
			t.Fatalf("%d*G is %x, want %x (%v)", k, got, r, err)
		}
	}
}

// TestSM2AgreesWithGMSM: the curve, signatures in both directions, and the key
// exchange, against another implementation.
func TestSM2AgreesWithGMSM(t *testing.T) {
	c := CurveByID(SM2)
	p := sm2.P256().Params()
	d := c.domain
	for name, x := range map[string][2]*big.Int{"p": {d.p, p.P}, "b": {d.b, p.B}, "n": {d.n, p.N}, "gx": {d.gx, p.Gx}, "gy": {d.gy, p.Gy},
		"a": {d.a, new(big.Int).Sub(p.P, big.NewInt(3))}} {
		if x[0].Cmp(x[1]) != 0 {
			t.Errorf("%s is %x, want %x", name, x[0], x[1])
		}
	}
	digest := SM3_256.Sum([]byte("message"))
	var keys [4]*ECPrivate
	var theirs [4]*sm2ecdh.PrivateKey
	for i := range keys {
		k, err := GenerateEC(c, Random)
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = k
		if theirs[i], err = sm2ecdh.P256().NewPrivateKey(k.Scalar()); err != nil {
			t.Fatal(err)
		}
		if want := theirs[i].PublicKey().Bytes(); !bytes.Equal(want[1:], append(bytes.Clone(k.X), k.Y...)) {
			t.Fatalf("public key %x, want %x", k.Point, want)
		}
	}
	k := keys[0]
	pub := &ecdsa.PublicKey{Curve: sm2.P256(), X: new(big.Int).SetBytes(k.X), Y: new(big.Int).SetBytes(k.Y)}
	r, s, err := k.SignSM2(digest)
	if err != nil || !sm2.Verify(pub, digest, new(big.Int).SetBytes(r), new(big.Int).SetBytes(s)) {
		t.Errorf("gmsm refuses our signature (%v)", err)
	}
	ri, si, err := sm2.Sign(Random, &ecdsa.PrivateKey{PublicKey: *pub, D: new(big.Int).SetBytes(k.Scalar())}, digest)
	if err != nil || k.VerifySM2(digest, ri.Bytes(), si.Bytes()) != nil {
		t.Errorf("we refuse gmsm's signature (%v)", err)
	}
	digest[0] ^= 1
	if k.VerifySM2(digest, ri.Bytes(), si.Bytes()) == nil {
		t.Error("a signature of another digest verifies")
	}
	z, err := keys[0].SM2Exchange(keys[1].Scalar(), keys[2].Point, keys[3].Point)
	if err != nil {
		t.Fatal(err)
	}
	want, err := theirs[0].SM2MQV(theirs[1], theirs[2].PublicKey(), theirs[3].PublicKey())
	if err != nil || !bytes.Equal(append(bytes.Clone(z.X), z.Y...), want.Bytes()[1:]) {
		t.Errorf("shared point %x, want %x (%v)", z, want.Bytes(), err)
	}
}

// TestMQV: both sides of Full MQV compute one point, on every curve.
func TestMQV(t *testing.T) {
	eachCurve(t, func(t *testing.T, c *Curve) {
		var k [4]*ECPrivate
		for i := range k {
			k[i], _ = GenerateEC(c, Random)
		}
		a, err := k[0].MQV(k[1].Scalar(), k[2].Point, k[3].Point)
		b, err2 := k[2].MQV(k[3].Scalar(), k[0].Point, k[1].Point)
		if err != nil || err2 != nil || !bytes.Equal(a.X, b.X) || !bytes.Equal(a.Y, b.Y) {
			t.Errorf("%x and %x (%v, %v)", a, b, err, err2)
		}
		if x, err := k[0].MQV(k[1].Scalar(), k[3].Point, k[2].Point); err == nil && bytes.Equal(a.X, x.X) {
			t.Error("the roles of the keys do not count")
		}
	})
}

// TestGenericECDSA: ECDSA with the generic formulas on P-256 against the
// standard library, both ways.
func TestGenericECDSA(t *testing.T) {
	c := *CurveByID(P256)
	std, err := ecdsa.GenerateKey(elliptic.P256(), Random)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := std.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewECPrivate(&c, raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []Hash{SHA1, SHA256, SHA512} {
		digest := h.Sum([]byte("message"))
		r, s, err := k.signGeneric(digest)
		if err != nil || !ecdsa.Verify(&std.PublicKey, digest, new(big.Int).SetBytes(r), new(big.Int).SetBytes(s)) {
			t.Errorf("the standard library refuses our signature of %d octets (%v)", len(digest), err)
		}
		ri, si, err := ecdsa.Sign(Random, std, digest)
		if err != nil || k.verifyGeneric(digest, ri.Bytes(), si.Bytes()) != nil {
			t.Errorf("we refuse the standard library's signature of %d octets (%v)", len(digest), err)
		}
		if k.verifyGeneric(h.Sum([]byte("another")), ri.Bytes(), si.Bytes()) == nil {
			t.Error("a signature of another message verifies")
		}
	}
}

func BenchmarkBaseMultBN(b *testing.B) {
	c := CurveByID(BNP256)
	k, _ := c.CommitScalar(NewDRBG(SHA256, []byte("benchmark")))
	for b.Loop() {
		c.BaseMult(k)
	}
}
