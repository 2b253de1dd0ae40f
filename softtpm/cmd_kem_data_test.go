// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	stdaes "crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha512"
	"strings"
	"testing"

	"github.com/cloudflare/circl/kem/schemes"

	"holdfast/tpm2"
)

// sealOutside is KEM_Encrypt by its equations, with another implementation of
// ML-KEM and KDFa typed out for one block of SHA-512.
func sealOutside(t *testing.T, set tpm2.MLKEMSet, public []byte, message, label string) (sealed, ct []byte) {
	t.Helper()
	scheme := schemes.ByName([]string{"", "ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"}[set])
	pub, err := scheme.UnmarshalBinaryPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	ct, k, err := scheme.Encapsulate(pub)
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha512.New, k)
	m.Write([]byte{0, 0, 0, 1})
	m.Write([]byte("holdfast/kem-data/v1\x00"))
	m.Write(ct)
	m.Write(public)
	m.Write([]byte{0, 0, 1, 0x60}) // 352 bits
	b := m.Sum(nil)
	block, err := stdaes.NewCipher(b[:32])
	if err != nil {
		t.Fatal(err)
	}
	a, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return a.Seal(nil, b[32:44], []byte(message), []byte(label)), ct
}

func TestKEMData(t *testing.T) {
	for set := tpm2.MLKEM512; set <= tpm2.MLKEM1024; set++ {
		p := newTPM(t, Options{})
		key := createPrimaryKey(t, p, tpm2.RHOwner, mlkemTemplate(set, false))
		testKEMData(t, p, key)
		sealed, ct := sealOutside(t, set, key.pub.Unique, "from outside", "l")
		if got := open(key, sealed, ct, "l").ok(t, p).Sized(99); string(got) != "from outside" {
			t.Errorf("set %d: %q", set, got)
		}
		parent := createPrimaryKey(t, p, tpm2.RHOwner, mlkemTemplate(set, true))
		open(parent, sealed, ct, "l").refused(t, p, "restricted", tpm2.RCAttributes.Handle(1))
	}
	p := newTPM(t, Options{})
	x := eccTemplate(attrsDecrypt, tpm2.NoScheme)
	x.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgHKDF, Hash: tpm2.AlgSHA256}
	testKEMData(t, p, createPrimaryKey(t, p, tpm2.RHOwner, x))
	plain := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsDecrypt, tpm2.NoScheme))
	on(tpm2.CCKEMEncrypt, plain.h, sized("m", "")).refused(t, p, "no KEM", tpm2.RCKey.Handle(1))
	open(plain, []byte("x"), []byte("y"), "").refused(t, p, "no KEM", tpm2.RCKey.Handle(1))
}

func open(key made, sealed, ct []byte, label string) request {
	return seqRequest(tpm2.CCKEMDecrypt, key.h, "", sized(string(sealed), string(ct), label))
}

func testKEMData(t *testing.T, p *TPM, key made) {
	t.Helper()
	for _, message := range []string{"", "a message", strings.Repeat("x", tpm2.MaxBuffer)} {
		r := on(tpm2.CCKEMEncrypt, key.h, sized(message, "label")).ok(t, p)
		sealed, ct := bytes.Clone(r.Sized(4096)), bytes.Clone(r.Sized(4096))
		r.End()
		if r.Err() != nil || len(sealed) != len(message)+kemTagSize {
			t.Fatalf("%d bytes became %d, %v", len(message), len(sealed), r.Err())
		}
		if got := open(key, sealed, ct, "label").ok(t, p).Sized(4096); string(got) != message {
			t.Fatalf("%d bytes: another message came out", len(message))
		}
		r = on(tpm2.CCKEMEncrypt, key.h, sized(message, "label")).ok(t, p)
		if bytes.Equal(r.Sized(4096), sealed) {
			t.Fatal("the same ciphertext twice")
		}
		open(key, sealed, ct, "Label").refused(t, p, "another label", tpm2.RCIntegrity.Parameter(1))
		open(key, sealed[:len(sealed)-1], ct, "label").refused(t, p, "cut", tpm2.RCIntegrity.Parameter(1))
		open(key, nil, ct, "label").refused(t, p, "empty", tpm2.RCIntegrity.Parameter(1))
		for _, i := range []int{0, len(sealed) - 1} {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1
			open(key, bad, ct, "label").refused(t, p, "changed", tpm2.RCIntegrity.Parameter(1))
		}
		if key.pub.Type == tpm2.AlgMLKEM {
			bad := bytes.Clone(ct)
			bad[7] ^= 1
			open(key, sealed, bad, "label").refused(t, p, "changed KEM ciphertext", tpm2.RCIntegrity.Parameter(1))
			open(key, sealed, ct[1:], "label").refused(t, p, "short KEM ciphertext", tpm2.RCSize.Parameter(2))
		} else {
			open(key, sealed, ct[1:], "label").refused(t, p, "short KEM ciphertext", tpm2.RCValue.Parameter(2))
		}
	}
	// It counts as a failed try, so it changes the state.
	if rc, _ := seqRequest(tpm2.CCKEMDecrypt, key.h, "wrong", sized("", "", "")).do(t, p); rc != tpm2.RCAuthFail.Session(1) {
		t.Errorf("wrong password: %v", rc)
	}
	on(tpm2.CCKEMEncrypt, key.h, sized(strings.Repeat("x", tpm2.MaxBuffer+1), "")).refused(t, p, "long message", tpm2.RCSize.Parameter(1))
	on(tpm2.CCKEMEncrypt, key.h, sized("x", strings.Repeat("x", tpm2.MaxData+1))).refused(t, p, "long label", tpm2.RCSize.Parameter(2))
	on(tpm2.CCKEMEncrypt, key.h, sized("x", "", "")).refused(t, p, "more", tpm2.RCSize)
}
