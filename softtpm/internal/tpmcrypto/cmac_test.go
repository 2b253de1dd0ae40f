// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestCMACPublished: the examples of RFC 4493, 4 (AES-128) and of SP 800-38B,
// D.3 (AES-256), whole and cut at every place, across a saved state.
func TestCMACPublished(t *testing.T) {
	msg, _ := hex.DecodeString("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")
	for _, c := range []struct {
		key  string
		n    int
		want string
	}{
		{"2b7e151628aed2a6abf7158809cf4f3c", 0, "bb1d6929e95937287fa37d129b756746"},
		{"2b7e151628aed2a6abf7158809cf4f3c", 16, "070a16b46b4d4144f79bdd9dd04a287c"},
		{"2b7e151628aed2a6abf7158809cf4f3c", 40, "dfa66747de9ae63030ca32611497c827"},
		{"2b7e151628aed2a6abf7158809cf4f3c", 64, "51f0bebf7e3b9d92fc49741779363cfe"},
		{"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", 0, "028962f61b7bf89efc6b551f4667d983"},
		{"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", 40, "aaf3d8f1de5640c232f5b169b9c911e6"},
		{"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", 64, "e1992190549f6ed5696a2c056c315410"},
	} {
		key, _ := hex.DecodeString(c.key)
		want, _ := hex.DecodeString(c.want)
		b, err := NewAES(key)
		if err != nil {
			t.Fatal(err)
		}
		for cut := 0; cut <= c.n; cut++ {
			m := NewCMAC(b)
			m.Write(msg[:cut])
			m, err := ResumeCMAC(b, m.State())
			if err != nil {
				t.Fatal(err)
			}
			m.Write(msg[cut:c.n])
			if got := m.Sum(); !bytes.Equal(got, want) {
				t.Errorf("%d octets cut at %d: %x, want %x", c.n, cut, got, want)
			}
		}
	}
	b, _ := NewAES(make([]byte, 16))
	for _, bad := range [][]byte{nil, make([]byte, 32), append(make([]byte, 32), 17)} {
		if m, err := ResumeCMAC(b, bad); err == nil || m != nil {
			t.Errorf("state %x was taken", bad)
		}
	}
}
