// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/elliptic"
	"errors"
	"math/big"
	"sync"

	"filippo.io/bigmod"
	"filippo.io/nistec"
)

// Curve is a prime curve of prime order: the NIST curves, BN-P256, and the one
// of SM2; or one of RFC 7748 (see IsMontgomery). Values come from CurveByID only.
type Curve struct {
	ID   uint16 // TPM_ECC_CURVE (Part 2, 6.4)
	Bits int    // size of the field in bits; of the order too, but for RFC 7748

	mont     montgomery // not nil: a curve of RFC 7748; of the rest, domain and cofactor count
	cofactor byte
	std      elliptic.Curve // nil for curves that the standard library lacks
	ops      pointOps
	domain
	n    *bigmod.Modulus // order
	nm1  *bigmod.Modulus // order - 1
	nm2  []byte          // order - 2
	wide *bigmod.Modulus // odd, large enough for any digest and for Size()+8 octets
}

// domain are the parameters of y² = x³ + ax + b over the field of p, with a
// generator of order n and cofactor 1.
type domain struct{ p, a, b, gx, gy, n *big.Int }

// Curve identifiers of Part 2, 6.4.
const (
	P224   uint16 = 0x0002
	P256   uint16 = 0x0003
	P384   uint16 = 0x0004
	P521   uint16 = 0x0005
	BNP256 uint16 = 0x0010
	SM2    uint16 = 0x0020
)

// domains of the curves that the standard library lacks: BN-P256 of ISO/IEC
// 15946-5 (the algorithm registry's TPM_ECC_BN_P256), SM2's of GM/T 0003.5.
var domains = map[uint16]domain{
	BNP256: {
		p: number("fffffffffffcf0cd46e5f25eee71a49f0cdc65fb12980a82d3292ddbaed33013"), a: number("0"), b: number("3"), gx: number("1"), gy: number("2"),
		n: number("fffffffffffcf0cd46e5f25eee71a49e0cdc65fb1299921af62d536cd10b500d"),
	},
	SM2: {
		p:  number("fffffffeffffffffffffffffffffffffffffffff00000000ffffffffffffffff"),
		a:  number("fffffffeffffffffffffffffffffffffffffffff00000000fffffffffffffffc"),
		b:  number("28e9fa9e9d9f5e344d5a9e4bcf6509a7f39789f515ab8f92ddbcbd414d940e93"),
		gx: number("32c4ae2c1f1981195f9904466a39c9948fe30bbff2660be1715a4589334c74c7"),
		gy: number("bc3736a2f4f6779c59bdcee36b692153d0a9877cc62a474002df32e52139f0a0"),
		n:  number("fffffffeffffffffffffffffffffffff7203df6b21c6052b53bbf40939d54123"),
	},
}

func number(hex string) *big.Int {
	n, ok := new(big.Int).SetString(hex, 16)
	if !ok {
		panic("tpmcrypto: " + hex + " is no number")
	}
	return n
}

// ErrPoint says that a point is not on the curve, has a coordinate out of
// range, or is the point at infinity.
var ErrPoint = errors.New("tpmcrypto: not a point of this curve")

// ErrInfinity says that the result of a computation is the point at infinity.
var ErrInfinity = errors.New("tpmcrypto: the result is the point at infinity")

// ErrScalar says that a private scalar is zero or not below the order.
var ErrScalar = errors.New("tpmcrypto: scalar is out of range for this curve")

