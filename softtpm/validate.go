// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// hashImplemented says whether the engine can compute a. The words of package
// tpm2 know more algorithms than the engine has.
func hashImplemented(a tpm2.Alg) bool { return tpmcrypto.Hash(a).Available() }

// readHash reads a TPMI_ALG_HASH that the engine has.
func readHash(r *tpm2.Reader) tpm2.Alg {
	a := tpm2.UnmarshalHash(r)
	if !hashImplemented(a) {
		r.Fail(tpm2.RCHash)
	}
	return a
}

// readHashNull reads a TPMI_ALG_HASH+.
func readHashNull(r *tpm2.Reader) tpm2.Alg {
	a := tpm2.UnmarshalHashNull(r)
	if a != tpm2.AlgNull && !hashImplemented(a) {
		r.Fail(tpm2.RCHash)
	}
	return a
}

// schemeImplemented fails r unless the engine has the hash of the scheme.
func schemeImplemented(r *tpm2.Reader, s tpm2.Scheme) {
	if s.HasHash() && !hashImplemented(s.Hash) {
		r.Fail(tpm2.RCHash)
	}
}

// symImplemented fails r unless the engine has the symmetric algorithm.
func symImplemented(r *tpm2.Reader, s tpm2.SymDef) {
	switch s.Alg {
	case tpm2.AlgNull, tpm2.AlgAES, tpm2.AlgSM4:
	case tpm2.AlgXOR:
		if !hashImplemented(s.Hash) {
			r.Fail(tpm2.RCHash)
		}
	default:
		r.Fail(tpm2.RCSymmetric)
	}
}

// parmsImplemented fails r unless the engine has all algorithms in p.
func parmsImplemented(r *tpm2.Reader, t tpm2.Alg, p *tpm2.Parms) {
	if r.Code() != tpm2.RCSuccess {
		return
	}
	switch t {
	case tpm2.AlgRSA:
		symImplemented(r, p.Symmetric)
		schemeImplemented(r, p.Scheme)
	case tpm2.AlgECC:
		symImplemented(r, p.Symmetric)
		schemeImplemented(r, p.Scheme)
		if tpmcrypto.CurveByID(uint16(p.Curve)) == nil {
			r.Fail(tpm2.RCCurve)
		}
		schemeImplemented(r, p.KDF)
	case tpm2.AlgKeyedHash:
		schemeImplemented(r, p.Scheme)
	case tpm2.AlgSymCipher, tpm2.AlgMLKEM:
		symImplemented(r, p.Symmetric)
	case tpm2.AlgHashMLDSA:
		// FIPS 204 has no HashML-DSA with SHA-1.
		if tpmcrypto.Hash(p.Hash).OID() == nil {
			r.Fail(tpm2.RCHash)
		}
	}
}

// readPublic reads a TPMT_PUBLIC that the engine can handle.
func readPublic(r *tpm2.Reader, p *tpm2.Public, nullName bool) {
	if nullName {
		p.UnmarshalNull(r)
	} else {
		p.Unmarshal(r)
	}
	publicImplemented(r, p)
}

func publicImplemented(r *tpm2.Reader, p *tpm2.Public) {
	if r.Code() != tpm2.RCSuccess {
		return
	}
	if p.NameAlg != tpm2.AlgNull && !hashImplemented(p.NameAlg) {
		r.Fail(tpm2.RCHash)
	}
	parmsImplemented(r, p.Type, &p.Parms)
	if p.Attributes&(tpm2.ObjectFirmwareLimited|tpm2.ObjectSVNLimited) != 0 {
		r.Fail(tpm2.RCAttributes) // firmware-limited hierarchies are not offered
	}
}

// checkCreate checks a template for creation (Part 3, 12.1, and the checks
// that TPM2_Create and TPM2_CreatePrimary list). parent is nil for primary
// objects. The result has no position.
func checkCreate(parent *object, p *tpm2.Public, dataSize int, derived bool) tpm2.RC {
	a := p.Attributes
	origin := a.Has(tpm2.ObjectSensitiveDataOrigin)
	if derived {
		if origin {
			return tpm2.RCAttributes
		}
	} else {
		if !origin && dataSize == 0 || origin && dataSize != 0 && parent != nil {
			return tpm2.RCAttributes
		}
	}
	switch p.Type {
	case tpm2.AlgKeyedHash:
		if !a.Has(tpm2.ObjectSignEncrypt) && !a.Has(tpm2.ObjectDecrypt) && origin {
			return tpm2.RCAttributes
		}
		if origin && dataSize != 0 {
			return tpm2.RCAttributes
		}
	case tpm2.AlgSymCipher:
		if origin && dataSize != 0 {
			return tpm2.RCAttributes
		}
	default:
		if !origin && !derived {
			return tpm2.RCAttributes
		}
	}
	if rc := checkAttributes(parent, p); rc != tpm2.RCSuccess {
		return rc
	}
	return checkSchemes(parent, p)
}

