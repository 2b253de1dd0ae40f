// SPDX-License-Identifier: Apache-2.0

package tpm2

// ObjectAttributes is TPMA_OBJECT (Part 2, 8.3).
type ObjectAttributes uint32

// Object attributes.
const (
	ObjectFixedTPM             ObjectAttributes = 1 << 1
	ObjectStClear              ObjectAttributes = 1 << 2
	ObjectFixedParent          ObjectAttributes = 1 << 4
	ObjectSensitiveDataOrigin  ObjectAttributes = 1 << 5
	ObjectUserWithAuth         ObjectAttributes = 1 << 6
	ObjectAdminWithPolicy      ObjectAttributes = 1 << 7
	ObjectFirmwareLimited      ObjectAttributes = 1 << 8
	ObjectSVNLimited           ObjectAttributes = 1 << 9
	ObjectNoDA                 ObjectAttributes = 1 << 10
	ObjectEncryptedDuplication ObjectAttributes = 1 << 11
	ObjectRestricted           ObjectAttributes = 1 << 16
	ObjectDecrypt              ObjectAttributes = 1 << 17
	ObjectSignEncrypt          ObjectAttributes = 1 << 18
	ObjectX509Sign             ObjectAttributes = 1 << 19

	objectReserved = ^(ObjectFixedTPM | ObjectStClear | ObjectFixedParent | ObjectSensitiveDataOrigin | ObjectUserWithAuth |
		ObjectAdminWithPolicy | ObjectFirmwareLimited | ObjectSVNLimited | ObjectNoDA | ObjectEncryptedDuplication |
		ObjectRestricted | ObjectDecrypt | ObjectSignEncrypt | ObjectX509Sign)
)

// Has says whether all attributes of b are set.
func (a ObjectAttributes) Has(b ObjectAttributes) bool { return a&b == b }

func (a ObjectAttributes) Marshal(w *Writer) { w.U32(uint32(a)) }

// Unmarshal reads the attributes; RCReservedBits if a reserved bit is set.
func (a *ObjectAttributes) Unmarshal(r *Reader) {
	*a = ObjectAttributes(r.U32())
	if *a&objectReserved != 0 {
		r.Fail(RCReservedBits)
	}
}

// SessionAttributes is TPMA_SESSION (Part 2, 8.4).
type SessionAttributes uint8

// Session attributes.
const (
	SessionContinue       SessionAttributes = 1 << 0
	SessionAuditExclusive SessionAttributes = 1 << 1
	SessionAuditReset     SessionAttributes = 1 << 2
	SessionDecrypt        SessionAttributes = 1 << 5
	SessionEncrypt        SessionAttributes = 1 << 6
	SessionAudit          SessionAttributes = 1 << 7

	sessionReserved SessionAttributes = 0x18
)

// Has says whether all attributes of b are set.
func (a SessionAttributes) Has(b SessionAttributes) bool { return a&b == b }

func (a SessionAttributes) Marshal(w *Writer) { w.U8(uint8(a)) }

// Unmarshal reads the attributes; RCReservedBits if a reserved bit is set.
func (a *SessionAttributes) Unmarshal(r *Reader) {
	*a = SessionAttributes(r.U8())
	if *a&sessionReserved != 0 {
		r.Fail(RCReservedBits)
	}
}

// Locality is TPMA_LOCALITY (Part 2, 8.5): bits 0 to 4 are localities 0 to 4,
// values from 32 on name one extended locality.
type Locality uint8

// LocalityBit returns the attribute of one locality: a bit for 0 to 4, the number itself from 32 on.
func LocalityBit(locality uint8) Locality {
	if locality <= 4 {
		return 1 << locality
	}
	return Locality(locality)
}

// NVAttributes is TPMA_NV (Part 2, 13.4).
type NVAttributes uint32

