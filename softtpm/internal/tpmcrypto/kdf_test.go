// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"crypto/aes"
	"encoding/hex"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "", "\n", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Values of OpenSSL 3.0: `openssl kdf` KBKDF (counter, HMAC) is KDFa, SSKDF
// with info = label 00 U V is KDFe.
func TestKDFsAgreeWithOpenSSL(t *testing.T) {
	key := unhex(t, "000102030405060708090a0b0c0d0e0f")
	u, v := unhex(t, "a1a2a3"), unhex(t, "b1b2")
	for _, c := range []struct {
		h    Hash
		a, e string
	}{
		{SHA1, "3C:45:49:6B:47:3B:FC:87:22:D8:79:A5:EC:D9:88:2A:30:A3:7A:C2:C6:7D:07:72:7F:C7:14:FB:56:A1:F7:6C:73:A4:1A:3F:16:D4:57:09",
			"DD:D2:03:B0:A2:FB:C9:00:14:0D:67:77:59:20:2D:84:42:06:73:AF:7A:97:F2:75:A9:66:09:8E:46:D6:0A:1B:F7:36:7C:6E:77:23:BB:E1"},
		{SHA256, "3F:96:86:87:D9:F7:1E:50:77:A7:19:A0:10:39:2B:81:22:07:6E:B2:5C:A2:BA:E8:DE:71:A2:DC:AD:1F:6D:DC:32:5F:05:2E:AE:69:8F:88",
			"72:02:0F:8E:0B:9B:B2:56:A6:22:B4:2D:C1:C8:36:3D:6F:D9:29:38:5A:7A:6B:57:91:24:F5:B5:2A:BF:15:33:2A:A3:EA:69:8F:33:3D:3C"},
		{SHA512, "10:C9:89:DC:22:0F:01:D4:1B:09:2C:8F:0B:16:68:1F:A6:26:59:95:11:69:0B:FA:4E:4E:47:90:C0:DF:00:32:B4:5D:7D:FE:58:02:22:B7",
			"04:C5:33:18:11:B7:AC:54:CE:DD:1C:D0:2E:F9:44:23:A7:E8:63:8E:CE:75:3E:03:C8:4C:5D:5E:C1:30:22:E1:A4:D1:85:C5:EE:56:CB:17"},
		{SHA3_256, "8E:87:0A:A1:14:81:DA:A3:03:6B:49:EC:98:86:22:87:37:4E:8B:0F:2C:21:8A:02:3D:D4:FD:DA:3D:40:B6:FD:F3:CD:2D:25:F7:FD:51:45",
			"46:67:70:3E:B4:9C:BF:A6:97:7D:7C:E1:58:43:0B:F0:78:47:B7:27:26:F4:08:6B:BD:74:37:32:B7:8F:05:E1:3B:05:B3:53:6F:52:CE:25"},
	} {
		if got := KDFa(c.h, key, "STORAGE", u, v, 320); !bytes.Equal(got, unhex(t, c.a)) {
			t.Errorf("KDFa %x = %x", c.h, got)
		}
		if got := KDFe(c.h, key, "IDENTITY", u, v, 320); !bytes.Equal(got, unhex(t, c.e)) {
			t.Errorf("KDFe %x = %x", c.h, got)
		}
	}
}

func TestKDFBitLengths(t *testing.T) {
	got := KDFa(SHA256, []byte("k"), "L", nil, nil, 521)
	if len(got) != 66 || got[0]&0xfe != 0 {
		t.Errorf("521 bits: %d octets, first %x", len(got), got[0])
	}
	e := KDFe(SHA256, []byte("k"), "L", nil, nil, 9)
	if len(e) != 2 || e[0]&0xfe != 0 {
		t.Errorf("9 bits: %x", e)
	}
	if KDFa(0x0010, nil, "L", nil, nil, 8) != nil || KDFe(0x0010, nil, "L", nil, nil, 8) != nil || MGF1(0x10, nil, 1) != nil {
		t.Error("a KDF gave octets for TPM_ALG_NULL")
	}
	if KDFa(SHA256, nil, "L", nil, nil, 0) != nil || KDFe(SHA256, nil, "L", nil, nil, -1) != nil {
		t.Error("a KDF gave octets for no bits")
	}
}

