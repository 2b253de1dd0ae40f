// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	encasn1 "encoding/asn1"
	"errors"
	"fmt"

	"github.com/cloudflare/circl/dh/x448"
	"github.com/cloudflare/circl/sign/ed448"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
)

// Keys on Curve25519 and Curve448 in the forms of RFC 8410: Ed25519 and Ed448
// for TPM_ALG_EDDSA, X25519 and X448 for TPM_ALG_ECDH. The octets are the same
// as those of a TPM (version 185, Part 1, 44.5). Keys of TPM_ALG_HASH_EDDSA have
// no such form: the identifiers are for the pure one.

// edwards is one kind of key of RFC 8410.
type edwards struct {
	last   int // of the OID 1.3.101.x
	curve  tpm2.Curve
	signs  bool
	size   int // of the private and of the public key
	public func(private []byte) ([]byte, error)
}

var edwardsKinds = []edwards{
	{110, tpm2.Curve25519, false, 32, func(b []byte) ([]byte, error) {
		k, err := ecdh.X25519().NewPrivateKey(b)
		if err != nil {
			return nil, err
		}
		return k.PublicKey().Bytes(), nil
	}},
	{111, tpm2.Curve448, false, x448.Size, func(b []byte) ([]byte, error) {
		var public, secret x448.Key
		defer clear(secret[:])
		copy(secret[:], b)
		x448.KeyGen(&public, &secret)
		return public[:], nil
	}},
	{112, tpm2.Curve25519, true, ed25519.SeedSize, func(b []byte) ([]byte, error) {
		k := ed25519.NewKeyFromSeed(b)
		defer clear(k)
		return bytes.Clone(k[ed25519.SeedSize:]), nil
	}},
	{113, tpm2.Curve448, true, ed448.SeedSize, func(b []byte) ([]byte, error) {
		k := ed448.NewKeyFromSeed(b)
		defer clear(k)
		return bytes.Clone(k[ed448.SeedSize:]), nil
	}},
}

func (k *edwards) oid() encasn1.ObjectIdentifier { return encasn1.ObjectIdentifier{1, 3, 101, k.last} }

// scheme is that of a TPM's key; key exchange with SHA-256, which counts for
// nothing in it.
func (k *edwards) scheme() tpm2.Scheme {
	if k.signs {
		return tpm2.Scheme{Alg: tpm2.AlgEdDSA}
	}
	return tpm2.Scheme{Alg: tpm2.AlgECDH, Hash: tpm2.AlgSHA256}
}

// edwardsKind finds the kind of a TPM's key. A storage key is for X25519 or X448.
func edwardsKind(p *tpm2.Public) (*edwards, bool) {
	if p.Type != tpm2.AlgECC || p.Parms.Scheme.Alg == tpm2.AlgHashEdDSA {
		return nil, false
	}
	for i := range edwardsKinds {
		if k := &edwardsKinds[i]; k.curve == p.Parms.Curve && k.signs == (p.Parms.Scheme.Alg == tpm2.AlgEdDSA) {
			return k, true
		}
	}
	return nil, false
}

func edwardsOID(oid encasn1.ObjectIdentifier) *edwards {
	for i := range edwardsKinds {
		if edwardsKinds[i].oid().Equal(oid) {
			return &edwardsKinds[i]
		}
	}
	return nil
}

func (k *edwards) check(p *tpm2.Public) error {
	if len(p.Point.X) != k.size || len(p.Point.Y) != 0 {
		return fmt.Errorf("keyfile: a key on %v of %d bytes, expected %d", k.curve, len(p.Point.X), k.size)
	}
	return nil
}

func (k *edwards) marshalPublic(p *tpm2.Public) ([]byte, error) {
	if err := k.check(p); err != nil {
		return nil, err
	}
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(k.oid()) })
		b.AddASN1BitString(p.Point.X)
	})
	return b.Bytes()
}

