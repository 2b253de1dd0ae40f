// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// keyScheme returns the scheme that a key's public area fixes, NoScheme if it
// fixes none. The type of ML-DSA keys is their scheme.
func (o *object) keyScheme() tpm2.Scheme {
	switch o.pub.Type {
	case tpm2.AlgMLDSA:
		return tpm2.Scheme{Alg: tpm2.AlgMLDSA}
	case tpm2.AlgHashMLDSA:
		return tpm2.Scheme{Alg: tpm2.AlgHashMLDSA}
	case tpm2.AlgRSA, tpm2.AlgECC, tpm2.AlgKeyedHash:
		return o.pub.Parms.Scheme
	}
	return tpm2.NoScheme
}

// selectSignScheme returns the scheme for a signature by o when the caller
// asks for in (CryptSelectSignScheme of Part 4): the key's scheme if it has
// one, and then in must be null or the same; else in. TPM_RC_SCHEME if they
// differ or neither says one, TPM_RC_KEY if o cannot sign.
func selectSignScheme(o *object, in tpm2.Scheme) (tpm2.Scheme, tpm2.RC) {
	if o.isSequence() || !o.pub.Attributes.Has(tpm2.ObjectSignEncrypt) {
		return in, tpm2.RCKey
	}
	have := o.keyScheme()
	if have.Alg != tpm2.AlgNull && !isSigningAlg(have.Alg) {
		return in, tpm2.RCKey
	}
	switch {
	case have.Alg == tpm2.AlgNull:
		if in.Alg == tpm2.AlgNull || !schemeFits(o.pub.Type, in.Alg) {
			return in, tpm2.RCScheme
		}
		return in, tpm2.RCSuccess
	case in.Alg == tpm2.AlgNull:
		return have, tpm2.RCSuccess
	case in.Alg != have.Alg || in.Hash != have.Hash:
		return in, tpm2.RCScheme
	}
	have.Count = in.Count // of Commit, for ECDAA
	return have, tpm2.RCSuccess
}

// isSigningAlg says whether a is a scheme that signs.
func isSigningAlg(a tpm2.Alg) bool {
	return isSignScheme(a) || a == tpm2.AlgHMAC || a == tpm2.AlgMLDSA || a == tpm2.AlgHashMLDSA
}

// isEdScheme says whether a is one of EdDSA, whose hash is the curve's.
func isEdScheme(a tpm2.Alg) bool { return a == tpm2.AlgEdDSA || a == tpm2.AlgHashEdDSA }

// schemeFits says whether keys of type t sign with scheme a when they have
// none of their own. EdDSA is not here: its keys have it as their own (Part 2,
// 12.2.3.5).
func schemeFits(t, a tpm2.Alg) bool {
	switch t {
	case tpm2.AlgRSA:
		return a == tpm2.AlgRSASSA || a == tpm2.AlgRSAPSS
	case tpm2.AlgECC:
		return a == tpm2.AlgECDSA || a == tpm2.AlgECDAA || a == tpm2.AlgECSchnorr || a == tpm2.AlgSM2
	case tpm2.AlgKeyedHash:
		return a == tpm2.AlgHMAC
	}
	return a == t
}

// signHash is the hash with which a scheme of a key digests: the scheme's, for
// HashML-DSA the key's, AlgNull for pure ML-DSA and for EdDSA, whose hash is no
// parameter.
func signHash(o *object, s tpm2.Scheme) tpm2.Alg {
	switch s.Alg {
	case tpm2.AlgMLDSA, tpm2.AlgEdDSA, tpm2.AlgHashEdDSA:
		return tpm2.AlgNull
	case tpm2.AlgHashMLDSA:
		return o.pub.Parms.Hash
	}
	return s.Hash
}

// digestHash is the hash of what SignDigest and VerifyDigestSignature take: that
// of signHash, for HashEdDSA SHA-512 or SHAKE256 of 64 octets (Part 1, 44.3.2).
func digestHash(o *object, s tpm2.Scheme) tpm2.Alg {
	if s.Alg != tpm2.AlgHashEdDSA {
		return signHash(o, s)
	}
	if o.pub.Parms.Curve == tpm2.Curve448 {
		return tpm2.AlgSHAKE256_512
	}
	return tpm2.AlgSHA512
}

// readSigScheme reads a TPMT_SIG_SCHEME+ of what the engine has.
func readSigScheme(r *tpm2.Reader) (s tpm2.Scheme) {
	s.UnmarshalSig(r)
	if r.Code() == tpm2.RCSuccess {
		schemeImplemented(r, s)
	}
	return s
}

