// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/enclave/sgx/image"
)

func TestConfig(t *testing.T) {
	c, err := ParseConfig(strings.NewReader(`<?xml version="1.0"?><EnclaveConfiguration>
  <ProdID>7</ProdID> <!-- a comment --> <ISVSVN>0x10</ISVSVN><TCSNum>3</TCSNum>
  <StackMaxSize>0x8000</StackMaxSize><HeapMaxSize>4096</HeapMaxSize><IntelSigned>0</IntelSigned>
</EnclaveConfiguration>`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Get(ProdID) != 7 || c.Get(ISVSVN) != 16 || c.threads() != 3 || c.Get(StackMaxSize) != 0x8000 || c.Get(MiscMask) != 0xffffffff {
		t.Errorf("got %v", c)
	}
	again, err := ParseConfig(strings.NewReader(c.String()))
	if err != nil || again.values != c.values {
		t.Errorf("what is printed reads as %v, %v", again, err)
	}
	for _, bad := range []struct{ xml, want string }{
		{``, "expected <EnclaveConfiguration>"},
		{`<Other/>`, "expected one <EnclaveConfiguration>"},
		{`<EnclaveConfiguration><ProdID>70000</ProdID></EnclaveConfiguration>`, "is not between"},
		{`<EnclaveConfiguration><ProdID>-1</ProdID></EnclaveConfiguration>`, "expected a number"},
		{`<EnclaveConfiguration><ProdID></ProdID></EnclaveConfiguration>`, "expected a number"},
		{`<EnclaveConfiguration><ProdID a="b">1</ProdID></EnclaveConfiguration>`, "has attributes"},
		{`<EnclaveConfiguration><ProdID>1</ProdID><ProdID>1</ProdID></EnclaveConfiguration>`, "twice"},
		{`<EnclaveConfiguration><ProdID><X/></ProdID></EnclaveConfiguration>`, "within"},
		{`<EnclaveConfiguration><Prodid>1</Prodid></EnclaveConfiguration>`, "is no parameter"},
		{`<EnclaveConfiguration>text</EnclaveConfiguration>`, "outside of an element"},
		{`<EnclaveConfiguration><EnableAEXNotify>1</EnableAEXNotify></EnclaveConfiguration>`, "only 0 is supported"},
		{`<EnclaveConfiguration><StackMaxSize>0x2001</StackMaxSize></EnclaveConfiguration>`, "no multiple"},
		{`<EnclaveConfiguration><HeapInitSize>0x2000</HeapInitSize><HeapMaxSize>0x1000</HeapMaxSize></EnclaveConfiguration>`, "is larger than HeapMaxSize"},
		{`<EnclaveConfiguration><TCSNum>4</TCSNum><TCSMaxNum>3</TCSMaxNum></EnclaveConfiguration>`, "smaller than TCSNum"},
		{`<EnclaveConfiguration><ISVFAMILYID_L>4</ISVFAMILYID_L></EnclaveConfiguration>`, "need EnableKSS"},
		{`<EnclaveConfiguration></EnclaveConfiguration><EnclaveConfiguration></EnclaveConfiguration>`, "expected one"},
	} {
		c, err := ParseConfig(strings.NewReader(bad.xml))
		if c != nil || err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: got %v, want %q", bad.xml, err, bad.want)
		}
	}
}

// FuzzConfig: what is read prints to what reads to the same; an error has no result.
func FuzzConfig(f *testing.F) {
	f.Add(Default().String())
	f.Add(`<EnclaveConfiguration><TCSNum>4</TCSNum><TCSMaxNum>8</TCSMaxNum><HeapInitSize>0x1000</HeapInitSize></EnclaveConfiguration>`)
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseConfig(strings.NewReader(s))
		if err != nil {
			if c != nil {
				t.Fatal("an error with a Config")
			}
			return
		}
		again, err := ParseConfig(strings.NewReader(c.String()))
		if err != nil || again.values != c.values || again.threads() != c.threads() {
			t.Fatalf("%s reads as %v, %v", c, again, err)
		}
	})
}

// Lengths of instructions, with their bytes from an assembler.
func TestInstructionLength(t *testing.T) {
	for code, n := range map[string]int{
		"90": 1, "c3": 1, "0f05": 2, "cd80": 2, "4889e5": 3, "8b4508": 3, "488b0425d2040000": 8, "488b05d2040000": 7, "b8d2040000": 5, "48b8d204000000000000": 10, "66b8d204": 4,
		"f60401ff": 4, "f7d8": 2, "f7c0d2040000": 6, "0f84d2040000": 6, "740f": 2, "e80f050000": 5, "c5f877": 3, "c5fc58c1": 4, "c4e27918c0": 5, "c4e37d19c101": 6, "62f17c4858c1": 6,
		"660f3a0fc108": 6, "660f3800c1": 5, "f30f1efa": 4, "0fba600405": 5, "c8100000": 4, "c20800": 3, "64488b042528000000": 9, "69c00f050000": 6, "6bc005": 3, "a10f05000000000000": 9, "0f01d7": 3, "e40f": 2,
	} {
		b, err := hex.DecodeString(code + "0f05cccccccccccccccccc")
		if err != nil {
			t.Fatal(err)
		}
		if got := instructionLength(b); got != n {
			t.Errorf("%s: length %d, want %d", code, got, n)
		}
	}
}

// FuzzInstructionLength: never nothing, never more than there is.
func FuzzInstructionLength(f *testing.F) {
	f.Add([]byte{0x0f, 0x38})
	f.Add([]byte{0x66, 0x66, 0x48, 0xc4})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		if n := instructionLength(b); n < 1 || n > len(b) || n > 15 {
			t.Fatalf("length %d of %x", n, b)
		}
	})
}

func testKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	b, err := os.ReadFile("../../enclave/urts/probe/testdata/signer-test-key.pem")
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

// testdata/unsigned.so is the enclave of minimal.s (its head says how it is made).
func unsigned(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/unsigned.so")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var date = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func TestPrepareAndSign(t *testing.T) {
	k := testKey(t)
	c, err := ParseConfig(strings.NewReader(`<EnclaveConfiguration><ProdID>7</ProdID><ISVSVN>3</ISVSVN><TCSNum>4</TCSNum><StackMaxSize>0x4000</StackMaxSize><HeapMaxSize>0x5000</HeapMaxSize><DisableDebug>1</DisableDebug></EnclaveConfiguration>`))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Prepare(unsigned(t), c, Options{Date: date})
	if err != nil {
		t.Fatal(err)
	}
	material := d.Material()
	b, err := d.Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.ReadSDK(b)
	if err != nil {
		t.Fatal(err)
	}
	if img.Measure() != img.Sig.EnclaveHash || img.Sig.Verify() != nil || img.Sig.ISVProdID != 7 || img.Sig.ISVSVN != 3 || img.Sig.Date != 0x20261201 || img.Sig.AttrMask.Flags&2 == 0 {
		t.Errorf("SIGSTRUCT %+v", img.Sig)
	}
	tcs := 0
	for _, p := range img.Pages {
		if p.Info.Type == 1 {
			tcs++
			if le.Uint64(p.Data[16:]) != p.Offset+0x1000 || le.Uint64(p.Data[48:])%4096 != 0 || le.Uint64(p.Data[48:]) != le.Uint64(p.Data[56:]) {
				t.Errorf("TCS at %#x: OSSA %#x, OFSBASE %#x", p.Offset, le.Uint64(p.Data[16:]), le.Uint64(p.Data[48:]))
			}
		}
	}
	if tcs != 4 {
		t.Errorf("%d threads, want 4", tcs)
	}
	// Elsewhere signed: the same file.
	d, err = Prepare(unsigned(t), c, Options{Date: date.AddDate(0, 0, 3)})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetDate(material); err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256(material)
	sig, err := rsa.SignPKCS1v15(nil, k, crypto.SHA256, h[:])
	if err != nil {
		t.Fatal(err)
	}
	two, err := d.Attach(&k.PublicKey, sig)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, two) {
		t.Error("signed in two steps, the file is another one")
	}
	material[200] ^= 1
	if err := d.SetDate(material); err == nil {
		t.Error("the material of another enclave is taken")
	}
	// Signed again: the same enclave.
	r, err := Resign(b, date.AddDate(0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	three, err := r.Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	again, err := image.ReadSDK(three)
	if err != nil || again.Measure() != img.Measure() || again.Sig.Date != 0x20261202 {
		t.Errorf("signed again: %v, %+v", err, again)
	}
	// What changes the enclave changes the measurement.
	o, err := Prepare(unsigned(t), Default(), Options{Date: date})
	if err != nil || o.Sig.EnclaveHash == img.Sig.EnclaveHash {
		t.Errorf("another configuration has the same MRENCLAVE (%v)", err)
	}
	if _, err := Resign(unsigned(t), date); err == nil {
		t.Error("an unsigned file is signed again")
	}
}

func TestPrepareRefuses(t *testing.T) {
	good := unsigned(t)
	for _, c := range []struct {
		what   string
		change func([]byte) []byte
		want   string
	}{
		{"nothing", func([]byte) []byte { return nil }, "not an ELF file"},
		{"executable", func(b []byte) []byte { b[16] = 2; return b }, "expected a shared object"},
		{"no note", func(b []byte) []byte { return bytes.Replace(b, []byte(".note.sgxmeta"), []byte(".note.sgxnone"), 1) }, "no section .note.sgxmeta"},
		{"no runtime", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("g_global_data"), []byte("g_global_dato")) }, "enclave_entry and g_global_data"},
		{"a system call", func(b []byte) []byte {
			return bytes.Replace(b, []byte{0x90, 0x90, 0x0f, 0x0b, 0x90}, []byte{0x90, 0x90, 0x0f, 0x05, 0x90}, 1)
		}, "SYSCALL at"},
		{"a note of something else", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(noteName), []byte("other_metada\x00")) }, "is not the note"},
	} {
		d, err := Prepare(c.change(bytes.Clone(good)), Default(), Options{Date: date})
		if d != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
	sys := bytes.Replace(good, []byte{0x90, 0x90, 0x0f, 0x0b, 0x90}, []byte{0x90, 0x90, 0x0f, 0x05, 0x90}, 1)
	if _, err := Prepare(sys, Default(), Options{Date: date, AllowSyscall: true}); err != nil {
		t.Error(err)
	}
	other, err := rsa.GenerateKey(nil, 2048)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Prepare(good, Default(), Options{Date: date})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sign(other); err == nil || !strings.Contains(err.Error(), "3072 bits and exponent 3") {
		t.Errorf("a key of 2048 bits: got %v", err)
	}
}

// FuzzPrepare: no file makes the signer panic; what it takes, the loader takes.
func FuzzPrepare(f *testing.F) {
	b, err := os.ReadFile("testdata/unsigned.so")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, file []byte) {
		d, err := Prepare(file, Default(), Options{Date: date})
		if err != nil {
			if d != nil {
				t.Fatal("an error with a Draft")
			}
			return
		}
		if _, err := image.ReadSDK(d.file); err != nil {
			t.Fatal(err)
		}
	})
}
