// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"filippo.io/mldsa"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
)

// keys returns a key of each kind with its seed or prime.
func keys(t testing.TB) map[string][2]any {
	out := map[string][2]any{}
	add := func(name string, key any, err error) {
		if err != nil {
			t.Fatal(err)
		}
		p, s, err := fromPrivateKey(key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = [2]any{p, s}
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	add("rsa", r, err)
	for _, c := range []elliptic.Curve{elliptic.P224(), elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		add(c.Params().Name, k, err)
	}
	for _, set := range mldsaSets {
		k, err := mldsa.GenerateKey(set)
		add(set.String(), k, err)
	}
	for set := range mlkemOIDs {
		seed := bytes.Repeat([]byte{byte(set)}, mlkemSeedSize)
		public, err := mlkemPublic(set, seed)
		if err != nil {
			t.Fatal(err)
		}
		p := newPublic(tpm2.AlgMLKEM, tpm2.ObjectDecrypt)
		p.Parms.MLKEM, p.Unique = set, public
		out["mlkem"+string('0'+rune(set))] = [2]any{p, &tpm2.Sensitive{Type: tpm2.AlgMLKEM, Value: seed}}
	}
	return out
}

// TestRoundTrip: public and private forms of every kind come back as they were.
func TestRoundTrip(t *testing.T) {
	for name, k := range keys(t) {
		p, s := k[0].(*tpm2.Public), k[1].(*tpm2.Sensitive)
		want, err := p.Name()
		if err != nil {
			t.Fatal(name, err)
		}
		der, err := MarshalPublic(p)
		if err != nil {
			t.Fatal(name, err)
		}
		q, err := ParsePublic(der)
		if err != nil {
			t.Fatal(name, err)
		}
		if got, _ := q.Name(); !bytes.Equal(got, want) {
			t.Errorf("%s: another public key came back", name)
		}
		private, err := MarshalPrivate(p, s)
		if err != nil {
			t.Fatal(name, err)
		}
		q, s2, err := ParsePrivate(private)
		if err != nil {
			t.Fatal(name, err)
		}
		if got, _ := q.Name(); !bytes.Equal(got, want) || !bytes.Equal(s2.Value, s.Value) {
			t.Errorf("%s: another private key came back", name)
		}
		for n := range private {
			if _, s, err := ParsePrivate(private[:n]); err == nil || s != nil {
				t.Fatalf("%s: cut to %d bytes: taken", name, n)
			}
		}
		if _, _, err := ParsePrivate(append(bytes.Clone(private), 0)); err == nil {
			t.Errorf("%s: a byte too many", name)
		}
		if _, err := ParsePublic(append(bytes.Clone(der), 0)); err == nil {
			t.Errorf("%s: a byte too many", name)
		}
		// Another key's private part is noticed.
		bad := *s
		bad.Value = bytes.Clone(s.Value)
		bad.Value[0] ^= 2 // not z of ML-KEM, which does not enter the public key
		if _, err := MarshalPrivate(p, &bad); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: a private key of another: %v", name, err)
		}
	}
}

// TestMLKEMPublished: the first and last octets of RFC 9935's encodings, typed
// out: SPKI of ML-KEM-768 (OID 2.16.840.1.101.3.4.4.2, no parameters) and
// PKCS #8 with the seed in [0].
func TestMLKEMPublished(t *testing.T) {
	seed := make([]byte, 64)
	for i := range seed {
		seed[i] = byte(i) // the seed of the RFC's examples
	}
	k, err := mlkem.NewDecapsulationKey768(seed)
	if err != nil {
		t.Fatal(err)
	}
	p := newPublic(tpm2.AlgMLKEM, tpm2.ObjectDecrypt)
	p.Parms.MLKEM, p.Unique = tpm2.MLKEM768, k.EncapsulationKey().Bytes()
	der, err := MarshalPublic(p)
	if want := "308204b2300b0609608648016503040402038204a100" + hex.EncodeToString(p.Unique); err != nil || hex.EncodeToString(der) != want {
		t.Fatalf("%x, %v", der, err)
	}
	private, err := MarshalPrivate(p, &tpm2.Sensitive{Type: tpm2.AlgMLKEM, Value: seed})
	if want := "3054020100300b060960864801650304040204428040" + hex.EncodeToString(seed); err != nil || hex.EncodeToString(private) != want {
		t.Fatalf("%x, %v", private, err)
	}
	expanded := append([]byte{0x30, 0x82, 0, 0}, private[4:]...)
	if _, s, err := ParsePrivate(expanded); err == nil || s != nil {
		t.Fatal("a malformed key was taken")
	}
	both := bytes.Clone(private)
	both[20] = 0x04 // expandedKey in the place of the seed
	if _, _, err := ParsePrivate(both); err == nil || !strings.Contains(err.Error(), "seed") {
		t.Fatal(err)
	}
}

// TestOlderForms: PKCS #1 and SEC 1.
func TestOlderForms(t *testing.T) {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if p, _, err := ParsePrivate(x509.MarshalPKCS1PrivateKey(r)); err != nil || p.Parms.KeyBits != 2048 {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(e)
	if err != nil {
		t.Fatal(err)
	}
	if p, _, err := ParsePrivate(der); err != nil || p.Parms.Curve != tpm2.CurveP384 {
		t.Fatal(err)
	}
}

func sampleTSS2(t testing.TB) []*TSS2 {
	k := keys(t)
	p := k["P-256"][0].(*tpm2.Public)
	return []*TSS2{
		{Type: Loadable, EmptyAuth: true, Parent: 0x81000001, Public: *p, Private: []byte("private")},
		{Type: Sealed, RSAParent: true, Parent: tpm2.RHOwner, Public: *p, Private: []byte("private"), Description: "ä key"},
		{Type: Importable, Parent: tpm2.RHOwner, Public: *p, Private: []byte("private"), Secret: []byte("secret")},
	}
}

func TestTSS2(t *testing.T) {
	for _, k := range sampleTSS2(t) {
		der, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseTSS2(der)
		if err != nil {
			t.Fatal(err)
		}
		again, err := got.Marshal()
		if err != nil || !bytes.Equal(again, der) || got.Description != k.Description || got.Parent != k.Parent {
			t.Fatalf("%+v, %v", got, err)
		}
		for n := range der {
			if _, err := ParseTSS2(der[:n]); err == nil {
				t.Fatalf("cut to %d bytes: taken", n)
			}
		}
		if _, err := ParseTSS2(append(der, 0)); err == nil {
			t.Fatal("a byte too many")
		}
	}
	bad := sampleTSS2(t)
	bad[0].Secret, bad[1].Parent, bad[2].Secret = []byte("x"), 0x80000001, nil
	for i, k := range bad {
		if _, err := k.Marshal(); err == nil {
			t.Errorf("bad key %d was written", i)
		}
	}
	// [1] EXPLICIT: a policy.
	good, _ := sampleTSS2(t)[0].Marshal()
	oid := bytes.Index(good, []byte{0x06, 0x06})
	policy := append(append(bytes.Clone(good[oid:oid+8]), 0xa1, 0x02, 0x30, 0x00), good[oid+8+5:]...)
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddBytes(policy) })
	policy = b.BytesOrPanic()
	if _, err := ParseTSS2(policy); err == nil || !strings.Contains(err.Error(), "policy") {
		t.Fatal(err)
	}
}

