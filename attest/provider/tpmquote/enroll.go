// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/tpm2"
	"holdfast/tss"
	"holdfast/tss/ekcert"
)

// Enrolment has two sides. The Attester makes an Attester value, which holds
// the loaded keys, and sends its Identity; the Verifier answers with a
// Challenge, which only a TPM with both keys can Answer; then the Verifier
// Completes the record. Both sides may be one program, as in `holdfast attest
// enroll`; then the record is as good as the machine was at that time.

// NewKeyOptions say how CreateKey makes an attestation key.
type NewKeyOptions struct {
	Kind            Kind
	Secret          []byte   // SecretSize bytes
	PolicyPCRs      []string // if not empty, the key quotes only while these PCRs have their present values
	EndorsementAuth []byte   // of the endorsement hierarchy; usually empty
}

// CreateKey makes an attestation key, random and bound to this TPM.
func CreateKey(t *tss.TPM, o NewKeyOptions) (*KeyFile, error) {
	if len(o.Secret) != SecretSize {
		return nil, fmt.Errorf("attestation key: secret: expected %d bytes, got %d", SecretSize, len(o.Secret))
	}
	sel, err := ParseSelection(o.PolicyPCRs)
	if err != nil {
		return nil, err
	}
	var policy []byte
	if len(sel) > 0 {
		digest, err := t.PCRDigest(tpm2.AlgSHA256, sel)
		if err != nil {
			return nil, fmt.Errorf("attestation key: reading the PCRs of its policy: %w", err)
		}
		d := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
		d.PCR(sel, digest)
		d.AuthValue()
		policy = d.Sum()
	}
	parent, err := t.CreatePrimary(tss.Endorsement(o.EndorsementAuth), parentTemplate(o.Kind), nil)
	if err != nil {
		return nil, fmt.Errorf("attestation key: making its storage key (%s): %w", o.Kind, err)
	}
	defer t.FlushContext(parent.Handle)
	c, err := t.Create(parent.Ref(nil), akTemplate(o.Kind, policy), &tss.Secret{Auth: o.Secret})
	if err != nil {
		return nil, fmt.Errorf("attestation key: making it (%s): %w", o.Kind, err)
	}
	public, err := tpm2.Encode(&c.Public)
	if err != nil {
		return nil, err
	}
	return &KeyFile{Version: 1, Kind: o.Kind, Public: public, Private: c.Private, PolicyPCRs: o.PolicyPCRs}, nil
}

// Identity is what an Attester says of itself before it is believed.
type Identity struct {
	Kind          Kind
	AK            []byte // TPMT_PUBLIC
	QualifiedName []byte // of the AK
	EK            []byte // TPMT_PUBLIC
	EKType        string
	Certificate   []byte // DER, of the EK; nil if the TPM has none
}

// Attester is the Attester's side of an enrolment. Close it.
type Attester struct {
	Identity Identity

	t      *tss.TPM
	ak     *tss.Key
	ek     *tss.Primary
	ekp    ekProfile
	secret []byte
	auth   []byte // of the endorsement hierarchy
	owned  bool   // the AK is transient and ours to flush
}

// NewAttester loads the attestation key and makes the endorsement key.
func NewAttester(t *tss.TPM, k *KeyFile, secret, endorsementAuth []byte) (*Attester, error) {
	ak, owned, err := loadKey(t, k, endorsementAuth)
	if err != nil {
		return nil, err
	}
	a := &Attester{t: t, ak: ak, owned: owned, ekp: ekOf(k.Kind), secret: secret, auth: endorsementAuth}
	_, qn, err := t.ReadPublic(ak.Handle)
	if err == nil {
		a.ek, err = t.CreatePrimary(tss.Endorsement(endorsementAuth), a.ekp.template, nil)
	}
	var ek []byte
	if err == nil {
		ek, err = tpm2.Encode(&a.ek.Key.Public)
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("enrolment: endorsement key %s: %w", a.ekp.name, err)
	}
	a.Identity = Identity{Kind: k.Kind, AK: k.Public, QualifiedName: qn, EK: ek, EKType: a.ekp.name, Certificate: ekCertificate(t, a.ekp.certificate)}
	return a, nil
}

// ekCertificate reads the EK's certificate; TPMs without one are common, so
// that every failure means nil.
func ekCertificate(t *tss.TPM, index tpm2.Handle) []byte {
	i, err := t.NVReadPublic(index)
	if err != nil {
		return nil
	}
	b, err := t.NVRead(i.Ref(nil), i.Ref(nil), int(i.Public.DataSize), 0)
	if err != nil {
		return nil
	}
	return derPrefix(b)
}

// derPrefix cuts the filling that some makers put after a certificate: what
// counts is the outer SEQUENCE with a length of two bytes.
func derPrefix(b []byte) []byte {
	if len(b) < 4 || b[0] != 0x30 || b[1] != 0x82 {
		return nil
	}
	n := 4 + int(b[2])<<8 + int(b[3])
	if n > len(b) {
		return nil
	}
	return b[:n]
}

