// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha3"
	"errors"
	"fmt"
	"io"

	"filippo.io/edwards25519"
	"github.com/cloudflare/circl/ecc/goldilocks"
)

// EdDSA of RFC 8032 for TPM_ALG_EDDSA and TPM_ALG_HASH_EDDSA (version 185, Part
// 1, 44.3.2 and 44.5): Ed25519, Ed25519ph, Ed448 and Ed448ph, always without a
// context. A private key is the octet string of RFC 8032, 5.1.5 and 5.2.5, which
// the key is hashed from; a public key is the compressed point.
//
// Verification is that of Errata v1, 3.1: without the cofactor, S below the
// order, only canonical encodings. Points of low order are refused as keys.

// EdPrehashSize is the size in octets of PH(M) of both HashEdDSA: SHA-512 for
// Ed25519ph, SHAKE256 for Ed448ph.
const EdPrehashSize = 64

// ErrEdDSA says that a key or digest has not the size that the curve demands.
var ErrEdDSA = errors.New("tpmcrypto: not a valid EdDSA value of this curve")

// EdSize returns the size in octets of a private key, a public key, and half of
// a signature: 32 for Curve25519, 57 for Curve448, 0 for other curves.
func EdSize(curve uint16) int {
	switch curve {
	case Curve25519:
		return ed25519.SeedSize
	case Curve448:
		return 57
	}
	return 0
}

// EdPublic is a public key. It is immutable and safe for concurrent use.
type EdPublic struct {
	Curve uint16
	raw   []byte
	minus *edwards25519.Point // -A of Curve25519
	a448  *goldilocks.Point   // A of Curve448
}

// NewEdPublic takes a compressed point. ErrPoint if it is none, is encoded in
// another way than RFC 8032, 5.1.2 and 5.2.2 say, or has a low order.
func NewEdPublic(curve uint16, raw []byte) (*EdPublic, error) {
	n := EdSize(curve)
	if n == 0 || len(raw) != n {
		return nil, fmt.Errorf("%w: a public key of %d octets, want %d", ErrPoint, len(raw), n)
	}
	p := &EdPublic{Curve: curve, raw: bytes.Clone(raw)}
	if curve == Curve25519 {
		a, err := new(edwards25519.Point).SetBytes(raw)
		if err != nil || !bytes.Equal(a.Bytes(), raw) {
			return nil, ErrPoint
		}
		if new(edwards25519.Point).MultByCofactor(a).Equal(edwards25519.NewIdentityPoint()) == 1 {
			return nil, ErrPoint
		}
		p.minus = a.Negate(a)
		return p, nil
	}
	a, err := goldilocks.FromBytes(raw)
	if err != nil {
		return nil, ErrPoint
	}
	four := goldilocks.Curve{}.Double(a)
	four.Double()
	if four.IsEqual(goldilocks.Curve{}.Identity()) {
		return nil, ErrPoint
	}
	p.a448 = a
	return p, nil
}

// Bytes returns a copy of the public key.
func (p *EdPublic) Bytes() []byte { return bytes.Clone(p.raw) }

// EdPrivate is a private key. It is immutable but for Zero, and safe for
// concurrent use.
type EdPrivate struct {
	EdPublic
	seed []byte
}

// GenerateEd takes a private key from rand, EdSize octets.
func GenerateEd(curve uint16, rand io.Reader) (*EdPrivate, error) {
	seed := make([]byte, EdSize(curve))
	defer clear(seed)
	if _, err := io.ReadFull(rand, seed); err != nil {
		return nil, err
	}
	return NewEdPrivate(curve, seed)
}

// NewEdPrivate takes a private key of EdSize octets.
func NewEdPrivate(curve uint16, seed []byte) (*EdPrivate, error) {
	n := EdSize(curve)
	if n == 0 || len(seed) != n {
		return nil, fmt.Errorf("%w: a private key of %d octets, want %d", ErrEdDSA, len(seed), n)
	}
	var raw []byte
	if curve == Curve25519 {
		k := ed25519.NewKeyFromSeed(seed)
		defer clear(k)
		raw = bytes.Clone(k[ed25519.SeedSize:])
	} else {
		s, prefix := expand448(seed)
		defer clear(s[:])
		clear(prefix)
		raw = encode448(goldilocks.Curve{}.ScalarBaseMult(s))
	}
	pub, err := NewEdPublic(curve, raw)
	if err != nil {
		return nil, err
	}
	return &EdPrivate{EdPublic: *pub, seed: bytes.Clone(seed)}, nil
}

// Seed returns a copy of the private key.
func (k *EdPrivate) Seed() []byte { return bytes.Clone(k.seed) }

// Public returns the public half.
func (k *EdPrivate) Public() *EdPublic { return &k.EdPublic }

// Zero erases the private key, which is unusable afterwards.
func (k *EdPrivate) Zero() {
	clear(k.seed)
	k.seed = nil
}

// Sign signs a whole message (Ed25519, Ed448).
func (k *EdPrivate) Sign(message []byte) ([]byte, error) { return k.sign(message, false) }

// SignPrehashed signs PH(M) of EdPrehashSize octets (Ed25519ph, Ed448ph).
func (k *EdPrivate) SignPrehashed(digest []byte) ([]byte, error) {
	if len(digest) != EdPrehashSize {
		return nil, fmt.Errorf("%w: a digest of %d octets, want %d", ErrEdDSA, len(digest), EdPrehashSize)
	}
	return k.sign(digest, true)
}