// signDigest signs a digest with the private key of o. For pure ML-DSA the
// digest is µ, for pure EdDSA it is the message; context counts for the ML-DSA
// schemes only.
func (c *call) signDigest(o *object, s tpm2.Scheme, context, digest []byte) (tpm2.Signature, tpm2.RC) {
	h := signHash(o, s)
	sig := tpm2.Signature{Alg: s.Alg, Hash: h}
	th := tpmcrypto.Hash(h)
	fail := func(err error) tpm2.RC {
		if err != nil {
			return tpm2.RCNoResult
		}
		return tpm2.RCSuccess
	}
	switch s.Alg {
	case tpm2.AlgRSASSA, tpm2.AlgRSAPSS:
		k, err := o.rsaPrivate()
		if err != nil {
			return sig, tpm2.RCKey
		}
		if s.Alg == tpm2.AlgRSASSA {
			sig.Sig, err = k.SignPKCS1(th, digest)
		} else {
			sig.Sig, err = k.SignPSS(th, c.t.rng, digest)
		}
		if err != nil {
			return sig, tpm2.RCSize // the key is too short for the digest
		}
		return sig, tpm2.RCSuccess
	case tpm2.AlgECDSA, tpm2.AlgECSchnorr, tpm2.AlgSM2, tpm2.AlgECDAA:
		k, err := o.ecPrivate()
		if err != nil {
			return sig, tpm2.RCKey
		}
		switch s.Alg {
		case tpm2.AlgECDSA:
			sig.R, sig.S, err = k.SignECDSA(digest)
		case tpm2.AlgECSchnorr:
			sig.R, sig.S, err = k.SignSchnorr(th, c.t.rng, digest)
		case tpm2.AlgSM2:
			sig.R, sig.S, err = k.SignSM2(digest)
		default:
			r, rc := c.takeCommit(o.curve(), s.Count)
			if rc != tpm2.RCSuccess {
				return sig, rc
			}
			sig.R, sig.S, err = k.SignECDAA(th, c.t.rng, r, digest)
		}
		return sig, fail(err)
	case tpm2.AlgEdDSA, tpm2.AlgHashEdDSA:
		k, err := o.edPrivate()
		if err != nil {
			return sig, tpm2.RCKey
		}
		sig.Hash = 0
		if s.Alg == tpm2.AlgEdDSA {
			sig.Sig, err = k.Sign(digest)
		} else {
			sig.Sig, err = k.SignPrehashed(digest)
		}
		return sig, fail(err)
	case tpm2.AlgHMAC:
		sig.Sig = tpmcrypto.HMAC(th, o.sens.Value, digest)
		return sig, tpm2.RCSuccess
	case tpm2.AlgMLDSA, tpm2.AlgHashMLDSA:
		k, err := o.mldsaPrivate()
		if err != nil {
			return sig, tpm2.RCKey
		}
		if s.Alg == tpm2.AlgMLDSA {
			sig.Hash = 0
			sig.Sig, err = k.SignMu(digest)
		} else {
			sig.Sig, err = k.SignHash(th, context, digest)
		}
		return sig, fail(err)
	}
	return sig, tpm2.RCScheme
}

// signMessage signs a whole message: hashes it first, as the scheme says.
// Attestations are signed so.
func (c *call) signMessage(o *object, s tpm2.Scheme, msg []byte) (tpm2.Signature, tpm2.RC) {
	if s.Alg == tpm2.AlgMLDSA {
		k, err := o.mldsaPrivate()
		if err != nil {
			return tpm2.Signature{}, tpm2.RCKey
		}
		sig, err := k.Sign(nil, msg)
		if err != nil {
			return tpm2.Signature{}, tpm2.RCNoResult
		}
		return tpm2.Signature{Alg: s.Alg, Sig: sig}, tpm2.RCSuccess
	}
	switch s.Alg {
	case tpm2.AlgEdDSA:
		return c.signDigest(o, s, nil, msg)
	case tpm2.AlgHashEdDSA:
		return c.signDigest(o, s, nil, tpmcrypto.EdPrehash(uint16(o.pub.Parms.Curve), msg))
	}
	return c.signDigest(o, s, nil, signHash(o, s).Sum(msg))
}

