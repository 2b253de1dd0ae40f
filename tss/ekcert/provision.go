// SPDX-License-Identifier: Apache-2.0

package ekcert

import (
	"crypto/x509"
	"crypto/x509/pkix"
	encasn1 "encoding/asn1"
	"errors"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
	"holdfast/tss"
	"holdfast/tss/keyfile"
)

// OIDs of the EK Credential Profile (3.2) and the TCG OID registry.
var (
	oidManufacturer  = encasn1.ObjectIdentifier{2, 23, 133, 2, 1}
	oidModel         = encasn1.ObjectIdentifier{2, 23, 133, 2, 2}
	oidVersion       = encasn1.ObjectIdentifier{2, 23, 133, 2, 3}
	oidEKCertificate = encasn1.ObjectIdentifier{2, 23, 133, 8, 1}
	oidSubjectAlt    = encasn1.ObjectIdentifier{2, 5, 29, 17}
)

// Options of Provision.
type Options struct {
	PlatformAuth, EndorsementAuth, OwnerAuth []byte
	Replace                                  bool // what is in the NV indices already
	Persist                                  bool // make the keys persistent, by the owner
}

// Result is one endorsement key with its certificate.
type Result struct {
	Profile
	DER []byte // the certificate
}

// attributes of the indices, as of those that makers fill (PC Client Platform
// TPM Profile, 4.5; values of the EK Credential Profile, 2.2.1.5).
const attributes = tpm2.NVPPWrite | tpm2.NVPPRead | tpm2.NVOwnerRead | tpm2.NVAuthRead | tpm2.NVNoDA | tpm2.NVPlatformCreate | tpm2.NVWriteDefine

// Provision makes the endorsement key of a profile, has it certified by the
// CA, and stores the certificate (and a template that is not a published one)
// in NV indices that belong to the platform and are locked for good. Without
// Replace an index that exists is an error and is not touched.
func Provision(t *tss.TPM, ca *CA, p Profile, o Options) (*Result, error) {
	fail := func(err error) (*Result, error) { return nil, fmt.Errorf("provisioning %s: %w", p.Kind, err) }
	ek, err := t.CreatePrimary(tss.Endorsement(o.EndorsementAuth), p.Template, nil)
	if err != nil {
		return fail(err)
	}
	defer t.FlushContext(ek.Handle)
	der, err := ca.certify(t, p, &ek.Key.Public)
	if err != nil {
		return fail(err)
	}
	if err := store(t, p.Certificate, der, o); err != nil {
		return fail(err)
	}
	if p.NVTemplate != 0 {
		b, err := tpm2.Encode(&p.Template)
		if err != nil {
			return fail(err)
		}
		if err := store(t, p.NVTemplate, b, o); err != nil {
			return fail(err)
		}
	}
	if o.Persist {
		if err := persist(t, ek, p.Persistent, o); err != nil {
			return fail(err)
		}
	}
	return &Result{p, der}, nil
}

// persist keeps the key at h, in the place of the one that is there if asked.
func persist(t *tss.TPM, ek *tss.Primary, h tpm2.Handle, o Options) error {
	if old, _, err := t.ReadPublic(h); err == nil {
		if string(old.Name) == string(ek.Name) {
			return nil
		}
		if !o.Replace {
			return fmt.Errorf("there is another key at %v", h)
		}
		if err := t.EvictControl(tss.Owner(o.OwnerAuth), old.Ref(nil), h); err != nil {
			return err
		}
	}
	return t.EvictControl(tss.Owner(o.OwnerAuth), ek.Ref(nil), h)
}

// store defines an index, fills and locks it.
func store(t *tss.TPM, h tpm2.Handle, data []byte, o Options) error {
	platform := tss.Platform(o.PlatformAuth)
	i, err := t.NVReadPublic(h)
	switch {
	case err == nil:
		if !o.Replace {
			return fmt.Errorf("the NV index %v exists; it stays as it is unless you ask for its replacement", h)
		}
		if err := t.NVUndefine(platform, i.Ref(nil)); err != nil {
			return fmt.Errorf("NV index %v: %w", h, err)
		}
	case !errors.Is(err, tpm2.RCHandle):
		return fmt.Errorf("NV index %v: %w", h, err)
	}
	if len(data) > 0xFFFF {
		return fmt.Errorf("NV index %v: %d bytes do not fit", h, len(data))
	}
	if err := t.NVDefine(platform, nil, tpm2.NVPublic{Index: h, NameAlg: tpm2.AlgSHA256, Attributes: attributes, DataSize: uint16(len(data))}); err != nil {
		return fmt.Errorf("NV index %v: %w", h, err)
	}
	if i, err = t.NVReadPublic(h); err != nil {
		return fmt.Errorf("NV index %v: %w", h, err)
	}
	if err := t.NVWrite(platform, i.Ref(nil), data, 0); err != nil {
		return errors.Join(fmt.Errorf("NV index %v: %w", h, err), t.NVUndefine(platform, i.Ref(nil)))
	}
	if i, err = t.NVReadPublic(h); err != nil { // its Name changed: it is written
		return fmt.Errorf("NV index %v: %w", h, err)
	}
	return t.NVWriteLock(platform, i.Ref(nil))
}

// certify makes the certificate of an EK (EK Credential Profile, 3.2): empty
// subject, the TPM's maker, model and version as alternative name.
func (ca *CA) certify(t *tss.TPM, p Profile, pub *tpm2.Public) ([]byte, error) {
	a := ca.classic
	if p.PostQuantum {
		a = ca.postQuantum
	}
	spki, err := keyfile.MarshalPublic(pub)
	if err != nil {
		return nil, err
	}
	san, err := altName(t)
	if err != nil {
		return nil, err
	}
	return a.issue(&x509.Certificate{
		KeyUsage: p.usage, UnknownExtKeyUsage: []encasn1.ObjectIdentifier{oidEKCertificate},
		BasicConstraintsValid: true,
		ExtraExtensions:       []pkix.Extension{{Id: oidSubjectAlt, Critical: true, Value: san}},
	}, spki)
}

// altName is the extension's value: one directoryName.
func altName(t *tss.TPM) ([]byte, error) {
	props, err := t.Properties(tpm2.PTManufacturer, 7)
	if err != nil {
		return nil, err
	}
	var model []byte
	for _, pt := range []tpm2.PT{tpm2.PTVendorString1, tpm2.PTVendorString2, tpm2.PTVendorString3, tpm2.PTVendorString4} {
		for shift := 24; shift >= 0; shift -= 8 {
			if c := byte(props[pt] >> shift); c > ' ' && c < 0x7f {
				model = append(model, c)
			}
		}
	}
	if len(model) == 0 {
		model = []byte("unknown")
	}
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.Tag(4).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
			b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
				for _, x := range []struct {
					oid  encasn1.ObjectIdentifier
					text string
				}{
					{oidManufacturer, fmt.Sprintf("id:%08X", props[tpm2.PTManufacturer])},
					{oidModel, string(model)},
					{oidVersion, fmt.Sprintf("id:%08X", props[tpm2.PTFirmwareVersion1])},
				} {
					b.AddASN1(asn1.SET, func(b *cryptobyte.Builder) {
						b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
							b.AddASN1ObjectIdentifier(x.oid)
							b.AddASN1(asn1.UTF8String, func(b *cryptobyte.Builder) { b.AddBytes([]byte(x.text)) })
						})
					})
				}
			})
		})
	})
	return b.Bytes()
}
