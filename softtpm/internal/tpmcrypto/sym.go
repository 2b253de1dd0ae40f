// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"fmt"

	"github.com/emmansun/gmsm/sm4"
)

// Mode is a mode of a block cipher, named by its TPM_ALG_ID.
type Mode uint16

// The modes of Part 2, 6.3.
const (
	CTR Mode = 0x0040
	OFB Mode = 0x0041
	CBC Mode = 0x0042
	CFB Mode = 0x0043
	ECB Mode = 0x0044
)

// Block ciphers, named by their TPM_ALG_ID.
const (
	AES uint16 = 0x0006
	SM4 uint16 = 0x0013
)

// NewCipher returns the block cipher alg with key; both have blocks of 16
// octets. SM4 comes from a library that uses the processor's AES or vector
// instructions where it can; elsewhere it reads tables, and is then not of
// constant time.
func NewCipher(alg uint16, key []byte) (cipher.Block, error) {
	switch alg {
	case AES:
		return NewAES(key)
	case SM4:
		return sm4.NewCipher(key)
	}
	return nil, fmt.Errorf("tpmcrypto: block cipher 0x%04x is not implemented", alg)
}

// NewAES returns AES with a key of 16, 24 or 32 octets.
func NewAES(key []byte) (cipher.Block, error) {
	switch len(key) {
	case 16, 24, 32:
		return aes.NewCipher(key)
	}
	return nil, fmt.Errorf("tpmcrypto: AES key of %d octets, want 16, 24 or 32", len(key))
}

// CFBEncrypt and CFBDecrypt work in place with full-block feedback and a
// partial last block, as the TPM encrypts parameters, sensitive areas and
// contexts (Part 1, "Symmetric Encryption"). iv must have the block size; it
// is not changed.
func CFBEncrypt(b cipher.Block, iv, data []byte) {
	var s stream
	s.start(b, iv)
	s.cfb(data, false)
}

// CFBDecrypt is the inverse of CFBEncrypt.
func CFBDecrypt(b cipher.Block, iv, data []byte) {
	var s stream
	s.start(b, iv)
	s.cfb(data, true)
}

// Crypt encrypts or decrypts data in place in any mode and leaves in iv the
// value that continues the operation (TPM2_EncryptDecrypt's ivOut; Part 3,
// 15.2). For ECB iv must be empty, else it has the block size. ECB and CBC take
// whole blocks only, since a TPM pads nothing; the others any length, but only
// the last piece of a continued operation may end inside a block.
func Crypt(b cipher.Block, m Mode, decrypt bool, iv, data []byte) error {
	size := b.BlockSize()
	if m == ECB {
		if len(iv) != 0 {
			return fmt.Errorf("tpmcrypto: ECB takes no IV, got %d octets", len(iv))
		}
	} else if len(iv) != size {
		return fmt.Errorf("tpmcrypto: IV of %d octets, want %d", len(iv), size)
	}
	if (m == ECB || m == CBC) && len(data)%size != 0 {
		return fmt.Errorf("tpmcrypto: %d octets of data are not whole blocks of %d", len(data), size)
	}
	switch m {
	case ECB:
		for ; len(data) > 0; data = data[size:] {
			if decrypt {
				b.Decrypt(data[:size], data[:size])
			} else {
				b.Encrypt(data[:size], data[:size])
			}
		}
	case CBC:
		if len(data) == 0 {
			return nil
		}
		if decrypt {
			next := append([]byte(nil), data[len(data)-size:]...)
			cipher.NewCBCDecrypter(b, iv).CryptBlocks(data, data)
			copy(iv, next)
		} else {
			cipher.NewCBCEncrypter(b, iv).CryptBlocks(data, data)
			copy(iv, data[len(data)-size:])
		}
	case CFB:
		var s stream
		s.start(b, iv)
		s.cfb(data, decrypt)
		copy(iv, s.v[:size])
	case OFB:
		var s stream
		s.start(b, iv)
		s.ofb(data)
		copy(iv, s.v[:size])
	case CTR:
		blocks := (len(data) + size - 1) / size
		cipher.NewCTR(b, iv).XORKeyStream(data, data)
		addCounter(iv, uint(blocks))
	default:
		return fmt.Errorf("tpmcrypto: mode 0x%04x is not implemented", uint16(m))
	}
	return nil
}

// stream is the shift register of the feedback modes.
type stream struct {
	b    cipher.Block
	v    [16]byte // register; only the first size octets are used
	size int
}

func (s *stream) start(b cipher.Block, iv []byte) {
	s.b, s.size = b, b.BlockSize()
	if s.size > len(s.v) || len(iv) != s.size {
		panic("tpmcrypto: IV or block size out of range")
	}
	copy(s.v[:], iv)
}

func (s *stream) cfb(data []byte, decrypt bool) {
	v := s.v[:s.size]
	var c [16]byte
	for len(data) > 0 {
		n := min(len(data), s.size)
		s.b.Encrypt(v, v)
		if decrypt {
			copy(c[:], data[:n])
		}
		subtle.XORBytes(data[:n], data[:n], v)
		if !decrypt {
			copy(c[:], data[:n])
		}
		// A partial last block feeds back padded with zeros.
		clear(v[n:])
		copy(v, c[:n])
		data = data[n:]
	}
}

func (s *stream) ofb(data []byte) {
	v := s.v[:s.size]
	for len(data) > 0 {
		n := min(len(data), s.size)
		s.b.Encrypt(v, v)
		subtle.XORBytes(data[:n], data[:n], v)
		data = data[n:]
	}
}

// addCounter adds n to the big-endian counter c, modulo its size.
func addCounter(c []byte, n uint) {
	for i := len(c) - 1; i >= 0 && n > 0; i-- {
		n += uint(c[i])
		c[i] = byte(n)
		n >>= 8
	}
}
