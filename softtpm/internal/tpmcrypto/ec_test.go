// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"fmt"
	"math/big"
	"testing"
)

func eachCurve(t *testing.T, f func(t *testing.T, c *Curve)) {
	for _, id := range CurveIDs() {
		if CurveByID(id).IsMontgomery() {
			continue // see edwards_test.go
		}
		c := CurveByID(id)
		if c == nil || c.ID != id {
			t.Fatalf("curve %d is not its own", id)
		}
		t.Run(fmt.Sprintf("curve %#x", id), func(t *testing.T) { f(t, c) })
	}
}

func TestCurves(t *testing.T) {
	if CurveByID(0) != nil || CurveByID(0x11) != nil {
		t.Error("a curve that is not implemented")
	}
	eachCurve(t, func(t *testing.T, c *Curve) {
		q := c.Parameters()
		if _, err := c.CheckPoint(q.Gx, q.Gy); err != nil {
			t.Errorf("generator: %v", err)
		}
		one, err := c.BaseMult([]byte{1})
		if err != nil || !bytes.Equal(one.X, q.Gx) || !bytes.Equal(one.Y, q.Gy) {
			t.Errorf("1*G is not G: %v", err)
		}
		if _, err := c.BaseMult(q.N); err != ErrInfinity {
			t.Errorf("n*G: %v", err)
		}
		three, _ := c.BaseMult([]byte{3})
		two, _ := c.BaseMult([]byte{2})
		if sum, err := c.Add(one, two); err != nil || !bytes.Equal(sum.X, three.X) || !bytes.Equal(sum.Y, three.Y) {
			t.Errorf("G+2G: %v", err)
		}
		if dbl, err := c.Add(one, one); err != nil || !bytes.Equal(dbl.Y, two.Y) {
			t.Errorf("G+G: %v", err)
		}
		if d, err := c.Sub(three, one); err != nil || !bytes.Equal(d.X, two.X) || !bytes.Equal(d.Y, two.Y) {
			t.Errorf("3G-G: %v", err)
		}
		if _, err := c.Sub(one, one); err != ErrInfinity {
			t.Errorf("G-G: %v", err)
		}
		if p, err := c.Mult([]byte{3}, one); err != nil || !bytes.Equal(p.X, three.X) {
			t.Errorf("3*G: %v", err)
		}
		p := new(big.Int).SetBytes(q.P)
		x := new(big.Int).SetBytes(q.Gx)
		over := new(big.Int).Add(p, x)
		for name, pt := range map[string]Point{
			"off by one":  {q.Gx, flip(q.Gy, len(q.Gy)-1)},
			"zero":        {nil, nil},
			"x not below": {over.Bytes(), q.Gy},
			"too long":    {append([]byte{0}, q.Gx...), q.Gy},
			"prime":       {q.P, q.Gy},
		} {
			if _, err := c.CheckPoint(pt.X, pt.Y); err == nil {
				t.Errorf("%s: accepted", name)
			}
			if _, err := c.Mult([]byte{2}, pt); err == nil {
				t.Errorf("%s: multiplied", name)
			}
			if _, err := c.Add(pt, one); err == nil {
				t.Errorf("%s: added", name)
			}
			if _, err := NewECPublic(c, pt.X, pt.Y); err == nil {
				t.Errorf("%s: a public key", name)
			}
		}
	})
}