var curves = sync.OnceValue(func() map[uint16]*Curve {
	m := map[uint16]*Curve{}
	for _, c := range []*Curve{
		{ID: P224, std: elliptic.P224(), ops: nist[*nistec.P224Point]{nistec.NewP224Point}},
		{ID: P256, std: elliptic.P256(), ops: nist[*nistec.P256Point]{nistec.NewP256Point}},
		{ID: P384, std: elliptic.P384(), ops: nist[*nistec.P384Point]{nistec.NewP384Point}},
		{ID: P521, std: elliptic.P521(), ops: nist[*nistec.P521Point]{nistec.NewP521Point}},
		{ID: BNP256}, {ID: SM2},
	} {
		if c.std != nil {
			p := c.std.Params()
			c.domain = domain{p.P, new(big.Int).Sub(p.P, big.NewInt(3)), p.B, p.Gx, p.Gy, p.N}
		} else {
			c.domain = domains[c.ID]
			c.ops = newGeneric(&c.domain)
		}
		n := c.domain.n
		c.Bits = c.domain.p.BitLen()
		c.n = mustModulus(n.Bytes())
		c.nm2 = new(big.Int).Sub(n, big.NewInt(2)).Bytes()
		c.nm1 = mustModulus(new(big.Int).Sub(n, big.NewInt(1)).Bytes())
		all := make([]byte, max(c.Size()+8, MaxDigest)+1)
		for i := range all {
			all[i] = 0xff
		}
		c.wide = mustModulus(all)
		c.cofactor = 1
		m[c.ID] = c
	}
	for _, c := range montgomeryCurves() {
		m[c.ID] = c
	}
	return m
})

func mustModulus(b []byte) *bigmod.Modulus {
	m, err := bigmod.NewModulus(b)
	if err != nil {
		panic(err)
	}
	return m
}

// CurveByID returns the curve with this TPM_ECC_CURVE, nil if it is not
// implemented.
func CurveByID(id uint16) *Curve { return curves()[id] }

// CurveIDs lists the implemented curves in the order of their ids.
func CurveIDs() []uint16 { return []uint16{P224, P256, P384, P521, BNP256, SM2, Curve25519, Curve448} }

// Size returns the size of a coordinate and of a scalar in octets.
func (c *Curve) Size() int { return (c.Bits + 7) / 8 }

// CurveParameters is what TPM2_ECC_Parameters tells (Part 2, 11.2.5.2).
type CurveParameters struct{ P, A, B, Gx, Gy, N, H []byte }

// Parameters returns the curve's parameters as numbers, big-endian, each with
// Size octets but for the cofactor H and a coefficient A of zero, which are
// single octets. Those of RFC 7748 are in Montgomery form.
func (c *Curve) Parameters() CurveParameters {
	d := &c.domain
	fill := func(x *big.Int) []byte { return x.FillBytes(make([]byte, c.Size())) }
	a := fill(d.a)
	if d.a.Sign() == 0 {
		a = []byte{0}
	}
	return CurveParameters{
		P: fill(d.p), A: a, B: fill(d.b), Gx: fill(d.gx), Gy: fill(d.gy), N: fill(d.n), H: []byte{c.cofactor},
	}
}

// Point is a point of a curve in affine coordinates, Size octets each.
type Point struct{ X, Y []byte }

// CheckPoint checks that (x, y) is a point of the curve other than infinity
// and returns it with coordinates of full size. Shorter input counts as having
// leading zeros; longer input is an error even if its extra octets are zero.
func (c *Curve) CheckPoint(x, y []byte) (Point, error) {
	if c.mont != nil {
		return c.montgomeryPoint(x, y)
	}
	b, err := c.encode(x, y)
	if err != nil {
		return Point{}, err
	}
	p, err := c.ops.check(b)
	if err != nil {
		return Point{}, ErrPoint
	}
	return c.decode(p)
}

// encode returns the uncompressed form of SEC 1, 2.3.3, unchecked.
func (c *Curve) encode(x, y []byte) ([]byte, error) {
	n := c.Size()
	if len(x) > n || len(y) > n {
		return nil, ErrPoint
	}
	b := make([]byte, 1+2*n)
	b[0] = 4
	copy(b[1+n-len(x):], x)
	copy(b[1+2*n-len(y):], y)
	return b, nil
}

// decode takes what the point operations return: one octet for infinity.
func (c *Curve) decode(b []byte) (Point, error) {
	n := c.Size()
	if len(b) != 1+2*n {
		return Point{}, ErrInfinity
	}
	return Point{X: b[1 : 1+n : 1+n], Y: b[1+n:]}, nil
}

// BaseMult returns k*G for a scalar of Size octets or fewer.
func (c *Curve) BaseMult(k []byte) (Point, error) {
	if c.mont != nil {
		u, err := c.mont.base(k)
		return Point{X: u}, err
	}
	s, err := c.scalar(k)
	if err != nil {
		return Point{}, err
	}
	defer clear(s)
	b, err := c.ops.baseMult(s)
	if err != nil {
		return Point{}, err
	}
	return c.decode(b)
}

