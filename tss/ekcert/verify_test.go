// SPDX-License-Identifier: Apache-2.0

package ekcert_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	encasn1 "encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/mldsa"
	mldsax509 "filippo.io/mldsa/x509"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/softtpmtest"
	"holdfast/tpm2"
	"holdfast/tss"
	"holdfast/tss/ekcert"
	"holdfast/tss/keyfile"
)

func testCA(t testing.TB) (*ekcert.CA, []byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	ca, err := ekcert.OpenCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, n := range []string{"ca-ecdsa.pem", "ca-mldsa65.pem"} {
		p, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, p...)
	}
	return ca, b
}

func makers(t testing.TB, authorities []byte, lists ...[]byte) *ekcert.Makers {
	t.Helper()
	m, err := ekcert.ParseMakers(authorities)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		if err := m.AddLists(l); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func wantRefusal(t *testing.T, name string, root [32]byte, err error, want string) {
	t.Helper()
	if root != [32]byte{} || !errors.Is(err, ekcert.ErrCertificate) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: expected a refusal that says %q, got %x, %v", name, want, root, err)
	}
}

// TestVerify: each profile's certificate is accepted with its own authority
// and refused with another, after its end, changed, and for another key.
func TestVerify(t *testing.T) {
	ca, own := testCA(t)
	_, other := testCA(t)
	good, foreign := makers(t, own), makers(t, other)
	c := tss.New(softtpmtest.New(t))
	var keys []tpm2.Public
	for _, p := range ekcert.Profiles() {
		ek, err := c.CreatePrimary(tss.Endorsement(nil), p.Template, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.FlushContext(ek.Handle); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, ek.Key.Public)
	}
	for i, p := range ekcert.Profiles() {
		r, err := ekcert.Provision(c, ca, p, ekcert.Options{})
		if err != nil {
			t.Fatal(err)
		}
		public, elsewhere := keys[i], keys[(i+1)%len(keys)]
		now := time.Now()
		if root, err := good.Check(r.DER, &public, now); err != nil || !isOneOf(own, root) {
			t.Errorf("%v: %x, %v", p.Kind, root, err)
		}
		changed := bytes.Clone(r.DER)
		changed[len(changed)-1] ^= 1
		for name, f := range map[string]func() ([32]byte, error){
			"unknown maker":   func() ([32]byte, error) { return foreign.Check(r.DER, &public, now) },
			"expired":         func() ([32]byte, error) { return good.Check(r.DER, &public, now.AddDate(30, 0, 0)) },
			"vouches":         func() ([32]byte, error) { return good.Check(changed, &public, now) },
			"for another key": func() ([32]byte, error) { return good.Check(r.DER, &elsewhere, now) },
			"malformed":       func() ([32]byte, error) { return good.Check([]byte("xxxxxxxxx"), &public, now) },
			"missing":         func() ([32]byte, error) { return good.Check(nil, &public, now) },
		} {
			root, err := f()
			wantRefusal(t, string(p.Kind), root, err, name)
		}
	}
}

