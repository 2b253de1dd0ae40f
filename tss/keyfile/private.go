// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/mlkem"
	"crypto/rsa"
	"crypto/x509"
	encasn1 "encoding/asn1"
	"errors"
	"fmt"
	"math/big"

	"filippo.io/mldsa"
	mldsax509 "filippo.io/mldsa/x509"
	"github.com/cloudflare/circl/kem/mlkem/mlkem512"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
)

// seedTag is the [0] of the seed in ML-DSA-*-PrivateKey and ML-KEM-*-PrivateKey
// (RFC 9881, 6; RFC 9935, 6). A TPM has and takes seeds only.
var seedTag = asn1.Tag(0).ContextSpecific()

// mlkemSeedSize is that of d ‖ z.
const mlkemSeedSize = 64

// ErrMismatch says that a private key is not that of the public area.
var ErrMismatch = errors.New("keyfile: the private key does not belong to the public key")

// ParsePrivate reads a private key as PKCS #8, or as the older forms of RSA
// (PKCS #1) and ECC (SEC 1) keys. The public area is that of ParsePublic. The
// caller erases the sensitive area's value after use.
func ParsePrivate(der []byte) (*tpm2.Public, *tpm2.Sensitive, error) {
	if p, s, ok, err := parseMLKEMPrivate(der); ok {
		return p, s, err
	}
	if p, s, ok, err := parseEdwardsPrivate(der); ok {
		return p, s, err
	}
	key, err := mldsax509.ParsePKCS8PrivateKey(der)
	if err != nil {
		if k, e := x509.ParsePKCS1PrivateKey(der); e == nil {
			key = k
		} else if k, e := x509.ParseECPrivateKey(der); e == nil {
			key = k
		} else {
			return nil, nil, fmt.Errorf("keyfile: %w", err)
		}
	}
	return fromPrivateKey(key)
}

func fromPrivateKey(key any) (*tpm2.Public, *tpm2.Sensitive, error) {
	var public any
	var value []byte
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if len(k.Primes) != 2 {
			return nil, nil, fmt.Errorf("keyfile: an RSA key of %d primes, expected 2", len(k.Primes))
		}
		// A TPM's primes have half the bits of the modulus each (Part 2, 12.3.2.4).
		half := k.N.BitLen() / 2
		if k.Primes[0].BitLen() != half || k.Primes[1].BitLen() != half {
			return nil, nil, errors.New("keyfile: an RSA key with primes of different length, which no TPM takes")
		}
		public, value = &k.PublicKey, k.Primes[0].Bytes()
	case *ecdsa.PrivateKey:
		b, err := k.Bytes()
		if err != nil {
			return nil, nil, fmt.Errorf("keyfile: %w", err)
		}
		public, value = &k.PublicKey, b
	case *mldsa.PrivateKey:
		public, value = k.PublicKey(), k.Bytes()
	default:
		return nil, nil, fmt.Errorf("keyfile: a private key of type %T; expected RSA, ECC on a NIST curve, ML-DSA or ML-KEM", key)
	}
	p, err := fromPublicKey(public)
	if err != nil {
		clear(value)
		return nil, nil, err
	}
	return p, &tpm2.Sensitive{Type: p.Type, Value: value}, nil
}

// parseMLKEMPrivate reads the PKCS #8 form of an ML-KEM key; ok says that it is
// one, well formed or not.
func parseMLKEMPrivate(der []byte) (p *tpm2.Public, s *tpm2.Sensitive, ok bool, err error) {
	in := cryptobyte.String(der)
	var outer, algorithm, key, seed cryptobyte.String
	var version int
	var oid encasn1.ObjectIdentifier
	if !in.ReadASN1(&outer, asn1.SEQUENCE) || !outer.ReadASN1Integer(&version) || !outer.ReadASN1(&algorithm, asn1.SEQUENCE) ||
		!algorithm.ReadASN1ObjectIdentifier(&oid) || mlkemSet(oid) == 0 {
		return nil, nil, false, nil
	}
	if version != 0 || !algorithm.Empty() || !outer.ReadASN1(&key, asn1.OCTET_STRING) || !outer.Empty() || !in.Empty() {
		return nil, nil, true, errors.New("keyfile: expected the PKCS #8 form of an ML-KEM key (RFC 9935), got something malformed")
	}
	if !key.ReadASN1(&seed, seedTag) || !key.Empty() || len(seed) != mlkemSeedSize {
		return nil, nil, true, errors.New("keyfile: an ML-KEM private key without its seed alone, which is what a TPM takes; write it again in the seed form of RFC 9935")
	}
	set := mlkemSet(oid)
	public, err := mlkemPublic(set, seed)
	if err != nil {
		return nil, nil, true, err
	}
	p = newPublic(tpm2.AlgMLKEM, tpm2.ObjectDecrypt)
	p.Parms.MLKEM, p.Unique = set, public
	return p, &tpm2.Sensitive{Type: tpm2.AlgMLKEM, Value: bytes.Clone(seed)}, true, nil
}

