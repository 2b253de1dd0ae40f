// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"errors"
	"io"

	"filippo.io/bigmod"
)

// reduce returns b mod n. b has at most the size of a digest or of a scalar
// with eight octets more.
func (c *Curve) reduce(b []byte) (*bigmod.Nat, error) {
	x, err := bigmod.NewNat().SetBytes(b, c.wide)
	if err != nil {
		return nil, ErrScalar
	}
	return bigmod.NewNat().Mod(x, c.n), nil
}

// errZero marks the draws of a nonce that have to be repeated.
var errZero = errors.New("tpmcrypto: a signature component is zero")

// linear returns k + r*d mod n, and an error if it or r is zero mod n.
func (c *Curve) linear(k, r, d []byte) ([]byte, error) {
	kn, err := c.reduce(k)
	if err != nil {
		return nil, err
	}
	rn, err := c.reduce(r)
	if err != nil {
		return nil, err
	}
	dn, err := c.reduce(d)
	if err != nil {
		return nil, err
	}
	if rn.IsZero() == 1 {
		return nil, errZero
	}
	rn.Mul(dn, c.n).Add(kn, c.n)
	if rn.IsZero() == 1 {
		return nil, errZero
	}
	return rn.Bytes(c.n), nil
}

// SignSchnorr makes a signature of TPM_ALG_ECSCHNORR (Part 1, "EC Schnorr"):
// R = k*G, r = H(R.x ‖ digest) cut to the octets of the order, mod n;
// s = k + r*d mod n. r and s have Size octets.
func (k *ECPrivate) SignSchnorr(h Hash, rand io.Reader, digest []byte) (r, s []byte, err error) {
	if k.d == nil {
		return nil, nil, errErased
	}
	if !h.Available() {
		return nil, nil, ErrDigestSize
	}
	for range 10 {
		nonce, err := GenerateEC(k.Curve, rand)
		if err != nil {
			return nil, nil, err
		}
		r, err := k.Curve.challenge(h, nonce.X, digest)
		if err != nil {
			return nil, nil, err
		}
		s, err := k.Curve.linear(nonce.d, r, k.d)
		nonce.Zero()
		if err == errZero {
			continue // one in 2^200
		}
		return r, s, err
	}
	return nil, nil, errZero
}

func (c *Curve) challenge(h Hash, x, digest []byte) ([]byte, error) {
	e := h.Sum(x, digest)
	n, err := c.reduce(e[:min(len(e), c.Size())])
	if err != nil {
		return nil, err
	}
	return n.Bytes(c.n), nil
}

// VerifySchnorr verifies a signature of SignSchnorr: r = H((s*G - r*Q).x ‖ digest).
func (p *ECPublic) VerifySchnorr(h Hash, digest, r, s []byte) error {
	c := p.Curve
	if !h.Available() || len(r) > c.Size() || len(s) > c.Size() {
		return ErrSignature
	}
	rn, err := c.scalar(r)
	if err != nil {
		return ErrSignature
	}
	sn, err := c.scalar(s)
	if err != nil {
		return ErrSignature
	}
	for _, x := range [][]byte{rn, sn} {
		if n, err := bigmod.NewNat().SetBytes(x, c.n); err != nil || n.IsZero() == 1 {
			return ErrSignature
		}
	}
	a, err := c.BaseMult(sn)
	if err != nil {
		return ErrSignature
	}
	b, err := c.Mult(rn, p.Point)
	if err != nil {
		return ErrSignature
	}
	e, err := c.Sub(a, b)
	if err != nil {
		return ErrSignature
	}
	want, err := c.challenge(h, e.X, digest)
	if err != nil || !Equal(want, rn) {
		return ErrSignature
	}
	return nil
}

// SignECDAA makes the signature part of TPM_ALG_ECDAA (Part 1, "ECDAA"): with
// r from the commit phase, T = H(nonceK ‖ digest) mod n and s = r + T*d mod n.
// nonceK and s have Size octets.
func (k *ECPrivate) SignECDAA(h Hash, rand io.Reader, r, digest []byte) (nonceK, s []byte, err error) {
	if k.d == nil {
		return nil, nil, errErased
	}
	if !h.Available() {
		return nil, nil, ErrDigestSize
	}
	for range 10 {
		nonce, err := GenerateEC(k.Curve, rand)
		if err != nil {
			return nil, nil, err
		}
		nonceK := nonce.Scalar() // published: only a nonce
		s, err := k.Curve.linear(r, h.Sum(nonceK, digest), k.d)
		if err == errZero {
			continue
		}
		return nonceK, s, err
	}
	return nil, nil, errZero
}

// CommitScalar derives the secret r of a commit from 8 octets more than the
// order needs, as GenerateEC does: (c mod (n-1)) + 1, Size octets.
func (c *Curve) CommitScalar(rand io.Reader) ([]byte, error) {
	k, err := GenerateEC(c, rand)
	if err != nil {
		return nil, err
	}
	return k.d, nil
}

// HashToPoint finds the point of TPM2_Commit (Part 3, 19.2): x is the digest
// of s2 mod the field prime, y2 the y-coordinate that the caller gives; the
// point must be on the curve.
func (c *Curve) HashToPoint(h Hash, s2, y2 []byte) (Point, error) {
	d := h.Sum(s2)
	if d == nil {
		return Point{}, ErrDigestSize
	}
	p := mustModulus(c.domain.p.Bytes())
	x, err := bigmod.NewNat().SetBytes(d, c.wide)
	if err != nil {
		return Point{}, err
	}
	return c.CheckPoint(bigmod.NewNat().Mod(x, p).Bytes(p), y2)
}
