// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"fmt"

	"holdfast/tpm2"
)

// PCRRead returns the values of the selected PCRs of one bank by their number
// (Part 3, 22.4), asking as often as needed. Values from several answers of
// the TPM may be of different moments; update is the counter of the last one.
func (t *TPM) PCRRead(sel tpm2.PCRSelection) (values map[int][]byte, update uint32, err error) {
	values = map[int][]byte{}
	left := tpm2.PCRSelection{Hash: sel.Hash, Select: bytes.Clone(sel.Select)}
	for len(left.PCRs()) > 0 {
		c := call{cc: tpm2.CCPCRRead}
		r, err := t.do(&c, func(w *tpm2.Writer) { tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{left}) })
		if err != nil {
			return nil, 0, err
		}
		update = r.U32()
		got := tpm2.UnmarshalPCRSelections(&r.Reader)
		digests := tpm2.UnmarshalDigests(&r.Reader, 0)
		if err := r.end(c.cc); err != nil {
			return nil, 0, err
		}
		if len(got) != 1 || got[0].Hash != sel.Hash || len(got[0].PCRs()) != len(digests) {
			return nil, 0, fmt.Errorf("%v: %w: digests that do not match the selection", c.cc, ErrResponse)
		}
		if len(digests) == 0 {
			return nil, 0, fmt.Errorf("%v: the TPM has no bank %v, or not PCRs %v in it", c.cc, sel.Hash, left.PCRs())
		}
		for i, p := range got[0].PCRs() {
			if !left.Has(p) {
				return nil, 0, fmt.Errorf("%v: %w: PCR %d was not asked for", c.cc, ErrResponse, p)
			}
			values[p] = bytes.Clone(digests[i])
			left.Select[p/8] &^= 1 << (p % 8)
		}
	}
	return values, update, nil
}

// PCRDigest reads the selected PCRs and returns the digest by hash over their
// values, in the order of a quote or PolicyPCR.
func (t *TPM) PCRDigest(hash tpm2.Alg, sel []tpm2.PCRSelection) ([]byte, error) {
	var all [][]byte
	for _, s := range sel {
		v, _, err := t.PCRRead(s)
		if err != nil {
			return nil, err
		}
		for _, p := range s.PCRs() {
			all = append(all, v[p])
		}
	}
	return tpm2.PCRDigest(hash, all...), nil
}

// PCRExtend is TPM2_PCR_Extend (Part 3, 22.2).
func (t *TPM) PCRExtend(pcr Ref, digests []tpm2.HA) error {
	c := call{cc: tpm2.CCPCRExtend, refs: [3]Ref{pcr}, handles: 1, auths: 1}
	return t.simple(&c, func(w *tpm2.Writer) { tpm2.MarshalHAs(w, digests) })
}

// PCREvent is TPM2_PCR_Event (Part 3, 22.3): extends each bank with the hash
// of data, at most 1,024 bytes; the digests are returned.
func (t *TPM) PCREvent(pcr Ref, data []byte) ([]tpm2.HA, error) {
	c := call{cc: tpm2.CCPCREvent, refs: [3]Ref{pcr}, handles: 1, auths: 1, inSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { w.Sized(data) })
	if err != nil {
		return nil, err
	}
	has := tpm2.UnmarshalHAs(&r.Reader)
	return has, r.end(c.cc)
}

// PCRReset is TPM2_PCR_Reset (Part 3, 22.8).
func (t *TPM) PCRReset(pcr Ref) error {
	return t.simple(&call{cc: tpm2.CCPCRReset, refs: [3]Ref{pcr}, handles: 1, auths: 1}, nil)
}
