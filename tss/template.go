// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"encoding/hex"
	"fmt"

	"holdfast/tpm2"
)

// Kind is an algorithm with its parameters, as commonly used.
type Kind string

// Kinds of keys.
const (
	RSA2048   Kind = "rsa2048"
	RSA3072   Kind = "rsa3072"
	ECCP256   Kind = "ecc256"
	ECCP384   Kind = "ecc384"
	MLKEM768  Kind = "mlkem768"
	MLKEM1024 Kind = "mlkem1024"
	MLDSA44   Kind = "mldsa44"
	MLDSA65   Kind = "mldsa65"
	MLDSA87   Kind = "mldsa87"
	MLKEM512  Kind = "mlkem512"
	Ed25519   Kind = "ed25519"
	Ed448     Kind = "ed448"
	X25519    Kind = "x25519"
	X448      Kind = "x448"
)

// PostQuantum says whether keys of the kind withstand a quantum computer as
// far as is known.
func (k Kind) PostQuantum() bool { return len(k) > 2 && k[:2] == "ml" }

// setKind fills in type, key size or parameter set, and null schemes.
func (k Kind) set(p *tpm2.Public) error {
	q := &p.Parms
	q.Symmetric, q.Scheme, q.KDF = tpm2.NoSym, tpm2.NoScheme, tpm2.NoScheme
	switch k {
	case RSA2048, RSA3072:
		p.Type, q.KeyBits = tpm2.AlgRSA, 2048
		if k == RSA3072 {
			q.KeyBits = 3072
		}
	case ECCP256:
		p.Type, q.Curve = tpm2.AlgECC, tpm2.CurveP256
	case ECCP384:
		p.Type, q.Curve = tpm2.AlgECC, tpm2.CurveP384
	case Ed25519, X25519:
		p.Type, q.Curve = tpm2.AlgECC, tpm2.Curve25519
	case Ed448, X448:
		p.Type, q.Curve = tpm2.AlgECC, tpm2.Curve448
	case MLKEM512:
		p.Type, q.MLKEM = tpm2.AlgMLKEM, tpm2.MLKEM512
	case MLKEM768:
		p.Type, q.MLKEM = tpm2.AlgMLKEM, tpm2.MLKEM768
	case MLKEM1024:
		p.Type, q.MLKEM = tpm2.AlgMLKEM, tpm2.MLKEM1024
	case MLDSA44:
		p.Type, q.MLDSA = tpm2.AlgMLDSA, tpm2.MLDSA44
	case MLDSA65:
		p.Type, q.MLDSA = tpm2.AlgMLDSA, tpm2.MLDSA65
	case MLDSA87:
		p.Type, q.MLDSA = tpm2.AlgMLDSA, tpm2.MLDSA87
	default:
		return fmt.Errorf("tss: unknown kind of key %q", string(k))
	}
	return nil
}

// storageSym returns the cipher of a storage key as strong as the kind.
func (k Kind) storageSym() tpm2.SymDef {
	switch k {
	case ECCP384, MLKEM768, MLKEM1024, RSA3072, X448:
		return AES256CFB
	}
	return AES128CFB
}

// nameAlg returns the hash that goes with the kind's strength.
func (k Kind) nameAlg() tpm2.Alg {
	switch k {
	case ECCP384, MLKEM768, RSA3072, MLDSA65:
		return tpm2.AlgSHA384
	case MLKEM1024, MLDSA87, Ed448, X448:
		return tpm2.AlgSHA512
	}
	return tpm2.AlgSHA256
}

const fixedOwnKey = tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin

// must panics on a kind that is a programming error: the exported functions
// take constants of this package.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// SRKTemplate is the storage root key of a kind: RSA2048 and ECCP256 as in the
// TCG Provisioning Guidance (7.5.1), the others after their pattern. It panics
// on a kind that cannot decrypt.
func SRKTemplate(k Kind) tpm2.Public {
	p := tpm2.Public{NameAlg: tpm2.AlgSHA256, Attributes: fixedOwnKey | tpm2.ObjectUserWithAuth | tpm2.ObjectNoDA | tpm2.ObjectRestricted | tpm2.ObjectDecrypt}
	must(k.set(&p))
	if p.Type == tpm2.AlgMLDSA || k.edwards() {
		panic("tss: an SRK of kind " + string(k) + ": expected a kind that decrypts")
	}
	if k != RSA2048 && k != ECCP256 {
		p.NameAlg = k.nameAlg()
	}
	p.Parms.Symmetric = k.storageSym()
	switch k { // the published templates have a unique field of zeros
	case RSA2048:
		p.Unique = make([]byte, 256)
	case ECCP256:
		p.Point = tpm2.Point{X: make([]byte, 32), Y: make([]byte, 32)}
	}
	return p
}

// EKTemplate is the endorsement key of a kind that decrypts. RSA2048 and ECCP256
// are the low-range templates L-1 and L-2 of the TCG EK Credential Profile
// (B.3.3, B.3.4), whose use needs PolicySecret(endorsement), see EKAuth. The
// other kinds have the high-range form (B.4): empty unique, the authValue may be
// used, and PolicyB. For ML-KEM no profile is final; this is how swtpm's makers
// try it, and what `tpm provision` and `attest enroll` use.
func EKTemplate(k Kind) tpm2.Public {
	p := tpm2.Public{NameAlg: tpm2.AlgSHA256, Attributes: fixedOwnKey | tpm2.ObjectAdminWithPolicy | tpm2.ObjectRestricted | tpm2.ObjectDecrypt}
	must(k.set(&p))
	if p.Type == tpm2.AlgMLDSA || k.edwards() {
		panic("tss: an EK of kind " + string(k) + ": expected a kind that decrypts")
	}
	if !k.lowRangeEK() {
		p.NameAlg = k.nameAlg()
		p.Attributes |= tpm2.ObjectUserWithAuth
	}
	p.Parms.Symmetric = k.storageSym()
	p.AuthPolicy = policyA(p.NameAlg)
	if !k.lowRangeEK() {
		d := tpm2.NewPolicyDigest(p.NameAlg)
		d.OR(policyA(p.NameAlg), policyC[p.NameAlg])
		p.AuthPolicy = d.Sum()
	}
	switch k {
	case RSA2048:
		p.Unique = make([]byte, 256)
	case ECCP256:
		p.Point = tpm2.Point{X: make([]byte, 32), Y: make([]byte, 32)}
	}
	return p
}