// verifyDigest checks a signature over a digest (µ for pure ML-DSA) with the
// public key of o, for HMAC with the key. TPM_RC_SIGNATURE if it does not
// verify, TPM_RC_SCHEME if the key cannot have made one of its kind.
func verifyDigest(o *object, sig *tpm2.Signature, context, digest []byte) tpm2.RC {
	if !o.isSequence() && isEdScheme(sig.Alg) {
		return verifyEd(o, sig, digest)
	}
	if o.isSequence() || !schemeFits(o.pub.Type, sig.Alg) {
		return tpm2.RCScheme
	}
	if k := o.keyScheme(); k.Alg != tpm2.AlgNull && isSigningAlg(k.Alg) && (k.Alg != sig.Alg || k.Hash != sig.Hash && k.Hash != 0) {
		return tpm2.RCScheme
	}
	th := tpmcrypto.Hash(sig.Hash)
	verdict := func(err error) tpm2.RC {
		if err != nil {
			return tpm2.RCSignature
		}
		return tpm2.RCSuccess
	}
	switch sig.Alg {
	case tpm2.AlgRSASSA, tpm2.AlgRSAPSS:
		k, err := o.rsaPublic()
		if err != nil {
			return tpm2.RCKey
		}
		if sig.Alg == tpm2.AlgRSASSA {
			return verdict(k.VerifyPKCS1(th, digest, sig.Sig))
		}
		return verdict(k.VerifyPSS(th, digest, sig.Sig))
	case tpm2.AlgECDSA, tpm2.AlgECSchnorr, tpm2.AlgSM2:
		k, err := o.ecPublic()
		if err != nil {
			return tpm2.RCKey
		}
		switch sig.Alg {
		case tpm2.AlgECDSA:
			return verdict(k.VerifyECDSA(digest, sig.R, sig.S))
		case tpm2.AlgSM2:
			return verdict(k.VerifySM2(digest, sig.R, sig.S))
		}
		return verdict(k.VerifySchnorr(th, digest, sig.R, sig.S))
	case tpm2.AlgHMAC:
		if o.publicOnly {
			return tpm2.RCHandle
		}
		if !tpmcrypto.Equal(tpmcrypto.HMAC(th, o.sens.Value, digest), sig.Sig) {
			return tpm2.RCSignature
		}
		return tpm2.RCSuccess
	case tpm2.AlgMLDSA:
		k, err := o.mldsaPublic()
		if err != nil {
			return tpm2.RCKey
		}
		return verdict(k.VerifyMu(digest, sig.Sig))
	case tpm2.AlgHashMLDSA:
		if sig.Hash != o.pub.Parms.Hash {
			return tpm2.RCScheme
		}
		k, err := o.mldsaPublic()
		if err != nil {
			return tpm2.RCKey
		}
		return verdict(k.VerifyHash(th, context, digest, sig.Sig))
	}
	return tpm2.RCScheme // ECDAA signatures are not verified by a TPM
}

// verifyEd checks a signature of EdDSA; digest is the message of the pure
// form.
func verifyEd(o *object, sig *tpm2.Signature, digest []byte) tpm2.RC {
	if o.keyScheme().Alg != sig.Alg {
		return tpm2.RCScheme
	}
	k, err := o.edPublic()
	if err != nil {
		return tpm2.RCKey
	}
	verify := k.VerifyPrehashed
	if sig.Alg == tpm2.AlgEdDSA {
		verify = k.Verify
	}
	if verify(digest, sig.Sig) != nil {
		return tpm2.RCSignature
	}
	return tpm2.RCSuccess
}

// verifyMessage checks a signature over a whole message.
func verifyMessage(o *object, sig *tpm2.Signature, msg []byte) tpm2.RC {
	if sig.Alg == tpm2.AlgMLDSA {
		if o.isSequence() || o.pub.Type != tpm2.AlgMLDSA {
			return tpm2.RCScheme
		}
		k, err := o.mldsaPublic()
		if err != nil {
			return tpm2.RCKey
		}
		if k.Verify(nil, msg, sig.Sig) != nil {
			return tpm2.RCSignature
		}
		return tpm2.RCSuccess
	}
	switch {
	case sig.Alg == tpm2.AlgEdDSA:
		return verifyDigest(o, sig, nil, msg)
	case sig.Alg == tpm2.AlgHashEdDSA:
		return verifyDigest(o, sig, nil, tpmcrypto.EdPrehash(uint16(o.pub.Parms.Curve), msg))
	case !sig.Hash.IsHash():
		return tpm2.RCScheme
	}
	return verifyDigest(o, sig, nil, sig.Hash.Sum(msg))
}

// readSignature reads a TPMT_SIGNATURE of what the engine has.
func readSignature(r *tpm2.Reader) (s tpm2.Signature) {
	s.Unmarshal(r)
	if r.Code() != tpm2.RCSuccess {
		return s
	}
	switch s.Alg {
	case tpm2.AlgMLDSA, tpm2.AlgEdDSA, tpm2.AlgHashEdDSA:
	default:
		if !hashImplemented(s.Hash) {
			r.Fail(tpm2.RCHash)
		}
	}
	return s
}
