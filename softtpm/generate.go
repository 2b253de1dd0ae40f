// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"io"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// primarySource is the deterministic source of a primary object: the same
// seed, template and data give the same object for ever (Part 1, 24.6.3). The
// order in which generate reads from it is part of that promise.
func (s *state) primarySource(hierarchy tpm2.Handle, template *tpm2.Public, data []byte) *tpmcrypto.DRBG {
	t, err := tpm2.Encode(template)
	if err != nil {
		panic(err) // it was read from the wire
	}
	h := tpmcrypto.SHA512
	return tpmcrypto.NewDRBG(h, s.seed(hierarchy), h.Sum(t), h.Sum(data), []byte("holdfast primary object"))
}

// generate makes the secret part and the unique field of an object from its
// template o.pub, reading from src in the order: seed, then key.
func generate(o *object, src io.Reader, data []byte) tpm2.RC {
	p, s := &o.pub, &o.sens
	s.Type = p.Type
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(src, b); err != nil {
			panic("softtpm: the random source failed: " + err.Error())
		}
		return b
	}
	// Storage parents keep a seed for their children, symmetric objects one
	// that hides their key in the unique field (Part 1, 26.5).
	if o.isParent() || !p.Type.IsAsymmetric() {
		s.Seed = read(p.NameAlg.DigestSize())
	}
	switch p.Type {
	case tpm2.AlgRSA:
		k, err := tpmcrypto.GenerateRSA(int(p.Parms.KeyBits), exponent(&p.Parms), src)
		if err != nil {
			return tpm2.RCNoResult
		}
		p.Unique, s.Value = k.Public().Modulus(), k.Prime()
		o.key.rsaPriv = k
	case tpm2.AlgECC:
		if isEdKey(p) {
			s.Value = read(tpmcrypto.EdSize(uint16(p.Parms.Curve)))
			k, err := o.edPrivate()
			if err != nil {
				return tpm2.RCNoResult
			}
			p.Point = tpm2.Point{X: k.Public().Bytes()}
			return tpm2.RCSuccess
		}
		k, err := tpmcrypto.GenerateEC(o.curve(), src)
		if err != nil {
			return tpm2.RCNoResult
		}
		p.Point, s.Value = tpm2.Point{X: bytes.Clone(k.X), Y: bytes.Clone(k.Y)}, k.Scalar()
		o.key.ecPriv = k
	case tpm2.AlgMLDSA, tpm2.AlgHashMLDSA:
		s.Value = read(tpm2.MLDSASeedSize)
		k, err := o.mldsaPrivate()
		if err != nil {
			return tpm2.RCNoResult
		}
		p.Unique = k.Public().Bytes()
	case tpm2.AlgMLKEM:
		s.Value = read(tpm2.MLKEMSeedSize)
		k, err := o.mlkemPrivate()
		if err != nil {
			return tpm2.RCNoResult
		}
		p.Unique = k.Public().Bytes()
	case tpm2.AlgSymCipher:
		n := int(p.Parms.Symmetric.KeyBits) / 8
		switch {
		case len(data) == 0:
			s.Value = read(n)
		case len(data) != n:
			return tpm2.RCKeySize
		default:
			s.Value = bytes.Clone(data)
		}
	case tpm2.AlgKeyedHash:
		switch h := p.Parms.Scheme; {
		case len(data) != 0:
			if h.Alg != tpm2.AlgNull && len(data) > tpmcrypto.Hash(h.Hash).BlockSize() {
				return tpm2.RCSize
			}
			s.Value = bytes.Clone(data)
		case h.Alg != tpm2.AlgNull:
			s.Value = read(h.Hash.DigestSize())
		default:
			s.Value = read(p.NameAlg.DigestSize())
		}
	}
	if !p.Type.IsAsymmetric() {
		p.Unique = p.NameAlg.Sum(s.Seed, s.Value)
	}
	return tpm2.RCSuccess
}

// place computes the Names of o under a parent with the given qualified Name.
func (o *object) place(parentQN []byte) {
	var err error
	if o.name, err = o.pub.Name(); err != nil {
		panic(err) // nameAlg is implemented
	}
	if o.pub.NameAlg == tpm2.AlgNull {
		o.qname = nil
		return
	}
	if o.qname, err = tpm2.QualifiedName(o.pub.NameAlg, parentQN, o.name); err != nil {
		panic(err)
	}
}
