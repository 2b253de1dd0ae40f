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
	signer := tss.EKTemplate(tss.MLKEM768) // ML-DSA differs in type and use only
	signer.Type, signer.Parms = tpm2.AlgMLDSA, tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: tpm2.NoScheme, KDF: tpm2.NoScheme, MLDSA: tpm2.MLDSA65}
	signer.Attributes = signer.Attributes&^tpm2.ObjectDecrypt | tpm2.ObjectSignEncrypt
	return []Profile{
		{Kind: tss.RSA2048, Template: tss.EKTemplate(tss.RSA2048), Certificate: 0x01C00002, Persistent: 0x81010001, usage: x509.KeyUsageKeyEncipherment},
		{Kind: tss.ECCP256, Template: tss.EKTemplate(tss.ECCP256), Certificate: 0x01C0000A, Persistent: 0x81010002, usage: x509.KeyUsageKeyAgreement},
		{Kind: tss.MLKEM768, Template: tss.EKTemplate(tss.MLKEM768), Certificate: 0x01C00062, NVTemplate: 0x01C00063, Persistent: 0x81010062,
			PostQuantum: true, usage: x509.KeyUsageKeyEncipherment},
		{Kind: tss.MLDSA65, Template: signer, Certificate: 0x01C00072, NVTemplate: 0x01C00073, Persistent: 0x81010072,
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
