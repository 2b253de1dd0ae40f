// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"crypto/rsa"
	"testing"
)

// TestSM: SM3 of "abc" (GM/T 0004, A.1), SM4 (GM/T 0002, A.1).
// The DigestInfo of RSASSA with SM3 has the object identifier of GM/T 0006; OpenSSL
// refuses RSA with SM3, so that there is nobody to ask.
func TestSM(t *testing.T) {
	if got, want := SM3_256.Sum([]byte("a"), []byte("bc")), unhex(t, "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0"); !bytes.Equal(got, want) {
		t.Errorf("SM3 %x, want %x", got, want)
	}
	key := unhex(t, "0123456789abcdeffedcba9876543210")
	b, err := NewCipher(SM4, key)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 16)
	b.Encrypt(out, key)
	if want := unhex(t, "681edf34d206965e86b3e94f536e4246"); !bytes.Equal(out, want) {
		t.Errorf("SM4 %x, want %x", out, want)
	}
	if _, err := NewCipher(SM4, key[:15]); err == nil {
		t.Error("SM4 with 15 octets of key")
	}
	if _, err := NewCipher(0x26, key); err == nil {
		t.Error("a cipher that is not there")
	}
	k := key2048()
	d := SM3_256.Sum([]byte("message"))
	sig, err := k.SignPKCS1(SM3_256, d)
	if err != nil {
		t.Fatal(err)
	}
	info := append(unhex(t, "3030300c06082a811ccf550183110500 0420"), d...)
	if err := rsa.VerifyPKCS1v15(&std(t, k).PublicKey, 0, info, sig); err != nil { // hash 0: info is what was signed
		t.Errorf("DigestInfo: %v", err)
	}
	refused(t, k.Public().VerifyPKCS1, SM3_256, d, sig)
}