func TestGenerateEC(t *testing.T) {
	eachCurve(t, func(t *testing.T, c *Curve) {
		a, err := GenerateEC(c, NewDRBG(SHA512, []byte("seed")))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := GenerateEC(c, NewDRBG(SHA512, []byte("seed")))
		x, _ := GenerateEC(c, NewDRBG(SHA512, []byte("tree")))
		if !bytes.Equal(a.Scalar(), b.Scalar()) || bytes.Equal(a.Scalar(), x.Scalar()) {
			t.Error("same seed, other key, or other seed, same key")
		}
		// The definition, computed with big integers.
		raw := make([]byte, c.Size()+8)
		NewDRBG(SHA512, []byte("seed")).Read(raw)
		n := new(big.Int).SetBytes(c.Parameters().N)
		want := new(big.Int).SetBytes(raw)
		want.Mod(want, new(big.Int).Sub(n, big.NewInt(1))).Add(want, big.NewInt(1))
		if new(big.Int).SetBytes(a.Scalar()).Cmp(want) != 0 {
			t.Errorf("d = %x, want %x", a.Scalar(), want)
		}
		// The ends of the range: c mod (n-1) = 0 and n-2.
		z, err := GenerateEC(c, bytes.NewReader(make([]byte, c.Size()+8)))
		if err != nil || new(big.Int).SetBytes(z.Scalar()).Cmp(big.NewInt(1)) != 0 {
			t.Errorf("lowest scalar: %v", err)
		}
		top := new(big.Int).Sub(n, big.NewInt(2)).FillBytes(make([]byte, c.Size()+8))
		z, err = GenerateEC(c, bytes.NewReader(top))
		if err != nil || new(big.Int).SetBytes(z.Scalar()).Cmp(new(big.Int).Sub(n, big.NewInt(1))) != 0 {
			t.Errorf("highest scalar: %v", err)
		}
		for name, d := range map[string][]byte{"zero": nil, "order": n.Bytes(), "too long": make([]byte, c.Size()+1)} {
			if _, err := NewECPrivate(c, d); err == nil {
				t.Errorf("%s is a private key", name)
			}
		}
		a.Zero()
		if _, err := a.ECDH(b.X, b.Y); err == nil {
			t.Error("an erased key still works")
		}
		if _, _, err := a.SignECDSA(make([]byte, 32)); err == nil {
			t.Error("an erased key still signs")
		}
	})
}

func TestECDHAgreesWithStd(t *testing.T) {
	std := map[uint16]ecdh.Curve{P256: ecdh.P256(), P384: ecdh.P384(), P521: ecdh.P521()}
	eachCurve(t, func(t *testing.T, c *Curve) {
		a, err := GenerateEC(c, Random)
		if err != nil {
			t.Fatal(err)
		}
		b, err := GenerateEC(c, Random)
		if err != nil {
			t.Fatal(err)
		}
		ab, err := a.ECDH(b.X, b.Y)
		if err != nil {
			t.Fatal(err)
		}
		ba, err := b.ECDH(a.X, a.Y)
		if err != nil || !bytes.Equal(ab.X, ba.X) || !bytes.Equal(ab.Y, ba.Y) {
			t.Errorf("the two sides differ: %v", err)
		}
		if s := std[c.ID]; s != nil {
			k, err := s.NewPrivateKey(a.Scalar())
			if err != nil {
				t.Fatal(err)
			}
			p, err := s.NewPublicKey(append(append([]byte{4}, b.X...), b.Y...))
			if err != nil {
				t.Fatal(err)
			}
			if z, err := k.ECDH(p); err != nil || !bytes.Equal(z, ab.X) {
				t.Errorf("crypto/ecdh: %v", err)
			}
		}
		if _, err := a.ECDH(b.X, flip(b.Y, 5)); err != ErrPoint {
			t.Errorf("point off the curve: %v", err)
		}
	})
}

// RFC 6979, A.2.5: public key and signature of "sample" with SHA-256.
func TestECDSAVector(t *testing.T) {
	k, err := NewECPrivate(CurveByID(P256), unhex(t, "C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721"))
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(k.X) != "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6" ||
		hex.EncodeToString(k.Y) != "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299" {
		t.Errorf("public key %x %x", k.X, k.Y)
	}
	r := unhex(t, "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716")
	s := unhex(t, "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8")
	if err := k.VerifyECDSA(SHA256.Sum([]byte("sample")), r, s); err != nil {
		t.Error(err)
	}
	if err := k.VerifyECDSA(SHA256.Sum([]byte("Sample")), r, s); err == nil {
		t.Error("another message verifies")
	}
}

