// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"math/big"

	"filippo.io/bigmod"
)

// Signatures and key agreement that are arithmetic with scalars: ECDSA on
// curves that the standard library lacks, SM2, MQV.

// inverse returns x^-1 mod n, as x^(n-2): the exponent is public, the time constant.
func (c *Curve) inverse(x *bigmod.Nat) *bigmod.Nat {
	return bigmod.NewNat().Exp(x, c.nm2, c.n)
}

func (c *Curve) nat(x *bigmod.Nat) *bigmod.Nat { return bigmod.NewNat().ExpandFor(c.n).Add(x, c.n) }

// signature reads two components, each from 1 to the order minus 1.
func (c *Curve) signature(r, s []byte) (rn, sn *bigmod.Nat, err error) {
	if len(r) > c.Size() || len(s) > c.Size() {
		return nil, nil, ErrSignature
	}
	var n [2]*bigmod.Nat
	for i, x := range [][]byte{r, s} {
		v, err := bigmod.NewNat().SetBytes(x, c.n)
		if err != nil || v.IsZero() == 1 {
			return nil, nil, ErrSignature
		}
		n[i] = v
	}
	return n[0], n[1], nil
}

// digestNumber is the leftmost bits of a digest (FIPS 186-5, 6.4.1), for
// orders of whole octets, mod n.
func (c *Curve) digestNumber(digest []byte) (*bigmod.Nat, error) {
	return c.reduce(digest[:min(len(digest), c.Size())])
}

// combine returns u*G + v*Q.
func (p *ECPublic) combine(u, v *bigmod.Nat) (Point, error) {
	c := p.Curve
	a, err := c.BaseMult(u.Bytes(c.n))
	if err == ErrInfinity { // u is zero
		return c.Mult(v.Bytes(c.n), p.Point)
	}
	if err != nil {
		return Point{}, err
	}
	b, err := c.Mult(v.Bytes(c.n), p.Point)
	if err != nil {
		return Point{}, err
	}
	return c.Add(a, b)
}

// signGeneric is ECDSA (FIPS 186-5, 6.4.1).
func (k *ECPrivate) signGeneric(digest []byte) (r, s []byte, err error) {
	c := k.Curve
	e, err := c.digestNumber(digest)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.reduce(k.d)
	if err != nil {
		return nil, nil, err
	}
	for range 10 {
		nonce, err := GenerateEC(c, Random)
		if err != nil {
			return nil, nil, err
		}
		rn, err := c.reduce(nonce.X)
		if err != nil {
			return nil, nil, err
		}
		kn, err := c.reduce(nonce.d)
		if err != nil {
			return nil, nil, err
		}
		sn := c.nat(rn).Mul(d, c.n).Add(e, c.n).Mul(c.inverse(kn), c.n)
		nonce.Zero()
		if rn.IsZero() == 1 || sn.IsZero() == 1 {
			continue
		}
		return rn.Bytes(c.n), sn.Bytes(c.n), nil
	}
	return nil, nil, errZero
}

// verifyGeneric is the verification of ECDSA (FIPS 186-5, 6.4.2).
func (p *ECPublic) verifyGeneric(digest, r, s []byte) error {
	c := p.Curve
	rn, sn, err := c.signature(r, s)
	if err != nil {
		return err
	}
	e, err := c.digestNumber(digest)
	if err != nil {
		return ErrSignature
	}
	w := c.inverse(sn)
	q, err := p.combine(c.nat(e).Mul(w, c.n), c.nat(rn).Mul(w, c.n))
	if err != nil {
		return ErrSignature
	}
	x, err := c.reduce(q.X)
	if err != nil || x.Equal(rn) != 1 {
		return ErrSignature
	}
	return nil
}

