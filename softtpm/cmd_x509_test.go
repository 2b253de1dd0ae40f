// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"crypto/ecdsa"
	"crypto/elliptic"

	"holdfast/tpm2"
)

// partialCertificate makes one from a certificate that crypto/x509 wrote.
func partialCertificate(t testing.TB, usage x509.KeyUsage, withAlg bool, more ...pkix.Extension) ([]byte, tbsCertificate) {
	t.Helper()
	k := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "subject"}, NotBefore: time.Unix(1e9, 0), NotAfter: time.Unix(2e9, 0), KeyUsage: usage, ExtraExtensions: more}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, k.Public(), k))
	var cert struct {
		TBS tbsCertificate
		Alg asn1.RawValue
		Sig asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &cert); err != nil {
		t.Fatal(err)
	}
	b := cert.TBS
	if withAlg {
		return sequenceOf(b.Alg.FullBytes, b.Issuer.FullBytes, b.Validity.FullBytes, b.Subject.FullBytes, b.Extensions.FullBytes), b
	}
	return sequenceOf(b.Issuer.FullBytes, b.Validity.FullBytes, b.Subject.FullBytes, b.Extensions.FullBytes), b
}

type tbsCertificate struct {
	Version    int `asn1:"optional,explicit,default:0,tag:0"`
	Serial     *big.Int
	Alg        asn1.RawValue
	Issuer     asn1.RawValue
	Validity   asn1.RawValue
	Subject    asn1.RawValue
	SPKI       asn1.RawValue
	Extensions asn1.RawValue `asn1:"tag:3"`
}

func rsaSigner(scheme tpm2.Alg) tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgRSA, NameAlg: tpm2.AlgSHA256, Attributes: attrsSign,
		Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: tpm2.Scheme{Alg: scheme, Hash: tpm2.AlgSHA256}, KeyBits: 2048}}
}

func certify509(key, signer tpm2.Handle, der []byte) request {
	return request{cc: tpm2.CCCertifyX509, handles: []tpm2.Handle{key, signer}, auth: []string{"", ""},
		params: func(w *tpm2.Writer) { w.Sized(nil); tpm2.NoScheme.Marshal(w); w.Sized(der) }}
}

func TestCertifyX509(t *testing.T) {
	for name, template := range map[string]tpm2.Public{"ECDSA": eccSigner(), "RSASSA": rsaSigner(tpm2.AlgRSASSA), "RSAPSS": rsaSigner(tpm2.AlgRSAPSS)} {
		t.Run(name, func(t *testing.T) {
			p := newTPM(t, Options{})
			key := createPrimaryKey(t, p, tpm2.RHOwner, template)
			subject := createPrimaryKey(t, p, tpm2.RHOwner, eccSigner())
			der, _ := partialCertificate(t, x509.KeyUsageDigitalSignature, false)
			r := certify509(subject.h, key.h, der).ok(t, p)
			added, digest := r.Sized(1024), r.Sized(64)
			var sig tpm2.Signature
			sig.Unmarshal(r)
			var a struct {
				Version asn1.RawValue
				Serial  asn1.RawValue
				Alg     asn1.RawValue
				SPKI    asn1.RawValue
			}
			if rest, err := asn1.Unmarshal(added, &a); err != nil || len(rest) != 0 || r.Len() != 0 {
				t.Fatal(err)
			}
			var part struct{ Issuer, Validity, Subject, Extensions asn1.RawValue }
			if _, err := asn1.Unmarshal(der, &part); err != nil {
				t.Fatal(err)
			}
			tbs := sequenceOf(a.Version.FullBytes, a.Serial.FullBytes, a.Alg.FullBytes, part.Issuer.FullBytes, part.Validity.FullBytes, part.Subject.FullBytes, a.SPKI.FullBytes, part.Extensions.FullBytes)
			if !bytes.Equal(digest, []byte(sha(string(tbs)))) {
				t.Error("tbsDigest is of something else")
			}
			value := sig.Sig
			if sig.Alg == tpm2.AlgECDSA {
				value = must[[]byte](t)(asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(sig.R), new(big.Int).SetBytes(sig.S)}))
			}
			cert, err := x509.ParseCertificate(sequenceOf(tbs, a.Alg.FullBytes, must[[]byte](t)(asn1.Marshal(asn1.BitString{Bytes: value, BitLength: 8 * len(value)}))))
			if err != nil {
				t.Fatal(err)
			}
			issuer := must[any](t)(x509.ParsePKIXPublicKey(subjectPublicKeyInfo(p.state.object(key.h))))
			ca := &x509.Certificate{PublicKey: issuer, PublicKeyAlgorithm: map[bool]x509.PublicKeyAlgorithm{true: x509.ECDSA, false: x509.RSA}[name == "ECDSA"]}
			if err := ca.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature); err != nil {
				t.Errorf("crypto/x509: %v", err)
			}
			if k, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !bytes.Equal(must[[]byte](t)(k.Bytes())[1:33], subject.pub.Point.X) || cert.Version != 3 || cert.SerialNumber.Sign() <= 0 {
				t.Errorf("public key %T, version %d, serial %v", cert.PublicKey, cert.Version, cert.SerialNumber)
			}
		})
	}
}