func TestDecode(t *testing.T) {
	good := string(Encode(PEMPublic, []byte("x")))
	if kind, der, err := Decode([]byte(good + "\n")); err != nil || kind != PEMPublic || string(der) != "x" {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "no PEM", good + good, good + "x", strings.Replace(good, "KEY-----\n", "KEY-----\nDEK-Info: x\n\n", 1)} {
		if _, der, err := Decode([]byte(bad)); err == nil || der != nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// FuzzParse: any bytes give an error and no key, or a key that is written and
// read as the same one.
func FuzzParse(f *testing.F) {
	for _, k := range keys(f) {
		p, s := k[0].(*tpm2.Public), k[1].(*tpm2.Sensitive)
		a, _ := MarshalPublic(p)
		b, _ := MarshalPrivate(p, s)
		f.Add(a)
		f.Add(b)
	}
	for _, k := range sampleTSS2(f) {
		b, _ := k.Marshal()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePublic(b)
		if (p == nil) == (err == nil) {
			t.Fatal("public: a result beside an error, or neither")
		}
		if err == nil {
			der, err := MarshalPublic(p)
			if err != nil {
				t.Fatal(err)
			}
			if q, err := ParsePublic(der); err != nil || !sameName(p, q) {
				t.Fatalf("public: another key came back, %v", err)
			}
		}
		p, s, err := ParsePrivate(b)
		if (p == nil) == (err == nil) || (s == nil) == (err == nil) {
			t.Fatal("private: a result beside an error, or neither")
		}
		if err == nil {
			if _, err := MarshalPrivate(p, s); err != nil {
				t.Fatal(err)
			}
		}
		k, err := ParseTSS2(b)
		if (k == nil) == (err == nil) {
			t.Fatal("TSS2: a result beside an error, or neither")
		}
		if err == nil {
			der, err := k.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := ParseTSS2(der); err != nil || !sameName(&again.Public, &k.Public) {
				t.Fatalf("TSS2: another key came back, %v", err)
			}
		}
	})
}

func sameName(p, q *tpm2.Public) bool {
	a, err := p.Name()
	b, err2 := q.Name()
	return err == nil && err2 == nil && bytes.Equal(a, b)
}
