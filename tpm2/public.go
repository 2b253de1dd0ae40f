// SPDX-License-Identifier: Apache-2.0

package tpm2

// Bounds of buffers inside structures, in bytes. They hold for every
// algorithm that this version knows.
const (
	MaxRSAKeyBytes = 512 // RSA-4096
	MaxECCKeyBytes = 80  // BN-638
	MaxSymKeyBytes = 32
	MaxSymData     = 128  // TPM2B_SENSITIVE_DATA, sealed data
	MaxLabel       = 32   // TPM2B_LABEL
	MaxBuffer      = 1024 // TPM2B_MAX_BUFFER (MAX_DIGEST_BUFFER)
	MaxNVBuffer    = 2048 // TPM2B_MAX_NV_BUFFER
	MaxPublicKey   = 2592 // ML-DSA-87
	MaxSignature   = 4627 // ML-DSA-87
	MaxKEM         = 1568 // ML-KEM-1024 ciphertext
	MaxName        = 2 + MaxDigest
	MaxData        = 2 + MaxDigest // TPM2B_DATA
	maxStruct      = 8192          // structures inside a TPM2B
)

// Parms is TPMU_PUBLIC_PARMS with all its arms (Part 2, 12.2.3.10). Which
// fields count depends on the type of the object; the others are zero.
type Parms struct {
	Symmetric SymDef // AlgRSA, AlgECC, AlgMLKEM, AlgSymCipher
	Scheme    Scheme // AlgRSA, AlgECC, AlgKeyedHash

	KeyBits  uint16 // AlgRSA
	Exponent uint32 // AlgRSA; 0 means 65537

	Curve Curve  // AlgECC
	KDF   Scheme // AlgECC

	MLKEM           MLKEMSet // AlgMLKEM
	MLDSA           MLDSASet // AlgMLDSA, AlgHashMLDSA
	AllowExternalMu bool     // AlgMLDSA
	Hash            Alg      // AlgHashMLDSA
}

// Point is TPMS_ECC_POINT (Part 2, 11.2.5.2): big-endian coordinates; on
// Curve25519 and Curve448 X alone, the little-endian string of RFC 7748 or the
// compressed point of RFC 8032 (version 185, Part 1, 44.5.1).
type Point struct{ X, Y []byte }

func (p Point) Marshal(w *Writer) {
	w.Sized(p.X)
	w.Sized(p.Y)
}

// Unmarshal reads the point; whether it is on a curve is not checked here.
func (p *Point) Unmarshal(r *Reader) {
	p.X = r.Sized(MaxECCKeyBytes)
	p.Y = r.Sized(MaxECCKeyBytes)
}

// Public is TPMT_PUBLIC (Part 2, 12.2.4): the public area of an object.
type Public struct {
	Type       Alg
	NameAlg    Alg // AlgNull only where the specification allows it
	Attributes ObjectAttributes
	AuthPolicy []byte // empty or a digest of NameAlg
	Parms      Parms
	Unique     []byte // all types but AlgECC: modulus, digest or public key
	Point      Point  // AlgECC
}

// isPublicType says whether a is a TPMI_ALG_PUBLIC that we know.
func isPublicType(a Alg) bool {
	switch a {
	case AlgRSA, AlgECC, AlgKeyedHash, AlgSymCipher, AlgMLKEM, AlgMLDSA, AlgHashMLDSA:
		return true
	}
	return false
}

// IsAsymmetric says whether objects of type a have a public and a private key.
func (a Alg) IsAsymmetric() bool {
	return isPublicType(a) && a != AlgKeyedHash && a != AlgSymCipher
}

// Marshal writes TPMT_PUBLIC.
func (p *Public) Marshal(w *Writer) {
	w.Alg(p.Type)
	w.Alg(p.NameAlg)
	p.Attributes.Marshal(w)
	w.Sized(p.AuthPolicy)
	p.Parms.Marshal(w, p.Type)
	if p.Type == AlgECC {
		p.Point.Marshal(w)
	} else {
		w.Sized(p.Unique)
	}
}