func TestCertifyX509Refuses(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, eccSigner())
	decrypter := createPrimaryKey(t, p, tpm2.RHOwner, eccKeyTemplate(attrsDecrypt, tpm2.NoScheme))
	mldsa := createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA44, attrsSign, false))
	good, b := partialCertificate(t, x509.KeyUsageDigitalSignature, false)
	withAlg, _ := partialCertificate(t, x509.KeyUsageDigitalSignature, true)
	if added := certify509(key.h, key.h, withAlg).ok(t, p).Sized(1024); bytes.Contains(added, b.Alg.FullBytes) {
		t.Error("the algorithm of the caller is added again")
	}
	r := certify509(key.h, mldsa.h, good).ok(t, p) // a post-quantum CA
	if added := r.Sized(1024); !bytes.Contains(added, []byte{0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 17}) {
		t.Error("no identifier of ML-DSA-44")
	}
	certify509(mldsa.h, key.h, good).refused(t, p, "post-quantum subject", tpm2.RCAsymmetric.Handle(1))
	certify509(key.h, decrypter.h, good).refused(t, p, "decryption key signs", tpm2.RCKey.Handle(2))
	certify509(decrypter.h, key.h, good).refused(t, p, "usage of a decryption key", tpm2.RCAttributes.Handle(1))
	encipher, _ := partialCertificate(t, x509.KeyUsageKeyAgreement, false)
	certify509(key.h, key.h, encipher).refused(t, p, "usage of a signing key", tpm2.RCAttributes.Handle(1))
	certify509(decrypter.h, key.h, encipher).ok(t, p)
	restricted, _ := partialCertificate(t, x509.KeyUsageKeyEncipherment, false)
	certify509(decrypter.h, key.h, restricted).refused(t, p, "key encipherment, unrestricted", tpm2.RCAttributes.Handle(1))
	none, _ := partialCertificate(t, 0, false, pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}})
	certify509(key.h, key.h, none).refused(t, p, "no key usage", tpm2.RCValue.Parameter(3))
	attrs := func(a uint32) []byte {
		v := must[[]byte](t)(asn1.Marshal(asn1.BitString{Bytes: []byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}, BitLength: 32}))
		d, _ := partialCertificate(t, x509.KeyUsageDigitalSignature, false, pkix.Extension{Id: oidTPMAObject, Value: v})
		return d
	}
	certify509(key.h, key.h, attrs(uint32(attrsSign))).ok(t, p)
	certify509(key.h, key.h, attrs(uint32(attrsDecrypt))).refused(t, p, "attributes", tpm2.RCAttributes.Handle(1))
	for name, der := range map[string][]byte{
		"empty":        nil,
		"no sequence":  {4, 0},
		"cut":          good[:len(good)-1],
		"more":         append(append([]byte{}, good...), 0),
		"no extension": sequenceOf(b.Issuer.FullBytes, b.Validity.FullBytes, b.Subject.FullBytes),
		"two":          sequenceOf(b.Issuer.FullBytes, b.Validity.FullBytes, b.Extensions.FullBytes),
		"five":         sequenceOf(b.Alg.FullBytes, b.Alg.FullBytes, b.Issuer.FullBytes, b.Validity.FullBytes, b.Subject.FullBytes, b.Extensions.FullBytes),
		"another tag":  sequenceOf(b.Issuer.FullBytes, b.Validity.FullBytes, b.Subject.FullBytes, []byte{2, 1, 1}, b.Extensions.FullBytes),
	} {
		certify509(key.h, key.h, der).refused(t, p, name, tpm2.RCValue.Parameter(3))
	}
	bad := certify509(key.h, key.h, good)
	bad.params = func(w *tpm2.Writer) { w.Sized([]byte{1}); tpm2.NoScheme.Marshal(w); w.Sized(good) }
	bad.refused(t, p, "reserved", tpm2.RCSize.Parameter(1))
}

// FuzzPartialCertificate: what is accepted splits into its elements without
// loss; no input panics.
func FuzzPartialCertificate(f *testing.F) {
	good, _ := partialCertificate(f, x509.KeyUsageDigitalSignature, true)
	f.Add(good)
	f.Add([]byte{0x30, 0})
	o := &object{pub: tpm2.Public{Attributes: attrsSign}}
	f.Fuzz(func(t *testing.T, der []byte) {
		p, ok := parsePartial(der)
		if !ok {
			return
		}
		var all [][]byte
		for _, e := range [][]byte{p.algorithm, p.issuer, p.validity, p.subject, p.extensions} {
			if e != nil {
				all = append(all, e)
			}
		}
		if !bytes.Equal(sequenceOf(all...), der) {
			t.Errorf("%x is not its elements", der)
		}
		checkKeyUsage(o, p.extensions)
	})
}
