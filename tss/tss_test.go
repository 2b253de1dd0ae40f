// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"holdfast/tpm2"
)

// The tests against real engines are in test/tsstest; here is what needs none.

// typed is a transport that notes the command and gives a typed answer.
type typed struct{ sent, answer []byte }

func (t *typed) Send(b []byte) ([]byte, error) {
	t.sent = bytes.Clone(b)
	return t.answer, nil
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGoldenCommands: bytes typed from Part 3 (tables of the commands) and
// Part 1, 18 (headers and the authorization area).
func TestGoldenCommands(t *testing.T) {
	for name, c := range map[string]struct {
		run          func(c *TPM) error
		sent, answer string
	}{
		"Startup": {func(c *TPM) error { return c.Startup(tpm2.SUClear) }, "80010000000c000001440000", "80010000000a00000000"},
		"PCR_Reset": {func(c *TPM) error { return c.PCRReset(PCR(16)) },
			"80020000001b0000013d00000010" + "00000009400000090000010000", "8002000000130000000000000000" + "0000010000"},
		"Quote": {func(c *TPM) error {
			a, err := c.Quote(Ref{Handle: 0x80000001, Auth: Password([]byte("pw"))}, []byte{1, 2}, tpm2.NoScheme, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 16)})
			if err == nil && (string(a.Attest) != "att" || !bytes.Equal(a.Signature, []byte{0, 0x10})) {
				return errors.New("parsed wrongly")
			}
			return err
		}, "80020000002d" + "00000158" + "80000001" + "0000000b" + "40000009" + "0000" + "01" + "0002" + "7077" + "00020102" + "0010" + "00000001" + "000b" + "03" + "010001",
			"80020000001a" + "00000000" + "00000007" + "0003617474" + "0010" + "0000010000"},
		"Encapsulate": {func(c *TPM) error {
			ss, ct, err := c.Encapsulate(Ref{Handle: 0x80000002})
			if err == nil && (string(ss) != "S" || string(ct) != "CT") {
				return errors.New("the shared secret comes first")
			}
			return err
		}, "80010000000e000001a780000002", "80010000001100000000" + "000153" + "00024354"},
		"SignSequenceStart": {func(c *TPM) error {
			s, err := c.SignSequenceStart(Ref{Handle: 0x80000002}, []byte("a"), []byte("ctx"))
			if err == nil && s.Handle != 0x80000003 {
				return errors.New("handle")
			}
			return err
		}, "800100000016000001aa80000002" + "000161" + "0003637478", "80010000000e00000000" + "80000003"},
		"ROT_MSG1": {func(c *TPM) error {
			s, m, err := c.ROT1([]byte("a"), 13313, 7)
			if err == nil && (s.Handle != 0x80000003 || string(m) != "M") {
				return errors.New("parsed wrongly")
			}
			return err
		}, "800100000013" + "20000001" + "000161" + "3401" + "00000007", "80010000001100000000" + "80000003" + "00014d"},
		"KEM_Encrypt": {func(c *TPM) error {
			sealed, ct, err := c.KEMEncrypt(Ref{Handle: 0x80000002}, []byte("m"), []byte("l"))
			if err == nil && (string(sealed) != "S" || string(ct) != "CT") {
				return errors.New("the sealed message comes first")
			}
			return err
		}, "800100000014" + "20000005" + "80000002" + "00016d" + "00016c", "80010000001100000000" + "000153" + "00024354"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &typed{answer: unhex(t, c.answer)}
			if err := c.run(New(tr)); err != nil {
				t.Fatal(err)
			}
			if want := unhex(t, c.sent); !bytes.Equal(tr.sent, want) {
				t.Fatalf("sent %x\nwant %x", tr.sent, want)
			}
			// An answer cut short, or one byte longer, is never taken.
			for n := range tr.answer {
				bad := bytes.Clone(tr.answer[:n])
				if n >= 6 {
					bad[5] = byte(n)
				}
				if err := c.run(New(&typed{answer: bad})); !errors.Is(err, ErrResponse) {
					t.Fatalf("cut to %d bytes: %v", n, err)
				}
			}
			bad := append(bytes.Clone(tr.answer), 0)
			bad[5]++
			if err := c.run(New(&typed{answer: bad})); !errors.Is(err, ErrResponse) {
				t.Fatalf("one byte too many: %v", err)
			}
		})
	}
}

// TestRetry: a TPM that asks for patience gets the same command again.
type patience struct{ n, calls int }

func (p *patience) Send([]byte) ([]byte, error) {
	if p.calls++; p.calls <= p.n {
		return []byte("\x80\x01\x00\x00\x00\x0a\x00\x00\x09\x22"), nil
	}
	return []byte("\x80\x01\x00\x00\x00\x0a\x00\x00\x00\x00"), nil
}