// SignSM2 signs a digest, the e of the SM2 standard (Part 1, 45.2.2.1). r and s
// have Size octets.
func (k *ECPrivate) SignSM2(digest []byte) (r, s []byte, err error) {
	if k.d == nil {
		return nil, nil, errErased
	}
	c := k.Curve
	e, err := c.reduce(digest)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.reduce(k.d)
	if err != nil {
		return nil, nil, err
	}
	one := bigmod.NewNat().SetUint(1).ExpandFor(c.n)
	d1 := c.nat(d).Add(one, c.n)
	if d1.IsZero() == 1 { // d = n-1 has no SM2 signature
		return nil, nil, ErrScalar
	}
	for range 10 {
		nonce, err := GenerateEC(c, Random)
		if err != nil {
			return nil, nil, err
		}
		x, err := c.reduce(nonce.X)
		if err != nil {
			return nil, nil, err
		}
		kn, err := c.reduce(nonce.d)
		if err != nil {
			return nil, nil, err
		}
		rn := x.Add(e, c.n)
		sum := c.nat(rn).Add(kn, c.n)
		sn := c.nat(kn).Sub(c.nat(rn).Mul(d, c.n), c.n).Mul(c.inverse(d1), c.n)
		nonce.Zero()
		if rn.IsZero() == 1 || sum.IsZero() == 1 || sn.IsZero() == 1 {
			continue
		}
		return rn.Bytes(c.n), sn.Bytes(c.n), nil
	}
	return nil, nil, errZero
}

// VerifySM2 verifies a signature of SignSM2 (Part 1, 45.2.2.2).
func (p *ECPublic) VerifySM2(digest, r, s []byte) error {
	c := p.Curve
	rn, sn, err := c.signature(r, s)
	if err != nil {
		return err
	}
	e, err := c.reduce(digest)
	if err != nil {
		return ErrSignature
	}
	t := c.nat(rn).Add(sn, c.n)
	if t.IsZero() == 1 {
		return ErrSignature
	}
	q, err := p.combine(sn, t)
	if err != nil {
		return ErrSignature
	}
	x, err := c.reduce(q.X)
	if err != nil || x.Add(e, c.n).Equal(rn) != 1 {
		return ErrSignature
	}
	return nil
}

// avf is the associated value of a public key: its x-coordinate's low bits
// with the next bit set. It is public.
func (c *Curve) avf(p Point, bits int) ([]byte, error) {
	x := new(big.Int).SetBytes(p.X)
	x.And(x, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(bits)), big.NewInt(1)))
	return c.scalar(x.SetBit(x, bits, 1).Bytes())
}

// MQV computes the shared point of Full MQV (Part 1, 44.8.4.3, and SP 800-56A,
// 6.1.1.4) from our static key, the secret of our ephemeral key, and the other
// side's public keys. ErrInfinity if the point is infinity.
func (k *ECPrivate) MQV(ephemeral []byte, static, other Point) (Point, error) {
	n := k.Curve.domain.n.BitLen()
	return k.agree(ephemeral, static, other, (n+1)/2, false)
}

// SM2Exchange computes the shared point of the key exchange of SM2 (Part 1,
// 45.2.3), of which the TPM does the part before the key derivation.
func (k *ECPrivate) SM2Exchange(ephemeral []byte, static, other Point) (Point, error) {
	n := k.Curve.domain.n.BitLen()
	return k.agree(ephemeral, static, other, (n+1)/2-1, true)
}

// agree computes t*P. MQV weighs the static keys with the associated values,
// SM2 the ephemeral ones: t = d_e + avf(Q_e)*d_s and P = Q_e' + avf(Q_e')*Q_s',
// or t = d_s + avf(Q_e)*d_e and P = Q_s' + avf(Q_e')*Q_e'.
func (k *ECPrivate) agree(ephemeral []byte, static, other Point, bits int, sm2 bool) (Point, error) {
	if k.d == nil {
		return Point{}, errErased
	}
	c := k.Curve
	own, err := c.BaseMult(ephemeral)
	if err != nil {
		return Point{}, err
	}
	plain, weighed, p, q := ephemeral, k.d, other, static
	if sm2 {
		plain, weighed, p, q = k.d, ephemeral, static, other
	}
	w, err := c.avf(own, bits)
	if err != nil {
		return Point{}, err
	}
	t, err := c.reduce(w)
	if err != nil {
		return Point{}, err
	}
	wn, err := c.reduce(weighed)
	if err != nil {
		return Point{}, err
	}
	pn, err := c.reduce(plain)
	if err != nil {
		return Point{}, err
	}
	t.Mul(wn, c.n).Add(pn, c.n)
	if w, err = c.avf(other, bits); err != nil {
		return Point{}, err
	}
	if q, err = c.Mult(w, q); err != nil {
		return Point{}, err
	}
	if p, err = c.Add(p, q); err != nil {
		return Point{}, err
	}
	b := t.Bytes(c.n)
	defer clear(b)
	return c.Mult(b, p)
}