func (k *edwards) marshalPrivate(p *tpm2.Public, s *tpm2.Sensitive) ([]byte, error) {
	if err := k.check(p); err != nil {
		return nil, err
	}
	if len(s.Value) != k.size {
		return nil, ErrMismatch
	}
	public, err := k.public(s.Value)
	if err != nil || !bytes.Equal(public, p.Point.X) {
		return nil, ErrMismatch
	}
	b := cryptobyte.NewBuilder(make([]byte, 0, 128)) // no copy is left behind by growth
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1Int64(0)
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(k.oid()) })
		b.AddASN1(asn1.OCTET_STRING, func(b *cryptobyte.Builder) { b.AddASN1OctetString(s.Value) })
	})
	return b.Bytes()
}

// area is the public area of a key from outside.
func (k *edwards) area(public []byte) *tpm2.Public {
	a := tpm2.ObjectDecrypt
	if k.signs {
		a = tpm2.ObjectSignEncrypt
	}
	p := newPublic(tpm2.AlgECC, a)
	p.Parms.Curve, p.Parms.Scheme, p.Point = k.curve, k.scheme(), tpm2.Point{X: public}
	return p
}

// parseEdwardsPublic reads a SubjectPublicKeyInfo of RFC 8410; ok says that it
// is one, well formed or not.
func parseEdwardsPublic(der []byte) (p *tpm2.Public, ok bool, err error) {
	in := cryptobyte.String(der)
	var outer, algorithm cryptobyte.String
	var oid encasn1.ObjectIdentifier
	if !in.ReadASN1(&outer, asn1.SEQUENCE) || !outer.ReadASN1(&algorithm, asn1.SEQUENCE) || !algorithm.ReadASN1ObjectIdentifier(&oid) {
		return nil, false, nil
	}
	k := edwardsOID(oid)
	if k == nil {
		return nil, false, nil
	}
	var key []byte
	if !algorithm.Empty() || !outer.ReadASN1BitStringAsBytes(&key) || !outer.Empty() || !in.Empty() || len(key) != k.size {
		return nil, true, errors.New("keyfile: expected the SubjectPublicKeyInfo of a key of RFC 8410, got something malformed")
	}
	return k.area(bytes.Clone(key)), true, nil
}

// parseEdwardsPrivate reads PKCS #8 of RFC 8410 (also RFC 5958 with the public key
// behind, which must fit); ok says that it is one, well formed or not.
func parseEdwardsPrivate(der []byte) (p *tpm2.Public, s *tpm2.Sensitive, ok bool, err error) {
	in := cryptobyte.String(der)
	var outer, algorithm, wrapped, key cryptobyte.String
	var version int
	var oid encasn1.ObjectIdentifier
	if !in.ReadASN1(&outer, asn1.SEQUENCE) || !outer.ReadASN1Integer(&version) || !outer.ReadASN1(&algorithm, asn1.SEQUENCE) || !algorithm.ReadASN1ObjectIdentifier(&oid) {
		return nil, nil, false, nil
	}
	k := edwardsOID(oid)
	if k == nil {
		return nil, nil, false, nil
	}
	malformed := errors.New("keyfile: expected the PKCS #8 form of a key of RFC 8410, got something malformed")
	if version != 0 && version != 1 || !algorithm.Empty() || !outer.ReadASN1(&wrapped, asn1.OCTET_STRING) || !wrapped.ReadASN1(&key, asn1.OCTET_STRING) ||
		!wrapped.Empty() || !in.Empty() || len(key) != k.size {
		return nil, nil, true, malformed
	}
	public, err := k.public(key)
	if err != nil {
		return nil, nil, true, fmt.Errorf("keyfile: %w", err)
	}
	attributes, publicKey := asn1.Tag(0).ContextSpecific().Constructed(), asn1.Tag(1).ContextSpecific()
	if !outer.SkipOptionalASN1(attributes) {
		return nil, nil, true, malformed
	}
	var behind cryptobyte.String
	var has bool
	if !outer.ReadOptionalASN1(&behind, &has, publicKey) || !outer.Empty() || has != (version == 1) {
		return nil, nil, true, malformed
	}
	if has && !bytes.Equal(behind, append([]byte{0}, public...)) { // a BIT STRING's octets
		return nil, nil, true, ErrMismatch
	}
	return k.area(public), &tpm2.Sensitive{Type: tpm2.AlgECC, Value: bytes.Clone(key)}, true, nil
}