func isOneOf(roots []byte, digest [32]byte) bool {
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

// chain is root, intermediate authority and endorsement key of the test's own.
type chain struct {
	root, middle, leaf *x509.Certificate
	rootKey, middleKey *ecdsa.PrivateKey
	ek                 tpm2.Public
	now                time.Time
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func issue(t testing.TB, c, parent *x509.Certificate, pub any, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
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

// newChain lets a test change each certificate before it is signed.
func newChain(t testing.TB, change func(root, middle, leaf *x509.Certificate)) *chain {
	t.Helper()
	x := &chain{rootKey: newKey(t), middleKey: newKey(t), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	template := func(name string, serial int64) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(serial), NotBefore: x.now.AddDate(-1, 0, 0), NotAfter: x.now.AddDate(1, 0, 0), BasicConstraintsValid: true}
	}
	root, middle, leaf := template("root", 1), template("middle", 2), template("", 3)
	for _, c := range []*x509.Certificate{root, middle} {
		c.IsCA, c.KeyUsage, c.SubjectKeyId = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, []byte{byte(c.SerialNumber.Int64())}
	}
	leaf.UnknownExtKeyUsage = []encasn1.ObjectIdentifier{{2, 23, 133, 8, 1}}
	if change != nil {
		change(root, middle, leaf)
	}
	c := tss.New(softtpmtest.New(t))
	ek, err := c.CreatePrimary(tss.Endorsement(nil), tss.EKTemplate(tss.ECCP256), nil)
	if err != nil {
		t.Fatal(err)
	}
	x.ek = ek.Key.Public
	spki, err := keyfile.MarshalPublic(&x.ek)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		t.Fatal(err)
	}
	x.root = issue(t, root, root, &x.rootKey.PublicKey, x.rootKey)
	x.middle = issue(t, middle, x.root, &x.middleKey.PublicKey, x.rootKey)
	x.leaf = issue(t, leaf, x.middle, pub, x.middleKey)
	return x
}

func pemOf(certs ...*x509.Certificate) (b []byte) {
	for _, c := range certs {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return b
}

// list is a revocation list of an authority.
func list(t testing.TB, by *x509.Certificate, key *ecdsa.PrivateKey, until time.Time, serials ...int64) []byte {
	t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: until.AddDate(0, -1, 0), NextUpdate: until}
	for _, s := range serials {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: big.NewInt(s), RevocationTime: l.ThisUpdate})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, by, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestLists: with revocation lists each authority of the chain must have one, by
// itself and in date, that does not have the certificate below.
func TestLists(t *testing.T) {
	x, other := newChain(t, nil), newChain(t, nil)
	next, past := x.now.AddDate(0, 0, 7), x.now
	root := func(serials ...int64) []byte { return list(t, x.root, x.rootKey, next, serials...) }
	middle := func(serials ...int64) []byte { return list(t, x.middle, x.middleKey, next, serials...) }
	for name, c := range map[string]struct {
		lists [][]byte
		want  string
	}{
		"none asked for":                   {nil, ""},
		"both":                             {[][]byte{root(), middle()}, ""},
		"both in one PEM file":             {[][]byte{append(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: root(9)}), pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: middle(9)})...)}, ""},
		"an old one beside":                {[][]byte{root(), list(t, x.middle, x.middleKey, past), middle()}, ""},
		"the TPM's certificate":            {[][]byte{root(), middle(3)}, "revoked: CN=middle"},
		"the authority's":                  {[][]byte{root(2), middle()}, "revoked: CN=root"},
		"revoked in an old list":           {[][]byte{root(), list(t, x.middle, x.middleKey, past, 3)}, "revoked: CN=middle"},
		"only the root's":                  {[][]byte{root()}, "missing: there is none of CN=middle"},
		"only the authority's":             {[][]byte{middle()}, "missing: there is none of CN=root"},
		"an old one":                       {[][]byte{root(), list(t, x.middle, x.middleKey, past)}, "expired: that of CN=middle"},
		"another maker's of the same name": {[][]byte{root(), list(t, other.middle, other.middleKey, next)}, "missing"},
	} {
		got, err := makers(t, pemOf(x.root, x.middle), c.lists...).Check(x.leaf.Raw, &x.ek, x.now)
		if c.want == "" {
			if err != nil || got != sha256.Sum256(x.root.Raw) {
				t.Errorf("%s: %x, %v", name, got, err)
			}
			continue
		}
		wantRefusal(t, name, got, err, c.want)
	}
	m := makers(t, pemOf(x.root, x.middle))
	for name, b := range map[string][]byte{"nothing": nil, "no list": []byte("x"), "a certificate": pemOf(x.root), "a list and more": append(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: root()}), 'x')} {
		if err := m.AddLists(b); err == nil {
			t.Errorf("%s was taken as a list", name)
		}
	}
	if _, err := m.Check(x.leaf.Raw, &x.ek, x.now); err != nil {
		t.Errorf("what was refused as a list counts: %v", err)
	}
}

