// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"

	"filippo.io/mldsa"

	"holdfast/attest/trust"
	"holdfast/tpm2"
)

// ak is a pinned attestation key, ready to verify.
type ak struct {
	record *trust.AK
	name   []byte // TPM Name
	alg    string // JOSE name of its signatures
	pq     bool

	scheme tpm2.Alg // of TPMT_SIGNATURE
	hash   tpm2.Alg // of the scheme; for ML-DSA the nameAlg, which makes the PCR digest (v1.85 Errata 2.6)
	ec     *ecdsa.PublicKey
	rsa    *rsa.PublicKey
	pqc    *mldsa.PublicKey
}

// akMust and akMustNot are attributes (TPMA_OBJECT): the key was made in this
// TPM, cannot leave it, and signs nothing that begins with
// TPM_GENERATED_VALUE but what the TPM made itself. Without restricted anyone
// who may use the key could forge a quote.
const (
	akMust    = tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectRestricted | tpm2.ObjectSignEncrypt
	akMustNot = tpm2.ObjectDecrypt | tpm2.ObjectX509Sign
)

// CheckAK says why the TPMT_PUBLIC public cannot be an attestation key here,
// and returns its TPM Name and signature algorithm if it can.
func CheckAK(public []byte) (name []byte, signature string, err error) {
	k, err := parseAK(&trust.AK{Public: public})
	if err != nil {
		return nil, "", err
	}
	return k.name, k.alg, nil
}

