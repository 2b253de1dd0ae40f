// SPDX-License-Identifier: Apache-2.0

// Package ekcert gives a TPM what its maker would: endorsement keys with
// certificates in NV, here from a certification authority for tests. Call
// OpenCA, then Provision.
package ekcert

import (
	"crypto/x509"
	"fmt"

	"holdfast/tpm2"
	"holdfast/tss"
)

// Profile is an endorsement key and where a TPM keeps what belongs to it.
type Profile struct {
	Kind        tss.Kind
	Template    tpm2.Public
	Certificate tpm2.Handle // NV index of the certificate
	NVTemplate  tpm2.Handle // NV index of the template, 0 if the template is a published one
	Persistent  tpm2.Handle // where the key may be kept
	PostQuantum bool

	usage x509.KeyUsage
}

// Profiles returns the endorsement keys that Provision knows. RSA and ECC are
// the low-range keys L-1 and L-2 of the TCG EK Credential Profile (2.2.1.4,
// B.3.3, B.3.4). For ML-KEM and ML-DSA no profile is final; indices, handles
// and attributes are those with which swtpm's makers try them, so they are
// provisional.
func Profiles() []Profile {
	high := func(k tss.Kind, use tpm2.ObjectAttributes) tpm2.Public {
		p := tpm2.Public{NameAlg: tpm2.AlgSHA384, AuthPolicy: policyB384(),
			Attributes: tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectUserWithAuth |
				tpm2.ObjectAdminWithPolicy | tpm2.ObjectRestricted | use,
			Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: tpm2.NoScheme, KDF: tpm2.NoScheme}}
		if k == tss.MLKEM768 {
			p.Type, p.Parms.MLKEM, p.Parms.Symmetric = tpm2.AlgMLKEM, tpm2.MLKEM768, tss.AES256CFB
		} else {
			p.Type, p.Parms.MLDSA = tpm2.AlgMLDSA, tpm2.MLDSA65
		}
		return p
	}
	return []Profile{
		{Kind: tss.RSA2048, Template: tss.EKTemplate(tss.RSA2048), Certificate: 0x01C00002, Persistent: 0x81010001, usage: x509.KeyUsageKeyEncipherment},
		{Kind: tss.ECCP256, Template: tss.EKTemplate(tss.ECCP256), Certificate: 0x01C0000A, Persistent: 0x81010002, usage: x509.KeyUsageKeyAgreement},
		{Kind: tss.MLKEM768, Template: high(tss.MLKEM768, tpm2.ObjectDecrypt), Certificate: 0x01C00062, NVTemplate: 0x01C00063, Persistent: 0x81010062,
			PostQuantum: true, usage: x509.KeyUsageKeyEncipherment},
		{Kind: tss.MLDSA65, Template: high(tss.MLDSA65, tpm2.ObjectSignEncrypt), Certificate: 0x01C00072, NVTemplate: 0x01C00073, Persistent: 0x81010072,
			PostQuantum: true, usage: x509.KeyUsageDigitalSignature},
	}
}

// ProfileOf returns the profile of a kind: rsa2048, ecc256, mlkem768, mldsa65.
func ProfileOf(k tss.Kind) (Profile, error) {
	for _, p := range Profiles() {
		if p.Kind == k {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("ekcert: kind %q: expected rsa2048, ecc256, mlkem768 or mldsa65", string(k))
}

// policyB384 is PolicyB for SHA-384 (EK Credential Profile, B.6.3): PolicyOR of
// PolicySecret(endorsement) and PolicyAuthorizeNV of a fixed index.
func policyB384() []byte {
	return []byte{
		0xb2, 0x6e, 0x7d, 0x28, 0xd1, 0x1a, 0x50, 0xbc, 0x53, 0xd8, 0x82, 0xbc, 0xf5, 0xfd, 0x3a, 0x1a,
		0x07, 0x41, 0x48, 0xbb, 0x35, 0xd3, 0xb4, 0xe4, 0xcb, 0x1c, 0x0a, 0xd9, 0xbd, 0xe4, 0x19, 0xca,
		0xcb, 0x47, 0xba, 0x09, 0x69, 0x96, 0x46, 0x15, 0x0f, 0x9f, 0xc0, 0x00, 0xf3, 0xf8, 0x0e, 0x12,
	}
}
