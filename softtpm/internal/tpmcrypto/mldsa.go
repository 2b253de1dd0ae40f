// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto"
	"crypto/sha3"
	"errors"
	"fmt"

	"filippo.io/mldsa"
	"filippo.io/mldsa/mldsacrypto"
)

// MLDSA is a parameter set of FIPS 204, named by its TPMI_MLDSA_PARMS (Part 2,
// version 185, 11.2.7.1).
type MLDSA uint16

// The parameter sets.
const (
	MLDSA44 MLDSA = 1
	MLDSA65 MLDSA = 2
	MLDSA87 MLDSA = 3
)

// Sizes in octets that all parameter sets share: the seed ξ, which is all of
// the private key that a TPM keeps; the message representative µ; and the
// largest context.
const (
	MLDSASeedSize   = 32
	MLDSAMuSize     = 64
	MLDSAMaxContext = 255
)

// ErrMLDSA says that a key, context or µ has not the form that the parameter
// set demands.
var ErrMLDSA = errors.New("tpmcrypto: not a valid ML-DSA value of this parameter set")

func (m MLDSA) params() (p mldsa.Parameters, ok bool) {
	switch m {
	case MLDSA44:
		return mldsa.MLDSA44(), true
	case MLDSA65:
		return mldsa.MLDSA65(), true
	case MLDSA87:
		return mldsa.MLDSA87(), true
	}
	return p, false
}

// Available reports whether m is a parameter set.
func (m MLDSA) Available() bool { _, ok := m.params(); return ok }

// PublicKeySize returns the size of a public key, 0 for an unknown set.
func (m MLDSA) PublicKeySize() int { p, _ := m.params(); return p.PublicKeySize() }

// SignatureSize returns the size of a signature, 0 for an unknown set.
func (m MLDSA) SignatureSize() int { p, _ := m.params(); return p.SignatureSize() }

// Mu computes the message representative µ of a message that comes in pieces
// (FIPS 204, Algorithm 7, line 6, over the M' of Algorithm 2).
type Mu struct{ x *sha3.SHAKE }

// Write adds to the message; it never fails.
func (m *Mu) Write(p []byte) (int, error) { return m.x.Write(p) }

// Sum returns µ, 64 octets. Write and Sum may not be called afterwards.
func (m *Mu) Sum() []byte {
	out := make([]byte, MLDSAMuSize)
	m.x.Read(out)
	return out
}

// MarshalBinary returns the running state, for a saved sequence.
func (m *Mu) MarshalBinary() ([]byte, error) { return m.x.MarshalBinary() }

// UnmarshalMu is the inverse of MarshalBinary.
func UnmarshalMu(b []byte) (*Mu, error) {
	x := sha3.NewSHAKE256()
	if err := x.UnmarshalBinary(b); err != nil {
		return nil, err
	}
	return &Mu{x}, nil
}

// MLDSAPublic is a public key. It is immutable and safe for concurrent use.
type MLDSAPublic struct {
	Set MLDSA
	raw []byte
	tr  [64]byte // SHAKE256 of the public key
	key *mldsa.PublicKey
}

// NewMLDSAPublic takes a public key in the form of FIPS 204 (every string of
// the right size is one).
func NewMLDSAPublic(m MLDSA, raw []byte) (*MLDSAPublic, error) {
	params, ok := m.params()
	if !ok || len(raw) != m.PublicKeySize() {
		return nil, fmt.Errorf("%w: public key of %d octets, want %d", ErrMLDSA, len(raw), m.PublicKeySize())
	}
	key, err := mldsa.NewPublicKey(params, raw)
	if err != nil {
		return nil, ErrMLDSA
	}
	return newMLDSAPublic(m, raw, key), nil
}

func newMLDSAPublic(m MLDSA, raw []byte, key *mldsa.PublicKey) *MLDSAPublic {
	p := &MLDSAPublic{Set: m, raw: append([]byte(nil), raw...), key: key}
	copy(p.tr[:], sha3.SumSHAKE256(raw, 64))
	return p
}

// Bytes returns a copy of the public key.
func (p *MLDSAPublic) Bytes() []byte { return append([]byte(nil), p.raw...) }

// NewMu starts µ for pure ML-DSA: SHAKE256(tr ‖ 0 ‖ len(context) ‖ context ‖
// message). The context has at most 255 octets.
func (p *MLDSAPublic) NewMu(context []byte) (*Mu, error) { return p.newMu(0, context) }

func (p *MLDSAPublic) newMu(domain byte, context []byte) (*Mu, error) {
	if len(context) > MLDSAMaxContext {
		return nil, fmt.Errorf("%w: context of %d octets, at most %d", ErrMLDSA, len(context), MLDSAMaxContext)
	}
	x := sha3.NewSHAKE256()
	x.Write(p.tr[:])
	x.Write([]byte{domain, byte(len(context))})
	x.Write(context)
	return &Mu{x}, nil
}

