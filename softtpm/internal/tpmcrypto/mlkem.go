// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/mlkem"
	"errors"
	"fmt"

	"github.com/cloudflare/circl/kem/mlkem/mlkem512"
)

// MLKEM is a parameter set of FIPS 203, named by its TPMI_MLKEM_PARMS (Part 2,
// version 185, 11.2.7.4).
type MLKEM uint16

// The parameter sets.
const (
	MLKEM512  MLKEM = 1
	MLKEM768  MLKEM = 2
	MLKEM1024 MLKEM = 3
)

// Sizes in octets that all parameter sets share: the seed d ‖ z, which is all
// of the private key that a TPM keeps, and the shared secret.
const (
	MLKEMSeedSize   = 64
	MLKEMSecretSize = 32
)

// Available reports whether m is a parameter set.
func (m MLKEM) Available() bool { return m.PublicKeySize() != 0 }

// PublicKeySize returns the size of an encapsulation key, 0 for an unknown set.
func (m MLKEM) PublicKeySize() int {
	switch m {
	case MLKEM512:
		return mlkem512.PublicKeySize
	case MLKEM768:
		return mlkem.EncapsulationKeySize768
	case MLKEM1024:
		return mlkem.EncapsulationKeySize1024
	}
	return 0
}

// CiphertextSize returns the size of a ciphertext, 0 for an unknown set.
func (m MLKEM) CiphertextSize() int {
	switch m {
	case MLKEM512:
		return mlkem512.CiphertextSize
	case MLKEM768:
		return mlkem.CiphertextSize768
	case MLKEM1024:
		return mlkem.CiphertextSize1024
	}
	return 0
}

// ErrMLKEM says that a key or ciphertext is not one of this parameter set.
var ErrMLKEM = errors.New("tpmcrypto: not a valid ML-KEM value of this parameter set")

// encapsulator is what the libraries' public keys have in common.
type encapsulator interface{ Encapsulate() (ss, ct []byte) }

// MLKEMPublic is a checked encapsulation key. It is immutable and safe for
// concurrent use.
type MLKEMPublic struct {
	Set MLKEM
	raw []byte
	key encapsulator
}

// NewMLKEMPublic takes an encapsulation key in the form of FIPS 203 and makes
// the checks of its section 7.2 (size, all coefficients reduced).
func NewMLKEMPublic(m MLKEM, raw []byte) (*MLKEMPublic, error) {
	if !m.Available() || len(raw) != m.PublicKeySize() {
		return nil, fmt.Errorf("%w: public key of %d octets, want %d", ErrMLKEM, len(raw), m.PublicKeySize())
	}
	p := &MLKEMPublic{Set: m, raw: append([]byte(nil), raw...)}
	var err error
	switch m {
	case MLKEM512:
		k := new(mlkem512.PublicKey)
		if err = k.Unpack(raw); err == nil {
			p.key = kem512{k}
		}
	case MLKEM768:
		p.key, err = mlkem.NewEncapsulationKey768(raw)
	case MLKEM1024:
		p.key, err = mlkem.NewEncapsulationKey1024(raw)
	}
	if err != nil {
		return nil, ErrMLKEM
	}
	return p, nil
}

// Bytes returns a copy of the encapsulation key.
func (p *MLKEMPublic) Bytes() []byte { return append([]byte(nil), p.raw...) }

// Encapsulate makes a fresh shared secret (32 octets) and its ciphertext
// (FIPS 203, 7.2).
func (p *MLKEMPublic) Encapsulate() (secret, ciphertext []byte) { return p.key.Encapsulate() }

// kem512 gives circl's key the shape of the standard library's.
type kem512 struct{ *mlkem512.PublicKey }

func (k kem512) Encapsulate() (ss, ct []byte) {
	var m [mlkem512.EncapsulationSeedSize]byte
	defer clear(m[:])
	Random.Read(m[:])
	return k.derandomized(m[:])
}

func (k kem512) derandomized(m []byte) (ss, ct []byte) {
	ss, ct = make([]byte, mlkem512.SharedKeySize), make([]byte, mlkem512.CiphertextSize)
	k.EncapsulateTo(ct, ss, m)
	return ss, ct
}

// MLKEMPrivate is a decapsulation key, kept as seed and in expanded form. It is
// immutable but for Zero, and safe for concurrent use.
type MLKEMPrivate struct {
	MLKEMPublic
	seed []byte
	dec  func(ct []byte) ([]byte, error)
}

// NewMLKEMPrivate expands the seed d ‖ z of 64 octets (FIPS 203, 7.1).
func NewMLKEMPrivate(m MLKEM, seed []byte) (*MLKEMPrivate, error) {
	if !m.Available() || len(seed) != MLKEMSeedSize {
		return nil, fmt.Errorf("%w: seed of %d octets, want %d", ErrMLKEM, len(seed), MLKEMSeedSize)
	}
	k := &MLKEMPrivate{seed: append([]byte(nil), seed...)}
	k.Set = m
	switch m {
	case MLKEM512:
		pub, priv := mlkem512.NewKeyFromSeed(seed)
		k.raw = make([]byte, mlkem512.PublicKeySize)
		pub.Pack(k.raw)
		k.key = kem512{pub}
		k.dec = func(ct []byte) ([]byte, error) {
			ss := make([]byte, mlkem512.SharedKeySize)
			priv.DecapsulateTo(ss, ct)
			return ss, nil
		}
	case MLKEM768:
		priv, err := mlkem.NewDecapsulationKey768(seed)
		if err != nil {
			return nil, err
		}
		k.key, k.raw, k.dec = priv.EncapsulationKey(), priv.EncapsulationKey().Bytes(), priv.Decapsulate
	case MLKEM1024:
		priv, err := mlkem.NewDecapsulationKey1024(seed)
		if err != nil {
			return nil, err
		}
		k.key, k.raw, k.dec = priv.EncapsulationKey(), priv.EncapsulationKey().Bytes(), priv.Decapsulate
	}
	return k, nil
}

// Seed returns a copy of the seed d ‖ z.
func (k *MLKEMPrivate) Seed() []byte { return append([]byte(nil), k.seed...) }

// Public returns the public half.
func (k *MLKEMPrivate) Public() *MLKEMPublic { return &k.MLKEMPublic }

// Decapsulate returns the shared secret (32 octets). A ciphertext of the right
// size always gives one: a wrong ciphertext gives a pseudorandom secret
// (implicit rejection, FIPS 203, 6.3).
func (k *MLKEMPrivate) Decapsulate(ciphertext []byte) ([]byte, error) {
	if k.dec == nil {
		return nil, errors.New("tpmcrypto: ML-KEM key was erased")
	}
	if len(ciphertext) != k.Set.CiphertextSize() {
		return nil, fmt.Errorf("%w: ciphertext of %d octets, want %d", ErrMLKEM, len(ciphertext), k.Set.CiphertextSize())
	}
	return k.dec(ciphertext)
}

// Zero erases the seed and drops the expanded key.
func (k *MLKEMPrivate) Zero() {
	clear(k.seed)
	k.seed, k.dec = nil, nil
}

// LabeledKEM derives the seed of a labeled key encapsulation (Part 1, version
// 185, 47.4) from the shared secret of an encapsulation to a key with name
// algorithm h: KDFa(h, secret, label, ciphertext, public key, bits of h). The
// labels are "IDENTITY", "SECRET" and "DUPLICATE". It returns nil if h is not
// Available.
func LabeledKEM(h Hash, secret []byte, label string, ciphertext, publicKey []byte) []byte {
	return KDFa(h, secret, label, ciphertext, publicKey, 8*h.Size())
}
