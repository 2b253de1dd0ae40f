// SPDX-License-Identifier: Apache-2.0

package tpm2

import "fmt"

// CC is a command code, TPM_CC (Part 2, 6.5).
type CC uint32

// Command codes (Part 2, 6.5.2).
const (
	CCFirst                      CC = 0x11F
	CCNVUndefineSpaceSpecial     CC = 0x11F
	CCEvictControl               CC = 0x120
	CCHierarchyControl           CC = 0x121
	CCNVUndefineSpace            CC = 0x122
	CCChangeEPS                  CC = 0x124
	CCChangePPS                  CC = 0x125
	CCClear                      CC = 0x126
	CCClearControl               CC = 0x127
	CCClockSet                   CC = 0x128
	CCHierarchyChangeAuth        CC = 0x129
	CCNVDefineSpace              CC = 0x12A
	CCPCRAllocate                CC = 0x12B
	CCPCRSetAuthPolicy           CC = 0x12C
	CCPPCommands                 CC = 0x12D
	CCSetPrimaryPolicy           CC = 0x12E
	CCFieldUpgradeStart          CC = 0x12F
	CCClockRateAdjust            CC = 0x130
	CCCreatePrimary              CC = 0x131
	CCNVGlobalWriteLock          CC = 0x132
	CCGetCommandAuditDigest      CC = 0x133
	CCNVIncrement                CC = 0x134
	CCNVSetBits                  CC = 0x135
	CCNVExtend                   CC = 0x136
	CCNVWrite                    CC = 0x137
	CCNVWriteLock                CC = 0x138
	CCDictionaryAttackLockReset  CC = 0x139
	CCDictionaryAttackParameters CC = 0x13A
	CCNVChangeAuth               CC = 0x13B
	CCPCREvent                   CC = 0x13C
	CCPCRReset                   CC = 0x13D
	CCSequenceComplete           CC = 0x13E
	CCSetAlgorithmSet            CC = 0x13F
	CCSetCommandCodeAuditStatus  CC = 0x140
	CCFieldUpgradeData           CC = 0x141
	CCIncrementalSelfTest        CC = 0x142
	CCSelfTest                   CC = 0x143
	CCStartup                    CC = 0x144
	CCShutdown                   CC = 0x145
	CCStirRandom                 CC = 0x146
	CCActivateCredential         CC = 0x147
	CCCertify                    CC = 0x148
	CCPolicyNV                   CC = 0x149
	CCCertifyCreation            CC = 0x14A
	CCDuplicate                  CC = 0x14B
	CCGetTime                    CC = 0x14C
	CCGetSessionAuditDigest      CC = 0x14D
	CCNVRead                     CC = 0x14E
	CCNVReadLock                 CC = 0x14F
	CCObjectChangeAuth           CC = 0x150
	CCPolicySecret               CC = 0x151
	CCRewrap                     CC = 0x152
	CCCreate                     CC = 0x153
	CCECDHZGen                   CC = 0x154
	CCHMAC                       CC = 0x155 // also TPM_CC_MAC
	CCImport                     CC = 0x156
	CCLoad                       CC = 0x157
	CCQuote                      CC = 0x158
	CCRSADecrypt                 CC = 0x159
	CCHMACStart                  CC = 0x15B // also TPM_CC_MAC_Start
	CCSequenceUpdate             CC = 0x15C
	CCSign                       CC = 0x15D
	CCUnseal                     CC = 0x15E
	CCPolicySigned               CC = 0x160
	CCContextLoad                CC = 0x161
	CCContextSave                CC = 0x162
	CCECDHKeyGen                 CC = 0x163
	CCEncryptDecrypt             CC = 0x164
	CCFlushContext               CC = 0x165
	CCLoadExternal               CC = 0x167
	CCMakeCredential             CC = 0x168
	CCNVReadPublic               CC = 0x169
	CCPolicyAuthorize            CC = 0x16A
	CCPolicyAuthValue            CC = 0x16B
	CCPolicyCommandCode          CC = 0x16C
	CCPolicyCounterTimer         CC = 0x16D
	CCPolicyCpHash               CC = 0x16E
	CCPolicyLocality             CC = 0x16F
	CCPolicyNameHash             CC = 0x170
	CCPolicyOR                   CC = 0x171
	CCPolicyTicket               CC = 0x172
	CCReadPublic                 CC = 0x173
	CCRSAEncrypt                 CC = 0x174
	CCStartAuthSession           CC = 0x176
	CCVerifySignature            CC = 0x177
	CCECCParameters              CC = 0x178
	CCFirmwareRead               CC = 0x179
	CCGetCapability              CC = 0x17A
	CCGetRandom                  CC = 0x17B
	CCGetTestResult              CC = 0x17C
	CCHash                       CC = 0x17D
	CCPCRRead                    CC = 0x17E
	CCPolicyPCR                  CC = 0x17F
	CCPolicyRestart              CC = 0x180
	CCReadClock                  CC = 0x181
	CCPCRExtend                  CC = 0x182
	CCPCRSetAuthValue            CC = 0x183
	CCNVCertify                  CC = 0x184
	CCEventSequenceComplete      CC = 0x185
	CCHashSequenceStart          CC = 0x186
	CCPolicyPhysicalPresence     CC = 0x187
	CCPolicyDuplicationSelect    CC = 0x188
	CCPolicyGetDigest            CC = 0x189
	CCTestParms                  CC = 0x18A
	CCCommit                     CC = 0x18B
	CCPolicyPassword             CC = 0x18C
	CCZGen2Phase                 CC = 0x18D
	CCECEphemeral                CC = 0x18E
	CCPolicyNvWritten            CC = 0x18F
	CCPolicyTemplate             CC = 0x190
	CCCreateLoaded               CC = 0x191
	CCPolicyAuthorizeNV          CC = 0x192
	CCEncryptDecrypt2            CC = 0x193
	CCACGetCapability            CC = 0x194
	CCACSend                     CC = 0x195
	CCPolicyACSendSelect         CC = 0x196
	CCCertifyX509                CC = 0x197
	CCACTSetTimeout              CC = 0x198
	CCECCEncrypt                 CC = 0x199
	CCECCDecrypt                 CC = 0x19A
	CCPolicyCapability           CC = 0x19B
	CCPolicyParameters           CC = 0x19C
	CCNVDefineSpace2             CC = 0x19D
	CCNVReadPublic2              CC = 0x19E
	CCSetCapability              CC = 0x19F
	CCReadOnlyControl            CC = 0x1A0
	CCPolicyTransportSPDM        CC = 0x1A1
	CCVerifySequenceComplete     CC = 0x1A3
	CCSignSequenceComplete       CC = 0x1A4
	CCVerifyDigestSignature      CC = 0x1A5
	CCSignDigest                 CC = 0x1A6
	CCEncapsulate                CC = 0x1A7
	CCDecapsulate                CC = 0x1A8
	CCVerifySequenceStart        CC = 0x1A9
	CCSignSequenceStart          CC = 0x1AA
	CCLast                       CC = 0x1AA

	// CCVend is the bit that marks vendor commands (Part 2, 6.5.1).
	CCVend CC = 0x20000000

	// Random Oblivious Transfer, commands of this project's TPM.
	CCROTMsg1 CC = CCVend | 1
	CCROTMsg2 CC = CCVend | 2
	CCROTMsg3 CC = CCVend | 3
	CCROTMsg4 CC = CCVend | 4

	// Data encryption with a KEM key, likewise.
	CCKEMEncrypt CC = CCVend | 5
	CCKEMDecrypt CC = CCVend | 6
)