// hashMu is µ of HashML-DSA (FIPS 204, Algorithm 4): the digest stands for the
// message after the identifier of its hash.
func (p *MLDSAPublic) hashMu(h Hash, context, digest []byte) ([]byte, error) {
	oid := h.OID()
	if oid == nil || len(digest) != h.Size() {
		return nil, ErrDigestSize
	}
	mu, err := p.newMu(1, context)
	if err != nil {
		return nil, err
	}
	mu.Write(oid)
	mu.Write(digest)
	return mu.Sum(), nil
}

// Verify verifies a signature of pure ML-DSA (FIPS 204, Algorithm 3).
func (p *MLDSAPublic) Verify(context, message, sig []byte) error {
	if len(context) > MLDSAMaxContext {
		return ErrSignature
	}
	if mldsa.Verify(p.key, message, sig, &mldsa.Options{Context: string(context)}) != nil {
		return ErrSignature
	}
	return nil
}

// VerifyHash verifies a signature of HashML-DSA (FIPS 204, Algorithm 5) over a
// digest of h, which cannot be SHA-1.
func (p *MLDSAPublic) VerifyHash(h Hash, context, digest, sig []byte) error {
	mu, err := p.hashMu(h, context, digest)
	if err != nil {
		return err
	}
	return p.VerifyMu(mu, sig)
}

// MLDSAPrivate is a private key, kept as seed and in expanded form. It is
// immutable but for Zero, and safe for concurrent use.
type MLDSAPrivate struct {
	*MLDSAPublic
	seed []byte
	key  *mldsa.PrivateKey
}

// NewMLDSAPrivate expands the seed ξ of 32 octets (FIPS 204, Algorithm 6).
func NewMLDSAPrivate(m MLDSA, seed []byte) (*MLDSAPrivate, error) {
	params, ok := m.params()
	if !ok || len(seed) != MLDSASeedSize {
		return nil, fmt.Errorf("%w: seed of %d octets, want %d", ErrMLDSA, len(seed), MLDSASeedSize)
	}
	key, err := mldsa.NewPrivateKey(params, seed)
	if err != nil {
		return nil, err
	}
	pub := key.PublicKey()
	return &MLDSAPrivate{MLDSAPublic: newMLDSAPublic(m, pub.Bytes(), pub), seed: append([]byte(nil), seed...), key: key}, nil
}

// Seed returns a copy of the seed ξ.
func (k *MLDSAPrivate) Seed() []byte { return append([]byte(nil), k.seed...) }

// Public returns the public half.
func (k *MLDSAPrivate) Public() *MLDSAPublic { return k.MLDSAPublic }

// Zero erases the seed and drops the expanded key.
func (k *MLDSAPrivate) Zero() {
	clear(k.seed)
	k.seed, k.key = nil, nil
}

// sign makes a hedged signature (FIPS 204, 3.4), or a deterministic one, which
// only tests ask for.
func (k *MLDSAPrivate) sign(message []byte, opts crypto.SignerOpts, deterministic bool) ([]byte, error) {
	if k.key == nil {
		return nil, errors.New("tpmcrypto: ML-DSA key was erased")
	}
	if deterministic {
		return k.key.SignDeterministic(message, opts)
	}
	return k.key.Sign(nil, message, opts)
}

// Sign signs a message with pure ML-DSA (FIPS 204, Algorithm 2, hedged). The
// context has at most 255 octets.
func (k *MLDSAPrivate) Sign(context, message []byte) ([]byte, error) {
	if len(context) > MLDSAMaxContext {
		return nil, fmt.Errorf("%w: context of %d octets, at most %d", ErrMLDSA, len(context), MLDSAMaxContext)
	}
	return k.sign(message, &mldsa.Options{Context: string(context)}, false)
}

// SignMu signs a message representative µ of 64 octets: a Mu of this key, or
// one that comes from outside ("external µ").
func (k *MLDSAPrivate) SignMu(mu []byte) ([]byte, error) {
	if len(mu) != MLDSAMuSize {
		return nil, fmt.Errorf("%w: µ of %d octets, want %d", ErrMLDSA, len(mu), MLDSAMuSize)
	}
	return k.sign(mu, mldsacrypto.MLDSAMu, false)
}

// SignHash signs a digest of h, which cannot be SHA-1, with HashML-DSA
// (FIPS 204, Algorithm 4, hedged).
func (k *MLDSAPrivate) SignHash(h Hash, context, digest []byte) ([]byte, error) {
	mu, err := k.hashMu(h, context, digest)
	if err != nil {
		return nil, err
	}
	return k.SignMu(mu)
}