// Marshal writes TPMU_PUBLIC_PARMS for an object of type t.
func (p *Parms) Marshal(w *Writer, t Alg) {
	switch t {
	case AlgRSA:
		p.Symmetric.Marshal(w)
		p.Scheme.Marshal(w)
		w.U16(p.KeyBits)
		w.U32(p.Exponent)
	case AlgECC:
		p.Symmetric.Marshal(w)
		p.Scheme.Marshal(w)
		w.U16(uint16(p.Curve))
		p.KDF.Marshal(w)
	case AlgKeyedHash:
		p.Scheme.Marshal(w)
	case AlgSymCipher:
		p.Symmetric.Marshal(w)
	case AlgMLKEM:
		p.Symmetric.Marshal(w)
		w.U16(uint16(p.MLKEM))
	case AlgMLDSA:
		w.U16(uint16(p.MLDSA))
		w.Bool(p.AllowExternalMu)
	case AlgHashMLDSA:
		w.U16(uint16(p.MLDSA))
		w.Alg(p.Hash)
	default:
		w.unknown("TPMU_PUBLIC_PARMS", uint64(t))
	}
}

// Unmarshal reads TPMU_PUBLIC_PARMS for an object of type t.
func (p *Parms) Unmarshal(r *Reader, t Alg) {
	*p = Parms{}
	switch t {
	case AlgRSA:
		p.Symmetric.UnmarshalObject(r)
		p.Scheme.UnmarshalRSA(r)
		p.KeyBits = r.U16()
		if r.err == RCSuccess && !(p.KeyBits == 1024 || p.KeyBits == 2048 || p.KeyBits == 3072 || p.KeyBits == 4096) {
			r.Fail(RCValue)
		}
		p.Exponent = r.U32()
	case AlgECC:
		p.Symmetric.UnmarshalObject(r)
		p.Scheme.UnmarshalECC(r)
		p.Curve = Curve(r.U16())
		if r.err == RCSuccess && p.Curve.Bits() == 0 {
			r.Fail(RCCurve)
		}
		p.KDF.UnmarshalKDF(r)
	case AlgKeyedHash:
		p.Scheme.UnmarshalKeyedHash(r)
	case AlgSymCipher:
		p.Symmetric.UnmarshalObject(r)
		if r.err == RCSuccess && p.Symmetric.Alg == AlgNull {
			r.Fail(RCSymmetric)
		}
	case AlgMLKEM:
		p.Symmetric.UnmarshalObject(r)
		p.MLKEM = MLKEMSet(r.U16())
		if r.err == RCSuccess && p.MLKEM.PublicKeySize() == 0 {
			r.Fail(RCParms)
		}
	case AlgMLDSA:
		p.unmarshalMLDSASet(r)
		p.AllowExternalMu = r.Bool()
	case AlgHashMLDSA:
		p.unmarshalMLDSASet(r)
		p.Hash = unmarshalHash(r)
	default:
		r.Fail(RCType)
	}
}

func (p *Parms) unmarshalMLDSASet(r *Reader) {
	p.MLDSA = MLDSASet(r.U16())
	if r.err == RCSuccess && p.MLDSA.PublicKeySize() == 0 {
		r.Fail(RCParms)
	}
}

// Unmarshal reads a TPMT_PUBLIC whose nameAlg is a hash.
func (p *Public) Unmarshal(r *Reader) { p.unmarshal(r, false, false) }

// UnmarshalNull reads a TPMT_PUBLIC+, whose nameAlg may be AlgNull.
func (p *Public) UnmarshalNull(r *Reader) { p.unmarshal(r, true, false) }

// UnmarshalTemplate reads the template of CreateLoaded. If derive, unique is a
// TPMS_DERIVE (Part 2, 12.2.3.1): its label lands in Point.X, its context in Point.Y.
func (p *Public) UnmarshalTemplate(r *Reader, derive bool) { p.unmarshal(r, false, derive) }

