// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/ecdsa"
	"errors"
	"io"
	"math/big"

	"filippo.io/bigmod"
)

// ECPublic is a checked public point. It is immutable and safe for concurrent
// use.
type ECPublic struct {
	Curve *Curve
	Point
	std *ecdsa.PublicKey // nil if the standard library lacks the curve
}

// NewECPublic checks the point (see CheckPoint).
func NewECPublic(c *Curve, x, y []byte) (*ECPublic, error) {
	if c.mont != nil {
		return newMontgomeryPublic(c, x, y)
	}
	p, err := c.CheckPoint(x, y)
	if err != nil {
		return nil, err
	}
	if c.std == nil {
		return &ECPublic{Curve: c, Point: p}, nil
	}
	enc, err := c.encode(p.X, p.Y)
	if err != nil {
		return nil, err
	}
	std, err := ecdsa.ParseUncompressedPublicKey(c.std, enc)
	if err != nil {
		return nil, ErrPoint
	}
	return &ECPublic{Curve: c, Point: p, std: std}, nil
}

// ECPrivate is a private scalar with its public point. It is immutable but for
// Zero, and safe for concurrent use.
type ECPrivate struct {
	ECPublic
	d   []byte            // Curve.Size() octets
	std *ecdsa.PrivateKey // nil if the standard library lacks the curve
}

// GenerateEC makes a key from Size()+8 octets of rand: d = (c mod (n-1)) + 1
// (FIPS 186-5, A.2.1, extra random bits); for curves of RFC 7748 from Size
// octets, as they are. What rand gives determines the key.
func GenerateEC(c *Curve, rand io.Reader) (*ECPrivate, error) {
	if c.mont != nil {
		return generateMontgomery(c, rand)
	}
	b := make([]byte, c.Size()+8)
	defer clear(b)
	if _, err := io.ReadFull(rand, b); err != nil {
		return nil, err
	}
	x, err := bigmod.NewNat().SetBytes(b, c.wide)
	if err != nil {
		return nil, err
	}
	d := bigmod.NewNat().Mod(x, c.nm1)
	d.ExpandFor(c.n)
	one := bigmod.NewNat().SetUint(1).ExpandFor(c.n)
	d.Add(one, c.n)
	return NewECPrivate(c, d.Bytes(c.n))
}

// NewECPrivate takes a scalar (big-endian, at most Size octets) from 1 to the
// order minus 1 and computes its point; for curves of RFC 7748 Size octets.
func NewECPrivate(c *Curve, d []byte) (*ECPrivate, error) {
	if c.mont != nil {
		return newMontgomeryPrivate(c, d)
	}
	s, err := c.scalar(d)
	if err != nil {
		return nil, err
	}
	if c.std == nil {
		n, err := bigmod.NewNat().SetBytes(s, c.n)
		if err != nil || n.IsZero() == 1 {
			return nil, ErrScalar
		}
		p, err := c.BaseMult(s)
		if err != nil {
			return nil, err
		}
		return &ECPrivate{ECPublic: ECPublic{Curve: c, Point: p}, d: s}, nil
	}
	std, err := ecdsa.ParseRawPrivateKey(c.std, s)
	if err != nil {
		return nil, ErrScalar
	}
	enc, err := std.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	p, err := c.decode(enc)
	if err != nil {
		return nil, err
	}
	return &ECPrivate{ECPublic: ECPublic{Curve: c, Point: p, std: &std.PublicKey}, d: s, std: std}, nil
}

// Scalar returns a copy of the private scalar, Size octets.
func (k *ECPrivate) Scalar() []byte { return append([]byte(nil), k.d...) }

// Public returns the public half.
func (k *ECPrivate) Public() *ECPublic { return &k.ECPublic }

// Zero erases the scalar; the key is unusable afterwards.
func (k *ECPrivate) Zero() {
	clear(k.d)
	k.d, k.std = nil, nil
}

var errErased = errors.New("tpmcrypto: EC key was erased")

// ECDH returns d*P as a full point, after checking that P is on the curve
// (TPM2_ECDH_ZGen; the x-coordinate is the Z of KDFe).
func (k *ECPrivate) ECDH(x, y []byte) (Point, error) {
	if k.d == nil {
		return Point{}, errErased
	}
	return k.Curve.Mult(k.d, Point{x, y})
}

// SignECDSA signs a digest of any size, of which ECDSA uses the leftmost bits
// (FIPS 186-5, 6.4.1). r and s have Size octets.
func (k *ECPrivate) SignECDSA(digest []byte) (r, s []byte, err error) {
	if k.d == nil {
		return nil, nil, errErased
	}
	if k.Curve.mont != nil {
		return nil, nil, ErrScalar // keys of RFC 7748 do not sign
	}
	if k.std == nil {
		return k.signGeneric(digest)
	}
	ri, si, err := ecdsa.Sign(Random, k.std, digest)
	if err != nil {
		return nil, nil, err
	}
	n := k.Curve.Size()
	return ri.FillBytes(make([]byte, n)), si.FillBytes(make([]byte, n)), nil
}

// VerifyECDSA verifies a signature; r and s are big-endian and at most Size
// octets.
func (p *ECPublic) VerifyECDSA(digest, r, s []byte) error {
	if p.Curve.mont != nil || len(r) > p.Curve.Size() || len(s) > p.Curve.Size() {
		return ErrSignature
	}
	if p.std == nil {
		return p.verifyGeneric(digest, r, s)
	}
	if !ecdsa.Verify(p.std, digest, new(big.Int).SetBytes(r), new(big.Int).SetBytes(s)) {
		return ErrSignature
	}
	return nil
}