// NV attributes.
const (
	NVPPWrite        NVAttributes = 1 << 0
	NVOwnerWrite     NVAttributes = 1 << 1
	NVAuthWrite      NVAttributes = 1 << 2
	NVPolicyWrite    NVAttributes = 1 << 3
	NVTypeMask       NVAttributes = 0xF << 4
	NVPolicyDelete   NVAttributes = 1 << 10
	NVWriteLocked    NVAttributes = 1 << 11
	NVWriteAll       NVAttributes = 1 << 12
	NVWriteDefine    NVAttributes = 1 << 13
	NVWriteStClear   NVAttributes = 1 << 14
	NVGlobalLock     NVAttributes = 1 << 15
	NVPPRead         NVAttributes = 1 << 16
	NVOwnerRead      NVAttributes = 1 << 17
	NVAuthRead       NVAttributes = 1 << 18
	NVPolicyRead     NVAttributes = 1 << 19
	NVNoDA           NVAttributes = 1 << 25
	NVOrderly        NVAttributes = 1 << 26
	NVClearStClear   NVAttributes = 1 << 27
	NVReadLocked     NVAttributes = 1 << 28
	NVWritten        NVAttributes = 1 << 29
	NVPlatformCreate NVAttributes = 1 << 30
	NVReadStClear    NVAttributes = 1 << 31

	nvReserved NVAttributes = 3<<8 | 0x1F<<20
)

// NT is the type of an NV index, TPM_NT (Part 2, 13.2).
type NT uint8

// Types of NV indices.
const (
	NTOrdinary NT = 0x0
	NTCounter  NT = 0x1
	NTBits     NT = 0x2
	NTExtend   NT = 0x4
	NTPinFail  NT = 0x8
	NTPinPass  NT = 0x9
)

// Has says whether all attributes of b are set.
func (a NVAttributes) Has(b NVAttributes) bool { return a&b == b }

// Type returns the type of the index.
func (a NVAttributes) Type() NT { return NT(a >> 4 & 0xF) }

// WithType returns a with the type replaced.
func (a NVAttributes) WithType(t NT) NVAttributes {
	return a&^NVTypeMask | NVAttributes(t&0xF)<<4
}

func (a NVAttributes) Marshal(w *Writer) { w.U32(uint32(a)) }

// Unmarshal reads the attributes; RCReservedBits if a reserved bit is set.
func (a *NVAttributes) Unmarshal(r *Reader) {
	*a = NVAttributes(r.U32())
	if *a&nvReserved != 0 {
		r.Fail(RCReservedBits)
	}
}

// CCAttributes is TPMA_CC (Part 2, 8.9): bits 0 to 15 are the command index.
type CCAttributes uint32

// Command attributes; cHandles is the three-bit field from bit 25.
const (
	CCAttrNV       CCAttributes = 1 << 22
	CCAttrExtended CCAttributes = 1 << 23
	CCAttrFlushed  CCAttributes = 1 << 24
	CCAttrRHandle  CCAttributes = 1 << 28
	CCAttrV        CCAttributes = 1 << 29
)

// CC returns the command code.
func (a CCAttributes) CC() CC { return CC(a&0xFFFF) | CC(a&CCAttrV) }

// Handles returns the number of handles in the command's handle area.
func (a CCAttributes) Handles() int { return int(a >> 25 & 7) }

// AlgAttributes is TPMA_ALGORITHM (Part 2, 8.2).
type AlgAttributes uint32

// Algorithm attributes.
const (
	AlgAttrAsymmetric AlgAttributes = 1 << 0
	AlgAttrSymmetric  AlgAttributes = 1 << 1
	AlgAttrHash       AlgAttributes = 1 << 2
	AlgAttrObject     AlgAttributes = 1 << 3
	AlgAttrSigning    AlgAttributes = 1 << 8
	AlgAttrEncrypting AlgAttributes = 1 << 9
	AlgAttrMethod     AlgAttributes = 1 << 10
)

// PermanentAttributes is TPMA_PERMANENT (Part 2, 8.6).
type PermanentAttributes uint32

// Permanent attributes.
const (
	PermanentOwnerAuthSet       PermanentAttributes = 1 << 0
	PermanentEndorsementAuthSet PermanentAttributes = 1 << 1
	PermanentLockoutAuthSet     PermanentAttributes = 1 << 2
	PermanentDisableClear       PermanentAttributes = 1 << 8
	PermanentInLockout          PermanentAttributes = 1 << 9
	PermanentTPMGeneratedEPS    PermanentAttributes = 1 << 10
)

// StartupClearAttributes is TPMA_STARTUP_CLEAR (Part 2, 8.7).
type StartupClearAttributes uint32

// Startup-clear attributes.
const (
	StartupPHEnable   StartupClearAttributes = 1 << 0
	StartupSHEnable   StartupClearAttributes = 1 << 1
	StartupEHEnable   StartupClearAttributes = 1 << 2
	StartupPHEnableNV StartupClearAttributes = 1 << 3
	StartupReadOnly   StartupClearAttributes = 1 << 4
	StartupOrderly    StartupClearAttributes = 1 << 31
)