// TestConditions: what an authority's certificate demands of those below it holds.
func TestConditions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(root, middle, leaf *x509.Certificate)
		want   string
	}{
		"as they should be":           {func(root, middle, leaf *x509.Certificate) {}, ""},
		"a path that is long enough":  {func(root, middle, leaf *x509.Certificate) { root.MaxPathLen, middle.MaxPathLenZero = 1, true }, ""},
		"a path that is too short":    {func(root, middle, leaf *x509.Certificate) { root.MaxPathLenZero = true }, "allows 0 authorities"},
		"an authority out of date":    {func(root, middle, leaf *x509.Certificate) { middle.NotAfter = middle.NotBefore.AddDate(0, 1, 0) }, "expired: CN=middle"},
		"a root out of date":          {func(root, middle, leaf *x509.Certificate) { root.NotAfter = root.NotBefore.AddDate(0, 1, 0) }, "expired: CN=root"},
		"an authority of lists alone": {func(root, middle, leaf *x509.Certificate) { middle.KeyUsage = x509.KeyUsageCRLSign }, "may not sign certificates"},
		"a condition of the authority": {func(root, middle, leaf *x509.Certificate) {
			middle.ExtraExtensions = []pkix.Extension{{Id: encasn1.ObjectIdentifier{2, 999, 5}, Critical: true, Value: []byte{5, 0}}}
		}, "critical extension"},
		"names that the authority may sign for": {func(root, middle, leaf *x509.Certificate) {
			middle.PermittedDNSDomainsCritical, middle.PermittedDNSDomains = true, []string{"example.org"}
		}, "name constraints"},
	} {
		x := newChain(t, c.change)
		got, err := makers(t, pemOf(x.root, x.middle)).Check(x.leaf.Raw, &x.ek, x.now)
		if c.want == "" {
			if err != nil || got != sha256.Sum256(x.root.Raw) {
				t.Errorf("%s: %x, %v", name, got, err)
			}
			continue
		}
		wantRefusal(t, name, got, err, c.want)
	}
	// Two authorities of one name and key, of which the first leads nowhere.
	x := newChain(t, nil)
	stranger := newKey(t)
	dead := *x.middle
	dead.Issuer, dead.RawIssuer = pkix.Name{CommonName: "nobody"}, nil
	blind := issue(t, &dead, &x509.Certificate{Subject: pkix.Name{CommonName: "nobody"}}, &x.middleKey.PublicKey, stranger)
	if got, err := makers(t, pemOf(x.root, blind, x.middle)).Check(x.leaf.Raw, &x.ek, x.now); err != nil || got != sha256.Sum256(x.root.Raw) {
		t.Errorf("an authority that leads nowhere hides one that does: %x, %v", got, err)
	}
	// Authorities that vouch for each other end.
	a := issue(t, &x509.Certificate{Subject: x.middle.Subject, SerialNumber: big.NewInt(8), NotBefore: x.middle.NotBefore, NotAfter: x.middle.NotAfter, BasicConstraintsValid: true, IsCA: true},
		&x509.Certificate{Subject: pkix.Name{CommonName: "b"}}, &x.middleKey.PublicKey, stranger)
	b := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "b"}, SerialNumber: big.NewInt(9), NotBefore: x.middle.NotBefore, NotAfter: x.middle.NotAfter, BasicConstraintsValid: true, IsCA: true},
		&x509.Certificate{Subject: x.middle.Subject}, &stranger.PublicKey, x.middleKey)
	got, err := makers(t, pemOf(x.root, a, b)).Check(x.leaf.Raw, &x.ek, x.now)
	wantRefusal(t, "a circle", got, err, "unknown maker")
}

