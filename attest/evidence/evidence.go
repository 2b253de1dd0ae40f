// SPDX-License-Identifier: Apache-2.0

// Package evidence turns the bytes of attestation evidence into structures
// and back. It knows no keys and makes no judgement: whether evidence is
// genuine is attest/verify's question, whether it is acceptable is
// attest/policy's (the split of RFC 9334 between Evidence and its appraisal).
//
// Start with Report, which an Attester makes over ReportData, and Endorsement,
// which travels once and is named by its hash. ParseTPMQuote and
// ParseSimulated read a report's body; ParseFile and Wrap read and write
// both together as a CMW (RFC 9999) for files.
//
// All parsers are strict: what they accept encodes to the same bytes again,
// and an error means a nil result. Parsed structures share memory with the
// input; do not change it afterwards.
package evidence

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// Media types of reports and endorsements. The vnd.holdfast names are this
// project's own; they are not registered.
const (
	TypeTPMQuote     = "application/vnd.holdfast.tpm-quote+cbor"
	TypeTPMPublic    = "application/vnd.holdfast.tpm-public" // a TPMT_PUBLIC (TPM Library Part 2, 12.2.4)
	TypeTCGEventLog  = "application/vnd.holdfast.tcg-event-log"
	TypeSimulated    = "application/vnd.holdfast.simulated+cbor"
	TypeSimulatedKey = "application/vnd.holdfast.simulated-key+cbor"

	TypeSNP         = "application/vnd.holdfast.sev-snp-report" // ATTESTATION_REPORT, 1,184 bytes (AMD 56860, table 23)
	TypeTDX         = "application/vnd.holdfast.tdx-quote"      // TD quote version 4, with its PCK chain inside
	TypeCSV         = "application/vnd.holdfast.csv-report"     // attest/evidence/csv
	TypeCSVChain    = "application/vnd.holdfast.csv-chain"      // HSK ‖ CEK, 2,916 bytes
	TypeCertificate = "application/pkix-cert"                   // one certificate, DER (RFC 2585, section 4.1)
)

// Limits on what is parsed. An ML-DSA-87 signature has 4,627 bytes, 24 PCRs
// of five banks below 7 KiB; event logs of real firmware below 256 KiB.
const (
	MaxReportBody      = 64 << 10
	MaxEndorsementBody = 1 << 20
	MaxNeeds           = 8
	maxType            = 128
)

// ReportDataSize is the size of ReportData in bytes.
const ReportDataSize = 64

// ReportData is what a report is bound to: 64 bytes, as in SEV-SNP, TDX and
// CSV reports. A TPM signs its SHA-256 as qualifyingData instead, since chips
// take as few as 34 bytes there.
type ReportData [ReportDataSize]byte

// QualifyingData is what a TPM signs in place of d: SHA-256 of the 64 bytes.
func (d ReportData) QualifyingData() [32]byte { return sha256.Sum256(d[:]) }

// Report is one piece of Evidence (RFC 9334, 8.1), made for one ReportData.
type Report struct {
	Type  string     // media type, which says how Body is encoded
	Body  []byte     // at most MaxReportBody bytes
	Needs [][32]byte // hashes of the endorsements that verification needs, in order; at most MaxNeeds
}

// Endorsement is material that many reports need and that is sent once: a
// public key, an event log, a certificate chain. It authenticates itself or
// through the report; nothing is true because it came in an endorsement.
type Endorsement struct {
	Type string // media type
	Body []byte // at most MaxEndorsementBody bytes
}

// Hash names e: SHA-256(Type ‖ 0x00 ‖ Body). A media type has no zero byte
// (CheckType), so the two parts cannot be confused.
func (e Endorsement) Hash() [32]byte {
	h := sha256.New()
	h.Write([]byte(e.Type))
	h.Write([]byte{0})
	h.Write(e.Body)
	var out [32]byte
	h.Sum(out[:0])
	return out
}

// ErrMalformed is wrapped by every error of a parser in this package.
var ErrMalformed = errors.New("malformed evidence")

// malformed names the structure and the fault.
func malformed(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrMalformed, what, err)
}

// CheckType says whether s can be a media type here: type "/" subtype in
// printable ASCII without spaces, at most 128 bytes.
func CheckType(s string) error {
	if s == "" || len(s) > maxType {
		return malformed("media type", fmt.Errorf("expected 1 to %d bytes, got %d", maxType, len(s)))
	}
	slash := 0
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return malformed("media type", fmt.Errorf("byte %#02x at %d", c, i))
		}
		if c == '/' {
			slash++
		}
	}
	if slash != 1 || s[0] == '/' || s[len(s)-1] == '/' {
		return malformed("media type", fmt.Errorf("expected type/subtype, got %q", s))
	}
	return nil
}

// Check says whether r keeps the limits and has a well-formed type.
func (r Report) Check() error {
	if err := CheckType(r.Type); err != nil {
		return err
	}
	if len(r.Body) == 0 || len(r.Body) > MaxReportBody {
		return malformed("report", fmt.Errorf("body: expected 1 to %d bytes, got %d", MaxReportBody, len(r.Body)))
	}
	if len(r.Needs) > MaxNeeds {
		return malformed("report", fmt.Errorf("needs: expected at most %d endorsements, got %d", MaxNeeds, len(r.Needs)))
	}
	return nil
}

// Check says whether e keeps the limits and has a well-formed type.
func (e Endorsement) Check() error {
	if err := CheckType(e.Type); err != nil {
		return err
	}
	if len(e.Body) == 0 || len(e.Body) > MaxEndorsementBody {
		return malformed("endorsement", fmt.Errorf("body: expected 1 to %d bytes, got %d", MaxEndorsementBody, len(e.Body)))
	}
	return nil
}
