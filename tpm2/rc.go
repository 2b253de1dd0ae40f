// SPDX-License-Identifier: Apache-2.0

package tpm2

import "fmt"

// RC is a response code, TPM_RC (Part 2, 6.6), and a Go error. Zero is
// success and never returned as an error. Format-one codes carry the number
// of the handle, session or parameter that they are about.
type RC uint32

const (
	rcVer1 RC = 0x100
	rcFmt1 RC = 0x080
	rcWarn RC = 0x900
	rcP    RC = 0x040
	rcS    RC = 0x800
)

// Response codes (Part 2, 6.6.3).
const (
	RCSuccess RC = 0
	RCBadTag  RC = 0x01E

	RCInitialize      = rcVer1 + 0x000
	RCFailure         = rcVer1 + 0x001
	RCSequence        = rcVer1 + 0x003
	RCPrivate         = rcVer1 + 0x00B
	RCHMAC            = rcVer1 + 0x019
	RCDisabled        = rcVer1 + 0x020
	RCExclusive       = rcVer1 + 0x021
	RCAuthType        = rcVer1 + 0x024
	RCAuthMissing     = rcVer1 + 0x025
	RCPolicy          = rcVer1 + 0x026
	RCPCR             = rcVer1 + 0x027
	RCPCRChanged      = rcVer1 + 0x028
	RCUpgrade         = rcVer1 + 0x02D
	RCTooManyContexts = rcVer1 + 0x02E
	RCAuthUnavailable = rcVer1 + 0x02F
	RCReboot          = rcVer1 + 0x030
	RCUnbalanced      = rcVer1 + 0x031
	RCCommandSize     = rcVer1 + 0x042
	RCCommandCode     = rcVer1 + 0x043
	RCAuthSize        = rcVer1 + 0x044
	RCAuthContext     = rcVer1 + 0x045
	RCNVRange         = rcVer1 + 0x046
	RCNVSize          = rcVer1 + 0x047
	RCNVLocked        = rcVer1 + 0x048
	RCNVAuthorization = rcVer1 + 0x049
	RCNVUninitialized = rcVer1 + 0x04A
	RCNVSpace         = rcVer1 + 0x04B
	RCNVDefined       = rcVer1 + 0x04C
	RCBadContext      = rcVer1 + 0x050
	RCCpHash          = rcVer1 + 0x051
	RCParent          = rcVer1 + 0x052
	RCNeedsTest       = rcVer1 + 0x053
	RCNoResult        = rcVer1 + 0x054
	RCSensitive       = rcVer1 + 0x055
	RCReadOnly        = rcVer1 + 0x056

	RCAsymmetric       = rcFmt1 + 0x001
	RCAttributes       = rcFmt1 + 0x002
	RCHash             = rcFmt1 + 0x003
	RCValue            = rcFmt1 + 0x004
	RCHierarchy        = rcFmt1 + 0x005
	RCKeySize          = rcFmt1 + 0x007
	RCMGF              = rcFmt1 + 0x008
	RCMode             = rcFmt1 + 0x009
	RCType             = rcFmt1 + 0x00A
	RCHandle           = rcFmt1 + 0x00B
	RCKDF              = rcFmt1 + 0x00C
	RCRange            = rcFmt1 + 0x00D
	RCAuthFail         = rcFmt1 + 0x00E
	RCNonce            = rcFmt1 + 0x00F
	RCPP               = rcFmt1 + 0x010
	RCScheme           = rcFmt1 + 0x012
	RCSize             = rcFmt1 + 0x015
	RCSymmetric        = rcFmt1 + 0x016
	RCTag              = rcFmt1 + 0x017
	RCSelector         = rcFmt1 + 0x018
	RCInsufficient     = rcFmt1 + 0x01A
	RCSignature        = rcFmt1 + 0x01B
	RCKey              = rcFmt1 + 0x01C
	RCPolicyFail       = rcFmt1 + 0x01D
	RCIntegrity        = rcFmt1 + 0x01F
	RCTicket           = rcFmt1 + 0x020
	RCReservedBits     = rcFmt1 + 0x021
	RCBadAuth          = rcFmt1 + 0x022
	RCExpired          = rcFmt1 + 0x023
	RCPolicyCC         = rcFmt1 + 0x024
	RCBinding          = rcFmt1 + 0x025
	RCCurve            = rcFmt1 + 0x026
	RCECCPoint         = rcFmt1 + 0x027
	RCFWLimited        = rcFmt1 + 0x028
	RCSVNLimited       = rcFmt1 + 0x029
	RCParms            = rcFmt1 + 0x02A
	RCExtMu            = rcFmt1 + 0x02B
	RCOneShotSignature = rcFmt1 + 0x02C
	RCSignContextKey   = rcFmt1 + 0x02D
	RCChannel          = rcFmt1 + 0x030
	RCChannelKey       = rcFmt1 + 0x031

	RCContextGap     = rcWarn + 0x001
	RCObjectMemory   = rcWarn + 0x002
	RCSessionMemory  = rcWarn + 0x003
	RCMemory         = rcWarn + 0x004
	RCSessionHandles = rcWarn + 0x005
	RCObjectHandles  = rcWarn + 0x006
	RCLocality       = rcWarn + 0x007
	RCYielded        = rcWarn + 0x008
	RCCanceled       = rcWarn + 0x009
	RCTesting        = rcWarn + 0x00A
	RCReferenceH0    = rcWarn + 0x010
	RCReferenceS0    = rcWarn + 0x018
	RCNVRate         = rcWarn + 0x020
	RCLockout        = rcWarn + 0x021
	RCRetry          = rcWarn + 0x022
	RCNVUnavailable  = rcWarn + 0x023
)