func TestHMACAgreesWithOpenSSL(t *testing.T) {
	d := bytes.Repeat([]byte{'A'}, 48)
	for h, want := range map[Hash]string{
		SHA3_384: "9e8f1dee9fdc1b7a43cb4adbcfd930f57c315adbe61d17ebe7dbf3892ae74e20585e821769c39e62e46b50d4bd2cb0c4",
		SHA512:   "202b56ad0feb2323642f0b66f36bb1d165ba84dd67bee92b5933eb35f10a9d7c6bb1e838eb5cab7f80977f9eb04f7d2f9d6ad4163a19fe08217bb322c88e638d",
		SHA1:     "e4327fec164cd3a4d36a7dfd0a22075a2954cf34",
	} {
		if got := HMAC(h, []byte("key"), d[:20], d[20:]); !bytes.Equal(got, unhex(t, want)) {
			t.Errorf("HMAC %x = %x", h, got)
		}
	}
	if HMAC(0x10, nil) != nil {
		t.Error("HMAC with TPM_ALG_NULL")
	}
}

func TestHashRegistry(t *testing.T) {
	for _, h := range Hashes() {
		if n := h.New(); n.Size() != h.Size() || n.BlockSize() != h.BlockSize() {
			t.Errorf("%x: sizes %d %d, hash says %d %d", h, h.Size(), h.BlockSize(), n.Size(), n.BlockSize())
		}
		if !h.Available() || h.Size() > MaxDigest {
			t.Errorf("%x: not available or too large", h)
		}
	}
	// FIPS 202: SHA3-256 of the empty string.
	if got := hex.EncodeToString(SHA3_256.Sum()); got != "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a" {
		t.Errorf("SHA3-256(\"\") = %s", got)
	}
	if got := hex.EncodeToString(SHA1.Sum([]byte("a"), []byte("bc"))); got != "a9993e364706816aba3e25717850c26c9cd0d89d" {
		t.Errorf("SHA-1(abc) = %s", got)
	}
	var null Hash = 0x0010
	if null.Available() || null.New() != nil || null.Sum() != nil || null.OID() != nil {
		t.Error("TPM_ALG_NULL acts as a hash")
	}
}

func TestXORObfuscate(t *testing.T) {
	// The mask is KDFa with label XOR (Part 1); doing it twice is nothing.
	data := []byte("attack at dawn, or at noon if it rains, says the plan")
	want := append([]byte(nil), data...)
	mask := KDFa(SHA384, []byte("key"), "XOR", []byte("new"), []byte("old"), 8*len(data))
	XORObfuscate(SHA384, []byte("key"), []byte("new"), []byte("old"), data)
	for i := range data {
		if data[i] != want[i]^mask[i] {
			t.Fatalf("octet %d is %x", i, data[i])
		}
	}
	XORObfuscate(SHA384, []byte("key"), []byte("new"), []byte("old"), data)
	if !bytes.Equal(data, want) {
		t.Error("twice is not the identity")
	}
}

