// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"bytes"
	encasn1 "encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
)

// TSS2 is a key that is of use only to its TPM: the content of a file of PEM
// type TSS2 PRIVATE KEY ("ASN.1 Specification for TPM 2.0 Key Files",
// draft-bottomley-tpm2-keys). Policies in such files are not supported: a file
// that has them is refused.
type TSS2 struct {
	Type        TSS2Type
	EmptyAuth   bool        // the key needs no authorization value
	RSAParent   bool        // with a hierarchy as Parent: its primary key is RSA
	Parent      tpm2.Handle // persistent handle, or a hierarchy (see ParentTemplate)
	Secret      []byte      // Importable: the content of the TPM2B_ENCRYPTED_SECRET
	Description string      // may be empty
	Public      tpm2.Public
	Private     []byte // the content of the TPM2B_PRIVATE
}

// TSS2Type says how the key gets into the TPM.
type TSS2Type int

// Types of key files.
const (
	Loadable   TSS2Type = 3 // by TPM2_Load
	Importable TSS2Type = 4 // by TPM2_Import, then TPM2_Load
	Sealed     TSS2Type = 5 // sealed data, by TPM2_Load
)

func (t TSS2Type) oid() encasn1.ObjectIdentifier {
	return encasn1.ObjectIdentifier{2, 23, 133, 10, 1, int(t)}
}

// Tags of the optional fields, all EXPLICIT.
const (
	tagEmptyAuth = iota
	tagPolicy
	tagSecret
	tagAuthPolicy
	tagDescription
	tagRSAParent
)

func explicit(n uint8) asn1.Tag { return asn1.Tag(n).ContextSpecific().Constructed() }

// ParentTemplate returns the template of the primary key that a hierarchy as
// Parent stands for: the storage root key in the high-range form, whose unique
// field is empty.
func (k *TSS2) ParentTemplate() tpm2.Public {
	p := tpm2.Public{
		Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256,
		Attributes: tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectUserWithAuth |
			tpm2.ObjectNoDA | tpm2.ObjectRestricted | tpm2.ObjectDecrypt,
		Parms: tpm2.Parms{Symmetric: tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: tpm2.AlgCFB}, Scheme: tpm2.NoScheme, KDF: tpm2.NoScheme, Curve: tpm2.CurveP256},
	}
	if k.RSAParent {
		p.Type, p.Parms.KeyBits, p.Parms.Curve = tpm2.AlgRSA, 2048, 0
	}
	return p
}

// Marshal returns the DER form.
func (k *TSS2) Marshal() ([]byte, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	public, err := tpm2.EncodeSized(&k.Public)
	if err != nil {
		return nil, err
	}
	var w tpm2.Writer
	w.Sized(k.Private)
	split := w.Len()
	w.Sized(k.Secret)
	if err := w.Err(); err != nil {
		return nil, err
	}
	private, secret := w.Bytes()[:split], w.Bytes()[split:]
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(k.Type.oid())
		flag := func(n uint8, v bool) {
			if v {
				b.AddASN1(explicit(n), func(b *cryptobyte.Builder) { b.AddASN1Boolean(true) })
			}
		}
		flag(tagEmptyAuth, k.EmptyAuth)
		if k.Type == Importable {
			b.AddASN1(explicit(tagSecret), func(b *cryptobyte.Builder) { b.AddASN1OctetString(secret) })
		}
		if k.Description != "" {
			b.AddASN1(explicit(tagDescription), func(b *cryptobyte.Builder) {
				b.AddASN1(asn1.UTF8String, func(b *cryptobyte.Builder) { b.AddBytes([]byte(k.Description)) })
			})
		}
		flag(tagRSAParent, k.RSAParent)
		b.AddASN1Int64(int64(k.Parent))
		b.AddASN1OctetString(public)
		b.AddASN1OctetString(private)
	})
	return b.Bytes()
}

// check says what no key file can have.
func (k *TSS2) check() error {
	switch k.Type {
	case Loadable, Importable, Sealed:
	default:
		return fmt.Errorf("keyfile: key type %d: expected loadable, importable or sealed", k.Type)
	}
	if (k.Type == Importable) != (len(k.Secret) > 0) {
		return errors.New("keyfile: an importable key has an encrypted secret, and only that")
	}
	switch k.Parent.Type() {
	case tpm2.HTPersistent:
	case tpm2.HTPermanent:
		switch k.Parent {
		case tpm2.RHOwner, tpm2.RHEndorsement, tpm2.RHPlatform, tpm2.RHNull:
		default:
			return fmt.Errorf("keyfile: parent %v: expected a hierarchy or a persistent handle", k.Parent)
		}
	default:
		return fmt.Errorf("keyfile: parent %v: expected a hierarchy or a persistent handle", k.Parent)
	}
	if !utf8.ValidString(k.Description) {
		return errors.New("keyfile: the description is not UTF-8")
	}
	return nil
}