func TestRetry(t *testing.T) {
	p := &patience{n: 2}
	if err := New(p).Startup(tpm2.SUClear); err != nil || p.calls != 3 {
		t.Fatal(err, p.calls)
	}
	p = &patience{n: 1 << 30}
	if err := New(p).Startup(tpm2.SUClear); !errors.Is(err, tpm2.RCRetry) {
		t.Fatal(err)
	}
}

// TestKDFa: the counter mode of SP 800-108 typed out once more, step by step.
func TestKDFa(t *testing.T) {
	key := []byte("key")
	got := kdfa(tpm2.AlgSHA256, key, "LABEL", []byte("u"), []byte("v"), 300)
	var want []byte
	for _, i := range []byte{1, 2} {
		// HMAC by its definition (RFC 2104), not by crypto/hmac.
		ipad, opad := bytes.Repeat([]byte{0x36}, 64), bytes.Repeat([]byte{0x5c}, 64)
		for j := range key {
			ipad[j] ^= key[j]
			opad[j] ^= key[j]
		}
		inner := tpm2.AlgSHA256.Sum(ipad, []byte{0, 0, 0, i}, []byte("LABEL\x00"), []byte("uv"), []byte{0, 0, 1, 44})
		want = append(want, tpm2.AlgSHA256.Sum(opad, inner)...)
	}
	want = want[:38]
	want[0] &= 0x0f // 300 = 37*8 + 4 bits
	if !bytes.Equal(got, want) {
		t.Fatalf("%x, want %x", got, want)
	}
}

func TestCFB(t *testing.T) {
	key, iv := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 16)
	for n := 0; n < 70; n++ {
		data := bytes.Repeat([]byte{byte(n)}, n)
		ours := bytes.Clone(data)
		if err := cfb(key, iv, ours, true); err != nil {
			t.Fatal(err)
		}
		b, _ := aes.NewCipher(key)
		std := make([]byte, n)
		cipher.NewCFBEncrypter(b, iv).XORKeyStream(std, data) //nolint:staticcheck // the deprecated twin is the oracle
		if !bytes.Equal(ours, std) {
			t.Fatalf("%d bytes: %x, want %x", n, ours, std)
		}
		if err := cfb(key, iv, ours, false); err != nil || !bytes.Equal(ours, data) {
			t.Fatalf("%d bytes: decryption", n)
		}
	}
}

// FuzzResponse gives any bytes as response to commands with and without
// sessions: an error or a result, never both, and no panic.
func FuzzResponse(f *testing.F) {
	f.Add([]byte("\x80\x01\x00\x00\x00\x0a\x00\x00\x00\x00"))
	f.Add([]byte("\x80\x02\x00\x00\x00\x1a\x00\x00\x00\x00\x00\x00\x00\x07\x00\x03att\x00\x10\x00\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := New(&typed{answer: answer})
		s := &Session{Hash: tpm2.AlgSHA256, Symmetric: AES128CFB, Attributes: tpm2.SessionContinue | tpm2.SessionEncrypt, handle: 0x02000000, nonceTPM: make([]byte, 32), key: []byte("k")}
		if q, err := c.Quote(Ref{}, nil, tpm2.NoScheme, nil); (q == nil) == (err == nil) {
			t.Fatal("Quote: a result beside an error, or neither")
		}
		if k, err := c.CreatePrimary(Owner(nil), SRKTemplate(ECCP256), nil); (k == nil) == (err == nil) {
			t.Fatal("CreatePrimary: a result beside an error, or neither")
		}
		if k, _, err := c.ReadPublic(0x80000000); (k == nil) == (err == nil) {
			t.Fatal("ReadPublic: a result beside an error, or neither")
		}
		if d, _, err := c.GetCapability(tpm2.CapTPMProperties, 0, 1); (d == nil) == (err == nil) {
			t.Fatal("GetCapability: a result beside an error, or neither")
		}
		if _, err := c.With(s).GetRandom(8); err == nil {
			t.Fatal("a response without the session's HMAC was taken")
		}
	})
}

// TestEKPolicyB: PolicyB as the EK Credential Profile prints it (B.6.3), for
// each hash of a high-range endorsement key.
func TestEKPolicyB(t *testing.T) {
	for k, want := range map[Kind]string{
		ECCP384:   "b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12",
		MLKEM512:  "ca3d0a99a2b93906f7a3342414efcfb3a385d44cd1fd459089d19b5071c0b7a0",
		MLKEM768:  "b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12",
		MLKEM1024: "b8221ca69e8550a4914de3faa6a18c072cc01208073a928d5d66d59ef79e49a429c41a6b269571d57edb25fbdb1838425608b413cd616a5f6db5b6071af99bea",
	} {
		p := EKTemplate(k)
		if got := fmt.Sprintf("%x", p.AuthPolicy); got != want || !p.Attributes.Has(tpm2.ObjectUserWithAuth) {
			t.Errorf("%s: policy %s, want %s; attributes %v", k, got, want, p.Attributes)
		}
	}
}