func parseAK(record *trust.AK) (*ak, error) {
	var p tpm2.Public
	if err := tpm2.Decode(record.Public, &p); err != nil {
		return nil, fmt.Errorf("attestation key: expected a TPMT_PUBLIC: %w", err)
	}
	if !p.Attributes.Has(akMust) || p.Attributes&akMustNot != 0 {
		return nil, fmt.Errorf("attestation key: attributes: expected %#x set and %#x clear (fixed to its TPM, made there, restricted, sign only), got %#x", uint32(akMust), uint32(akMustNot), uint32(p.Attributes))
	}
	if weakHash(p.NameAlg) {
		return nil, fmt.Errorf("attestation key: nameAlg: expected SHA-256 or longer, got %v", p.NameAlg)
	}
	k := &ak{record: record}
	var err error
	if k.name, err = p.Name(); err != nil {
		return nil, err
	}
	switch p.Type {
	case tpm2.AlgMLDSA:
		err = k.setMLDSA(&p)
	case tpm2.AlgECC:
		err = k.setECC(&p)
	case tpm2.AlgRSA:
		err = k.setRSA(&p)
	default:
		err = fmt.Errorf("type: expected mldsa, ecc or rsa, got %v", p.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("attestation key: %w", err)
	}
	return k, nil
}

// weakHash: collisions in SHA-1 are practical; SM3 is not linked in for
// signatures.
func weakHash(a tpm2.Alg) bool { return a == tpm2.AlgSHA1 || a.CryptoHash() == 0 }

func (k *ak) setMLDSA(p *tpm2.Public) (err error) {
	params := map[tpm2.MLDSASet]mldsa.Parameters{tpm2.MLDSA44: mldsa.MLDSA44(), tpm2.MLDSA65: mldsa.MLDSA65(), tpm2.MLDSA87: mldsa.MLDSA87()}
	set, ok := params[p.Parms.MLDSA]
	if !ok {
		return fmt.Errorf("unknown ML-DSA parameter set %d", p.Parms.MLDSA)
	}
	if p.Parms.AllowExternalMu {
		return errors.New("allowExternalMu: expected NO: a TPM cannot see what an external mu stands for")
	}
	k.pqc, err = mldsa.NewPublicKey(set, p.Unique)
	k.alg, k.pq, k.scheme, k.hash = set.String(), true, tpm2.AlgMLDSA, p.NameAlg
	return err
}

func (k *ak) setECC(p *tpm2.Public) error {
	s := p.Parms.Scheme
	if s.Alg != tpm2.AlgECDSA || weakHash(s.Hash) {
		return fmt.Errorf("scheme: expected ECDSA with SHA-256 or longer, got %v with %v", s.Alg, s.Hash)
	}
	var curve elliptic.Curve
	switch {
	case p.Parms.Curve == tpm2.CurveP256 && s.Hash == tpm2.AlgSHA256:
		curve, k.alg = elliptic.P256(), "ES256"
	case p.Parms.Curve == tpm2.CurveP384 && s.Hash == tpm2.AlgSHA384:
		curve, k.alg = elliptic.P384(), "ES384"
	case p.Parms.Curve == tpm2.CurveP521 && s.Hash == tpm2.AlgSHA512:
		curve, k.alg = elliptic.P521(), "ES512"
	default:
		return fmt.Errorf("expected P-256 with SHA-256, P-384 with SHA-384 or P-521 with SHA-512, got %v with %v", p.Parms.Curve, s.Hash)
	}
	size := (curve.Params().BitSize + 7) / 8
	x, y := bytes.TrimLeft(p.Point.X, "\x00"), bytes.TrimLeft(p.Point.Y, "\x00")
	if len(x) > size || len(y) > size {
		return errors.New("point: coordinates are longer than the field")
	}
	point := make([]byte, 1+2*size)
	point[0] = 4
	copy(point[1+size-len(x):], x)
	copy(point[1+2*size-len(y):], y)
	var err error
	k.ec, err = ecdsa.ParseUncompressedPublicKey(curve, point)
	k.scheme, k.hash = tpm2.AlgECDSA, s.Hash
	return err
}

func (k *ak) setRSA(p *tpm2.Public) error {
	s := p.Parms.Scheme
	if weakHash(s.Hash) || (s.Alg != tpm2.AlgRSASSA && s.Alg != tpm2.AlgRSAPSS) {
		return fmt.Errorf("scheme: expected RSASSA or RSAPSS with SHA-256 or longer, got %v with %v", s.Alg, s.Hash)
	}
	family := map[tpm2.Alg]string{tpm2.AlgRSASSA: "RS", tpm2.AlgRSAPSS: "PS"}[s.Alg]
	switch s.Hash {
	case tpm2.AlgSHA256, tpm2.AlgSHA384, tpm2.AlgSHA512:
		k.alg = family + s.Hash.String()[len("sha"):]
	default:
		return fmt.Errorf("scheme: expected SHA-256, SHA-384 or SHA-512, got %v", s.Hash)
	}
	n := new(big.Int).SetBytes(p.Unique)
	if n.BitLen() < 2048 {
		return fmt.Errorf("RSA: expected at least 2048 bits, got %d", n.BitLen())
	}
	e := p.Parms.Exponent
	if e == 0 {
		e = 65537
	}
	if e < 65537 || e%2 == 0 || e > 1<<31-1 {
		return fmt.Errorf("RSA: exponent: expected an odd number from 65537, got %d", e)
	}
	k.rsa = &rsa.PublicKey{N: n, E: int(e)}
	k.scheme, k.hash = s.Alg, s.Hash
	return nil
}

// verify checks a TPMT_SIGNATURE over message.
func (k *ak) verify(message []byte, s *tpm2.Signature) error {
	if s.Alg != k.scheme || (k.pqc == nil && s.Hash != k.hash) {
		return fmt.Errorf("expected a signature by %v with %v, got %v with %v", k.scheme, k.hash, s.Alg, s.Hash)
	}
	ok := false
	switch {
	case k.pqc != nil:
		ok = mldsa.Verify(k.pqc, message, s.Sig, nil) == nil
	case k.ec != nil:
		ok = ecdsa.Verify(k.ec, k.hash.Sum(message), new(big.Int).SetBytes(s.R), new(big.Int).SetBytes(s.S))
	case k.scheme == tpm2.AlgRSASSA:
		ok = rsa.VerifyPKCS1v15(k.rsa, k.hash.CryptoHash(), k.hash.Sum(message), s.Sig) == nil
	case k.scheme == tpm2.AlgRSAPSS:
		// The salt is as long as the digest, or as long as it can be (Part 1,
		// Annex B.7, leaves both); the signature says which.
		o := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto, Hash: crypto.Hash(k.hash.CryptoHash())}
		ok = rsa.VerifyPSS(k.rsa, o.Hash, k.hash.Sum(message), s.Sig, o) == nil
	}
	if !ok {
		return fmt.Errorf("the signature is not by the key %x", k.name)
	}
	return nil
}
