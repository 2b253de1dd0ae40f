// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"holdfast/tpm2"
)

// kdfa is KDFa (Part 1, 11.4.10.2): SP 800-108 in counter mode over HMAC. bits
// is the length of the result; label has no terminating zero here.
func kdfa(hash tpm2.Alg, key []byte, label string, contextU, contextV []byte, bits int) []byte {
	var out []byte
	n := (bits + 7) / 8
	for i := uint32(1); len(out) < n; i++ {
		m := hmac.New(hash.New, key)
		m.Write(binary.BigEndian.AppendUint32(nil, i))
		m.Write([]byte(label))
		m.Write([]byte{0})
		m.Write(contextU)
		m.Write(contextV)
		m.Write(binary.BigEndian.AppendUint32(nil, uint32(bits)))
		out = m.Sum(out)
	}
	out = out[:n]
	if r := bits % 8; r != 0 {
		out[0] &= 1<<r - 1
	}
	return out
}

// kdfe is KDFe (Part 1, 11.4.10.3): SP 800-56A's one-step KDF over a hash.
func kdfe(hash tpm2.Alg, z []byte, label string, partyU, partyV []byte, bits int) []byte {
	var out []byte
	n := (bits + 7) / 8
	for i := uint32(1); len(out) < n; i++ {
		out = append(out, hash.Sum(binary.BigEndian.AppendUint32(nil, i), z, []byte(label), []byte{0}, partyU, partyV)...)
	}
	return out[:n]
}

// cfb encrypts (or decrypts) data in place with AES in CFB mode, 128-bit
// segments (Part 1, 11.4.9.3). The standard library deprecates CFB, with which
// the TPM specification has no choice.
func cfb(key, iv, data []byte, encrypt bool) error {
	b, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	return cfbBlocks(b, iv, data, encrypt)
}

func cfbBlocks(b cipher.Block, iv, data []byte, encrypt bool) error {
	if len(iv) != b.BlockSize() {
		return fmt.Errorf("tss: an IV of %d bytes, expected %d", len(iv), b.BlockSize())
	}
	shift := append([]byte(nil), iv...)
	stream := make([]byte, len(iv))
	for len(data) > 0 {
		b.Encrypt(stream, shift)
		n := min(len(data), len(stream))
		for i := 0; i < n; i++ {
			c := data[i]
			data[i] ^= stream[i]
			if encrypt {
				c = data[i]
			}
			shift[i] = c
		}
		data = data[n:]
	}
	clear(stream)
	return nil
}

// crypt encrypts or decrypts a parameter in place (Part 1, 21). newer and
// older are the nonces in that order.
func (s *Session) crypt(data, authValue, newer, older []byte, encrypt bool) error {
	key := append(append([]byte(nil), s.key...), authValue...)
	defer clear(key)
	switch s.Symmetric.Alg {
	case tpm2.AlgAES:
		bits := int(s.Symmetric.KeyBits)
		k := kdfa(s.Hash, key, "CFB", newer, older, bits+128)
		defer clear(k)
		return cfb(k[:bits/8], k[bits/8:], data, encrypt)
	case tpm2.AlgXOR:
		mask := kdfa(s.Hash, key, "XOR", newer, older, len(data)*8)
		defer clear(mask)
		for i := range data {
			data[i] ^= mask[i]
		}
		return nil
	}
	return fmt.Errorf("tss: the session has no symmetric algorithm for parameter encryption (%v)", s.Symmetric.Alg)
}

func newNonce(hash tpm2.Alg) ([]byte, error) {
	n := make([]byte, hash.DigestSize())
	_, err := rand.Read(n)
	return n, err
}
