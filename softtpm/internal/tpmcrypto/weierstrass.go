// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/subtle"
	"math/big"

	"filippo.io/bigmod"
)

// Short Weierstrass curves of prime order that no kept library has the points
// of: BN-P256, and SM2's curve. The formulas are the complete ones of Renes,
// Costello and Batina (eprint 2015/1060, equation 1): one formula for all
// pairs of points, infinity and equal points among them, so nothing branches.
// bigmod's arithmetic is of constant time for a given modulus; a choice by
// secret bits reads all that could be chosen (see table.choose). So the time of
// mult and baseMult depends on the curve only. They are slow (milliseconds), which is the price.

// generic is pointOps for y² = x³ + ax + b over a prime field.
type generic struct {
	p        *bigmod.Modulus
	a, b, b3 *bigmod.Nat // the coefficients, and 3b; never written to
	g        []byte      // the generator in uncompressed form
	inv      []byte      // p - 2
}

func newGeneric(d *domain) generic {
	fill := func(x *big.Int) []byte { return x.FillBytes(make([]byte, (d.p.BitLen()+7)/8)) }
	g := generic{
		p: mustModulus(d.p.Bytes()), inv: new(big.Int).Sub(d.p, big.NewInt(2)).Bytes(),
		g: append(append([]byte{4}, fill(d.gx)...), fill(d.gy)...),
	}
	g.a, g.b = g.num(fill(d.a)), g.num(fill(d.b))
	g.b3 = g.sum(g.sum(g.b, g.b), g.b)
	return g
}

// projective is a point (X:Y:Z), infinity with Z = 0. Its numbers are not
// shared with another point.
type projective struct{ x, y, z *bigmod.Nat }

func (g *generic) num(b []byte) *bigmod.Nat {
	n, err := bigmod.NewNat().SetBytes(b, g.p)
	if err != nil {
		panic("tpmcrypto: a constant of a curve is out of range")
	}
	return n
}

func (g *generic) copy(x *bigmod.Nat) *bigmod.Nat {
	return bigmod.NewNat().ExpandFor(g.p).Add(x, g.p)
}

func (g *generic) mul(x, y *bigmod.Nat) *bigmod.Nat { return g.copy(x).Mul(y, g.p) }
func (g *generic) sum(x, y *bigmod.Nat) *bigmod.Nat { return g.copy(x).Add(y, g.p) }
func (g *generic) dif(x, y *bigmod.Nat) *bigmod.Nat { return g.copy(x).Sub(y, g.p) }

func (g *generic) small(n uint) *bigmod.Nat { return bigmod.NewNat().SetUint(n).ExpandFor(g.p) }

func (g *generic) infinity() projective { return projective{g.small(0), g.small(1), g.small(0)} }

// sumOf adds two points.
func (g *generic) sumOf(p, q projective) projective {
	xx, yy, zz := g.mul(p.x, q.x), g.mul(p.y, q.y), g.mul(p.z, q.z)
	cross := func(u1, v1, u2, v2, uu, vv *bigmod.Nat) *bigmod.Nat { // u1*v2 + u2*v1
		return g.dif(g.mul(g.sum(u1, v1), g.sum(u2, v2)), g.sum(uu, vv))
	}
	xy := cross(p.x, p.y, q.x, q.y, xx, yy)
	xz := cross(p.x, p.z, q.x, q.z, xx, zz)
	yz := cross(p.y, p.z, q.y, q.z, yy, zz)
	m := g.sum(g.mul(g.a, xz), g.mul(g.b3, zz))
	minus, plus := g.dif(yy, m), g.sum(yy, m)
	azz := g.mul(g.a, zz)
	k := g.sum(g.sum(g.sum(xx, xx), xx), azz)               // 3xx + a*zz
	l := g.sum(g.mul(g.b3, xz), g.mul(g.a, g.dif(xx, azz))) // a*xx + 3b*xz - a²*zz
	return projective{
		x: g.dif(g.mul(xy, minus), g.mul(yz, l)),
		y: g.sum(g.mul(k, l), g.mul(plus, minus)),
		z: g.sum(g.mul(yz, plus), g.mul(xy, k)),
	}
}

// table holds the multiples 0*P to 15*P, each as the octets of its numbers.
type table [16][]byte

// choose returns entry i, after reading all of them.
func (t *table) choose(g *generic, i uint8) projective {
	n := g.p.Size()
	b := make([]byte, 3*n)
	for j, e := range t {
		subtle.ConstantTimeCopy(subtle.ConstantTimeByteEq(i, uint8(j)), b, e)
	}
	return projective{g.num(b[:n]), g.num(b[n : 2*n]), g.num(b[2*n:])}
}

// times multiplies by a scalar, with four doublings, a choice and an addition
// for each four of its bits.
func (g *generic) times(k []byte, p projective) projective {
	var t table
	q := g.infinity()
	for i := range t {
		t[i] = append(append(q.x.Bytes(g.p), q.y.Bytes(g.p)...), q.z.Bytes(g.p)...)
		q = g.sumOf(q, p)
	}
	r := g.infinity()
	for _, b := range k {
		for _, w := range [2]uint8{b >> 4, b & 15} {
			for range 4 {
				r = g.sumOf(r, r)
			}
			r = g.sumOf(r, t.choose(g, w))
		}
	}
	return r
}

// read takes an uncompressed point apart and checks that it is on the curve.
func (g *generic) read(b []byte) (projective, error) {
	n := g.p.Size()
	if len(b) != 1+2*n || b[0] != 4 {
		return projective{}, ErrPoint
	}
	x, err := bigmod.NewNat().SetBytes(b[1:1+n], g.p)
	if err != nil {
		return projective{}, ErrPoint
	}
	y, err := bigmod.NewNat().SetBytes(b[1+n:], g.p)
	if err != nil {
		return projective{}, ErrPoint
	}
	rhs := g.sum(g.mul(g.sum(g.mul(x, x), g.a), x), g.b)
	if g.mul(y, y).Equal(rhs) != 1 {
		return projective{}, ErrPoint
	}
	return projective{x, y, g.small(1)}, nil
}

// write returns the uncompressed form, one zero octet for infinity.
func (g *generic) write(p projective) []byte {
	if p.z.IsZero() == 1 {
		return []byte{0}
	}
	i := bigmod.NewNat().Exp(p.z, g.inv, g.p)
	return append(append([]byte{4}, g.mul(p.x, i).Bytes(g.p)...), g.mul(p.y, i).Bytes(g.p)...)
}

func (g generic) check(b []byte) ([]byte, error) {
	if _, err := g.read(b); err != nil {
		return nil, err
	}
	return b, nil
}

func (g generic) baseMult(k []byte) ([]byte, error) { return g.mult(k, g.g) }

func (g generic) mult(k, b []byte) ([]byte, error) {
	p, err := g.read(b)
	if err != nil {
		return nil, err
	}
	return g.write(g.times(k, p)), nil
}

func (g generic) add(a, b []byte) ([]byte, error) {
	p, err := g.read(a)
	if err != nil {
		return nil, err
	}
	q, err := g.read(b)
	if err != nil {
		return nil, err
	}
	return g.write(g.sumOf(p, q)), nil
}
