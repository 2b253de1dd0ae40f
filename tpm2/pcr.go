// SPDX-License-Identifier: Apache-2.0

package tpm2

// Bounds of PCR selections.
const (
	MaxPCRBanks  = 16 // HASH_COUNT: elements of a TPML_PCR_SELECTION
	PCRSelectMin = 3  // bytes
	PCRSelectMax = 3  // bytes, for 24 PCRs
	maxPCRSelect = 32 // bytes that a client accepts
)

// PCRSelection is TPMS_PCR_SELECTION (Part 2, 10.6.2): PCRs of one bank.
type PCRSelection struct {
	Hash   Alg
	Select []byte // one bit per PCR, PCR 0 is bit 0 of byte 0
}

// SelectPCRs returns the selection of the given PCRs (0 to 23) in a bank.
// Numbers out of range are left out.
func SelectPCRs(bank Alg, pcrs ...int) PCRSelection {
	s := PCRSelection{Hash: bank, Select: make([]byte, PCRSelectMin)}
	for _, p := range pcrs {
		if p >= 0 && p < 8*len(s.Select) {
			s.Select[p/8] |= 1 << (p % 8)
		}
	}
	return s
}

// Has says whether PCR number p is selected.
func (s PCRSelection) Has(p int) bool {
	return p >= 0 && p/8 < len(s.Select) && s.Select[p/8]>>(p%8)&1 == 1
}

// PCRs returns the numbers of the selected PCRs, ascending.
func (s PCRSelection) PCRs() []int {
	var out []int
	for p := 0; p < 8*len(s.Select); p++ {
		if s.Has(p) {
			out = append(out, p)
		}
	}
	return out
}

func (s PCRSelection) Marshal(w *Writer) {
	w.Alg(s.Hash)
	if len(s.Select) > 0xFF {
		w.Fail(errTooLong)
		return
	}
	w.U8(uint8(len(s.Select)))
	w.Raw(s.Select)
}

// Unmarshal reads a TPMS_PCR_SELECTION; RCValue if its bitmap is shorter than
// PCRSelectMin or absurdly long.
func (s *PCRSelection) Unmarshal(r *Reader) {
	s.Hash = unmarshalHash(r)
	n := int(r.U8())
	if r.err == RCSuccess && (n < PCRSelectMin || n > maxPCRSelect) {
		r.Fail(RCValue)
	}
	s.Select = r.Bytes(n)
}

// MarshalPCRSelections writes a TPML_PCR_SELECTION (Part 2, 10.9.7).
func MarshalPCRSelections(w *Writer, l []PCRSelection) {
	w.U32(uint32(len(l)))
	for _, s := range l {
		s.Marshal(w)
	}
}

// UnmarshalPCRSelections reads a TPML_PCR_SELECTION; RCSize above MaxPCRBanks elements.
func UnmarshalPCRSelections(r *Reader) []PCRSelection {
	var out []PCRSelection
	for n := r.Count(MaxPCRBanks); n > 0 && r.err == RCSuccess; n-- {
		var s PCRSelection
		s.Unmarshal(r)
		out = append(out, s)
	}
	if r.err != RCSuccess {
		return nil
	}
	return out
}

// HA is TPMT_HA (Part 2, 10.3.2): a hash algorithm and a digest of its size.
// With AlgNull the digest is empty.
type HA struct {
	Alg    Alg
	Digest []byte
}

func (h HA) Marshal(w *Writer) {
	w.Alg(h.Alg)
	if len(h.Digest) != h.Alg.DigestSize() || h.Alg != AlgNull && !h.Alg.IsHash() {
		w.unknown("TPMT_HA", uint64(h.Alg))
		return
	}
	w.Raw(h.Digest)
}

// Unmarshal reads a TPMT_HA; RCHash if the algorithm is no known hash.
func (h *HA) Unmarshal(r *Reader) {
	h.Alg = unmarshalHash(r)
	h.Digest = r.Bytes(h.Alg.DigestSize())
}

// UnmarshalNull reads a TPMT_HA+, whose algorithm may be AlgNull.
func (h *HA) UnmarshalNull(r *Reader) {
	h.Alg = UnmarshalHashNull(r)
	h.Digest = r.Bytes(h.Alg.DigestSize())
}

// MarshalHAs writes a TPML_DIGEST_VALUES (Part 2, 10.9.6).
func MarshalHAs(w *Writer, l []HA) {
	w.U32(uint32(len(l)))
	for _, h := range l {
		h.Marshal(w)
	}
}

// UnmarshalHAs reads a TPML_DIGEST_VALUES; RCSize above MaxPCRBanks elements.
func UnmarshalHAs(r *Reader) []HA {
	var out []HA
	for n := r.Count(MaxPCRBanks); n > 0 && r.err == RCSuccess; n-- {
		var h HA
		h.Unmarshal(r)
		out = append(out, h)
	}
	if r.err != RCSuccess {
		return nil
	}
	return out
}

// MaxDigests bounds a TPML_DIGEST (Part 2, 10.9.5).
const MaxDigests = 8

// MarshalDigests writes a TPML_DIGEST.
func MarshalDigests(w *Writer, l [][]byte) {
	w.U32(uint32(len(l)))
	for _, d := range l {
		w.Sized(d)
	}
}

// UnmarshalDigests reads a TPML_DIGEST of min to MaxDigests elements; RCSize otherwise.
func UnmarshalDigests(r *Reader, min int) [][]byte {
	n := r.Count(MaxDigests)
	if r.err == RCSuccess && n < min {
		r.Fail(RCSize)
	}
	var out [][]byte
	for ; n > 0 && r.err == RCSuccess; n-- {
		out = append(out, r.Sized(MaxDigest))
	}
	if r.err != RCSuccess {
		return nil
	}
	return out
}