// TestPostQuantumList: lists signed with ML-DSA work, and one whose signature
// does not fit counts as none.
func TestPostQuantumList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	ca, err := ekcert.OpenCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "ca-mldsa65.pem"))
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, "ca-mldsa65.key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	_, der, err := keyfile.Decode(keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	k, err := mldsax509.ParsePKCS8PrivateKey(der)
	if err != nil {
		t.Fatal(err)
	}
	key := k.(*mldsa.PrivateKey)
	block, _ := pem.Decode(b)
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	c := tss.New(softtpmtest.New(t))
	p, err := ekcert.ProfileOf(tss.MLKEM768)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ekcert.Provision(c, ca, p, ekcert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ek, err := c.CreatePrimary(tss.Endorsement(nil), p.Template, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(r.DER)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signed := func(serial *big.Int) []byte {
		standIn := newKey(t)
		shape := &x509.Certificate{Subject: authority.Subject, RawSubject: authority.RawSubject, KeyUsage: x509.KeyUsageCRLSign, SubjectKeyId: authority.SubjectKeyId}
		l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(time.Hour),
			RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: serial, RevocationTime: now.Add(-time.Hour)}}}
		der, err := x509.CreateRevocationList(rand.Reader, l, shape, standIn)
		if err != nil {
			t.Fatal(err)
		}
		return resigned(t, der, key)
	}
	if _, err := makers(t, b, signed(big.NewInt(4))).Check(r.DER, &ek.Key.Public, now); err != nil {
		t.Error(err)
	}
	got, err := makers(t, b, signed(leaf.SerialNumber)).Check(r.DER, &ek.Key.Public, now)
	wantRefusal(t, "revoked", got, err, "revoked")
	forged := signed(big.NewInt(4))
	forged[len(forged)-1] ^= 1
	got, err = makers(t, b, forged).Check(r.DER, &ek.Key.Public, now)
	wantRefusal(t, "forged", got, err, "missing")
}

// resigned puts ML-DSA's algorithm and signature into a list (RFC 5280, 5.1).
func resigned(t *testing.T, der []byte, key *mldsa.PrivateKey) []byte {
	t.Helper()
	in := cryptobyte.String(der)
	var outer, tbs, version, rest cryptobyte.String
	if !in.ReadASN1(&outer, asn1.SEQUENCE) || !outer.ReadASN1(&tbs, asn1.SEQUENCE) || !tbs.ReadASN1Element(&version, asn1.INTEGER) || !tbs.SkipASN1(asn1.SEQUENCE) {
		t.Fatal("not a list")
	}
	rest = tbs
	alg := func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(encasn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 3, 18})
		})
	}
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(version)
		alg(b)
		b.AddBytes(rest)
	})
	inner := b.BytesOrPanic()
	sig, err := key.Sign(nil, inner, &mldsa.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out cryptobyte.Builder
	out.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(inner)
		alg(b)
		b.AddASN1BitString(sig)
	})
	return out.BytesOrPanic()
}

// FuzzCheck: nothing but what an authority signed passes for the key, and
// nothing else than authorities and lists is read as such.
func FuzzCheck(f *testing.F) {
	x := newChain(f, nil)
	authorities := pemOf(x.root, x.middle)
	lists := append(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list(f, x.root, x.rootKey, x.now.AddDate(0, 0, 7))}),
		pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list(f, x.middle, x.middleKey, x.now.AddDate(0, 0, 7))})...)
	f.Add(x.leaf.Raw, authorities, lists)
	f.Add(x.leaf.Raw, pemOf(x.root), []byte{})
	f.Add(x.middle.Raw, authorities, list(f, x.root, x.rootKey, x.now, 2))
	good := makers(f, authorities)
	f.Fuzz(func(t *testing.T, der, pemText, crls []byte) {
		root, err := good.Check(der, &x.ek, x.now)
		switch {
		case err != nil && (root != [32]byte{} || !errors.Is(err, ekcert.ErrCertificate)):
			t.Fatalf("%x, %v", root, err)
		case err == nil:
			if c, err := x509.ParseCertificate(der); err != nil || !bytes.Equal(c.RawTBSCertificate, x.leaf.RawTBSCertificate) {
				t.Fatalf("accepted %x", der)
			}
		}
		m, err := ekcert.ParseMakers(pemText)
		if (m == nil) != (err != nil) {
			t.Fatalf("%v, %v", m, err)
		}
		if err != nil {
			return
		}
		if err := m.AddLists(crls); err == nil {
			// With lists a chain passes only if it passes without.
			if _, err := m.Check(x.leaf.Raw, &x.ek, x.now); err == nil {
				if _, err := makers(t, pemText).Check(x.leaf.Raw, &x.ek, x.now); err != nil {
					t.Fatalf("revocation lists let a chain pass: %v", err)
				}
			}
		}
	})
}
