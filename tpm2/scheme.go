// SPDX-License-Identifier: Apache-2.0

package tpm2

// SymDef is TPMT_SYM_DEF (Part 2, 11.1.6) and TPMT_SYM_DEF_OBJECT (11.1.7): a
// block cipher with key size and mode, or the XOR obfuscation with its hash.
type SymDef struct {
	Alg     Alg
	KeyBits uint16 // block ciphers
	Mode    Alg    // block ciphers
	Hash    Alg    // AlgXOR
}

// NoSym is the null symmetric definition.
var NoSym = SymDef{Alg: AlgNull}

func isBlockCipher(a Alg) bool {
	return a == AlgAES || a == AlgSM4 || a == AlgCamellia || a == AlgTDES
}

// Marshal writes s. Both wire types have the same form.
func (s SymDef) Marshal(w *Writer) {
	w.Alg(s.Alg)
	switch {
	case s.Alg == AlgNull:
	case s.Alg == AlgXOR:
		w.Alg(s.Hash)
	case isBlockCipher(s.Alg):
		w.U16(s.KeyBits)
		w.Alg(s.Mode)
	default:
		w.unknown("TPMT_SYM_DEF", uint64(s.Alg))
	}
}

// Unmarshal reads a TPMT_SYM_DEF+: block cipher, XOR or null.
func (s *SymDef) Unmarshal(r *Reader) { s.unmarshal(r, true) }

// UnmarshalObject reads a TPMT_SYM_DEF_OBJECT+: block cipher or null.
func (s *SymDef) UnmarshalObject(r *Reader) { s.unmarshal(r, false) }

func (s *SymDef) unmarshal(r *Reader, xor bool) {
	*s = SymDef{Alg: r.Alg()}
	switch {
	case r.err != RCSuccess || s.Alg == AlgNull:
	case s.Alg == AlgXOR && xor:
		s.Hash = unmarshalHash(r)
	case isBlockCipher(s.Alg):
		s.KeyBits = r.U16()
		if r.err == RCSuccess && !keyBitsKnown(s.Alg, s.KeyBits) {
			r.Fail(RCValue)
		}
		s.Mode = r.Alg()
		switch s.Mode {
		case AlgCTR, AlgOFB, AlgCBC, AlgCFB, AlgECB, AlgCMAC, AlgNull:
		default:
			r.Fail(RCMode)
		}
	default:
		r.Fail(RCSymmetric)
	}
}

func keyBitsKnown(a Alg, bits uint16) bool {
	switch a {
	case AlgAES, AlgCamellia:
		return bits == 128 || bits == 192 || bits == 256
	case AlgSM4:
		return bits == 128
	case AlgTDES:
		return bits == 128 || bits == 192
	}
	return false
}

// unmarshalHash reads a TPMI_ALG_HASH (Part 2, 9.30): RCHash for what is none.
func unmarshalHash(r *Reader) Alg {
	a := r.Alg()
	if r.err == RCSuccess && !a.IsHash() {
		r.Fail(RCHash)
	}
	return a
}

// UnmarshalHash reads a TPMI_ALG_HASH; RCHash for what is no known hash.
func UnmarshalHash(r *Reader) Alg { return unmarshalHash(r) }

// UnmarshalHashNull reads a TPMI_ALG_HASH+, which may be AlgNull.
func UnmarshalHashNull(r *Reader) Alg {
	a := r.Alg()
	if r.err == RCSuccess && a != AlgNull && !a.IsHash() {
		r.Fail(RCHash)
	}
	return a
}

// Scheme is any of TPMT_ASYM_SCHEME, TPMT_RSA_SCHEME, TPMT_RSA_DECRYPT,
// TPMT_ECC_SCHEME, TPMT_SIG_SCHEME, TPMT_KDF_SCHEME and TPMT_KEYEDHASH_SCHEME
// (Part 2, 11.1.20, 11.2.1 to 11.2.3): one wire form, different sets of allowed
// algorithms.
type Scheme struct {
	Alg   Alg
	Hash  Alg    // schemes with a hash
	Count uint16 // AlgECDAA
	KDF   Alg    // AlgXOR
}

// NoScheme is the null scheme.
var NoScheme = Scheme{Alg: AlgNull}