var rcNames = map[RC]string{
	RCSuccess: "TPM_RC_SUCCESS", RCBadTag: "TPM_RC_BAD_TAG",
	RCInitialize: "TPM_RC_INITIALIZE", RCFailure: "TPM_RC_FAILURE", RCSequence: "TPM_RC_SEQUENCE", RCPrivate: "TPM_RC_PRIVATE",
	RCHMAC: "TPM_RC_HMAC", RCDisabled: "TPM_RC_DISABLED", RCExclusive: "TPM_RC_EXCLUSIVE", RCAuthType: "TPM_RC_AUTH_TYPE",
	RCAuthMissing: "TPM_RC_AUTH_MISSING", RCPolicy: "TPM_RC_POLICY", RCPCR: "TPM_RC_PCR", RCPCRChanged: "TPM_RC_PCR_CHANGED",
	RCUpgrade: "TPM_RC_UPGRADE", RCTooManyContexts: "TPM_RC_TOO_MANY_CONTEXTS", RCAuthUnavailable: "TPM_RC_AUTH_UNAVAILABLE",
	RCReboot: "TPM_RC_REBOOT", RCUnbalanced: "TPM_RC_UNBALANCED", RCCommandSize: "TPM_RC_COMMAND_SIZE", RCCommandCode: "TPM_RC_COMMAND_CODE",
	RCAuthSize: "TPM_RC_AUTHSIZE", RCAuthContext: "TPM_RC_AUTH_CONTEXT", RCNVRange: "TPM_RC_NV_RANGE", RCNVSize: "TPM_RC_NV_SIZE",
	RCNVLocked: "TPM_RC_NV_LOCKED", RCNVAuthorization: "TPM_RC_NV_AUTHORIZATION", RCNVUninitialized: "TPM_RC_NV_UNINITIALIZED",
	RCNVSpace: "TPM_RC_NV_SPACE", RCNVDefined: "TPM_RC_NV_DEFINED", RCBadContext: "TPM_RC_BAD_CONTEXT", RCCpHash: "TPM_RC_CPHASH",
	RCParent: "TPM_RC_PARENT", RCNeedsTest: "TPM_RC_NEEDS_TEST", RCNoResult: "TPM_RC_NO_RESULT", RCSensitive: "TPM_RC_SENSITIVE",
	RCReadOnly:   "TPM_RC_READ_ONLY",
	RCAsymmetric: "TPM_RC_ASYMMETRIC", RCAttributes: "TPM_RC_ATTRIBUTES", RCHash: "TPM_RC_HASH", RCValue: "TPM_RC_VALUE",
	RCHierarchy: "TPM_RC_HIERARCHY", RCKeySize: "TPM_RC_KEY_SIZE", RCMGF: "TPM_RC_MGF", RCMode: "TPM_RC_MODE", RCType: "TPM_RC_TYPE",
	RCHandle: "TPM_RC_HANDLE", RCKDF: "TPM_RC_KDF", RCRange: "TPM_RC_RANGE", RCAuthFail: "TPM_RC_AUTH_FAIL", RCNonce: "TPM_RC_NONCE",
	RCPP: "TPM_RC_PP", RCScheme: "TPM_RC_SCHEME", RCSize: "TPM_RC_SIZE", RCSymmetric: "TPM_RC_SYMMETRIC", RCTag: "TPM_RC_TAG",
	RCSelector: "TPM_RC_SELECTOR", RCInsufficient: "TPM_RC_INSUFFICIENT", RCSignature: "TPM_RC_SIGNATURE", RCKey: "TPM_RC_KEY",
	RCPolicyFail: "TPM_RC_POLICY_FAIL", RCIntegrity: "TPM_RC_INTEGRITY", RCTicket: "TPM_RC_TICKET", RCReservedBits: "TPM_RC_RESERVED_BITS",
	RCBadAuth: "TPM_RC_BAD_AUTH", RCExpired: "TPM_RC_EXPIRED", RCPolicyCC: "TPM_RC_POLICY_CC", RCBinding: "TPM_RC_BINDING",
	RCCurve: "TPM_RC_CURVE", RCECCPoint: "TPM_RC_ECC_POINT", RCFWLimited: "TPM_RC_FW_LIMITED", RCSVNLimited: "TPM_RC_SVN_LIMITED",
	RCParms: "TPM_RC_PARMS", RCExtMu: "TPM_RC_EXT_MU", RCOneShotSignature: "TPM_RC_ONE_SHOT_SIGNATURE",
	RCSignContextKey: "TPM_RC_SIGN_CONTEXT_KEY", RCChannel: "TPM_RC_CHANNEL", RCChannelKey: "TPM_RC_CHANNEL_KEY",
	RCContextGap: "TPM_RC_CONTEXT_GAP", RCObjectMemory: "TPM_RC_OBJECT_MEMORY", RCSessionMemory: "TPM_RC_SESSION_MEMORY",
	RCMemory: "TPM_RC_MEMORY", RCSessionHandles: "TPM_RC_SESSION_HANDLES", RCObjectHandles: "TPM_RC_OBJECT_HANDLES",
	RCLocality: "TPM_RC_LOCALITY", RCYielded: "TPM_RC_YIELDED", RCCanceled: "TPM_RC_CANCELED", RCTesting: "TPM_RC_TESTING",
	RCReferenceH0: "TPM_RC_REFERENCE_H0", RCReferenceH0 + 1: "TPM_RC_REFERENCE_H1", RCReferenceH0 + 2: "TPM_RC_REFERENCE_H2",
	RCReferenceH0 + 3: "TPM_RC_REFERENCE_H3", RCReferenceH0 + 4: "TPM_RC_REFERENCE_H4", RCReferenceH0 + 5: "TPM_RC_REFERENCE_H5",
	RCReferenceH0 + 6: "TPM_RC_REFERENCE_H6", RCReferenceS0: "TPM_RC_REFERENCE_S0", RCReferenceS0 + 1: "TPM_RC_REFERENCE_S1",
	RCReferenceS0 + 2: "TPM_RC_REFERENCE_S2", RCReferenceS0 + 3: "TPM_RC_REFERENCE_S3", RCReferenceS0 + 4: "TPM_RC_REFERENCE_S4",
	RCReferenceS0 + 5: "TPM_RC_REFERENCE_S5", RCReferenceS0 + 6: "TPM_RC_REFERENCE_S6",
	RCNVRate: "TPM_RC_NV_RATE", RCLockout: "TPM_RC_LOCKOUT", RCRetry: "TPM_RC_RETRY", RCNVUnavailable: "TPM_RC_NV_UNAVAILABLE",
}