// Answer recovers the challenge's secret: the TPM does so only if the AK that
// the challenge names is loaded beside the EK that it is encrypted to
// (TPM2_ActivateCredential, TPM Library Part 3, 12.5).
func (a *Attester) Answer(c *Challenge) ([]byte, error) {
	ek := a.ek.Ref(nil)
	if a.ekp.secret {
		s, err := a.t.StartSession(tss.SessionOptions{Kind: tpm2.SEPolicy, Hash: tpm2.AlgSHA256})
		if err != nil {
			return nil, fmt.Errorf("enrolment: %w", err)
		}
		defer a.t.Close(s)
		if err := a.t.PolicySecret(tss.Endorsement(a.auth), s, nil); err != nil {
			return nil, fmt.Errorf("enrolment: the endorsement key's policy: %w", err)
		}
		ek = a.ek.Use(s.With(nil))
	}
	s, err := a.t.StartSession(tss.SessionOptions{Kind: tpm2.SEHMAC})
	if err != nil {
		return nil, fmt.Errorf("enrolment: %w", err)
	}
	defer a.t.Close(s)
	out, err := a.t.ActivateCredential(a.ak.Use(s.With(a.secret)), ek, c.IDObject, c.EncryptedSecret)
	if err != nil {
		return nil, fmt.Errorf("enrolment: the TPM does not answer the challenge: %w", err)
	}
	return append([]byte(nil), out...), nil
}

// Close flushes what the enrolment loaded.
func (a *Attester) Close() error {
	var errs []error
	if a.owned {
		errs = append(errs, a.t.FlushContext(a.ak.Handle))
	}
	if a.ek != nil {
		errs = append(errs, a.t.FlushContext(a.ek.Handle))
	}
	return errors.Join(errs...)
}

// Challenge is what the Verifier sends.
type Challenge struct {
	IDObject        []byte // TPMS_ID_OBJECT
	EncryptedSecret []byte // content of a TPM2B_ENCRYPTED_SECRET
}

// Verifier is the Verifier's side of one enrolment.
type Verifier struct {
	// Roots, if not nil, are the makers that Complete demands a certificate of.
	Roots *ekcert.Makers

	id     Identity
	ekName []byte
	secret []byte
}

// challengeSize is the size of the challenge's secret in bytes.
const challengeSize = 32

// ekMust: the EK decrypts nothing but what the TPM itself understands, and
// cannot leave it; otherwise an answer would prove nothing.
const ekMust = tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectRestricted | tpm2.ObjectDecrypt

// NewChallenge checks an identity and makes a challenge for it
// (TPM2_MakeCredential, in software).
func NewChallenge(id Identity) (*Verifier, *Challenge, error) {
	akName, _, err := verify.CheckAK(id.AK)
	if err != nil {
		return nil, nil, fmt.Errorf("enrolment: %w", err)
	}
	var ek tpm2.Public
	if err := tpm2.Decode(id.EK, &ek); err != nil {
		return nil, nil, fmt.Errorf("enrolment: endorsement key: expected a TPMT_PUBLIC: %w", err)
	}
	if !ek.Attributes.Has(ekMust) || ek.Attributes&tpm2.ObjectSignEncrypt != 0 {
		return nil, nil, fmt.Errorf("enrolment: endorsement key: attributes: expected %#x and no signing, got %#x", uint32(ekMust), uint32(ek.Attributes))
	}
	v := &Verifier{id: id, secret: make([]byte, challengeSize)}
	if v.ekName, err = ek.Name(); err != nil {
		return nil, nil, err
	}
	if _, err := rand.Read(v.secret); err != nil {
		return nil, nil, err
	}
	c := &Challenge{}
	if c.IDObject, c.EncryptedSecret, err = tss.MakeCredential(&ek, akName, v.secret); err != nil {
		return nil, nil, fmt.Errorf("enrolment: %w", err)
	}
	return v, c, nil
}

// ErrNotProved says that the AK and the EK are not in one TPM.
var ErrNotProved = errors.New("enrolment refused: the answer does not prove that attestation key and endorsement key are in one TPM")

// Complete checks the answer and returns the record to pin. A second answer is
// not accepted.
func (v *Verifier) Complete(answer []byte, environment, machine string, now time.Time) (trust.AK, error) {
	secret := v.secret
	v.secret = nil
	defer clear(secret)
	if len(secret) != challengeSize || subtle.ConstantTimeCompare(secret, answer) != 1 {
		return trust.AK{}, ErrNotProved
	}
	ak := trust.AK{Environment: environment, Public: v.id.AK, QualifiedName: v.id.QualifiedName, Method: trust.MethodActivation,
		Enrolled: now.UTC().Truncate(time.Second), Machine: machine, EK: trust.EK{Name: v.ekName, Type: v.id.EKType}}
	if v.id.Certificate != nil {
		d := sha256.Sum256(v.id.Certificate)
		ak.EK.CertificateSHA256 = d[:]
	}
	if v.Roots != nil {
		var ek tpm2.Public
		if err := tpm2.Decode(v.id.EK, &ek); err != nil {
			return trust.AK{}, fmt.Errorf("enrolment: endorsement key: expected a TPMT_PUBLIC: %w", err)
		}
		root, err := v.Roots.Check(v.id.Certificate, &ek, now)
		if err != nil {
			return trust.AK{}, fmt.Errorf("enrolment refused: key of type %s: %w", v.id.EKType, err)
		}
		ak.EK.RootSHA256 = root[:]
	}
	if _, err := trust.New([]trust.AK{ak}, nil); err != nil {
		return trust.AK{}, err
	}
	return ak, nil
}
