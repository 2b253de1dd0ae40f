// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"time"

	"holdfast/attest/evidence"
	"holdfast/enclave/sgx"
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
	Signature   string // algorithm: ES256, ES384, ES512, RS256, PS256, ..., ML-DSA-44, ML-DSA-65, ML-DSA-87, SM2-SM3
	PQ          bool   // the whole signature chain withstands a quantum computer

	// From the pinned record.
	AKName   []byte    // TPM Name of the AK
	EKName   []byte    // TPM Name of the EK it was activated with; nil if unknown
	EKRoot   []byte    // SHA-256 of the root certificate of the TPM's maker, if enrolment checked the EK's chain
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

	// From simulated evidence, and from the statement of an enclave monitor.
	Made time.Time

	// From a confidential virtual machine; else nil.
	Platform *Platform

	Enclave *Enclave // of ClassEnclave; else nil
}

// Enclave is what the monitor reports of the enclave that the evidence is about.
type Enclave struct {
	Level        string // evidence.LevelInproc, LevelHosted or LevelLateLaunch
	Mode         string // evidence.ModeHU, ModeGU or ModeP
	KeyAlgorithm string // of the monitor's signature

	MREnclave, MRSigner       [32]byte
	ISVProdID, ISVSVN         uint16
	Debug                     bool // its memory can be read from outside
	Attributes                sgx.Attributes
	MiscSelect                sgx.MiscSelect
	CPUSVN                    [16]byte // version of the monitor
	ConfigID                  [64]byte
	ConfigSVN                 uint16
	ISVFamilyID, ISVExtProdID [16]byte

	// Monitor is the monitor's image as the launcher measured it; nil at level
	// inproc, where nobody measured it.
	Monitor *evidence.Measured
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