// checkAttributes checks the attributes of a public area against each other
// and its parent's (Part 1, 25; Part 2, 8.3).
func checkAttributes(parent *object, p *tpm2.Public) tpm2.RC {
	a := p.Attributes
	if n := len(p.AuthPolicy); n != 0 && n != p.NameAlg.DigestSize() {
		return tpm2.RCSize
	}
	fixedTPM, fixedParent := a.Has(tpm2.ObjectFixedTPM), a.Has(tpm2.ObjectFixedParent)
	if parent == nil || parent.pub.Attributes.Has(tpm2.ObjectFixedTPM) {
		if fixedTPM != fixedParent {
			return tpm2.RCAttributes
		}
	} else if fixedTPM {
		return tpm2.RCAttributes
	}
	if parent != nil {
		pa := parent.pub.Attributes
		if pa.Has(tpm2.ObjectStClear) && !a.Has(tpm2.ObjectStClear) {
			return tpm2.RCAttributes
		}
		if !pa.Has(tpm2.ObjectFixedTPM) && pa.Has(tpm2.ObjectEncryptedDuplication) != a.Has(tpm2.ObjectEncryptedDuplication) {
			return tpm2.RCAttributes
		}
	}
	if a.Has(tpm2.ObjectEncryptedDuplication) && (fixedTPM || fixedParent && parent != nil && parent.pub.Attributes.Has(tpm2.ObjectFixedTPM)) {
		return tpm2.RCAttributes
	}
	sign, decrypt, restricted := a.Has(tpm2.ObjectSignEncrypt), a.Has(tpm2.ObjectDecrypt), a.Has(tpm2.ObjectRestricted)
	if restricted && sign == decrypt {
		return tpm2.RCAttributes
	}
	if a.Has(tpm2.ObjectX509Sign) && (!sign || p.Type == tpm2.AlgKeyedHash || p.Type == tpm2.AlgSymCipher) {
		return tpm2.RCAttributes
	}
	switch p.Type {
	case tpm2.AlgKeyedHash: // any combination: data, MAC key, XOR key, or both uses
	case tpm2.AlgSymCipher:
		if !sign && !decrypt {
			return tpm2.RCAttributes
		}
	case tpm2.AlgMLKEM:
		if sign || !decrypt {
			return tpm2.RCAttributes
		}
	case tpm2.AlgMLDSA, tpm2.AlgHashMLDSA:
		if !sign || decrypt {
			return tpm2.RCAttributes
		}
	default:
		if !sign && !decrypt {
			return tpm2.RCAttributes
		}
	}
	return tpm2.RCSuccess
}

// isSignScheme says whether a is a signing scheme of an RSA or ECC key.
func isSignScheme(a tpm2.Alg) bool {
	switch a {
	case tpm2.AlgRSASSA, tpm2.AlgRSAPSS, tpm2.AlgECDSA, tpm2.AlgECDAA, tpm2.AlgECSchnorr, tpm2.AlgSM2, tpm2.AlgEdDSA, tpm2.AlgHashEdDSA:
		return true
	}
	return false
}

// isEdwards says whether c is a curve of EdDSA and of X25519 and X448.
func isEdwards(c tpm2.Curve) bool { return c == tpm2.Curve25519 || c == tpm2.Curve448 }

// checkCurveScheme checks a scheme against a curve (Part 2, 12.2.3.5): EdDSA
// belongs to its curves, and they sign and exchange keys by nothing but EdDSA and ECDH.
func checkCurveScheme(m *tpm2.Parms) tpm2.RC {
	s := m.Scheme.Alg
	if isEdwards(m.Curve) != isEdScheme(s) && s != tpm2.AlgNull && s != tpm2.AlgECDH {
		return tpm2.RCScheme
	}
	return tpm2.RCSuccess
}