func (p *Public) unmarshal(r *Reader, null, derive bool) {
	*p = Public{Type: r.Alg()}
	if r.err == RCSuccess && !isPublicType(p.Type) {
		r.Fail(RCType)
	}
	if null {
		p.NameAlg = UnmarshalHashNull(r)
	} else {
		p.NameAlg = unmarshalHash(r)
	}
	p.Attributes.Unmarshal(r)
	p.AuthPolicy = r.Sized(MaxDigest)
	p.Parms.Unmarshal(r, p.Type)
	switch {
	case r.err != RCSuccess:
	case derive:
		p.Point.X = r.Sized(MaxLabel)
		p.Point.Y = r.Sized(MaxLabel)
	case p.Type == AlgECC:
		p.Point.Unmarshal(r)
	case p.Type == AlgRSA:
		p.Unique = r.Sized(MaxRSAKeyBytes)
	case p.Type == AlgMLKEM:
		p.Unique = r.Sized(p.Parms.MLKEM.PublicKeySize())
	case p.Type == AlgMLDSA, p.Type == AlgHashMLDSA:
		p.Unique = r.Sized(p.Parms.MLDSA.PublicKeySize())
	default:
		p.Unique = r.Sized(MaxDigest)
	}
	if r.err != RCSuccess {
		*p = Public{}
	}
}

// Name returns the object's Name: nameAlg ‖ H(TPMT_PUBLIC) (Part 1, 14); empty
// if nameAlg is null.
func (p *Public) Name() ([]byte, error) {
	if p.NameAlg == AlgNull {
		return []byte{}, nil
	}
	b, err := Encode(p)
	if err != nil {
		return nil, err
	}
	return nameOf(p.NameAlg, b)
}

// Sensitive is TPMT_SENSITIVE (Part 2, 12.3.2.4): the secret part of an object.
type Sensitive struct {
	Type  Alg
	Auth  []byte
	Seed  []byte // of storage parents; obfuscation value of symmetric objects
	Value []byte // RSA: one prime; ECC: scalar; ML-KEM: d ‖ z; ML-DSA: ξ; else key or data
}

func (s *Sensitive) Marshal(w *Writer) {
	w.Alg(s.Type)
	w.Sized(s.Auth)
	w.Sized(s.Seed)
	w.Sized(s.Value)
}

// Unmarshal reads the sensitive area; sizes that no object can have are RCSize.
func (s *Sensitive) Unmarshal(r *Reader) {
	*s = Sensitive{Type: r.Alg()}
	if r.err == RCSuccess && !isPublicType(s.Type) {
		r.Fail(RCType)
	}
	s.Auth = r.Sized(MaxDigest)
	s.Seed = r.Sized(MaxDigest)
	max := MaxSymData
	switch s.Type {
	case AlgRSA:
		max = MaxRSAKeyBytes / 2
	case AlgECC:
		max = MaxECCKeyBytes
	case AlgSymCipher:
		max = MaxSymKeyBytes
	case AlgMLKEM:
		max = MLKEMSeedSize
	case AlgMLDSA, AlgHashMLDSA:
		max = MLDSASeedSize
	}
	s.Value = r.Sized(max)
	if r.err != RCSuccess {
		*s = Sensitive{}
	}
}

// SensitiveCreate is TPMS_SENSITIVE_CREATE (Part 2, 11.1.15).
type SensitiveCreate struct {
	UserAuth []byte
	Data     []byte
}

func (s *SensitiveCreate) Marshal(w *Writer) {
	w.Sized(s.UserAuth)
	w.Sized(s.Data)
}

func (s *SensitiveCreate) Unmarshal(r *Reader) {
	s.UserAuth = r.Sized(MaxDigest)
	s.Data = r.Sized(MaxSymData)
}
