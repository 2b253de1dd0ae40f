// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"strings"

	"holdfast/tpm2"
)

// outputs are the fields of each command's response, in wire order (Part 3).
// "handle" is the response's handle; a field whose name ends in "Ticket" is a ticket, one
// that begins with "rest" takes what is left, u8, u16, u32 and u64 are numbers, and
// any other is a TPM2B.
var outputs = map[tpm2.CC][]string{}

// choiceless are the fields whose bytes a TPM has no choice in, if the
// sequence's keys came from outside.
var choiceless = map[tpm2.CC][]string{}

func init() {
	for _, line := range strings.Split(strings.TrimSpace(`
StartAuthSession handle nonceTPM
Create private public creationData creationHash creationTicket
CreatePrimary handle public creationData creationHash creationTicket name
CreateLoaded handle private public name
Load handle name
LoadExternal handle name!
ReadPublic public! name! qualifiedName
ActivateCredential certInfo
MakeCredential blob secret
Unseal outData
ObjectChangeAuth private
Duplicate encryptionKey duplicate seed
Rewrap duplicate seed
Import private
RSA_Encrypt outData
RSA_Decrypt message!
ECDH_KeyGen zPoint pubPoint
ECDH_ZGen outPoint!
ECC_Parameters rest!
ZGen_2Phase z1 z2
EncryptDecrypt outData! ivOut!
EncryptDecrypt2 outData! ivOut!
Hash outHash! validationTicket
HMAC outHMAC!
GetRandom randomBytes
HMAC_Start handle
HashSequenceStart handle
SequenceComplete result! validationTicket
EventSequenceComplete rest
Certify certifyInfo restSignature
CertifyCreation certifyInfo restSignature
Quote quoted restSignature
GetSessionAuditDigest auditInfo restSignature
GetCommandAuditDigest auditInfo restSignature
GetTime timeInfo restSignature
NV_Certify certifyInfo restSignature
Commit K L E u16counter
EC_Ephemeral Q u16counter
VerifySignature validationTicket
Sign restSignature
PCR_Event rest
PCR_Read u32counter rest!
PCR_Allocate rest
PolicySigned timeout policyTicket
PolicySecret timeout policyTicket
PolicyGetDigest policyDigest!
ContextSave rest
ContextLoad handle
ReadClock rest
GetCapability rest
GetTestResult rest
IncrementalSelfTest rest
NV_ReadPublic nvPublic! nvName!
NV_Read data!
`), "\n") {
		f := strings.Fields(line)
		cc, ok := codes[f[0]]
		if !ok {
			panic("tpmdiff: unknown command " + f[0])
		}
		for _, name := range f[1:] {
			plain := strings.TrimSuffix(name, "!")
			outputs[cc] = append(outputs[cc], plain)
			if plain != name {
				choiceless[cc] = append(choiceless[cc], plain)
			}
		}
	}
}

// codes are all command codes by name.
var codes = func() map[string]tpm2.CC {
	m := map[string]tpm2.CC{}
	for cc := tpm2.CCFirst; cc <= 0x200; cc++ {
		m[strings.TrimPrefix(cc.String(), "TPM2_")] = cc
	}
	return m
}()

// field reads one field.
func field(name string, r *tpm2.Reader) []byte {
	start := r.Offset()
	switch {
	case strings.HasPrefix(name, "rest"):
		r.Rest()
	case strings.HasSuffix(name, "Ticket"):
		r.U16()
		r.U32()
		r.Sized(1 << 15)
	case strings.HasPrefix(name, "u16"):
		r.U16()
	case strings.HasPrefix(name, "u32"):
		r.U32()
	default:
		r.Sized(1 << 15)
	}
	return append([]byte(nil), r.Since(start)...)
}