// Values of `openssl enc -aes-128-MODE`, IV fffffffffffffffffffffffffffffffe.
func TestModesAgreeWithOpenSSL(t *testing.T) {
	b, err := NewAES(unhex(t, "2b7e151628aed2a6abf7158809cf4f3c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m    Mode
		want string
	}{
		{CFB, "90f655f7bab4beb069dbaf6b0d0face28fa9a0f206137898fe432c0bb2c9bbbbfd69fa2796"},
		{OFB, "90f655f7bab4beb069dbaf6b0d0face28c586d5f56c9429f4af99944eead96b1acf788ce7e"},
		{CTR, "90f655f7bab4beb069dbaf6b0d0face2cbb3c74003b6c7b548713d5b7e3febed3cb62a4d5b"},
		{CBC, "849306fbd4ad3f3a260c359a3d21db918109c4843054dc131c132e11c8e5c60deb42ad758fb964543208cc366b7972f9"},
		{ECB, "6c2a3fd93aa7b417c5438d26a46195196c2a3fd93aa7b417c5438d26a4619519" + "6c2a3fd93aa7b417c5438d26a4619519"},
	} {
		want := unhex(t, c.want)
		iv := unhex(t, "fffffffffffffffffffffffffffffffe")
		if c.m == ECB {
			iv = nil
		}
		iv2 := append([]byte(nil), iv...)
		data := bytes.Repeat([]byte{'A'}, len(want))
		// In two pieces: ivOut of the first continues the operation.
		for _, piece := range [][]byte{data[:16], data[16:]} {
			if err := Crypt(b, c.m, false, iv, piece); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(data, want) {
			t.Errorf("mode %x encrypts to %x", c.m, data)
		}
		for _, piece := range [][]byte{data[:32], data[32:]} {
			if err := Crypt(b, c.m, true, iv2, piece); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(data, bytes.Repeat([]byte{'A'}, len(want))) {
			t.Errorf("mode %x decrypts to %x", c.m, data)
		}
		if !bytes.Equal(iv, iv2) {
			t.Errorf("mode %x: ivOut %x after encryption, %x after decryption", c.m, iv, iv2)
		}
	}
}

func TestCFBInPlace(t *testing.T) {
	b, _ := aes.NewCipher(unhex(t, "2b7e151628aed2a6abf7158809cf4f3c"))
	iv := unhex(t, "fffffffffffffffffffffffffffffffe")
	data := bytes.Repeat([]byte{'A'}, 37)
	CFBEncrypt(b, iv, data)
	if got := hex.EncodeToString(data); got != "90f655f7bab4beb069dbaf6b0d0face28fa9a0f206137898fe432c0bb2c9bbbbfd69fa2796" {
		t.Errorf("got %s", got)
	}
	CFBDecrypt(b, iv, data)
	if !bytes.Equal(data, bytes.Repeat([]byte{'A'}, 37)) || iv[15] != 0xfe {
		t.Error("decryption, or the IV changed")
	}
}

func TestCryptRefuses(t *testing.T) {
	b, _ := NewAES(make([]byte, 32))
	iv := make([]byte, 16)
	for name, err := range map[string]error{
		"ECB with IV":   Crypt(b, ECB, false, iv, make([]byte, 16)),
		"ECB part":      Crypt(b, ECB, false, nil, make([]byte, 17)),
		"CBC part":      Crypt(b, CBC, false, iv, make([]byte, 15)),
		"CFB short IV":  Crypt(b, CFB, false, iv[:15], make([]byte, 15)),
		"CTR no IV":     Crypt(b, CTR, false, nil, make([]byte, 15)),
		"mode NULL":     Crypt(b, 0x0010, false, iv, make([]byte, 16)),
		"mode of a MAC": Crypt(b, 0x003f, true, iv, make([]byte, 16)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewAES(make([]byte, 20)); err == nil {
		t.Error("AES with 20 octets of key")
	}
}

func TestEqualAndZero(t *testing.T) {
	if !Equal([]byte{1, 2}, []byte{1, 2}) || Equal([]byte{1, 2}, []byte{1, 3}) || Equal([]byte{1}, []byte{1, 0}) || !Equal(nil, []byte{}) {
		t.Error("Equal")
	}
	b := []byte{1, 2, 3}
	Zero(b)
	if !bytes.Equal(b, make([]byte, 3)) {
		t.Error("Zero")
	}
}