// A Position says what a format-one response code is about.
type Position uint8

// Positions of a format-one response code (Part 2, 6.6.2).
const (
	PositionNone Position = iota
	PositionHandle
	PositionParameter
	PositionSession
)

// IsFmt1 says whether rc is a format-one code, which may carry a position.
func (rc RC) IsFmt1() bool { return rc&rcFmt1 != 0 }

// IsWarning says whether rc is a warning: the command was not wrong and may
// succeed later or elsewhere.
func (rc RC) IsWarning() bool { return rc&rcFmt1 == 0 && rc&rcWarn == rcWarn }

// Base returns the code without its position.
func (rc RC) Base() RC {
	if rc.IsFmt1() {
		return rc & 0x0BF
	}
	return rc
}

// Position returns what a format-one code is about and its number, counted
// from 1; PositionNone and 0 if it carries none.
func (rc RC) Position() (Position, int) {
	if !rc.IsFmt1() {
		return PositionNone, 0
	}
	n := int(rc>>8) & 0xF
	switch {
	case rc&rcP != 0:
		return PositionParameter, n
	case n == 0:
		return PositionNone, 0
	case n&8 != 0:
		return PositionSession, n & 7
	}
	return PositionHandle, n
}

// Parameter returns the code with the position parameter n (1 to 15). Codes
// that cannot carry a position, or carry one, stay as they are.
func (rc RC) Parameter(n int) RC {
	if !rc.free() {
		return rc
	}
	return rc | rcP | RC(n&0xF)<<8
}

