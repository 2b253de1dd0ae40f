// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"
	"fmt"

	"holdfast/attest/evidence/internal/det"
)

// TPMQuote is the body of a TPM's report: CBOR map {1: TPMS_ATTEST, 2:
// TPMT_SIGNATURE, 3: [PCR value, ...]}, with TPM structures as the TPM gave
// them (TPM Library Part 2, 10.12.12 and 11.3.4).
//
// The values are those of the PCRs that the signed TPML_PCR_SELECTION names,
// in its order, lowest index first in each bank: nothing here says which PCR
// a value belongs to except what the TPM signed.
type TPMQuote struct {
	Attest    []byte // TPMS_ATTEST, at most 4096 bytes
	Signature []byte // TPMT_SIGNATURE, at most 8192 bytes
	PCRs      [][]byte
}

// MaxPCRValues is the most values in one quote: 24 PCRs of 8 banks.
const MaxPCRValues = 24 * 8

// Encode is the report's body.
func (q *TPMQuote) Encode() []byte {
	var w det.Writer
	w.Map(3)
	w.Uint(1)
	w.Bytes(q.Attest)
	w.Uint(2)
	w.Bytes(q.Signature)
	w.Uint(3)
	w.Array(len(q.PCRs))
	for _, v := range q.PCRs {
		w.Bytes(v)
	}
	return w.Out()
}

// ParseTPMQuote reads a body of TypeTPMQuote. The TPM structures inside are
// not read here.
func ParseTPMQuote(body []byte) (*TPMQuote, error) {
	q := &TPMQuote{}
	r := det.NewReader(body)
	needMap(&r, 3)
	r.Key(1)
	q.Attest = r.Bytes(4096)
	r.Key(2)
	q.Signature = r.Bytes(8192)
	r.Key(3)
	n := r.Array(MaxPCRValues)
	q.PCRs = make([][]byte, 0, n)
	for i := 0; i < n && r.Err() == nil; i++ {
		v := r.Bytes(64)
		if r.Err() == nil && len(v) < 20 {
			r.Fail(fmt.Errorf("PCR value %d: expected 20 to 64 bytes, got %d", i, len(v)))
		}
		q.PCRs = append(q.PCRs, v)
	}
	if r.Err() == nil && (len(q.Attest) == 0 || len(q.Signature) == 0) {
		r.Fail(errors.New("empty TPMS_ATTEST or TPMT_SIGNATURE"))
	}
	if err := r.Done(); err != nil {
		return nil, malformed("TPM quote", err)
	}
	return q, nil
}