var ccNames = map[CC]string{
	CCNVUndefineSpaceSpecial: "NV_UndefineSpaceSpecial", CCEvictControl: "EvictControl", CCHierarchyControl: "HierarchyControl",
	CCNVUndefineSpace: "NV_UndefineSpace", CCChangeEPS: "ChangeEPS", CCChangePPS: "ChangePPS", CCClear: "Clear", CCClearControl: "ClearControl",
	CCClockSet: "ClockSet", CCHierarchyChangeAuth: "HierarchyChangeAuth", CCNVDefineSpace: "NV_DefineSpace", CCPCRAllocate: "PCR_Allocate",
	CCPCRSetAuthPolicy: "PCR_SetAuthPolicy", CCPPCommands: "PP_Commands", CCSetPrimaryPolicy: "SetPrimaryPolicy",
	CCFieldUpgradeStart: "FieldUpgradeStart", CCClockRateAdjust: "ClockRateAdjust", CCCreatePrimary: "CreatePrimary",
	CCNVGlobalWriteLock: "NV_GlobalWriteLock", CCGetCommandAuditDigest: "GetCommandAuditDigest", CCNVIncrement: "NV_Increment",
	CCNVSetBits: "NV_SetBits", CCNVExtend: "NV_Extend", CCNVWrite: "NV_Write", CCNVWriteLock: "NV_WriteLock",
	CCDictionaryAttackLockReset: "DictionaryAttackLockReset", CCDictionaryAttackParameters: "DictionaryAttackParameters",
	CCNVChangeAuth: "NV_ChangeAuth", CCPCREvent: "PCR_Event", CCPCRReset: "PCR_Reset", CCSequenceComplete: "SequenceComplete",
	CCSetAlgorithmSet: "SetAlgorithmSet", CCSetCommandCodeAuditStatus: "SetCommandCodeAuditStatus", CCFieldUpgradeData: "FieldUpgradeData",
	CCIncrementalSelfTest: "IncrementalSelfTest", CCSelfTest: "SelfTest", CCStartup: "Startup", CCShutdown: "Shutdown", CCStirRandom: "StirRandom",
	CCActivateCredential: "ActivateCredential", CCCertify: "Certify", CCPolicyNV: "PolicyNV", CCCertifyCreation: "CertifyCreation",
	CCDuplicate: "Duplicate", CCGetTime: "GetTime", CCGetSessionAuditDigest: "GetSessionAuditDigest", CCNVRead: "NV_Read",
	CCNVReadLock: "NV_ReadLock", CCObjectChangeAuth: "ObjectChangeAuth", CCPolicySecret: "PolicySecret", CCRewrap: "Rewrap", CCCreate: "Create",
	CCECDHZGen: "ECDH_ZGen", CCHMAC: "HMAC", CCImport: "Import", CCLoad: "Load", CCQuote: "Quote", CCRSADecrypt: "RSA_Decrypt",
	CCHMACStart: "HMAC_Start", CCSequenceUpdate: "SequenceUpdate", CCSign: "Sign", CCUnseal: "Unseal", CCPolicySigned: "PolicySigned",
	CCContextLoad: "ContextLoad", CCContextSave: "ContextSave", CCECDHKeyGen: "ECDH_KeyGen", CCEncryptDecrypt: "EncryptDecrypt",
	CCFlushContext: "FlushContext", CCLoadExternal: "LoadExternal", CCMakeCredential: "MakeCredential", CCNVReadPublic: "NV_ReadPublic",
	CCPolicyAuthorize: "PolicyAuthorize", CCPolicyAuthValue: "PolicyAuthValue", CCPolicyCommandCode: "PolicyCommandCode",
	CCPolicyCounterTimer: "PolicyCounterTimer", CCPolicyCpHash: "PolicyCpHash", CCPolicyLocality: "PolicyLocality",
	CCPolicyNameHash: "PolicyNameHash", CCPolicyOR: "PolicyOR", CCPolicyTicket: "PolicyTicket", CCReadPublic: "ReadPublic",
	CCRSAEncrypt: "RSA_Encrypt", CCStartAuthSession: "StartAuthSession", CCVerifySignature: "VerifySignature",
	CCECCParameters: "ECC_Parameters", CCFirmwareRead: "FirmwareRead", CCGetCapability: "GetCapability", CCGetRandom: "GetRandom",
	CCGetTestResult: "GetTestResult", CCHash: "Hash", CCPCRRead: "PCR_Read", CCPolicyPCR: "PolicyPCR", CCPolicyRestart: "PolicyRestart",
	CCReadClock: "ReadClock", CCPCRExtend: "PCR_Extend", CCPCRSetAuthValue: "PCR_SetAuthValue", CCNVCertify: "NV_Certify",
	CCEventSequenceComplete: "EventSequenceComplete", CCHashSequenceStart: "HashSequenceStart",
	CCPolicyPhysicalPresence: "PolicyPhysicalPresence", CCPolicyDuplicationSelect: "PolicyDuplicationSelect",
	CCPolicyGetDigest: "PolicyGetDigest", CCTestParms: "TestParms", CCCommit: "Commit", CCPolicyPassword: "PolicyPassword",
	CCZGen2Phase: "ZGen_2Phase", CCECEphemeral: "EC_Ephemeral", CCPolicyNvWritten: "PolicyNvWritten", CCPolicyTemplate: "PolicyTemplate",
	CCCreateLoaded: "CreateLoaded", CCPolicyAuthorizeNV: "PolicyAuthorizeNV", CCEncryptDecrypt2: "EncryptDecrypt2",
	CCACGetCapability: "AC_GetCapability", CCACSend: "AC_Send", CCPolicyACSendSelect: "Policy_AC_SendSelect", CCCertifyX509: "CertifyX509",
	CCACTSetTimeout: "ACT_SetTimeout", CCECCEncrypt: "ECC_Encrypt", CCECCDecrypt: "ECC_Decrypt", CCPolicyCapability: "PolicyCapability",
	CCPolicyParameters: "PolicyParameters", CCNVDefineSpace2: "NV_DefineSpace2", CCNVReadPublic2: "NV_ReadPublic2",
	CCSetCapability: "SetCapability", CCReadOnlyControl: "ReadOnlyControl", CCPolicyTransportSPDM: "PolicyTransportSPDM",
	CCVerifySequenceComplete: "VerifySequenceComplete", CCSignSequenceComplete: "SignSequenceComplete",
	CCVerifyDigestSignature: "VerifyDigestSignature", CCSignDigest: "SignDigest", CCEncapsulate: "Encapsulate", CCDecapsulate: "Decapsulate",
	CCVerifySequenceStart: "VerifySequenceStart", CCSignSequenceStart: "SignSequenceStart",
	CCROTMsg1: "ROT_MSG1", CCROTMsg2: "ROT_MSG2", CCROTMsg3: "ROT_MSG3", CCROTMsg4: "ROT_MSG4",
	CCKEMEncrypt: "KEM_Encrypt", CCKEMDecrypt: "KEM_Decrypt",
}

// String returns the command's name without its TPM2_ prefix.
func (c CC) String() string {
	if n, ok := ccNames[c]; ok {
		return n
	}
	return fmt.Sprintf("CC(0x%08x)", uint32(c))
}
