// SPDX-License-Identifier: Apache-2.0

package tpmquote_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/attest/provider/tpmquote"
	"holdfast/tpm2"
	"holdfast/tss"
	"holdfast/tss/ekcert"
)

// maker is a maker of TPMs in a folder, with its roots as PEM.
func maker(t *testing.T) (*ekcert.CA, []byte) {
	t.Helper()
	dir := t.TempDir()
	ca, err := ekcert.OpenCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	var roots []byte
	for _, f := range []string{"ca-ecdsa.pem", "ca-mldsa65.pem"} {
		b, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, b...)
	}
	return ca, roots
}

func TestEKCertificates(t *testing.T) {
	ca, pemRoots := maker(t)
	_, strangers := maker(t)
	roots, err := ekcert.ParseMakers(pemRoots)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ekcert.ParseMakers(strangers)
	if err != nil {
		t.Fatal(err)
	}
	for kind, ek := range map[tpmquote.Kind]tss.Kind{tpmquote.ES256: tss.ECCP256, tpmquote.MLDSA65: tss.MLKEM768} {
		t.Run(string(ek), func(t *testing.T) {
			tpm := tss.New(startOurs(t))
			sec := secret(t)
			key, err := tpmquote.CreateKey(tpm, tpmquote.NewKeyOptions{Kind: kind, Secret: sec})
			if err != nil {
				t.Fatal(err)
			}
			identity := func() *tpmquote.Attester {
				a, err := tpmquote.NewAttester(tpm, key, sec, nil)
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			a := identity()
			_, err = checkEK(t, roots, &a.Identity, time.Now())
			wantEK(t, "without a certificate", err, "missing")
			a.Close()
			p, err := ekcert.ProfileOf(ek)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ekcert.Provision(tpm, ca, p, ekcert.Options{}); err != nil {
				t.Fatal(err)
			}
			a = identity()
			defer a.Close()
			root, err := checkEK(t, roots, &a.Identity, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if !isRoot(pemRoots, root) {
				t.Errorf("%x is none of the roots", root)
			}
			_, err = checkEK(t, other, &a.Identity, time.Now())
			wantEK(t, "of another maker", err, "unknown maker")
			_, err = checkEK(t, roots, &a.Identity, time.Now().AddDate(40, 0, 0))
			wantEK(t, "expired", err, "expired")
			moved := a.Identity
			moved.EK = anotherEK(t, kind)
			_, err = checkEK(t, roots, &moved, time.Now())
			wantEK(t, "for another key", err, "for another key")
			broken := a.Identity
			broken.Certificate = broken.Certificate[:100]
			_, err = checkEK(t, roots, &broken, time.Now())
			wantEK(t, "truncated", err, "malformed")
			forged := a.Identity
			forged.Certificate = bytes.Clone(forged.Certificate)
			forged.Certificate[len(forged.Certificate)-1] ^= 1
			_, err = checkEK(t, roots, &forged, time.Now())
			wantEK(t, "with another signature", err, "unknown maker")

			// The whole enrolment.
			v, challenge, err := tpmquote.NewChallenge(a.Identity)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := a.Answer(challenge)
			if err != nil {
				t.Fatal(err)
			}
			v.Roots = roots
			ak, err := v.Complete(answer, "web-1", "", time.Now())
			if err != nil || !bytes.Equal(ak.EK.RootSHA256, root[:]) {
				t.Errorf("got %x, %v", ak.EK.RootSHA256, err)
			}
		})
	}
}

func checkEK(t *testing.T, m *ekcert.Makers, id *tpmquote.Identity, now time.Time) ([32]byte, error) {
	t.Helper()
	var ek tpm2.Public
	if err := tpm2.Decode(id.EK, &ek); err != nil {
		t.Fatal(err)
	}
	return m.Check(id.Certificate, &ek, now)
}

// anotherEK is the endorsement key of another TPM.
func anotherEK(t *testing.T, kind tpmquote.Kind) []byte {
	t.Helper()
	tpm, sec := tss.New(startOurs(t)), secret(t)
	k, err := tpmquote.CreateKey(tpm, tpmquote.NewKeyOptions{Kind: kind, Secret: sec})
	if err != nil {
		t.Fatal(err)
	}
	a, err := tpmquote.NewAttester(tpm, k, sec, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	return a.Identity.EK
}

func wantEK(t *testing.T, name string, err error, want string) {
	t.Helper()
	if !errors.Is(err, ekcert.ErrCertificate) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: expected a refusal that says %q, got %v", name, want, err)
	}
}

func isRoot(roots []byte, digest [32]byte) bool {
	for {
		var b *pem.Block
		if b, roots = pem.Decode(roots); b == nil {
			return false
		}
		if sha256.Sum256(b.Bytes) == digest {
			return true
		}
	}
}

// TestEKChainUse: an intermediate authority may stand between, and a
// certificate for another use is none.
func TestEKChainUse(t *testing.T) {
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	rootKey, middleKey := key(), key()
	make := func(c, parent *x509.Certificate, pub any, by *ecdsa.PrivateKey) *x509.Certificate {
		c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(7), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, parent, pub, by)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	authority := func(name string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	}
	rootTemplate := authority("root")
	root := make(rootTemplate, rootTemplate, &rootKey.PublicKey, rootKey)
	middle := make(authority("middle"), root, &middleKey.PublicKey, rootKey)
	pemOf := func(certs ...*x509.Certificate) []byte {
		var b []byte
		for _, c := range certs {
			b = append(b, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		return b
	}
	tpm := tss.New(startOurs(t))
	sec := secret(t)
	k, err := tpmquote.CreateKey(tpm, tpmquote.NewKeyOptions{Kind: tpmquote.ES256, Secret: sec})
	if err != nil {
		t.Fatal(err)
	}
	a, err := tpmquote.NewAttester(tpm, k, sec, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ek, err := tpm.CreatePrimary(tss.Endorsement(nil), tss.EKTemplate(tss.ECCP256), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tpm.FlushContext(ek.Handle)
	pub, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, ek.Key.Public.Point.X...), ek.Key.Public.Point.Y...))
	if err != nil {
		t.Fatal(err)
	}
	use := asn1.ObjectIdentifier{2, 23, 133, 8, 1}
	for name, c := range map[string]struct {
		leaf  *x509.Certificate
		roots []byte
		want  string
	}{
		"through an intermediate":  {&x509.Certificate{UnknownExtKeyUsage: []asn1.ObjectIdentifier{use}}, pemOf(root, middle), ""},
		"without the intermediate": {&x509.Certificate{UnknownExtKeyUsage: []asn1.ObjectIdentifier{use}}, pemOf(root), "unknown maker"},
		"for servers":              {&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, pemOf(root, middle), "another use"},
		"an authority":             {authority("ek"), pemOf(root, middle), "authority"},
		"a critical extension":     {&x509.Certificate{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 999, 5}, Critical: true, Value: []byte{5, 0}}}}, pemOf(root, middle), "critical extension"},
	} {
		r, err := ekcert.ParseMakers(c.roots)
		if err != nil {
			t.Fatal(err)
		}
		id := a.Identity
		id.Certificate = make(c.leaf, middle, pub, middleKey).Raw
		digest, err := checkEK(t, r, &id, time.Now())
		if c.want == "" {
			if err != nil || digest != sha256.Sum256(root.Raw) {
				t.Errorf("%s: got %x, %v", name, digest, err)
			}
			continue
		}
		wantEK(t, name, err, c.want)
	}
	for name, b := range map[string][]byte{"nothing": nil, "no root": pemOf(middle), "no certificates": []byte("x"),
		"a key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}})} {
		if r, err := ekcert.ParseMakers(b); err == nil || r != nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
