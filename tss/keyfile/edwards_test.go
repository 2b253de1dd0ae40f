// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"testing"

	"holdfast/tpm2"
)

// TestEdwardsForms: keys of RFC 8410 go in and come out as crypto/x509 writes
// them (Ed25519, X25519), and as they went in (Ed448, X448).
func TestEdwardsForms(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]struct{ private, public any }{"Ed25519": {ed, ed.Public()}, "X25519": {x, x.PublicKey()}} {
		private, err1 := x509.MarshalPKCS8PrivateKey(k.private)
		public, err2 := x509.MarshalPKIXPublicKey(k.public)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		p, s, err := ParsePrivate(private)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if out, err := MarshalPrivate(p, s); err != nil || !bytes.Equal(out, private) {
			t.Errorf("%s: the private key came out as %x (%v)", name, out, err)
		}
		if out, err := MarshalPublic(p); err != nil || !bytes.Equal(out, public) {
			t.Errorf("%s: the public key came out as %x (%v)", name, out, err)
		}
		q, err := ParsePublic(public)
		if err != nil || !bytes.Equal(q.Point.X, p.Point.X) || q.Parms.Scheme != p.Parms.Scheme {
			t.Errorf("%s: public key %+v (%v)", name, q, err)
		}
		other := *s
		other.Value = bytes.Clone(s.Value)
		other.Value[5] ^= 8
		if _, err := MarshalPrivate(p, &other); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: another private key: %v", name, err)
		}
		for _, der := range [][]byte{public[:len(public)-1], append(bytes.Clone(public), 0)} {
			if _, err := ParsePublic(der); err == nil {
				t.Errorf("%s: %x was read", name, der)
			}
		}
		if _, _, err := ParsePrivate(append(bytes.Clone(private), 0)); err == nil {
			t.Errorf("%s: octets behind the key were read", name)
		}
	}
	for i := range edwardsKinds {
		k := &edwardsKinds[i]
		value := bytes.Repeat([]byte{byte(i + 1)}, k.size)
		public, err := k.public(value)
		if err != nil {
			t.Fatal(err)
		}
		p, s := k.area(public), &tpm2.Sensitive{Type: tpm2.AlgECC, Value: value}
		der, err := MarshalPrivate(p, s)
		if err != nil {
			t.Fatal(err)
		}
		q, s2, err := ParsePrivate(der)
		if err != nil || !bytes.Equal(q.Point.X, public) || !bytes.Equal(s2.Value, value) {
			t.Errorf("OID %d: %+v (%v)", k.last, q, err)
		}
	}
	ph := edwardsKinds[2].area(make([]byte, 32))
	ph.Parms.Scheme.Alg = tpm2.AlgHashEdDSA
	if _, err := MarshalPublic(ph); err == nil {
		t.Error("a key of HashEdDSA has no form of RFC 8410")
	}
}