// Handle returns the code with the position handle n (1 to 7). Codes that
// cannot carry a position, or carry one, stay as they are.
func (rc RC) Handle(n int) RC {
	if !rc.free() {
		return rc
	}
	return rc | RC(n&7)<<8
}

// Session returns the code with the position session n (1 to 7). Codes that
// cannot carry a position, or carry one, stay as they are.
func (rc RC) Session(n int) RC {
	if !rc.free() {
		return rc
	}
	return rc | rcS | RC(n&7)<<8
}

// free says whether rc can take a position.
func (rc RC) free() bool { return rc.IsFmt1() && rc&^0x0BF == 0 }

// Error implements error.
func (rc RC) Error() string {
	name, ok := rcNames[rc.Base()]
	if !ok {
		return fmt.Sprintf("TPM response code 0x%03x", uint32(rc))
	}
	switch p, n := rc.Position(); p {
	case PositionHandle:
		return fmt.Sprintf("%s (0x%03x, handle %d)", name, uint32(rc), n)
	case PositionParameter:
		return fmt.Sprintf("%s (0x%03x, parameter %d)", name, uint32(rc), n)
	case PositionSession:
		return fmt.Sprintf("%s (0x%03x, session %d)", name, uint32(rc), n)
	}
	return fmt.Sprintf("%s (0x%03x)", name, uint32(rc))
}

// Is reports whether target is the same code. A target without position
// matches every position, so errors.Is(err, RCValue) finds a wrong value
// wherever it was.
func (rc RC) Is(target error) bool {
	t, ok := target.(RC)
	return ok && (t == rc || t == rc.Base())
}
