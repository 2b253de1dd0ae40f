// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/tpm2"
)

// state is everything that a command can change. Atomicity rests on it: the
// engine copies the value before each command and puts the copy back if the
// command fails. So there is one rule for all code that changes state:
//
//	What a slice, pointer or map in state leads to is never altered, only
//	replaced. Assign fields of state freely; to change a session, an object
//	or an NV index, make a changed copy and put that in the slot.
type state struct {
	perm     permanent
	reset    stateReset
	clear    stateClear
	volatile volatile
}

// permanent is kept in the Store.
type permanent struct {
	// Primary seeds and proofs (Part 1, 14): 64 bytes each, since ML-KEM-1024
	// asks for 256-bit strength (Part 1, 11.4.1).
	epSeed, spSeed, ppSeed    []byte
	ehProof, shProof, phProof []byte
	epsMade                   bool // ChangeEPS made the endorsement seed

	ownerAuth, endorsementAuth, lockoutAuth       []byte
	ownerPolicy, endorsementPolicy, lockoutPolicy tpm2.HA
	disableClear                                  bool

	// Dictionary attack protection (Part 1, 19.8).
	failedTries, maxTries         uint32
	recoveryTime, lockoutRecovery uint32 // seconds
	lockoutBlocked                bool   // lockoutAuth failed; waits for lockoutRecovery or a Startup

	pcrAlloc    [numBanks]uint32 // bit per PCR
	pcrNext     [numBanks]uint32 // allocation after the next Startup(CLEAR)
	pcrPolicies [numPCRs]tpm2.HA // PCR_SetAuthPolicy
	ppCommands  map[tpm2.CC]bool // commands that need physical presence
	audited     map[tpm2.CC]bool // command audit
	auditHash   tpm2.Alg
	auditCount  uint64

	orderly      tpm2.SU // how the last session ended; suNone while running
	totalResets  uint64  // _TPM_Init with TPM Reset over the TPM's life
	resetCount   uint32  // TPM Resets since Clear
	clock        uint64  // milliseconds; in the Store at most clockInterval behind
	maxNVCounter uint64
	algorithmSet uint32
	bufferSize   uint32      // CapBufferSize; 0: as Options say
	nv           []*nvIndex  // ascending handles
	persistent   []*object   // ascending handles
	savedReset   *stateReset // at Shutdown(STATE)
	savedClear   *stateClear
	savedPCR     *pcrBanks
}

// suNone marks that no Shutdown was done since the last Startup.
const suNone tpm2.SU = 0xFFFF

// stateReset goes back to its start at TPM Reset, and survives TPM Restart and Resume.
type stateReset struct {
	nullSeed, nullProof []byte
	clearCount          uint32
	contextID           uint64 // of object contexts
	contextSlots        [maxSessions]uint16
	contextCounter      uint64 // of session contexts
	auditDigest         []byte // command audit; empty if nothing was audited
	restartCount        uint32
	pcrCounter          uint32
	commitCounter       uint64
	commitNonce         []byte
	commitArray         [commitBits / 8]byte
}

// commitBits is the number of Commit operations that can be open at once (Part 1, "ECDAA").
const commitBits = 128

// stateClear goes back to its start at TPM Reset and Restart, and survives Resume.
type stateClear struct {
	shEnable, ehEnable, phEnableNV bool
	readOnly                       bool
	platformAuth                   []byte
	platformPolicy                 tpm2.HA
	pcrAuth                        [numPCRs][]byte
	acts                           [numACTs]act
}

// volatile is lost at _TPM_Init.
type volatile struct {
	started        bool
	prevOrderly    tpm2.SU
	phEnable       bool
	startLocality  uint8
	drtm           bool // H-CRTM or DRTM measured before Startup
	clockSafe      bool
	clockUnsafeTil uint64
	timeEpoch      uint64 // of session timeouts: changes when Time restarts
	lockoutTimer   uint64 // Time at which lockoutAuth works again
	healTimer      uint64 // Time of the last count-down of failedTries
	exclusive      tpm2.Handle
	pcr            pcrBanks
	sessions       [maxSessions]*session
	savedSessions  [maxSessions]bool // contextSlots' owner is saved, not loaded
	objects        [maxObjects]*object
	dirty          bool // the permanent state changed outside of commands marked so
}
