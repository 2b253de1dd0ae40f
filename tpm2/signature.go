// SPDX-License-Identifier: Apache-2.0

package tpm2

// Signature is TPMT_SIGNATURE (Part 2, 11.3.6). Alg says which fields count.
type Signature struct {
	Alg  Alg
	Hash Alg    // all but AlgMLDSA, AlgEdDSA, AlgHashEdDSA and AlgNull
	R, S []byte // AlgECDSA, AlgECDAA, AlgSM2, AlgECSchnorr
	Sig  []byte // AlgHMAC: a digest of Hash; all others: the signature
}

func (s *Signature) Marshal(w *Writer) {
	w.Alg(s.Alg)
	switch s.Alg {
	case AlgNull:
	case AlgRSASSA, AlgRSAPSS, AlgHashMLDSA:
		w.Alg(s.Hash)
		w.Sized(s.Sig)
	case AlgMLDSA, AlgEdDSA, AlgHashEdDSA:
		w.Sized(s.Sig)
	case AlgECDSA, AlgECDAA, AlgSM2, AlgECSchnorr:
		w.Alg(s.Hash)
		w.Sized(s.R)
		w.Sized(s.S)
	case AlgHMAC:
		w.Alg(s.Hash)
		if len(s.Sig) != s.Hash.DigestSize() {
			w.unknown("HMAC of TPMT_SIGNATURE", uint64(s.Hash))
			return
		}
		w.Raw(s.Sig)
	default:
		w.unknown("TPMT_SIGNATURE", uint64(s.Alg))
	}
}

// Unmarshal reads a TPMT_SIGNATURE; AlgNull is refused with RCScheme.
func (s *Signature) Unmarshal(r *Reader) {
	s.UnmarshalNull(r)
	if r.err == RCSuccess && s.Alg == AlgNull {
		*s = Signature{}
		r.Fail(RCScheme)
	}
}

// UnmarshalNull reads a TPMT_SIGNATURE+, which may be the null signature.
func (s *Signature) UnmarshalNull(r *Reader) {
	*s = Signature{Alg: r.Alg()}
	if r.err != RCSuccess {
		return
	}
	switch s.Alg {
	case AlgNull:
	case AlgRSASSA, AlgRSAPSS:
		s.Hash = unmarshalHash(r)
		s.Sig = r.Sized(MaxRSAKeyBytes)
	case AlgMLDSA:
		s.Sig = r.Sized(MaxSignature)
	case AlgHashMLDSA:
		s.Hash = unmarshalHash(r)
		s.Sig = r.Sized(MaxSignature)
	case AlgECDSA, AlgECDAA, AlgSM2, AlgECSchnorr:
		s.Hash = unmarshalHash(r)
		s.R = r.Sized(MaxECCKeyBytes)
		s.S = r.Sized(MaxECCKeyBytes)
	case AlgEdDSA, AlgHashEdDSA:
		s.Sig = r.Sized(2 * MaxECCKeyBytes)
	case AlgHMAC:
		s.Hash = unmarshalHash(r)
		s.Sig = r.Bytes(s.Hash.DigestSize())
	default:
		r.Fail(RCScheme)
	}
	if r.err != RCSuccess {
		*s = Signature{}
	}
}
