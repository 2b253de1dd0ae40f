// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"encoding/binary"

	"holdfast/attest/evidence"
	"holdfast/tpm2"
)

// Offsets in TPMS_ATTEST.
const (
	attestType = 4 // after the magic number
	attestHead = 6
)

// tpmQuote checks a TPM's quote in the order of the faults: cheap checks
// first, the signature before the event log, so that only the holder of a
// pinned key makes us parse one.
func (v *Verifier) tpmQuote(r evidence.Report, endorsement Lookup, data evidence.ReportData) (*Result, error) {
	q, err := evidence.ParseTPMQuote(r.Body)
	if err != nil {
		return nil, &Error{FaultMalformed, err}
	}
	if len(r.Needs) == 0 {
		return nil, fault(FaultMalformed, "a TPM quote names its attestation key as the first endorsement; it names none")
	}
	k, ok := v.aks[r.Needs[0]]
	if !ok {
		return nil, v.unknownAK(r.Needs[0])
	}
	if l := k.record.EnclaveLevel; l != "" {
		return nil, fault(FaultLevel, "the attestation key %s belongs to an enclave monitor (%s) and vouches for enclaves only", k.record.Environment, l)
	}
	out, err := v.quoteBy(k, q, r.Needs[1:], endorsement, data)
	if err != nil {
		return nil, err
	}
	out.Type, out.Class = r.Type, ClassMachine
	return out, nil
}

// quoteBy checks a quote by the key k over data, with the event logs needed.
func (v *Verifier) quoteBy(k *ak, q *evidence.TPMQuote, needs [][32]byte, endorsement Lookup, data evidence.ReportData) (*Result, error) {
	a, err := parseAttest(q.Attest)
	if err != nil {
		return nil, err
	}
	if want := data.QualifyingData(); !bytes.Equal(a.ExtraData, want[:]) {
		return nil, fault(FaultReportData, "expected a quote with qualifyingData %x (SHA-256 of the report data), got %x", want, a.ExtraData)
	}
	if qn := k.record.QualifiedName; len(qn) > 0 && !bytes.Equal(qn, a.QualifiedSigner) {
		return nil, fault(FaultQualifiedName, "expected the qualified Name %x of enrolment, got %x", []byte(qn), a.QualifiedSigner)
	}
	pcrs, err := pcrValues(&a.Quote, q.PCRs, k.hash)
	if err != nil {
		return nil, err
	}
	var sig tpm2.Signature
	if err := tpm2.Decode(q.Signature, &sig); err != nil {
		return nil, fault(FaultMalformed, "TPMT_SIGNATURE: %w", err)
	}
	if err := k.verify(q.Attest, &sig); err != nil {
		return nil, &Error{FaultSignature, err}
	}
	events, err := v.explain(pcrs, needs, endorsement)
	if err != nil {
		return nil, err
	}
	return &Result{
		Environment: k.record.Environment, Signature: k.alg, PQ: k.pq,
		AKName: k.name, EKName: k.record.EK.Name, EKRoot: k.record.EK.RootSHA256, Method: k.record.Method, Enrolled: k.record.Enrolled, Machine: k.record.Machine,
		PCRs: pcrs, Events: events, Firmware: a.FirmwareVersion, Clock: a.ClockInfo.Clock,
		ResetCount: a.ClockInfo.ResetCount, RestartCount: a.ClockInfo.RestartCount, Safe: a.ClockInfo.Safe,
	}, nil
}

// unknownAK tells a key that is not pinned from one that is but cannot serve.
func (v *Verifier) unknownAK(hash [32]byte) error {
	if err, ok := v.weak[hash]; ok {
		return &Error{FaultWeakKey, err}
	}
	return fault(FaultUnknownKey, "the attestation key with endorsement hash %x is in no record of the trust file; `holdfast attest enroll` makes one", hash)
}

// parseAttest reads a TPMS_ATTEST that must be a quote.
func parseAttest(b []byte) (*tpm2.Attest, error) {
	if len(b) < attestHead {
		return nil, fault(FaultMalformed, "TPMS_ATTEST: expected at least %d bytes, got %d", attestHead, len(b))
	}
	if m := binary.BigEndian.Uint32(b); m != tpm2.GeneratedValue {
		return nil, fault(FaultMagic, "TPMS_ATTEST: expected TPM_GENERATED_VALUE %#x, got %#x", tpm2.GeneratedValue, m)
	}
	if t := tpm2.Tag(binary.BigEndian.Uint16(b[attestType:])); t != tpm2.STAttestQuote {
		return nil, fault(FaultAttestType, "TPMS_ATTEST: expected TPM_ST_ATTEST_QUOTE %#x, got %#x", uint16(tpm2.STAttestQuote), uint16(t))
	}
	a := &tpm2.Attest{}
	if err := tpm2.Decode(b, a); err != nil {
		return nil, fault(FaultMalformed, "TPMS_ATTEST: %w", err)
	}
	return a, nil
}

const maxPCR = 23

// pcrValues gives each value the PCR that the signed selection names, and
// checks that the TPM's digest is over these values (TPM2_Quote, TPM Library
// Part 3, 18.4).
func pcrValues(q *tpm2.QuoteInfo, values [][]byte, hash tpm2.Alg) ([]PCR, error) {
	out := make([]PCR, 0, len(values))
	h := hash.New()
	for i, s := range q.PCRSelect {
		for _, earlier := range q.PCRSelect[:i] {
			if earlier.Hash == s.Hash {
				return nil, fault(FaultPCRDigest, "the quote selects the bank %v twice", s.Hash)
			}
		}
		for index := range 8 * len(s.Select) {
			if !s.Has(index) {
				continue
			}
			if index > maxPCR {
				return nil, fault(FaultPCRDigest, "the quote selects PCR %d; expected 0 to %d", index, maxPCR)
			}
			if len(out) == len(values) {
				return nil, fault(FaultPCRDigest, "the quote selects more PCRs than the %d whose values came", len(values))
			}
			value := values[len(out)]
			if len(value) != s.Hash.DigestSize() {
				return nil, fault(FaultPCRDigest, "PCR %d of bank %v: expected %d bytes, got %d", index, s.Hash, s.Hash.DigestSize(), len(value))
			}
			h.Write(value)
			out = append(out, PCR{Hash: s.Hash, Index: uint8(index), Value: value})
		}
	}
	if len(out) != len(values) {
		return nil, fault(FaultPCRDigest, "the quote selects %d PCRs, but %d values came", len(out), len(values))
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, q.PCRDigest) {
		return nil, fault(FaultPCRDigest, "the PCR values have the digest %x, the TPM signed %x", sum, q.PCRDigest)
	}
	return out, nil
}
