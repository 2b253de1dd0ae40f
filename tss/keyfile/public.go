// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	encasn1 "encoding/asn1"
	"errors"
	"fmt"
	"math/big"

	"filippo.io/mldsa"
	mldsax509 "filippo.io/mldsa/x509"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
)

// curves are the NIST curves that a TPM and X.509 share.
var curves = map[tpm2.Curve]elliptic.Curve{
	tpm2.CurveP224: elliptic.P224(), tpm2.CurveP256: elliptic.P256(), tpm2.CurveP384: elliptic.P384(), tpm2.CurveP521: elliptic.P521(),
}

var mldsaSets = map[tpm2.MLDSASet]mldsa.Parameters{
	tpm2.MLDSA44: mldsa.MLDSA44(), tpm2.MLDSA65: mldsa.MLDSA65(), tpm2.MLDSA87: mldsa.MLDSA87(),
}

// mlkemOIDs are id-alg-ml-kem-512, -768 and -1024 (RFC 9935, section 3).
var mlkemOIDs = map[tpm2.MLKEMSet]encasn1.ObjectIdentifier{
	tpm2.MLKEM512:  {2, 16, 840, 1, 101, 3, 4, 4, 1},
	tpm2.MLKEM768:  {2, 16, 840, 1, 101, 3, 4, 4, 2},
	tpm2.MLKEM1024: {2, 16, 840, 1, 101, 3, 4, 4, 3},
}

// mlkemSet returns the parameter set of an OID, 0 if it is none.
func mlkemSet(oid encasn1.ObjectIdentifier) tpm2.MLKEMSet {
	for set, o := range mlkemOIDs {
		if o.Equal(oid) {
			return set
		}
	}
	return 0
}

// MarshalPublic returns the SubjectPublicKeyInfo (RFC 5280, 4.1; RFC 8410; RFC
// 9881; RFC 9935) of an RSA, ECC (NIST curves, Curve25519, Curve448), ML-DSA or
// ML-KEM key.
func MarshalPublic(p *tpm2.Public) ([]byte, error) {
	if k, ok := edwardsKind(p); ok {
		return k.marshalPublic(p)
	}
	if p.Type == tpm2.AlgMLKEM {
		oid, ok := mlkemOIDs[p.Parms.MLKEM]
		if !ok || len(p.Unique) != p.Parms.MLKEM.PublicKeySize() {
			return nil, fmt.Errorf("keyfile: an ML-KEM key of parameter set %d with %d bytes", p.Parms.MLKEM, len(p.Unique))
		}
		var b cryptobyte.Builder
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oid) })
			b.AddASN1BitString(p.Unique)
		})
		return b.Bytes()
	}
	key, err := publicKey(p)
	if err != nil {
		return nil, err
	}
	return mldsax509.MarshalPKIXPublicKey(key)
}

// publicKey returns the key as Go's types have it.
func publicKey(p *tpm2.Public) (any, error) {
	switch p.Type {
	case tpm2.AlgRSA:
		e := p.Parms.Exponent
		if e == 0 {
			e = 65537
		}
		if len(p.Unique) == 0 || e < 3 || e > 1<<31-1 {
			return nil, fmt.Errorf("keyfile: an RSA key of %d bytes with exponent %d", len(p.Unique), e)
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(p.Unique), E: int(e)}, nil
	case tpm2.AlgECC:
		c, ok := curves[p.Parms.Curve]
		if !ok {
			return nil, fmt.Errorf("keyfile: a key on %v has no common form outside of a TPM", p.Parms.Curve)
		}
		n := (c.Params().BitSize + 7) / 8
		if len(p.Point.X) > n || len(p.Point.Y) > n {
			return nil, errors.New("keyfile: the point does not fit the curve")
		}
		b := make([]byte, 1+2*n)
		b[0] = 4
		copy(b[1+n-len(p.Point.X):], p.Point.X)
		copy(b[1+2*n-len(p.Point.Y):], p.Point.Y)
		return ecdsa.ParseUncompressedPublicKey(c, b)
	case tpm2.AlgMLDSA:
		set, ok := mldsaSets[p.Parms.MLDSA]
		if !ok {
			return nil, fmt.Errorf("keyfile: ML-DSA parameter set %d is unknown", p.Parms.MLDSA)
		}
		return mldsa.NewPublicKey(set, p.Unique)
	}
	return nil, fmt.Errorf("keyfile: a key of type %v has no common form outside of a TPM", p.Type)
}