func (k *EdPrivate) sign(m []byte, prehashed bool) ([]byte, error) {
	if k.seed == nil {
		return nil, errErased
	}
	if k.Curve == Curve448 {
		return k.sign448(m, prehashed), nil
	}
	key := ed25519.NewKeyFromSeed(k.seed)
	defer clear(key)
	opts := &ed25519.Options{}
	if prehashed {
		opts.Hash = crypto.SHA512
	}
	return key.Sign(nil, m, opts)
}

// Verify verifies a signature of a whole message.
func (p *EdPublic) Verify(message, sig []byte) error { return p.verify(message, sig, false) }

// VerifyPrehashed verifies a signature of PH(M).
func (p *EdPublic) VerifyPrehashed(digest, sig []byte) error {
	if len(digest) != EdPrehashSize {
		return ErrSignature
	}
	return p.verify(digest, sig, true)
}

func (p *EdPublic) verify(m, sig []byte, prehashed bool) error {
	n := EdSize(p.Curve)
	if len(sig) != 2*n {
		return ErrSignature
	}
	h := p.challenge(sig[:n], prehashed)
	h.Write(m)
	return p.VerifyChallenge(h.Sum(), sig)
}

// VerifyChallenge verifies a signature whose challenge, the hash of R, the
// public key and the message, was computed by NewChallenge.
func (p *EdPublic) VerifyChallenge(challenge, sig []byte) error {
	n := EdSize(p.Curve)
	if len(sig) != 2*n {
		return ErrSignature
	}
	var r []byte
	if p.Curve == Curve25519 {
		k, err := new(edwards25519.Scalar).SetUniformBytes(challenge)
		if err != nil {
			return ErrSignature
		}
		s, err := new(edwards25519.Scalar).SetCanonicalBytes(sig[n:])
		if err != nil {
			return ErrSignature
		}
		r = new(edwards25519.Point).VarTimeDoubleScalarBaseMult(k, p.minus, s).Bytes()
	} else if r = p.commitment448(challenge, sig[n:]); r == nil {
		return ErrSignature
	}
	if !bytes.Equal(r, sig[:n]) {
		return ErrSignature
	}
	return nil
}

// expand448 is steps 1 to 3 of RFC 8032, 5.2.5: the secret scalar and the
// prefix, which the caller erases.
func expand448(seed []byte) (*goldilocks.Scalar, []byte) {
	n := EdSize(Curve448)
	h := sha3.SumSHAKE256(seed, 2*n)
	h[0] &= 0xFC
	h[n-2] |= 0x80
	h[n-1] = 0
	s := new(goldilocks.Scalar)
	s.FromBytes(h[:n])
	clear(h[:n])
	return s, h[n:]
}

func encode448(p *goldilocks.Point) []byte {
	b := make([]byte, EdSize(Curve448))
	if err := p.ToBytes(b); err != nil {
		panic(err) // the size is right
	}
	return b
}

// domain448 starts the hash of Ed448: dom4 of RFC 8032, 2, with an empty context.
func domain448(prehashed bool) *sha3.SHAKE {
	x := sha3.NewSHAKE256()
	x.Write([]byte("SigEd448"))
	x.Write([]byte{flagByte(prehashed), 0})
	return x
}

func flagByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// sign448 is RFC 8032, 5.2.6.
func (k *EdPrivate) sign448(m []byte, prehashed bool) []byte {
	n := EdSize(Curve448)
	s, prefix := expand448(k.seed)
	defer clear(s[:])
	defer clear(prefix)
	x := domain448(prehashed)
	x.Write(prefix)
	x.Write(m)
	wide := make([]byte, 2*n)
	defer clear(wide)
	x.Read(wide)
	var r goldilocks.Scalar
	defer clear(r[:])
	r.FromBytes(wide)
	sig := make([]byte, 2*n)
	copy(sig, encode448(goldilocks.Curve{}.ScalarBaseMult(&r)))
	h := k.challenge(sig[:n], prehashed)
	h.Write(m)
	var c, t goldilocks.Scalar
	defer clear(t[:])
	c.FromBytes(h.Sum())
	t.Mul(&c, s)
	t.Add(&t, &r)
	copy(sig[n:], t[:])
	return sig
}

// commitment448 is [S]B - [k]A, encoded; nil if S is out of range. The multiple
// of A is computed by doubling and adding, since the library's own function
// drops the part of A that is of low order, which a verification without the
// cofactor keeps. All of it is public.
func (p *EdPublic) commitment448(challenge, s []byte) []byte {
	order := goldilocks.Curve{}.Order()
	if s[len(s)-1] != 0 || !below(s[:len(s)-1], order[:]) {
		return nil
	}
	var k, sn goldilocks.Scalar
	k.FromBytes(challenge)
	sn.FromBytes(s)
	a := *p.a448
	a.Neg()
	q := goldilocks.Curve{}.Identity()
	for i := 8*len(k) - 1; i >= 0; i-- {
		q.Double()
		if k[i/8]>>(i%8)&1 == 1 {
			q.Add(&a)
		}
	}
	q.Add(goldilocks.Curve{}.ScalarBaseMult(&sn))
	return encode448(q)
}

// below compares little-endian numbers of the same size.
func below(x, y []byte) bool {
	for i := len(x) - 1; i >= 0; i-- {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}
