// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"encoding/hex"
	"fmt"

	"holdfast/tpm2"
)

// Kind is a kind of attestation key, with the endorsement key that it is
// enrolled with and the storage key that keeps it.
type Kind string

// Kinds of attestation keys. MLDSA65 withstands a quantum computer in every
// part: the EK and the storage key are ML-KEM-768.
const (
	MLDSA65 Kind = "ML-DSA-65"
	ES256   Kind = "ES256"
)

// ParseKind reads a kind.
func ParseKind(s string) (Kind, error) {
	if k := Kind(s); k == MLDSA65 || k == ES256 {
		return k, nil
	}
	return "", fmt.Errorf("kind of attestation key: expected %s or %s, got %q", MLDSA65, ES256, s)
}

const storageAttributes = tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectRestricted | tpm2.ObjectDecrypt

var (
	aes128 = tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: tpm2.AlgCFB}
	aes256 = tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 256, Mode: tpm2.AlgCFB}
)

// akTemplate is the attestation key. It has an authorization value always
// (noDA: with 256 random bits nobody guesses it, and a stranger's wrong
// guesses must not lock the TPM); with a policy it is usable to quote only
// while the policy holds too.
func akTemplate(k Kind, policy []byte) tpm2.Public {
	p := tpm2.Public{
		NameAlg:    tpm2.AlgSHA256,
		Attributes: tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectNoDA | tpm2.ObjectRestricted | tpm2.ObjectSignEncrypt,
		AuthPolicy: policy,
	}
	if len(policy) == 0 {
		p.Attributes |= tpm2.ObjectUserWithAuth
	}
	if k == MLDSA65 {
		p.Type, p.Parms.MLDSA = tpm2.AlgMLDSA, tpm2.MLDSA65
		return p
	}
	p.Type, p.Parms.Curve = tpm2.AlgECC, tpm2.CurveP256
	p.Parms.Symmetric, p.Parms.KDF = tpm2.NoSym, tpm2.NoScheme
	p.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA256}
	return p
}

// parentTemplate is the storage key that keeps the AK: a primary key of the
// endorsement hierarchy, so that quotes carry the true firmwareVersion,
// resetCount and restartCount, which a TPM obfuscates for keys of other
// hierarchies (TPM Library Part 1, 36.7). It has no authorization; what it
// keeps has.
//
// The AK is not a primary key itself: whoever may use the hierarchy can make a
// primary key again, with an authorization value of his own.
func parentTemplate(k Kind) tpm2.Public {
	p := tpm2.Public{NameAlg: tpm2.AlgSHA256, Attributes: storageAttributes | tpm2.ObjectUserWithAuth | tpm2.ObjectNoDA}
	if k == MLDSA65 {
		p.Type, p.Parms.MLKEM, p.Parms.Symmetric = tpm2.AlgMLKEM, tpm2.MLKEM768, aes256
		return p
	}
	p.Type, p.Parms.Curve, p.Parms.Symmetric = tpm2.AlgECC, tpm2.CurveP256, aes128
	p.Parms.Scheme, p.Parms.KDF = tpm2.NoScheme, tpm2.NoScheme
	p.Point = tpm2.Point{X: make([]byte, 32), Y: make([]byte, 32)}
	return p
}

// ekProfile is an endorsement key as the TPM's maker certifies it.
type ekProfile struct {
	name        string
	template    tpm2.Public
	certificate tpm2.Handle // NV index of its certificate
	secret      bool        // used by PolicySecret(endorsement) instead of its empty authorization value
}

// ekOf is template L-2 of the TCG EK Credential Profile (B.3.4) for P-256, and
// the provisional ML-KEM-768 template of the high range, as swtpm makes it.
func ekOf(k Kind) ekProfile {
	if k == MLDSA65 {
		p := tpm2.Public{Type: tpm2.AlgMLKEM, NameAlg: tpm2.AlgSHA384, AuthPolicy: mustHex(policyB384),
			Attributes: storageAttributes | tpm2.ObjectUserWithAuth | tpm2.ObjectAdminWithPolicy}
		p.Parms.MLKEM, p.Parms.Symmetric = tpm2.MLKEM768, aes256
		return ekProfile{"ML-KEM-768", p, 0x01c00062, false}
	}
	d := tpm2.NewPolicyDigest(tpm2.AlgSHA256) // PolicyA
	d.Secret(tpm2.HandleName(tpm2.RHEndorsement), nil)
	p := tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, AuthPolicy: d.Sum(), Attributes: storageAttributes | tpm2.ObjectAdminWithPolicy}
	p.Parms.Curve, p.Parms.Symmetric, p.Parms.Scheme, p.Parms.KDF = tpm2.CurveP256, aes128, tpm2.NoScheme, tpm2.NoScheme
	p.Point = tpm2.Point{X: make([]byte, 32), Y: make([]byte, 32)}
	return ekProfile{"ECC-P256", p, 0x01c0000a, true}
}

// policyB384 is PolicyB of the EK Credential Profile (B.6.3) for SHA-384:
// PolicyOR of PolicySecret(endorsement) and PolicyAuthorizeNV of a fixed index.
const policyB384 = "b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12"

func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic("tpmquote: a constant is no hexadecimal number")
	}
	return b
}
