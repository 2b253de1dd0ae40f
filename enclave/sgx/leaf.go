// SPDX-License-Identifier: Apache-2.0

package sgx

import "fmt"

// ENCLS is a leaf of the privileged instruction (opcode 0F 01 CF), in EAX.
type ENCLS uint32

// Leaves of ENCLS.
const (
	ECREATE ENCLS = 0x0
	EADD    ENCLS = 0x1
	EINIT   ENCLS = 0x2
	EREMOVE ENCLS = 0x3
	EDBGRD  ENCLS = 0x4
	EDBGWR  ENCLS = 0x5
	EEXTEND ENCLS = 0x6
	ELDB    ENCLS = 0x7
	ELDU    ENCLS = 0x8
	EBLOCK  ENCLS = 0x9
	EPA     ENCLS = 0xa
	EWB     ENCLS = 0xb
	ETRACK  ENCLS = 0xc
	EAUG    ENCLS = 0xd
	EMODPR  ENCLS = 0xe
	EMODT   ENCLS = 0xf
)

// ENCLU is a leaf of the user instruction (opcode 0F 01 D7), in EAX.
type ENCLU uint32

// Leaves of ENCLU.
const (
	EREPORT     ENCLU = 0
	EGETKEY     ENCLU = 1
	EENTER      ENCLU = 2
	ERESUME     ENCLU = 3
	EEXIT       ENCLU = 4
	EACCEPT     ENCLU = 5
	EMODPE      ENCLU = 6
	EACCEPTCOPY ENCLU = 7
)

func (l ENCLU) String() string {
	names := [...]string{"EREPORT", "EGETKEY", "EENTER", "ERESUME", "EEXIT", "EACCEPT", "EMODPE", "EACCEPTCOPY"}
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("ENCLU leaf %d", uint32(l))
}

// Opcodes of the three SGX instructions.
var (
	OpENCLS = [3]byte{0x0f, 0x01, 0xcf}
	OpENCLU = [3]byte{0x0f, 0x01, 0xd7}
	OpENCLV = [3]byte{0x0f, 0x01, 0xc0}
)

// Code is an error code that a leaf returns in RAX with ZF set (SDM, "Error or
// Information Codes for Intel SGX Instructions").
type Code uint64

// Codes.
const (
	Success               Code = 0
	InvalidSigStruct      Code = 1
	InvalidAttribute      Code = 2
	Blkstate              Code = 3
	InvalidMeasurement    Code = 4
	NotBlockable          Code = 5
	PGInvld               Code = 6
	EPCPageConflict       Code = 7
	InvalidSignature      Code = 8
	MACCompareFail        Code = 9
	PageNotBlocked        Code = 10
	NotTracked            Code = 11
	VASlotOccupied        Code = 12
	ChildPresent          Code = 13
	EnclaveAct            Code = 14
	EntryEpochLocked      Code = 15
	InvalidEInitToken     Code = 16
	PrevTrkIncmpl         Code = 17
	PGIsSECS              Code = 18
	PageAttributeMismatch Code = 19
	PageNotModifiable     Code = 20
	PageNotDebuggable     Code = 21
	InvalidCPUSVN         Code = 32
	InvalidISVSVN         Code = 64
	UnmaskedEvent         Code = 128
	InvalidKeyName        Code = 256
)

var codeNames = map[Code]string{
	Success: "SGX_SUCCESS", InvalidSigStruct: "SGX_INVALID_SIG_STRUCT", InvalidAttribute: "SGX_INVALID_ATTRIBUTE", Blkstate: "SGX_BLKSTATE",
	InvalidMeasurement: "SGX_INVALID_MEASUREMENT", NotBlockable: "SGX_NOTBLOCKABLE", PGInvld: "SGX_PG_INVLD", EPCPageConflict: "SGX_EPC_PAGE_CONFLICT",
	InvalidSignature: "SGX_INVALID_SIGNATURE", MACCompareFail: "SGX_MAC_COMPARE_FAIL", PageNotBlocked: "SGX_PAGE_NOT_BLOCKED", NotTracked: "SGX_NOT_TRACKED",
	VASlotOccupied: "SGX_VA_SLOT_OCCUPIED", ChildPresent: "SGX_CHILD_PRESENT", EnclaveAct: "SGX_ENCLAVE_ACT", EntryEpochLocked: "SGX_ENTRYEPOCH_LOCKED",
	InvalidEInitToken: "SGX_INVALID_EINITTOKEN", PrevTrkIncmpl: "SGX_PREV_TRK_INCMPL", PGIsSECS: "SGX_PG_IS_SECS", PageAttributeMismatch: "SGX_PAGE_ATTRIBUTES_MISMATCH",
	PageNotModifiable: "SGX_PAGE_NOT_MODIFIABLE", PageNotDebuggable: "SGX_PAGE_NOT_DEBUGGABLE", InvalidCPUSVN: "SGX_INVALID_CPUSVN", InvalidISVSVN: "SGX_INVALID_ISVSVN",
	UnmaskedEvent: "SGX_UNMASKED_EVENT", InvalidKeyName: "SGX_INVALID_KEYNAME",
}

func (c Code) Error() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("SGX error %d", uint64(c))
}