// checkSchemes checks schemes and symmetric algorithms against the attributes
// (Part 2, 12.2.3), and those of a storage key with a fixed parent against the
// parent's (Part 3, 12.1.1). parent is nil for objects without one.
func checkSchemes(parent *object, p *tpm2.Public) tpm2.RC {
	if rc := checkOwnSchemes(p); rc != tpm2.RCSuccess {
		return rc
	}
	if parent == nil || !parent.isStorageParent() || p.Type == tpm2.AlgKeyedHash ||
		!p.Attributes.Has(tpm2.ObjectRestricted|tpm2.ObjectDecrypt|tpm2.ObjectFixedParent) {
		return tpm2.RCSuccess
	}
	switch {
	case p.NameAlg != parent.pub.NameAlg:
		return tpm2.RCHash
	case p.Parms.Symmetric != parent.pub.Parms.Symmetric:
		return tpm2.RCSymmetric
	}
	return tpm2.RCSuccess
}

func checkOwnSchemes(p *tpm2.Public) tpm2.RC {
	a := p.Attributes
	sign, decrypt, restricted := a.Has(tpm2.ObjectSignEncrypt), a.Has(tpm2.ObjectDecrypt), a.Has(tpm2.ObjectRestricted)
	m := &p.Parms
	switch p.Type {
	case tpm2.AlgSymCipher:
		// A storage parent protects with CFB whether its mode says so or is null.
		if restricted && m.Symmetric.Mode != tpm2.AlgCFB && m.Symmetric.Mode != tpm2.AlgNull {
			return tpm2.RCMode
		}
		return tpm2.RCSuccess
	case tpm2.AlgKeyedHash:
		switch s := m.Scheme.Alg; {
		case sign == decrypt:
			if s != tpm2.AlgNull {
				return tpm2.RCScheme
			}
		case sign:
			if s != tpm2.AlgHMAC && (s != tpm2.AlgNull || restricted) {
				return tpm2.RCScheme
			}
		default:
			if s != tpm2.AlgXOR && (s != tpm2.AlgNull || restricted) {
				return tpm2.RCScheme
			}
			if restricted && m.Scheme.KDF != tpm2.AlgKDF1SP800_108 {
				return tpm2.RCScheme
			}
		}
		return tpm2.RCSuccess
	case tpm2.AlgMLDSA, tpm2.AlgHashMLDSA:
		return tpm2.RCSuccess
	}
	// RSA, ECC and ML-KEM.
	if restricted && decrypt {
		if m.Symmetric.Alg == tpm2.AlgNull {
			return tpm2.RCSymmetric
		}
		if m.Symmetric.Mode != tpm2.AlgCFB {
			return tpm2.RCMode
		}
	} else if m.Symmetric.Alg != tpm2.AlgNull {
		return tpm2.RCSymmetric
	}
	if p.Type == tpm2.AlgMLKEM {
		return tpm2.RCSuccess
	}
	switch s := m.Scheme.Alg; {
	case restricted && decrypt, sign && decrypt:
		if s != tpm2.AlgNull {
			return tpm2.RCScheme
		}
	case sign:
		if !isSignScheme(s) && (s != tpm2.AlgNull || restricted) {
			return tpm2.RCScheme
		}
	default:
		if s != tpm2.AlgNull && s != tpm2.AlgSM2 && isSignScheme(s) { // SM2 is a key exchange too
			return tpm2.RCScheme
		}
	}
	if p.Type == tpm2.AlgRSA {
		if e := m.Exponent; e != 0 && (e < 65537 || e&1 == 0) {
			return tpm2.RCRange
		}
		return tpm2.RCSuccess
	}
	if rc := checkCurveScheme(m); rc != tpm2.RCSuccess {
		return rc
	}
	// Without a scheme these curves have storage keys only, so that no key can be
	// used for both kinds of EdDSA, or for EdDSA and ECDH (Part 1, 44.3.2.1).
	if isEdwards(m.Curve) && m.Scheme.Alg == tpm2.AlgNull && !(restricted && decrypt) {
		return tpm2.RCScheme
	}
	// Only a key for DHKEM has a key derivation scheme (version 185, Part 1, C.6).
	if k := m.KDF.Alg; k != tpm2.AlgNull && !(k == tpm2.AlgHKDF && decrypt && !restricted && !sign) {
		return tpm2.RCKDF
	}
	return tpm2.RCSuccess
}