// Mult returns k*P after checking P. The curves have cofactor 1, so this is
// ECDH with and without cofactor; on those of RFC 7748 it is X25519 or X448.
func (c *Curve) Mult(k []byte, p Point) (Point, error) {
	if c.mont != nil {
		if len(p.Y) != 0 {
			return Point{}, ErrPoint
		}
		u, err := c.mont.mult(k, p.X)
		return Point{X: u}, err
	}
	s, err := c.scalar(k)
	if err != nil {
		return Point{}, err
	}
	defer clear(s)
	e, err := c.encode(p.X, p.Y)
	if err != nil {
		return Point{}, err
	}
	b, err := c.ops.mult(s, e)
	if err != nil {
		return Point{}, ErrPoint
	}
	return c.decode(b)
}

// Add returns P+Q after checking both. ErrPoint on curves of RFC 7748, whose
// points have no sum without their y-coordinates.
func (c *Curve) Add(p, q Point) (Point, error) {
	if c.mont != nil {
		return Point{}, ErrPoint
	}
	a, err := c.encode(p.X, p.Y)
	if err != nil {
		return Point{}, err
	}
	b, err := c.encode(q.X, q.Y)
	if err != nil {
		return Point{}, err
	}
	r, err := c.ops.add(a, b)
	if err != nil {
		return Point{}, ErrPoint
	}
	return c.decode(r)
}

// Sub returns P-Q after checking both.
func (c *Curve) Sub(p, q Point) (Point, error) {
	if c.mont != nil {
		return Point{}, ErrPoint
	}
	q, err := c.CheckPoint(q.X, q.Y)
	if err != nil {
		return Point{}, err
	}
	y := new(big.Int).SetBytes(q.Y) // public values: big.Int may be used
	if y.Sign() != 0 {
		y.Sub(c.domain.p, y)
	}
	return c.Add(p, Point{q.X, y.FillBytes(make([]byte, c.Size()))})
}

// scalar pads k to Size octets.
func (c *Curve) scalar(k []byte) ([]byte, error) {
	if len(k) > c.Size() {
		return nil, ErrScalar
	}
	s := make([]byte, c.Size())
	copy(s[len(s)-len(k):], k)
	return s, nil
}

// pointOps works on points in the uncompressed form; infinity is one zero
// octet, and is refused as input.
type pointOps interface {
	check(p []byte) ([]byte, error)
	baseMult(k []byte) ([]byte, error)
	mult(k, p []byte) ([]byte, error)
	add(p, q []byte) ([]byte, error)
}

type nistPoint[P any] interface {
	SetBytes([]byte) (P, error)
	Bytes() []byte
	Add(p, q P) P
	ScalarMult(P, []byte) (P, error)
	ScalarBaseMult([]byte) (P, error)
}

// nist gives the generic form of nistec's four types.
type nist[P nistPoint[P]] struct{ zero func() P }

func (g nist[P]) set(b []byte) (P, error) {
	if len(b) < 2 || b[0] != 4 {
		return g.zero(), ErrPoint
	}
	return g.zero().SetBytes(b)
}

func (g nist[P]) check(b []byte) ([]byte, error) {
	p, err := g.set(b)
	if err != nil {
		return nil, err
	}
	return p.Bytes(), nil
}

func (g nist[P]) baseMult(k []byte) ([]byte, error) {
	p, err := g.zero().ScalarBaseMult(k)
	if err != nil {
		return nil, err
	}
	return p.Bytes(), nil
}

func (g nist[P]) mult(k, b []byte) ([]byte, error) {
	p, err := g.set(b)
	if err != nil {
		return nil, err
	}
	if p, err = p.ScalarMult(p, k); err != nil {
		return nil, err
	}
	return p.Bytes(), nil
}

func (g nist[P]) add(a, b []byte) ([]byte, error) {
	p, err := g.set(a)
	if err != nil {
		return nil, err
	}
	q, err := g.set(b)
	if err != nil {
		return nil, err
	}
	return g.zero().Add(p, q).Bytes(), nil
}