// HasHash says whether schemes of algorithm a carry a hash.
func (s Scheme) HasHash() bool {
	switch s.Alg {
	case AlgRSASSA, AlgRSAPSS, AlgOAEP, AlgECDSA, AlgECDH, AlgECDAA, AlgSM2, AlgECSchnorr, AlgECMQV, AlgHMAC, AlgXOR,
		AlgMGF1, AlgKDF1SP800_56A, AlgKDF2, AlgKDF1SP800_108, AlgHKDF:
		return true
	}
	return false
}

func (s Scheme) Marshal(w *Writer) {
	w.Alg(s.Alg)
	switch {
	case s.HasHash():
		w.Alg(s.Hash)
		switch s.Alg {
		case AlgECDAA:
			w.U16(s.Count)
		case AlgXOR:
			w.Alg(s.KDF)
		}
	case s.Alg == AlgNull, s.Alg == AlgRSAES, s.Alg == AlgEdDSA, s.Alg == AlgHashEdDSA, s.Alg == AlgMLDSA, s.Alg == AlgHashMLDSA, s.Alg == AlgCMAC:
	default:
		w.unknown("scheme", uint64(s.Alg))
	}
}

// The sets of algorithms of the scheme types.
func isRSAScheme(a Alg) bool {
	return a == AlgNull || a == AlgRSASSA || a == AlgRSAPSS || a == AlgRSAES || a == AlgOAEP
}

func isRSADecrypt(a Alg) bool { return a == AlgNull || a == AlgRSAES || a == AlgOAEP }

func isECCScheme(a Alg) bool {
	switch a {
	case AlgNull, AlgECDSA, AlgECDAA, AlgSM2, AlgECSchnorr, AlgECDH, AlgECMQV, AlgEdDSA, AlgHashEdDSA:
		return true
	}
	return false
}

func isSigScheme(a Alg) bool {
	switch a {
	case AlgNull, AlgRSASSA, AlgRSAPSS, AlgECDSA, AlgECDAA, AlgSM2, AlgECSchnorr, AlgEdDSA, AlgHashEdDSA, AlgMLDSA, AlgHashMLDSA, AlgHMAC:
		return true
	}
	return false
}

func isKDFScheme(a Alg) bool {
	switch a {
	case AlgNull, AlgMGF1, AlgKDF1SP800_56A, AlgKDF2, AlgKDF1SP800_108, AlgHKDF:
		return true
	}
	return false
}

func isKeyedHashScheme(a Alg) bool { return a == AlgNull || a == AlgHMAC || a == AlgXOR }

// unmarshal reads a scheme whose algorithm is in the set ok, else fails with rc.
func (s *Scheme) unmarshal(r *Reader, ok func(Alg) bool, rc RC) {
	*s = Scheme{Alg: r.Alg()}
	if r.err != RCSuccess {
		return
	}
	if !ok(s.Alg) {
		r.Fail(rc)
		return
	}
	if !s.HasHash() {
		return
	}
	s.Hash = unmarshalHash(r)
	switch s.Alg {
	case AlgECDAA:
		s.Count = r.U16()
	case AlgXOR:
		s.KDF = r.Alg()
		if r.err == RCSuccess && !isKDFScheme(s.KDF) {
			r.Fail(RCKDF)
		}
	}
}

// UnmarshalRSA reads a TPMT_RSA_SCHEME+.
func (s *Scheme) UnmarshalRSA(r *Reader) { s.unmarshal(r, isRSAScheme, RCValue) }

// UnmarshalRSADecrypt reads a TPMT_RSA_DECRYPT+.
func (s *Scheme) UnmarshalRSADecrypt(r *Reader) { s.unmarshal(r, isRSADecrypt, RCValue) }

// UnmarshalECC reads a TPMT_ECC_SCHEME+.
func (s *Scheme) UnmarshalECC(r *Reader) { s.unmarshal(r, isECCScheme, RCScheme) }

// UnmarshalSig reads a TPMT_SIG_SCHEME+.
func (s *Scheme) UnmarshalSig(r *Reader) { s.unmarshal(r, isSigScheme, RCScheme) }

// UnmarshalKDF reads a TPMT_KDF_SCHEME+.
func (s *Scheme) UnmarshalKDF(r *Reader) { s.unmarshal(r, isKDFScheme, RCKDF) }

// UnmarshalKeyedHash reads a TPMT_KEYEDHASH_SCHEME+.
func (s *Scheme) UnmarshalKeyedHash(r *Reader) { s.unmarshal(r, isKeyedHashScheme, RCValue) }
