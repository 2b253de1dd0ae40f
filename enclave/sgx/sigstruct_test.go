// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"testing"
	"time"
)

// A throw-away key for tests, made by `openssl genrsa -3 3072`.
const signerKey = "../urts/probe/testdata/signer-test-key.pem"

func testKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	b, err := os.ReadFile(signerKey)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := pem.Decode(b)
	k, err := x509.ParsePKCS8PrivateKey(p.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k.(*rsa.PrivateKey)
}

func signed(t testing.TB) *SigStruct {
	t.Helper()
	s := &SigStruct{Date: DateOf(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)), Attributes: Attributes{FlagMode64, 3},
		AttrMask: Attributes{^FlagDebug, ^uint64(0)}, EnclaveHash: sha256.Sum256([]byte("enclave")), ISVProdID: 1, ISVSVN: 2}
	if err := s.Sign(testKey(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignVerify(t *testing.T) {
	s := signed(t)
	if s.Date != 0x20261130 || s.Date.String() != "2026-11-30" {
		t.Errorf("date %#x %v", uint32(s.Date), s.Date)
	}
	b := s.AppendTo(nil)
	p, err := ParseSigStruct(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	// MRSIGNER by another way: the modulus, reversed.
	n := testKey(t).N.FillBytes(make([]byte, 384))
	for i, j := 0, 383; i < j; i, j = i+1, j-1 {
		n[i], n[j] = n[j], n[i]
	}
	if p.MRSigner() != sha256.Sum256(n) {
		t.Error("MRSIGNER is not SHA-256 of the little-endian modulus")
	}
}

// TestVerifyCoversEveryField flips one bit in each byte that is signed, in the
// key, the signature, Q1 and Q2.
func TestVerifyCoversEveryField(t *testing.T) {
	b := signed(t).AppendTo(nil)
	step := 1
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(b); i += step {
		b[i] ^= 1
		p, err := ParseSigStruct(b)
		if err == nil {
			err = p.Verify()
			if err != nil && !errors.Is(err, ErrSignature) {
				t.Errorf("byte %d: %v is not ErrSignature", i, err)
			}
		}
		if err == nil {
			t.Errorf("byte %d was changed and the structure still verifies", i)
		}
		b[i] ^= 1
	}
}

func TestSignRefusesOtherKeys(t *testing.T) {
	k := testKey(t)
	bad := *k
	bad.E = 65537
	if err := new(SigStruct).Sign(&bad); err == nil {
		t.Error("exponent 65537 was accepted")
	}
	small := *k
	small.N = new(big.Int).Rsh(k.N, 8)
	if err := new(SigStruct).Sign(&small); err == nil {
		t.Error("a short modulus was accepted")
	}
}

// A signature that was made elsewhere: over the signed ranges, most significant
// byte first.
func TestSetSignature(t *testing.T) {
	k, s := testKey(t), signed(t)
	b := s.AppendTo(nil)
	h := sha256.Sum256(append(bytes.Clone(b[:128]), b[900:1028]...))
	sig, err := rsa.SignPKCS1v15(nil, k, crypto.SHA256, h[:])
	if err != nil {
		t.Fatal(err)
	}
	c := *s
	c.Modulus, c.Signature, c.Q1, c.Q2 = [384]byte{}, [384]byte{}, [384]byte{}, [384]byte{}
	if err := c.SetSignature(&k.PublicKey, sig); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.AppendTo(nil), s.AppendTo(nil)) {
		t.Error("another SIGSTRUCT than that of Sign")
	}
	sig[100] ^= 1
	if err := c.SetSignature(&k.PublicKey, sig); !errors.Is(err, ErrSignature) {
		t.Errorf("a changed signature: got %v, want %v", err, ErrSignature)
	}
	if err := c.SetSignature(&k.PublicKey, sig[1:]); err == nil {
		t.Error("a signature of 383 bytes is taken")
	}
	if err := c.SetSignature(&rsa.PublicKey{N: k.N, E: 65537}, sig); err == nil {
		t.Error("a key with exponent 65537 is taken")
	}
}
