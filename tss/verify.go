// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha512"
	"errors"
	"fmt"
	"math/big"

	"filippo.io/mldsa"
	"github.com/cloudflare/circl/sign/ed448"

	"holdfast/tpm2"
)

// ErrSignature says that a signature does not verify.
var ErrSignature = errors.New("the signature is wrong")

// CheckSignature verifies a TPM's signature of message in software, without a
// TPM: RSASSA, RSAPSS, ECDSA over the NIST curves, EdDSA of both forms and pure
// ML-DSA (with empty context). The scheme must be the key's own if the key has one.
func CheckSignature(pub *tpm2.Public, message []byte, s *tpm2.Signature) error {
	if own := pub.Parms.Scheme; own.Alg != 0 && own.Alg != tpm2.AlgNull && (own.Alg != s.Alg || own.Hash != s.Hash) {
		return fmt.Errorf("tss: a signature by %v with %v, the key signs by %v with %v", s.Alg, s.Hash, own.Alg, own.Hash)
	}
	if !pub.Attributes.Has(tpm2.ObjectSignEncrypt) {
		return errors.New("tss: the key is not for signatures")
	}
	if s.Alg == tpm2.AlgMLDSA {
		return checkMLDSA(pub, message, s)
	}
	if s.Alg == tpm2.AlgEdDSA || s.Alg == tpm2.AlgHashEdDSA {
		return checkEdDSA(pub, message, s)
	}
	hash := s.Hash.CryptoHash()
	if hash == 0 {
		return fmt.Errorf("tss: signature with hash %v, which is not known here", s.Hash)
	}
	digest := s.Hash.Sum(message)
	switch {
	case pub.Type == tpm2.AlgRSA && (s.Alg == tpm2.AlgRSASSA || s.Alg == tpm2.AlgRSAPSS):
		key, err := rsaPublic(pub)
		if err != nil {
			return fmt.Errorf("tss: %w", err)
		}
		if s.Alg == tpm2.AlgRSASSA {
			err = rsa.VerifyPKCS1v15(key, hash, digest, s.Sig)
		} else {
			err = rsa.VerifyPSS(key, hash, digest, s.Sig, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto})
		}
		if err != nil {
			return ErrSignature
		}
		return nil
	case pub.Type == tpm2.AlgECC && s.Alg == tpm2.AlgECDSA:
		return checkECDSA(pub, digest, s)
	}
	return fmt.Errorf("tss: a signature by %v for a key of type %v cannot be checked here", s.Alg, pub.Type)
}

// checkEdDSA verifies Ed25519, Ed25519ph, Ed448 and Ed448ph (RFC 8032).
func checkEdDSA(pub *tpm2.Public, message []byte, s *tpm2.Signature) error {
	if pub.Type != tpm2.AlgECC || pub.Parms.Scheme.Alg != s.Alg || len(pub.Point.Y) != 0 {
		return fmt.Errorf("tss: a signature by %v for a key of type %v that is not one of it", s.Alg, pub.Type)
	}
	key, ph := pub.Point.X, s.Alg == tpm2.AlgHashEdDSA
	good := false
	switch {
	case pub.Parms.Curve == tpm2.Curve25519 && len(key) == ed25519.PublicKeySize:
		if ph {
			digest := sha512.Sum512(message)
			good = ed25519.VerifyWithOptions(key, digest[:], s.Sig, &ed25519.Options{Hash: crypto.SHA512}) == nil
		} else {
			good = ed25519.Verify(key, message, s.Sig)
		}
	case pub.Parms.Curve == tpm2.Curve448 && len(key) == ed448.PublicKeySize:
		if ph {
			good = ed448.VerifyPh(key, message, s.Sig, "")
		} else {
			good = ed448.Verify(key, message, s.Sig, "")
		}
	default:
		return fmt.Errorf("tss: an EdDSA key of %d bytes on %v", len(key), pub.Parms.Curve)
	}
	if !good {
		return ErrSignature
	}
	return nil
}

func checkECDSA(pub *tpm2.Public, digest []byte, s *tpm2.Signature) error {
	var curve elliptic.Curve
	switch pub.Parms.Curve {
	case tpm2.CurveP256:
		curve = elliptic.P256()
	case tpm2.CurveP384:
		curve = elliptic.P384()
	case tpm2.CurveP521:
		curve = elliptic.P521()
	}
	point, err := eccPublic(pub.Parms.Curve, pub.Point)
	if err != nil {
		return fmt.Errorf("tss: %w", err)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, point.Bytes())
	if err != nil {
		return fmt.Errorf("tss: %w", err)
	}
	if !ecdsa.Verify(key, digest, new(big.Int).SetBytes(s.R), new(big.Int).SetBytes(s.S)) {
		return ErrSignature
	}
	return nil
}

// mldsaSet returns the parameters of a set.
func mldsaSet(s tpm2.MLDSASet) (mldsa.Parameters, error) {
	switch s {
	case tpm2.MLDSA44:
		return mldsa.MLDSA44(), nil
	case tpm2.MLDSA65:
		return mldsa.MLDSA65(), nil
	case tpm2.MLDSA87:
		return mldsa.MLDSA87(), nil
	}
	return mldsa.Parameters{}, fmt.Errorf("ML-DSA parameter set %d is unknown", s)
}

func checkMLDSA(pub *tpm2.Public, message []byte, s *tpm2.Signature) error {
	if pub.Type != tpm2.AlgMLDSA {
		return fmt.Errorf("tss: an ML-DSA signature for a key of type %v", pub.Type)
	}
	set, err := mldsaSet(pub.Parms.MLDSA)
	if err != nil {
		return fmt.Errorf("tss: %w", err)
	}
	key, err := mldsa.NewPublicKey(set, pub.Unique)
	if err != nil {
		return fmt.Errorf("tss: %w", err)
	}
	if mldsa.Verify(key, message, s.Sig, nil) != nil {
		return ErrSignature
	}
	return nil
}