func (k Kind) lowRangeEK() bool { return k == RSA2048 || k == ECCP256 }

// policyA is PolicySecret(endorsement) (EK Credential Profile, B.6.2).
func policyA(alg tpm2.Alg) []byte {
	d := tpm2.NewPolicyDigest(alg)
	d.Secret(tpm2.HandleName(tpm2.RHEndorsement), nil)
	return d.Sum()
}

// policyC is PolicyAuthorizeNV of the index that the EK Credential Profile sets
// aside for each hash (B.6.4). PolicyB is PolicyOR of policyA and this.
var policyC = map[tpm2.Alg][]byte{
	tpm2.AlgSHA256: mustHex("3767e2edd43ff45a3a7e1eaefcef78643dca964632e7aad82c673a30d8633fde"),
	tpm2.AlgSHA384: mustHex("d6032ce61f2fb3c240eb3cf6a33237ef2b6a16f4293c22b455e261cffd217ad5b4947c2d73e63005eed2dc2b3593d165"),
	tpm2.AlgSHA512: mustHex("589ee1e146544716e8deafe6db247b01b81e9f9c7dd16b814aa159138749105fba5388dd1dea702f35240c184933121e2c61b8f50d3ef91393a49a38c3f73fc8"),
}

func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	must(err)
	return b
}

// EKAuth starts a policy session that satisfies the policy of EKTemplate(k).
// It is good for one command; close it afterwards.
func (t *TPM) EKAuth(k Kind, endorsement []byte) (*Session, error) {
	alg := EKTemplate(k).NameAlg
	s, err := t.StartSession(SessionOptions{Kind: tpm2.SEPolicy, Hash: alg})
	if err != nil {
		return nil, err
	}
	if err = t.PolicySecret(Endorsement(endorsement), s, nil); err == nil && !k.lowRangeEK() {
		err = t.PolicyOR(s, policyA(alg), policyC[alg])
	}
	if err != nil {
		_ = t.Close(s)
		return nil, err
	}
	return s, nil
}

// AKTemplate is an attestation key of a kind that signs: restricted, so that
// it signs only what the TPM states, and with its authValue.
func AKTemplate(k Kind) tpm2.Public {
	p := SigningTemplate(k)
	p.Attributes |= tpm2.ObjectRestricted
	return p
}

// WithPolicy returns the template with a policy. If withAuth is false, the
// authValue alone does not do any more.
func WithPolicy(p tpm2.Public, policy []byte, withAuth bool) tpm2.Public {
	p.AuthPolicy = policy
	if !withAuth {
		p.Attributes &^= tpm2.ObjectUserWithAuth
	}
	return p
}

// edwards says whether keys of the kind are for EdDSA.
func (k Kind) edwards() bool { return k == Ed25519 || k == Ed448 }

// SigningTemplate is a signing key of a kind: RSASSA or ECDSA with SHA-256 (or
// SHA-384 for the larger ones), pure EdDSA, or pure ML-DSA.
func SigningTemplate(k Kind) tpm2.Public {
	p := tpm2.Public{NameAlg: tpm2.AlgSHA256, Attributes: fixedOwnKey | tpm2.ObjectUserWithAuth | tpm2.ObjectSignEncrypt}
	must(k.set(&p))
	hash := k.nameAlg()
	switch {
	case k.edwards():
		p.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgEdDSA}
		return p
	case k == X25519 || k == X448:
		panic("tss: a signing key of kind " + string(k) + ": expected a kind that signs")
	}
	switch p.Type {
	case tpm2.AlgRSA:
		p.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgRSASSA, Hash: hash}
	case tpm2.AlgECC:
		p.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: hash}
	case tpm2.AlgMLDSA:
	default:
		panic("tss: a signing key of kind " + string(k) + ": expected a kind that signs")
	}
	return p
}

// KEMTemplate is an ML-KEM key for Encapsulate and Decapsulate, or one of X25519
// or X448 for them (DHKEM) and for ECDH.
func KEMTemplate(k Kind) tpm2.Public {
	p := tpm2.Public{NameAlg: tpm2.AlgSHA256, Attributes: fixedOwnKey | tpm2.ObjectUserWithAuth | tpm2.ObjectDecrypt}
	must(k.set(&p))
	switch {
	case p.Type == tpm2.AlgMLKEM:
	case k == X25519 || k == X448:
		p.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgECDH, Hash: tpm2.AlgSHA256}
		p.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgHKDF, Hash: tpm2.AlgSHA256}
	default:
		panic("tss: a KEM key of kind " + string(k) + ": expected mlkem512, mlkem768, mlkem1024, x25519 or x448")
	}
	return p
}

// SealTemplate is a sealed data object. With a policy, the authValue alone
// does not unseal it.
func SealTemplate(policy []byte) tpm2.Public {
	p := tpm2.Public{Type: tpm2.AlgKeyedHash, NameAlg: tpm2.AlgSHA256, Attributes: tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectUserWithAuth}
	p.Parms.Scheme = tpm2.NoScheme
	if policy != nil {
		p = WithPolicy(p, policy, false)
	}
	return p
}