// Each scheme of signature, its two components, all curves and hashes.
func TestECSignatures(t *testing.T) {
	eachCurve(t, func(t *testing.T, c *Curve) {
		k, err := GenerateEC(c, Random)
		if err != nil {
			t.Fatal(err)
		}
		other, _ := GenerateEC(c, Random)
		p, err := NewECPublic(c, k.X, k.Y)
		if err != nil {
			t.Fatal(err)
		}
		q := other.Public()
		hashes := Hashes()
		if c.std == nil {
			hashes = []Hash{SHA1, SM3_256, SHA512} // slow
		}
		for _, h := range hashes {
			d := h.Sum([]byte("message"))
			type verify func(p *ECPublic, d, r, s []byte) error
			check := func(name string, r, s []byte, err error, v verify) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s %x: %v", name, h, err)
				}
				if len(r) != c.Size() || len(s) != c.Size() {
					t.Errorf("%s: r has %d octets, s %d", name, len(r), len(s))
				}
				if err := v(p, d, r, s); err != nil {
					t.Errorf("%s %x: %v", name, h, err)
				}
				zero := make([]byte, c.Size())
				n := c.Parameters().N
				for what, err := range map[string]error{
					"key":    v(q, d, r, s),
					"digest": v(p, flip(d, 0), r, s),
					"r":      v(p, d, flip(r, c.Size()-1), s),
					"s":      v(p, d, r, flip(s, c.Size()-1)),
					"r=0":    v(p, d, zero, s),
					"s=0":    v(p, d, r, zero),
					"r=n":    v(p, d, n, s),
					"s=n":    v(p, d, r, n),
					"r long": v(p, d, append([]byte{0}, r...), s),
					"empty":  v(p, d, nil, nil),
				} {
					if err == nil {
						t.Errorf("%s %x: accepted with wrong %s", name, h, what)
					}
				}
			}
			r, s, err := k.SignECDSA(d)
			check("ECDSA", r, s, err, (*ECPublic).VerifyECDSA)
			r, s, err = k.SignSchnorr(h, Random, d)
			check("ECSCHNORR", r, s, err, func(p *ECPublic, d, r, s []byte) error { return p.VerifySchnorr(h, d, r, s) })
		}
		if _, _, err := k.SignSchnorr(0x10, Random, nil); err == nil {
			t.Error("ECSCHNORR with TPM_ALG_NULL")
		}
		if err := p.VerifySchnorr(0x10, nil, []byte{1}, []byte{1}); err == nil {
			t.Error("ECSCHNORR with TPM_ALG_NULL verifies")
		}
	})
}

// The verifier of ECDAA knows E = r*G from the commit: s*G = E + T*Q.
func TestECDAA(t *testing.T) {
	eachCurve(t, func(t *testing.T, c *Curve) {
		k, err := GenerateEC(c, Random)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.CommitScalar(NewDRBG(SHA256, []byte("commit 1")))
		if err != nil {
			t.Fatal(err)
		}
		d := SHA256.Sum([]byte("message"))
		nonce, s, err := k.SignECDAA(SHA256, Random, r, d)
		if err != nil {
			t.Fatal(err)
		}
		E, _ := c.BaseMult(r)
		T, _ := c.reduce(SHA256.Sum(nonce, d))
		TQ, err := c.Mult(T.Bytes(c.n), k.Point)
		if err != nil {
			t.Fatal(err)
		}
		right, err := c.Add(E, TQ)
		if err != nil {
			t.Fatal(err)
		}
		left, err := c.BaseMult(s)
		if err != nil || !bytes.Equal(left.X, right.X) || !bytes.Equal(left.Y, right.Y) {
			t.Errorf("s*G is not E + T*Q: %v", err)
		}
		if _, _, err := k.SignECDAA(0x10, Random, r, d); err == nil {
			t.Error("ECDAA with TPM_ALG_NULL")
		}
	})
}

func TestHashToPoint(t *testing.T) {
	eachCurve(t, func(t *testing.T, c *Curve) {
		// Try seeds until x has a y: y^2 = x^3 + ax + b.
		q := c.Parameters()
		p, a, b := new(big.Int).SetBytes(q.P), new(big.Int).SetBytes(q.A), new(big.Int).SetBytes(q.B)
		found := false
		for i := byte(0); i < 40 && !found; i++ {
			x := new(big.Int).SetBytes(SHA512.Sum([]byte{i}))
			x.Mod(x, p)
			y2 := new(big.Int).Exp(x, big.NewInt(3), p)
			y2.Add(y2, new(big.Int).Mul(a, x)).Add(y2, b).Mod(y2, p)
			y := new(big.Int).ModSqrt(y2, p)
			if y == nil {
				continue
			}
			found = true
			pt, err := c.HashToPoint(SHA512, []byte{i}, y.Bytes())
			if err != nil || new(big.Int).SetBytes(pt.X).Cmp(x) != 0 {
				t.Errorf("%v", err)
			}
			if _, err := c.HashToPoint(SHA512, []byte{i}, []byte{1}); err == nil {
				t.Error("another y accepted")
			}
		}
		if !found {
			t.Error("no point in 40 tries")
		}
		if _, err := c.HashToPoint(0x10, []byte{1}, []byte{1}); err == nil {
			t.Error("TPM_ALG_NULL")
		}
	})
}
