// SPDX-License-Identifier: Apache-2.0

package verify

import "time"

// Platform is what the report of a confidential virtual machine says. It is
// in a Result instead of the fields that only a TPM's quote has.
type Platform struct {
	Type        string // trust.TypeSNP, trust.TypeTDX or trust.TypeCSV
	Chip        []byte // the identity that the trust file pins
	Measurement []byte // of the machine's first memory: MEASUREMENT (SNP), MRTD (TDX), measure (CSV)
	Debug       bool   // the host may read the machine's memory

	// Collateral says that revocation lists and, for TDX, the vendor's TCB
	// information were at hand and in date, and that nothing is revoked; what
	// the vendor says of TDX firmware beside that is in TDX.TCBStatus.
	// CSV has none: its maker publishes no revocation list.
	Collateral bool
	Until      time.Time // when the first certificate or collateral expires; zero if nothing does

	SNP *SNP // exactly one of the three is set
	TDX *TDX
	CSV *CSV
}

// SNP are fields of an SEV-SNP attestation report (AMD 56860, table 23).
type SNP struct {
	Product         string // Milan, Genoa, Turin
	Signer          string // VCEK or VLEK
	VMPL            uint32
	GuestSVN        uint32
	Policy          uint64
	MigrationAgent  bool // a migration agent may move the machine
	SMT             bool // the host runs two threads a core
	HostData        []byte
	ReportID        []byte
	IDKeyDigest     []byte
	AuthorKeyDigest []byte
	TCB             SNPTCB // REPORTED_TCB, which is also in the certificate
	LaunchTCB       SNPTCB
}

// SNPTCB are the components of a TCB_VERSION. FMC is there from Turin on.
type SNPTCB struct{ FMC, Bootloader, TEE, SNP, Microcode uint8 }

// TDX are fields of a TD quote (Intel TDX DCAP quoting library, TD Report 1.0).
type TDX struct {
	FMSPC string // family, model, stepping and platform, hexadecimal
	// TCBStatus is Intel's word about the firmware: UpToDate, SWHardeningNeeded,
	// ConfigurationNeeded, ConfigurationAndSWHardeningNeeded, OutOfDate or
	// OutOfDateConfigurationNeeded; empty without collateral. Revoked is refused before.
	TCBStatus     string
	Advisories    []string // Intel's, that stand beside the status
	TCBEvaluation int      // tcbEvaluationDataNumber: rises when Intel looks at all levels anew

	TEETCBSVN   []byte
	MRSeam      []byte
	MRConfigID  []byte
	MROwner     []byte
	MROwnerConf []byte
	RTMR        [][]byte // four
	Attributes  uint64
	XFAM        uint64
}

// CSV are fields of a Hygon CSV report.
type CSV struct {
	Version          int // 1: masked, see attest/evidence/csv
	Policy           uint32
	VMID             []byte
	VMVersion        []byte
	UserPubkeyDigest []byte
	Serial           string   // of the chip, as the report says; not signed in version 1
	PEK              [32]byte // SHA-256 of the platform endorsement key's point X ‖ Y
	RTMR             [][]byte // five in version 2
	Build            uint32   // of the firmware; version 2
}
