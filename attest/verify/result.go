// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"time"

	"holdfast/attest/evidence"
	"holdfast/tpm2"
)

// Attester classes: what the evidence can vouch for.
const (
	ClassMachine = "machine" // an agent on a measured machine vouches for a process
	ClassEnclave = "enclave" // the enclave itself reports
)

// Result says what is true of genuine evidence, and nothing about whether
// that is acceptable. It may be shared; do not change it.
type Result struct {
	Type        string // media type of the report
	Simulated   bool   // nothing in it comes from hardware
	Class       string // ClassMachine or ClassEnclave
	Environment string // name of the pinned AK; for simulated evidence "SIMULATED/" root "/" name
	Signature   string // algorithm: ES256, ES384, ES512, RS256, PS256, ..., ML-DSA-44, ML-DSA-65, ML-DSA-87
	PQ          bool   // the whole signature chain withstands a quantum computer

	// From the pinned record.
	AKName   []byte    // TPM Name of the AK
	EKName   []byte    // TPM Name of the EK it was activated with; nil if unknown
	Method   string    // of enrolment
	Enrolled time.Time // zero for simulated evidence
	Machine  string

	// From the quote (TPMS_ATTEST, TPM Library Part 2, 10.12.12).
	PCRs         []PCR
	Events       []Event // of the event log; only those that a quoted PCR proves
	Firmware     uint64  // firmwareVersion
	Clock        uint64  // milliseconds, TPMS_CLOCK_INFO
	ResetCount   uint32
	RestartCount uint32
	Safe         bool // no higher Clock value was reported before

	// From simulated evidence.
	Made time.Time
}

// PCR is one quoted register.
type PCR struct {
	Hash   tpm2.Alg
	Index  uint8
	Value  []byte
	Logged bool // the event log leads to this value, so that Events explain it wholly
}

// Event is one entry of the log that a quoted PCR proves.
type Event struct {
	PCR      uint32
	Type     uint32            // TCG PC Client Platform Firmware Profile, 10.4.1
	Digests  []evidence.Digest // as extended
	Data     []byte
	Bound    bool               // the digests are over Data, so that the quote proves Data too
	Measured *evidence.Measured // what `holdfast attest measure` recorded, which is always bound; else nil
}