// ParsePublic reads a SubjectPublicKeyInfo: a public area with nameAlg SHA-256
// and null schemes, for signing and decrypting as far as the type can.
func ParsePublic(der []byte) (*tpm2.Public, error) {
	if p, ok, err := parseMLKEMPublic(der); ok {
		return p, err
	}
	if p, ok, err := parseEdwardsPublic(der); ok {
		return p, err
	}
	key, err := mldsax509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("keyfile: %w", err)
	}
	return fromPublicKey(key)
}

// parseMLKEMPublic reads the SubjectPublicKeyInfo of an ML-KEM key; ok says
// that it is one, well formed or not.
func parseMLKEMPublic(der []byte) (p *tpm2.Public, ok bool, err error) {
	in := cryptobyte.String(der)
	var outer, algorithm cryptobyte.String
	var oid encasn1.ObjectIdentifier
	if !in.ReadASN1(&outer, asn1.SEQUENCE) || !outer.ReadASN1(&algorithm, asn1.SEQUENCE) || !algorithm.ReadASN1ObjectIdentifier(&oid) || mlkemSet(oid) == 0 {
		return nil, false, nil
	}
	set := mlkemSet(oid)
	var key []byte
	if !algorithm.Empty() || !outer.ReadASN1BitStringAsBytes(&key) || !outer.Empty() || !in.Empty() {
		return nil, true, errors.New("keyfile: expected the SubjectPublicKeyInfo of an ML-KEM key (RFC 9935), got something malformed")
	}
	if len(key) != set.PublicKeySize() {
		return nil, true, fmt.Errorf("keyfile: an ML-KEM key of %d bytes, expected %d", len(key), set.PublicKeySize())
	}
	p = newPublic(tpm2.AlgMLKEM, tpm2.ObjectDecrypt)
	p.Parms.MLKEM, p.Unique = set, key
	return p, true, nil
}

func newPublic(t tpm2.Alg, a tpm2.ObjectAttributes) *tpm2.Public {
	return &tpm2.Public{
		Type: t, NameAlg: tpm2.AlgSHA256, Attributes: a | tpm2.ObjectUserWithAuth,
		Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: tpm2.NoScheme, KDF: tpm2.NoScheme},
	}
}

// fromPublicKey is the reverse of publicKey.
func fromPublicKey(key any) (*tpm2.Public, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		bits := k.N.BitLen()
		if bits%1024 != 0 || bits < 1024 || bits > 4096 {
			return nil, fmt.Errorf("keyfile: an RSA key of %d bits; a TPM takes 1024, 2048, 3072 or 4096", bits)
		}
		p := newPublic(tpm2.AlgRSA, tpm2.ObjectSignEncrypt|tpm2.ObjectDecrypt)
		p.Parms.KeyBits, p.Unique = uint16(bits), k.N.Bytes()
		if k.E != 65537 {
			p.Parms.Exponent = uint32(k.E)
		}
		return p, nil
	case *ecdsa.PublicKey:
		for c, curve := range curves {
			if curve != k.Curve {
				continue
			}
			b, err := k.Bytes()
			if err != nil {
				return nil, fmt.Errorf("keyfile: %w", err)
			}
			n := len(b) / 2
			p := newPublic(tpm2.AlgECC, tpm2.ObjectSignEncrypt|tpm2.ObjectDecrypt)
			p.Parms.Curve, p.Point = c, tpm2.Point{X: b[1 : 1+n], Y: b[1+n:]}
			return p, nil
		}
		return nil, errors.New("keyfile: an ECC key on a curve that is not one of P-224, P-256, P-384 and P-521")
	case *mldsa.PublicKey:
		for set, params := range mldsaSets {
			if params == k.Parameters() {
				p := newPublic(tpm2.AlgMLDSA, tpm2.ObjectSignEncrypt)
				p.Parms.MLDSA, p.Unique = set, k.Bytes()
				return p, nil
			}
		}
	}
	return nil, fmt.Errorf("keyfile: a key of type %T; expected RSA, ECC on a NIST curve, ML-DSA or ML-KEM", key)
}
