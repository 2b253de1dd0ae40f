// SPDX-License-Identifier: Apache-2.0

package tpm2

import "fmt"

// Handle names an entity inside a TPM, TPM_HANDLE (Part 2, 7).
type Handle uint32

// Permanent handles, TPM_RH (Part 2, 7.4).
const (
	RHFirst         Handle = 0x40000000
	RHSRK           Handle = 0x40000000
	RHOwner         Handle = 0x40000001
	RHRevoke        Handle = 0x40000002
	RHTransport     Handle = 0x40000003
	RHOperator      Handle = 0x40000004
	RHAdmin         Handle = 0x40000005
	RHEK            Handle = 0x40000006
	RHNull          Handle = 0x40000007
	RHUnassigned    Handle = 0x40000008
	RSPW            Handle = 0x40000009
	RHLockout       Handle = 0x4000000A
	RHEndorsement   Handle = 0x4000000B
	RHPlatform      Handle = 0x4000000C
	RHPlatformNV    Handle = 0x4000000D
	RHAuth00        Handle = 0x40000010
	RHAuthFF        Handle = 0x4000010F
	RHACT0          Handle = 0x40000110
	RHACTF          Handle = 0x4000011F
	RHFWOwner       Handle = 0x40000140
	RHFWEndorsement Handle = 0x40000141
	RHFWPlatform    Handle = 0x40000142
	RHFWNull        Handle = 0x40000143
	RHSVNOwner      Handle = 0x40010000
	RHSVNEndorse    Handle = 0x40020000
	RHSVNPlatform   Handle = 0x40030000
	RHSVNNull       Handle = 0x40040000
)

// HT is the type of a handle, its most significant byte, TPM_HT (Part 2, 7.2).
type HT uint8

// Handle types. 0x02 and 0x03 mean HMAC and policy sessions, or loaded and
// saved sessions where a command or capability speaks of those.
const (
	HTPCR           HT = 0x00
	HTNVIndex       HT = 0x01
	HTHMACSession   HT = 0x02
	HTLoadedSession HT = 0x02
	HTPolicySession HT = 0x03
	HTSavedSession  HT = 0x03
	HTExternalNV    HT = 0x11
	HTPermanentNV   HT = 0x12
	HTPermanent     HT = 0x40
	HTTransient     HT = 0x80
	HTPersistent    HT = 0x81
	HTAC            HT = 0x90
)

// Bounds of handle ranges, TPM_HC (Part 2, 7.5).
const (
	HandlePCRFirst        Handle = 0x00000000
	HandleNVFirst         Handle = 0x01000000
	HandleNVLast          Handle = 0x01FFFFFF
	HandleHMACFirst       Handle = 0x02000000
	HandlePolicyFirst     Handle = 0x03000000
	HandlePermanentFirst  Handle = 0x40000000
	HandleTransientFirst  Handle = 0x80000000
	HandleTransientLast   Handle = 0x80FFFFFE
	HandlePersistentFirst Handle = 0x81000000
	HandlePersistentLast  Handle = 0x81FFFFFF
	HandlePlatformFirst   Handle = 0x81800000 // first persistent handle of the platform
)

// Type returns the handle's type.
func (h Handle) Type() HT { return HT(h >> 24) }

// String returns the permanent handle's name or the number.
func (h Handle) String() string {
	switch h {
	case RHOwner:
		return "owner"
	case RHNull:
		return "null"
	case RSPW:
		return "password"
	case RHLockout:
		return "lockout"
	case RHEndorsement:
		return "endorsement"
	case RHPlatform:
		return "platform"
	}
	return fmt.Sprintf("0x%08x", uint32(h))
}

// Tag is a structure tag, TPM_ST (Part 2, 6.9).
type Tag uint16

// Structure tags.
const (
	STRspCommand         Tag = 0x00C4
	STNull               Tag = 0x8000
	STNoSessions         Tag = 0x8001
	STSessions           Tag = 0x8002
	STAttestNV           Tag = 0x8014
	STAttestCommandAudit Tag = 0x8015
	STAttestSessionAudit Tag = 0x8016
	STAttestCertify      Tag = 0x8017
	STAttestQuote        Tag = 0x8018
	STAttestTime         Tag = 0x8019
	STAttestCreation     Tag = 0x801A
	STAttestNVDigest     Tag = 0x801C
	STCreation           Tag = 0x8021
	STVerified           Tag = 0x8022
	STAuthSecret         Tag = 0x8023
	STHashcheck          Tag = 0x8024
	STAuthSigned         Tag = 0x8025
	STMessageVerified    Tag = 0x8026
	STDigestVerified     Tag = 0x8027
	STFUManifest         Tag = 0x8029
)

// GeneratedValue is TPM_GENERATED_VALUE, the first four bytes of each
// structure that a TPM signs about itself (Part 2, 6.2).
const GeneratedValue uint32 = 0xFF544347

// SU is the argument of Startup and Shutdown, TPM_SU (Part 2, 6.10).
type SU uint16

// Arguments of Startup and Shutdown.
const (
	SUClear SU = 0
	SUState SU = 1
)

// SE is the kind of a session, TPM_SE (Part 2, 6.11).
type SE uint8

// Kinds of sessions.
const (
	SEHMAC   SE = 0x00
	SEPolicy SE = 0x01
	SETrial  SE = 0x03
)

// EO is a comparison of PolicyNV and PolicyCounterTimer, TPM_EO (Part 2, 6.8).
type EO uint16

// Comparisons: A is the TPM's value, B the operand.
const (
	EOEq         EO = 0x0000
	EONeq        EO = 0x0001
	EOSignedGT   EO = 0x0002
	EOUnsignedGT EO = 0x0003
	EOSignedLT   EO = 0x0004
	EOUnsignedLT EO = 0x0005
	EOSignedGE   EO = 0x0006
	EOUnsignedGE EO = 0x0007
	EOSignedLE   EO = 0x0008
	EOUnsignedLE EO = 0x0009
	EOBitSet     EO = 0x000A
	EOBitClear   EO = 0x000B
)
