// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"testing"

	"filippo.io/edwards25519"
	"github.com/cloudflare/circl/ecc/goldilocks"
)

type edwardsVectors struct {
	EdDSA []struct {
		Curve                            uint16
		Prehashed, OK                    bool
		From                             string
		Seed, Public, Message, Signature hexBytes
	}
	ECDH []struct {
		Curve                   uint16
		From                    string
		Private, Public, Shared hexBytes
	}
}

func readEdwards(t *testing.T) (v edwardsVectors) {
	f, err := os.Open("testdata/edwards.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestEdDSAVectors: RFC 8032's keys and signatures, and wycheproof's verdicts,
// of whole messages and in pieces through a saved state.
func TestEdDSAVectors(t *testing.T) {
	counts := map[uint16]int{}
	for _, v := range readEdwards(t).EdDSA {
		counts[v.Curve]++
		message := []byte(v.Message)
		if v.Prehashed {
			message = EdPrehash(v.Curve, v.Message)
		}
		if len(v.Seed) != 0 {
			k, err := NewEdPrivate(v.Curve, v.Seed)
			if err != nil || !bytes.Equal(k.Bytes(), v.Public) {
				t.Fatalf("%s: public key %x, want %x (%v)", v.From, k.Bytes(), v.Public, err)
			}
			sign := k.Sign
			if v.Prehashed {
				sign = k.SignPrehashed
			}
			if sig, err := sign(message); err != nil || !bytes.Equal(sig, v.Signature) {
				t.Errorf("%s: signature %x, want %x (%v)", v.From, sig, v.Signature, err)
			}
		}
		p, err := NewEdPublic(v.Curve, v.Public)
		if err != nil {
			t.Errorf("%s: %v", v.From, err)
			continue
		}
		if v.Prehashed {
			if err := p.VerifyPrehashed(message, v.Signature); (err == nil) != v.OK {
				t.Errorf("%s: %v, want valid %v", v.From, err, v.OK)
			}
			continue
		}
		if err := p.Verify(message, v.Signature); (err == nil) != v.OK {
			t.Errorf("%s: %v, want valid %v", v.From, err, v.OK)
		}
		n := EdSize(v.Curve)
		if len(v.Signature) < n {
			continue
		}
		h, err := p.NewChallenge(v.Signature[:n])
		if err != nil {
			t.Fatalf("%s: %v", v.From, err)
		}
		half := len(message) / 2
		h.Write(message[:half])
		b, err := h.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if h, err = UnmarshalEdHash(b); err != nil {
			t.Fatal(err)
		}
		h.Write(message[half:])
		if err := p.VerifyChallenge(h.Sum(), v.Signature); (err == nil) != v.OK {
			t.Errorf("%s in pieces: %v, want valid %v", v.From, err, v.OK)
		}
	}
	if counts[Curve25519] < 100 || counts[Curve448] < 80 {
		t.Errorf("%d vectors for Curve25519 and %d for Curve448: some are missing", counts[Curve25519], counts[Curve448])
	}
}

// TestMontgomeryVectors: wycheproof's X25519 and X448, RFC 7748's own among
// them. A shared secret of zeros is an error here.
func TestMontgomeryVectors(t *testing.T) {
	n := 0
	for _, v := range readEdwards(t).ECDH {
		c := CurveByID(v.Curve)
		if len(v.Public) != c.Size() {
			if _, err := c.CheckPoint(v.Public, nil); err == nil {
				t.Errorf("%s: a point of %d octets was taken", v.From, len(v.Public))
			}
			continue
		}
		k, err := NewECPrivate(c, v.Private)
		if err != nil {
			t.Fatalf("%s: %v", v.From, err)
		}
		n++
		z, err := k.ECDH(v.Public, nil)
		zero := bytes.Equal(v.Shared, make([]byte, c.Size()))
		if _, e := NewECPublic(c, v.Public, nil); (e != nil) != zero {
			t.Errorf("%s: as a public key: %v", v.From, e)
		}
		if zero {
			if err != ErrPoint {
				t.Errorf("%s: %v, want %v", v.From, err, ErrPoint)
			}
			continue
		}
		if err != nil || !bytes.Equal(z.X, v.Shared) || z.Y != nil {
			t.Errorf("%s: %x (%v), want %x", v.From, z, err, v.Shared)
		}
	}
	if n < 900 {
		t.Errorf("%d vectors: some are missing", n)
	}
}

// TestMontgomeryParameters: the generators are on the curves, and the point is
// what the private key 1 and 9, 5 of RFC 7748 give.
func TestMontgomeryParameters(t *testing.T) {
	for id, h := range map[uint16]byte{Curve25519: 8, Curve448: 4} {
		c := CurveByID(id)
		p := c.Parameters()
		n := func(b []byte) *big.Int { return new(big.Int).SetBytes(b) }
		u, v, q := n(p.Gx), n(p.Gy), n(p.P)
		// v² = u³ + a·u² + u
		left := new(big.Int).Exp(v, big.NewInt(2), q)
		right := new(big.Int).Exp(u, big.NewInt(3), q)
		right.Add(right, new(big.Int).Mul(n(p.A), new(big.Int).Exp(u, big.NewInt(2), q)))
		right.Add(right, u).Mod(right, q)
		if left.Cmp(right) != 0 || !n(p.N).ProbablyPrime(20) || !q.ProbablyPrime(20) || !bytes.Equal(p.H, []byte{h}) || n(p.B).Cmp(big.NewInt(1)) != 0 {
			t.Errorf("%d: the parameters do not fit each other", id)
		}
		// X25519(k, base) is the public key.
		k, err := GenerateEC(c, Random)
		if err != nil {
			t.Fatal(err)
		}
		base := p.Gx
		for i, j := 0, len(base)-1; i < j; i, j = i+1, j-1 {
			base[i], base[j] = base[j], base[i]
		}
		if z, err := k.ECDH(base, nil); err != nil || !bytes.Equal(z.X, k.X) {
			t.Errorf("%d: k times the generator is %x, the public key %x (%v)", id, z.X, k.X, err)
		}
	}
}

// TestEdKeysRefused: what is no key of EdDSA: points of low order, encodings
// that are not canonical, wrong sizes, points off the curve.
func TestEdKeysRefused(t *testing.T) {
	low25519 := []string{
		"0100000000000000000000000000000000000000000000000000000000000000", // the neutral point
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // order 2
		"0000000000000000000000000000000000000000000000000000000000000000", // order 4
		"0000000000000000000000000000000000000000000000000000000000000080",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", // order 8
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	}
	other25519 := []string{
		"0100000000000000000000000000000000000000000000000000000000000080", // x = 0 with its sign set
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // y = p + 1
		"f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // y = p + 3
		"0200000000000000000000000000000000000000000000000000000000000000", // not on the curve
		"01", "",
	}
	for _, s := range append(low25519, other25519...) {
		b, _ := hex.DecodeString(s)
		if p, err := NewEdPublic(Curve25519, b); err == nil || p != nil {
			t.Errorf("Curve25519 took %s", s)
		}
	}
	for _, s := range low25519 { // they are points, or the list would say little
		b, _ := hex.DecodeString(s)
		p, err := new(edwards25519.Point).SetBytes(b)
		if err != nil || new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) != 1 {
			t.Errorf("%s is no point of low order (%v)", s, err)
		}
	}
	one := append([]byte{1}, make([]byte, 56)...)
	zero := make([]byte, 57)
	minusOne, _ := hex.DecodeString("fefffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffffffffffffffffffffffffffffffffffffffffffffffffff00")
	for _, b := range [][]byte{one, zero, minusOne} {
		if _, err := goldilocks.FromBytes(b); err != nil {
			t.Errorf("%x is no point: %v", b, err)
		}
		if p, err := NewEdPublic(Curve448, b); err == nil || p != nil {
			t.Errorf("Curve448 took %x", b)
		}
	}
	p, _ := hex.DecodeString("fffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffffffffffffffffffffffffffffffffffffffffffffffffff00")
	for _, b := range [][]byte{p, one[:56], append(bytes.Clone(one[:56]), 1), nil} {
		if _, err := NewEdPublic(Curve448, b); err == nil {
			t.Errorf("Curve448 took %x", b)
		}
	}
	if _, err := NewEdPrivate(Curve448, make([]byte, 56)); err == nil {
		t.Error("Curve448 took a private key of 56 octets")
	}
	if _, err := NewEdPrivate(P256, make([]byte, 32)); err == nil {
		t.Error("P-256 has no EdDSA")
	}
}

// TestEdCofactorless: a key with a part of low order verifies only where the
// equation without the cofactor holds (Errata v1, 3.1).
func TestEdCofactorless(t *testing.T) {
	for _, curve := range []uint16{Curve25519, Curve448} {
		k, err := GenerateEd(curve, Random)
		if err != nil {
			t.Fatal(err)
		}
		// A' = A + T with T of order 2: the signer's S still fits if the challenge
		// is even, since then [k]T is neutral.
		mixed := addOrder2(t, curve, k.Bytes())
		p, err := NewEdPublic(curve, mixed)
		if err != nil {
			t.Fatal(err)
		}
		even, odd := 0, 0
		for i := 0; i < 200 && (even == 0 || odd == 0); i++ {
			m := []byte{byte(i)}
			sig, challenge := signAs(t, k, p, m)
			if err := p.Verify(m, sig); (err == nil) != (challenge&1 == 0) {
				t.Fatalf("curve %#x: challenge ends in %d, verdict %v", curve, challenge&1, err)
			}
			if challenge&1 == 0 {
				even++
			} else {
				odd++
			}
		}
		if even == 0 || odd == 0 {
			t.Errorf("curve %#x: no challenge of each parity", curve)
		}
	}
}

// addOrder2 returns the encoding of A + (0, -1), which is (-x, -y).
func addOrder2(t *testing.T, curve uint16, a []byte) []byte {
	if curve == Curve25519 {
		p, err := new(edwards25519.Point).SetBytes(a)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := hex.DecodeString("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")
		q, err := new(edwards25519.Point).SetBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		return p.Add(p, q).Bytes()
	}
	p, err := goldilocks.FromBytes(a)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := hex.DecodeString("fefffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffffffffffffffffffffffffffffffffffffffffffffffffff00")
	q, err := goldilocks.FromBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	p.Add(q)
	return encode448(p)
}

// signAs signs with k what p, another form of its public key, will be asked to
// verify, and returns the low octet of the reduced challenge.
func signAs(t *testing.T, k *EdPrivate, p *EdPublic, m []byte) ([]byte, byte) {
	n := EdSize(k.Curve)
	sig := make([]byte, 2*n)
	if k.Curve == Curve448 {
		s, _ := expand448(k.seed)
		var r, c, z goldilocks.Scalar
		r.FromBytes(append([]byte{m[0] + 1}, make([]byte, 60)...))
		copy(sig, encode448(goldilocks.Curve{}.ScalarBaseMult(&r)))
		h := p.challenge(sig[:n], false)
		h.Write(m)
		c.FromBytes(h.Sum())
		z.Mul(&c, s)
		z.Add(&z, &r)
		copy(sig[n:], z[:])
		return sig, c[0]
	}
	wide := EdPrehash(Curve25519, k.seed)
	s, err := new(edwards25519.Scalar).SetBytesWithClamping(wide[:32])
	if err != nil {
		t.Fatal(err)
	}
	r, err := new(edwards25519.Scalar).SetCanonicalBytes(append([]byte{m[0] + 1}, make([]byte, 31)...))
	if err != nil {
		t.Fatal(err)
	}
	copy(sig, new(edwards25519.Point).ScalarBaseMult(r).Bytes())
	h := p.challenge(sig[:n], false)
	h.Write(m)
	c, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum())
	if err != nil {
		t.Fatal(err)
	}
	copy(sig[n:], new(edwards25519.Scalar).MultiplyAdd(c, s, r).Bytes())
	return sig, c.Bytes()[0]
}

// FuzzEdHash: a saved hash that is taken up is the one that was saved.
func FuzzEdHash(f *testing.F) {
	for _, c := range []uint16{Curve25519, Curve448} {
		b, _ := NewEdPrehash(c).MarshalBinary()
		f.Add(b)
	}
	f.Add([]byte{0, 0x41, 114})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := UnmarshalEdHash(b)
		if err != nil {
			if h != nil {
				t.Fatal("a hash with an error")
			}
			return
		}
		again, err := h.MarshalBinary()
		if err != nil || len(again) != len(b) || !bytes.Equal(again[:3], b[:3]) {
			t.Fatalf("saved as %x, was %x (%v)", again, b, err)
		}
	})
}
