// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/ecdh"
	"io"
	"math/big"

	"github.com/cloudflare/circl/dh/x448"
)

// The Montgomery curves of RFC 7748 in key exchange (version 185, Part 1,
// 44.5): a point is its u-coordinate alone, little-endian and of full size in
// Point.X, with Point.Y empty; a private key is the little-endian string that
// RFC 7748 clamps at each use. On the same curves in Edwards form see eddsa.go.

// Curve identifiers of Part 2, 6.4.
const (
	Curve25519 uint16 = 0x0040
	Curve448   uint16 = 0x0041
)

// montgomery is the one function of RFC 7748, section 5.
type montgomery interface {
	base(k []byte) ([]byte, error)
	// mult fails if the result is all zero, which a point of low order gives
	// (RFC 7748, 6.1 and 6.2).
	mult(k, u []byte) ([]byte, error)
}

type x25519 struct{}

func (x25519) base(k []byte) ([]byte, error) {
	p, err := ecdh.X25519().NewPrivateKey(k)
	if err != nil {
		return nil, ErrScalar
	}
	return p.PublicKey().Bytes(), nil
}

func (x25519) mult(k, u []byte) ([]byte, error) {
	p, err := ecdh.X25519().NewPrivateKey(k)
	if err != nil {
		return nil, ErrScalar
	}
	q, err := ecdh.X25519().NewPublicKey(u)
	if err != nil {
		return nil, ErrPoint
	}
	z, err := p.ECDH(q)
	if err != nil {
		return nil, ErrPoint
	}
	return z, nil
}

type x448Curve struct{}

func (x448Curve) base(k []byte) ([]byte, error) {
	if len(k) != x448.Size {
		return nil, ErrScalar
	}
	var p, s x448.Key
	defer clear(s[:])
	copy(s[:], k)
	x448.KeyGen(&p, &s)
	return p[:], nil
}

func (x448Curve) mult(k, u []byte) ([]byte, error) {
	if len(k) != x448.Size {
		return nil, ErrScalar
	}
	if len(u) != x448.Size {
		return nil, ErrPoint
	}
	var z, s, p x448.Key
	defer clear(s[:])
	copy(s[:], k)
	copy(p[:], u)
	if !x448.Shared(&z, &s, &p) {
		return nil, ErrPoint
	}
	return z[:], nil
}

// montgomeryCurves returns the two curves. The parameters are those of RFC
// 7748, 4.1 and 4.2: b·v² = u³ + a·u² + u with b = 1.
func montgomeryCurves() []*Curve {
	return []*Curve{
		{ID: Curve25519, Bits: 255, mont: x25519{}, cofactor: 8, domain: domain{
			p: number("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed"), a: big.NewInt(486662), b: big.NewInt(1), gx: big.NewInt(9),
			gy: number("20ae19a1b8a086b4e01edd2c7748d14c923d4d7e6d7c61b229e9c5a27eced3d9"),
			n:  number("1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed"),
		}},
		{ID: Curve448, Bits: 448, mont: x448Curve{}, cofactor: 4, domain: domain{
			p: number("fffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
			a: big.NewInt(156326), b: big.NewInt(1), gx: big.NewInt(5),
			gy: number("7d235d1295f5b1f66c98ab6e58326fcecbae5d34f55545d060f75dc28df3f6edb8027e2346430d211312c4b150677af76fd7223d457b5b1a"),
			n:  number("3fffffffffffffffffffffffffffffffffffffffffffffffffffffff7cca23e9c44edb49aed63690216cc2728dc58f552378c292ab5844f3"),
		}},
	}
}

// IsMontgomery says whether the curve is one of RFC 7748, whose points have no
// y-coordinate here.
func (c *Curve) IsMontgomery() bool { return c.mont != nil }

// montgomeryPoint checks the form of a point. Every string of the right size
// is one (RFC 7748, section 5); those of low order fail when they are used.
func (c *Curve) montgomeryPoint(x, y []byte) (Point, error) {
	if len(x) != c.Size() || len(y) != 0 {
		return Point{}, ErrPoint
	}
	return Point{X: append([]byte(nil), x...)}, nil
}

// newMontgomeryPublic is NewECPublic: it refuses points of low order.
func newMontgomeryPublic(c *Curve, x, y []byte) (*ECPublic, error) {
	p, err := c.montgomeryPoint(x, y)
	if err != nil {
		return nil, err
	}
	probe := make([]byte, c.Size()) // clamping makes some private key of it
	if _, err := c.mont.mult(probe, p.X); err != nil {
		return nil, ErrPoint
	}
	return &ECPublic{Curve: c, Point: p}, nil
}

// generateMontgomery takes Size octets of rand as the private key (RFC 7748,
// section 6).
func generateMontgomery(c *Curve, rand io.Reader) (*ECPrivate, error) {
	d := make([]byte, c.Size())
	defer clear(d)
	if _, err := io.ReadFull(rand, d); err != nil {
		return nil, err
	}
	return newMontgomeryPrivate(c, d)
}

// newMontgomeryPrivate takes a private key of Size octets.
func newMontgomeryPrivate(c *Curve, d []byte) (*ECPrivate, error) {
	if len(d) != c.Size() {
		return nil, ErrScalar
	}
	u, err := c.mont.base(d)
	if err != nil {
		return nil, err
	}
	return &ECPrivate{ECPublic: ECPublic{Curve: c, Point: Point{X: u}}, d: append([]byte(nil), d...)}, nil
}
