// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"crypto/aes"
	"crypto/subtle"
)

// cmac is AES-128-CMAC (NIST SP 800-38B, RFC 4493).
func cmac(key *[16]byte, msg []byte) (mac [16]byte) {
	c, err := aes.NewCipher(key[:])
	if err != nil {
		panic("a 16-byte AES key was refused: " + err.Error()) // cannot be
	}
	var k [16]byte
	c.Encrypt(k[:], k[:])
	double(&k) // K1
	n := (len(msg) + 15) / 16
	var last [16]byte
	if n == 0 || len(msg)%16 != 0 {
		double(&k) // K2
		rest := msg[max(0, n-1)*16:]
		copy(last[:], rest)
		last[len(rest)] = 0x80
		n = max(n, 1)
	} else {
		copy(last[:], msg[(n-1)*16:])
	}
	for i := range last {
		last[i] ^= k[i]
	}
	for i := 0; i < n-1; i++ {
		subtle.XORBytes(mac[:], mac[:], msg[16*i:16*i+16])
		c.Encrypt(mac[:], mac[:])
	}
	subtle.XORBytes(mac[:], mac[:], last[:])
	c.Encrypt(mac[:], mac[:])
	return mac
}

// double multiplies by x in GF(2^128), without a branch on secret bits.
func double(k *[16]byte) {
	carry := k[0] >> 7
	for i := 0; i < 15; i++ {
		k[i] = k[i]<<1 | k[i+1]>>7
	}
	k[15] = k[15]<<1 ^ 0x87&-carry
}

func equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