// mlkemPublic derives the public key from d ‖ z (FIPS 203, 7.1).
func mlkemPublic(set tpm2.MLKEMSet, seed []byte) ([]byte, error) {
	if len(seed) != mlkemSeedSize {
		return nil, fmt.Errorf("keyfile: an ML-KEM seed of %d bytes, expected %d", len(seed), mlkemSeedSize)
	}
	switch set {
	case tpm2.MLKEM512:
		public, _ := mlkem512.NewKeyFromSeed(seed)
		return public.MarshalBinary()
	case tpm2.MLKEM768:
		k, err := mlkem.NewDecapsulationKey768(seed)
		if err != nil {
			return nil, err
		}
		return k.EncapsulationKey().Bytes(), nil
	case tpm2.MLKEM1024:
		k, err := mlkem.NewDecapsulationKey1024(seed)
		if err != nil {
			return nil, err
		}
		return k.EncapsulationKey().Bytes(), nil
	}
	return nil, fmt.Errorf("keyfile: ML-KEM parameter set %d is unknown", set)
}

// MarshalPrivate returns the PKCS #8 form of a private key whose areas a TPM
// gave out. ErrMismatch if the two areas are not of the same key. The caller
// erases the result after use.
func MarshalPrivate(p *tpm2.Public, s *tpm2.Sensitive) ([]byte, error) {
	if p.Type != s.Type {
		return nil, ErrMismatch
	}
	if k, ok := edwardsKind(p); ok {
		return k.marshalPrivate(p, s)
	}
	switch p.Type {
	case tpm2.AlgRSA:
		k, err := rsaPrivate(p, s.Value)
		if err != nil {
			return nil, err
		}
		return x509.MarshalPKCS8PrivateKey(k)
	case tpm2.AlgECC:
		c, ok := curves[p.Parms.Curve]
		if !ok {
			return nil, fmt.Errorf("keyfile: a key on %v has no common form outside of a TPM", p.Parms.Curve)
		}
		n := (c.Params().BitSize + 7) / 8
		if len(s.Value) > n {
			return nil, ErrMismatch
		}
		d := make([]byte, n)
		defer clear(d)
		copy(d[n-len(s.Value):], s.Value)
		k, err := ecdsa.ParseRawPrivateKey(c, d)
		if err != nil {
			return nil, ErrMismatch
		}
		public, err := publicKey(p)
		if err != nil {
			return nil, err
		}
		if !k.PublicKey.Equal(public) {
			return nil, ErrMismatch
		}
		return x509.MarshalPKCS8PrivateKey(k)
	case tpm2.AlgMLDSA:
		set, ok := mldsaSets[p.Parms.MLDSA]
		if !ok {
			return nil, fmt.Errorf("keyfile: ML-DSA parameter set %d is unknown", p.Parms.MLDSA)
		}
		k, err := mldsa.NewPrivateKey(set, s.Value)
		if err != nil || !bytes.Equal(k.PublicKey().Bytes(), p.Unique) {
			return nil, ErrMismatch
		}
		return mldsax509.MarshalPKCS8PrivateKey(k)
	case tpm2.AlgMLKEM:
		public, err := mlkemPublic(p.Parms.MLKEM, s.Value)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(public, p.Unique) {
			return nil, ErrMismatch
		}
		b := cryptobyte.NewBuilder(make([]byte, 0, 128)) // no copy of the seed is left behind by growth
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1Int64(0)
			b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(mlkemOIDs[p.Parms.MLKEM]) })
			b.AddASN1(asn1.OCTET_STRING, func(b *cryptobyte.Builder) {
				b.AddASN1(seedTag, func(b *cryptobyte.Builder) { b.AddBytes(s.Value) })
			})
		})
		return b.Bytes()
	}
	return nil, fmt.Errorf("keyfile: a private key of type %v has no common form outside of a TPM", p.Type)
}

// rsaPrivate completes an RSA key from its public area and one prime.
func rsaPrivate(public *tpm2.Public, prime []byte) (*rsa.PrivateKey, error) {
	any, err := publicKey(public)
	if err != nil {
		return nil, err
	}
	pub := any.(*rsa.PublicKey)
	p := new(big.Int).SetBytes(prime)
	if p.Cmp(big.NewInt(2)) <= 0 {
		return nil, ErrMismatch
	}
	q, rest := new(big.Int).QuoRem(pub.N, p, new(big.Int))
	if rest.Sign() != 0 {
		return nil, ErrMismatch
	}
	one := big.NewInt(1)
	phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	d := new(big.Int).ModInverse(big.NewInt(int64(pub.E)), phi)
	if d == nil {
		return nil, ErrMismatch
	}
	k := &rsa.PrivateKey{PublicKey: *pub, D: d, Primes: []*big.Int{p, q}}
	k.Precompute()
	if err := k.Validate(); err != nil {
		return nil, ErrMismatch
	}
	return k, nil
}