var errTSS2 = errors.New("keyfile: expected a TPM key (TPMKey of the TSS2 PRIVATE KEY format), got something malformed")

// ParseTSS2 reads the DER form.
func ParseTSS2(der []byte) (*TSS2, error) {
	k := new(TSS2)
	in := cryptobyte.String(der)
	var seq cryptobyte.String
	var oid encasn1.ObjectIdentifier
	if !in.ReadASN1(&seq, asn1.SEQUENCE) || !in.Empty() || !seq.ReadASN1ObjectIdentifier(&oid) {
		return nil, errTSS2
	}
	for _, t := range []TSS2Type{Loadable, Importable, Sealed} {
		if t.oid().Equal(oid) {
			k.Type = t
		}
	}
	if k.Type == 0 {
		return nil, fmt.Errorf("keyfile: key type %v: expected loadable, importable or sealed (2.23.133.10.1.3 to 5)", oid)
	}
	ok := true
	field := func(n uint8, read func(f *cryptobyte.String) bool) {
		var f cryptobyte.String
		var present bool
		ok = ok && seq.ReadOptionalASN1(&f, &present, explicit(n)) && (!present || read(&f) && f.Empty())
	}
	flag := func(v *bool) func(*cryptobyte.String) bool {
		return func(f *cryptobyte.String) bool { return f.ReadASN1Boolean(v) }
	}
	policy := false
	refuse := func(f *cryptobyte.String) bool { policy = true; return false }
	var secret, public, private, description cryptobyte.String
	field(tagEmptyAuth, flag(&k.EmptyAuth))
	field(tagPolicy, refuse)
	field(tagSecret, func(f *cryptobyte.String) bool { return f.ReadASN1(&secret, asn1.OCTET_STRING) })
	field(tagAuthPolicy, refuse)
	field(tagDescription, func(f *cryptobyte.String) bool { return f.ReadASN1(&description, asn1.UTF8String) })
	field(tagRSAParent, flag(&k.RSAParent))
	if policy {
		return nil, errors.New("keyfile: the key file has a policy, which this program does not carry out; load the key with -u and -r and satisfy its policy by hand")
	}
	var parent int64
	if !ok || !seq.ReadASN1Integer(&parent) || !seq.ReadASN1(&public, asn1.OCTET_STRING) || !seq.ReadASN1(&private, asn1.OCTET_STRING) || !seq.Empty() ||
		parent < 0 || parent > 0xFFFFFFFF {
		return nil, errTSS2
	}
	k.Parent, k.Description = tpm2.Handle(parent), string(description)
	if err := tpm2.DecodeSized(bytes.Clone(public), &k.Public); err != nil {
		return nil, fmt.Errorf("keyfile: public area: %w", err)
	}
	r := tpm2.NewReader(bytes.Clone(private))
	k.Private = r.Sized(tpm2.MaxPrivate)
	r.End()
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("keyfile: private area: %w", err)
	}
	if secret != nil {
		r := tpm2.NewReader(bytes.Clone(secret))
		k.Secret = r.Sized(tpm2.MaxEncryptedSecret)
		r.End()
		if err := r.Err(); err != nil {
			return nil, fmt.Errorf("keyfile: encrypted secret: %w", err)
		}
	}
	if err := k.check(); err != nil {
		return nil, err
	}
	return k, nil
}

// Types of PEM blocks.
const (
	PEMPublic  = "PUBLIC KEY"
	PEMPrivate = "PRIVATE KEY"
	PEMTSS2    = "TSS2 PRIVATE KEY"
)

// Decode reads a file of one PEM block and returns its type and content.
func Decode(file []byte) (kind string, der []byte, err error) {
	b, rest := pem.Decode(file)
	if b == nil {
		return "", nil, errors.New("keyfile: expected a PEM file, found none of its blocks")
	}
	if len(b.Headers) != 0 {
		return "", nil, errors.New("keyfile: a PEM block with headers, such as an encrypted key of the old form; expected a plain one")
	}
	if len(bytes.TrimSpace(rest)) != 0 {
		return "", nil, errors.New("keyfile: more than one PEM block; expected a file with a single key")
	}
	return b.Type, b.Bytes, nil
}

// Encode returns the PEM file of a block.
func Encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