// bindingRC puts a position to an error of checkBinding: the sensitive area is
// in the parameter with the given number, the public area in the second.
func bindingRC(rc tpm2.RC, sensitive int) tpm2.RC {
	if rc == tpm2.RCType || rc == tpm2.RCKeySize || rc == tpm2.RCSize {
		return rc.Parameter(sensitive)
	}
	return rc.Parameter(2)
}

// checkBinding checks that a public area is well-formed and, if s is not nil,
// that the sensitive area belongs to it (Part 3, 12.2 and 12.3).
func checkBinding(o *object) tpm2.RC {
	p := &o.pub
	bind := func(err error, same bool) tpm2.RC {
		if err != nil || !same {
			return tpm2.RCBinding
		}
		return tpm2.RCSuccess
	}
	if !o.publicOnly {
		if o.sens.Type != p.Type {
			return tpm2.RCType
		}
		if n := p.NameAlg.DigestSize(); n != 0 {
			if len(o.sens.Auth) > n {
				return tpm2.RCSize
			}
			if len(o.sens.Seed) > n {
				return tpm2.RCKeySize
			}
			// What protects children has at least half the strength of the
			// nameAlg (Part 2, 12.3.2.4; Part 1, 24.7.4).
			if o.isParent() && 2*len(o.sens.Seed) < n {
				return tpm2.RCSize
			}
		}
	}
	switch p.Type {
	case tpm2.AlgRSA:
		if len(p.Unique)*8 != int(p.Parms.KeyBits) || p.Unique[0]&0x80 == 0 {
			return tpm2.RCKey
		}
		if _, err := o.rsaPublic(); err != nil {
			return tpm2.RCKey
		}
		if !o.publicOnly {
			if len(o.sens.Value)*2 != len(p.Unique) {
				return tpm2.RCKeySize
			}
			_, err := o.rsaPrivate()
			return bind(err, true)
		}
	case tpm2.AlgECC:
		if o.isEd() {
			pub, err := o.edPublic()
			if err != nil {
				return tpm2.RCECCPoint
			}
			if o.publicOnly {
				return tpm2.RCSuccess
			}
			if len(o.sens.Value) != tpmcrypto.EdSize(pub.Curve) {
				return tpm2.RCKeySize
			}
			k, err := o.edPrivate()
			return bind(err, err == nil && tpmcrypto.Equal(k.Bytes(), pub.Bytes()))
		}
		pub, err := o.ecPublic()
		if err != nil {
			return tpm2.RCECCPoint
		}
		if !o.publicOnly {
			if n := len(o.sens.Value); n > pub.Curve.Size() || pub.Curve.IsMontgomery() && n != pub.Curve.Size() {
				return tpm2.RCKeySize
			}
			k, err := o.ecPrivate()
			return bind(err, err == nil && tpmcrypto.Equal(k.X, pub.X) && tpmcrypto.Equal(k.Y, pub.Y))
		}
	case tpm2.AlgMLDSA, tpm2.AlgHashMLDSA:
		if _, err := o.mldsaPublic(); err != nil {
			return tpm2.RCKey
		}
		if !o.publicOnly {
			if len(o.sens.Value) != tpm2.MLDSASeedSize {
				return tpm2.RCKeySize
			}
			k, err := o.mldsaPrivate()
			return bind(err, err == nil && tpmcrypto.Equal(k.Public().Bytes(), p.Unique))
		}
	case tpm2.AlgMLKEM:
		if _, err := o.mlkemPublic(); err != nil {
			return tpm2.RCKey
		}
		if !o.publicOnly {
			if len(o.sens.Value) != tpm2.MLKEMSeedSize {
				return tpm2.RCKeySize
			}
			k, err := o.mlkemPrivate()
			return bind(err, err == nil && tpmcrypto.Equal(k.Public().Bytes(), p.Unique))
		}
	default:
		// Without a nameAlg the linkage is not validated (Part 1, 24.2.3), and a
		// public area alone has an empty one.
		if (p.NameAlg != tpm2.AlgNull || o.publicOnly) && len(p.Unique) != p.NameAlg.DigestSize() {
			return tpm2.RCKey
		}
		if p.Type == tpm2.AlgSymCipher && !o.publicOnly && len(o.sens.Value)*8 != int(p.Parms.Symmetric.KeyBits) {
			return tpm2.RCKeySize
		}
		if !o.publicOnly && p.NameAlg != tpm2.AlgNull {
			return bind(nil, tpmcrypto.Equal(p.NameAlg.Sum(o.sens.Seed, o.sens.Value), p.Unique))
		}
	}
	return tpm2.RCSuccess
}
