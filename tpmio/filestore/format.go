// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// The file, all integers big-endian:
//
//	offset size
//	0      8    magic
//	8      2    format version, 1
//	10     2    flags: bit 0 = encrypted
//	12     4    length of the payload
//	16     32   SHA-256 of bytes 0..15 and the payload
//	48     n    payload: the state, or nonce (12) ‖ AES-256-GCM(state), with
//	            bytes 0..11 as additional data
const (
	magic         = "HFTPMST\x00"
	version       = 1
	flagEncrypted = 1
	headerSize    = 48
	sumOffset     = 16
	keySize       = 32
	maxFile       = 16 << 20
)

// Reasons for refusing a file.
var (
	errForeign = errors.New("this is not a TPM state file of this program (wrong first bytes)")
	errDamaged = errors.New("the file is damaged: its length or checksum does not match")
	errKey     = errors.New("the file cannot be decrypted: wrong key, or changed")
	errPlain   = errors.New("the file is not encrypted, but a key was given")
	errNoKey   = errors.New("the file is encrypted, but no key was given")
)

func sum(file []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(file[:sumOffset])
	h.Write(file[headerSize:])
	return [sha256.Size]byte(h.Sum(nil))
}

func aead(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// encode makes the file that holds state; key nil means not encrypted.
func encode(state, key []byte) ([]byte, error) {
	if len(state) == 0 {
		return nil, errors.New("an empty state cannot be stored")
	}
	if len(state) > maxFile-headerSize-64 {
		return nil, fmt.Errorf("the state has %d bytes, more than the %d that are read back", len(state), maxFile-headerSize-64)
	}
	file := make([]byte, headerSize, headerSize+len(state)+64)
	copy(file, magic)
	binary.BigEndian.PutUint16(file[8:], version)
	if key == nil {
		file = append(file, state...)
	} else {
		binary.BigEndian.PutUint16(file[10:], flagEncrypted)
		a, err := aead(key)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, a.NonceSize())
		if _, err := rand.Read(nonce); err != nil {
			return nil, err
		}
		file = append(file, nonce...)
		file = a.Seal(file, nonce, state, file[:12])
	}
	binary.BigEndian.PutUint32(file[12:], uint32(len(file)-headerSize))
	s := sum(file)
	copy(file[sumOffset:], s[:])
	return file, nil
}

// decode checks a file and returns the state in it.
func decode(file, key []byte) ([]byte, error) {
	if len(file) > maxFile {
		return nil, fmt.Errorf("the file is larger than %d bytes", maxFile)
	}
	if len(file) >= len(magic) && string(file[:len(magic)]) != magic {
		return nil, errForeign
	}
	if len(file) < headerSize {
		return nil, errDamaged
	}
	// The version comes before the checksum: a later format may place it elsewhere.
	if v := binary.BigEndian.Uint16(file[8:]); v != version {
		return nil, fmt.Errorf("the file has format version %d, this program reads version %d: it was written by another version of holdfast, or it is damaged", v, version)
	}
	if int64(binary.BigEndian.Uint32(file[12:])) != int64(len(file)-headerSize) {
		return nil, errDamaged
	}
	if s := sum(file); string(s[:]) != string(file[sumOffset:headerSize]) {
		return nil, errDamaged
	}
	payload := file[headerSize:]
	switch flags := binary.BigEndian.Uint16(file[10:]); flags {
	case 0:
		if key != nil {
			return nil, errPlain
		}
		if len(payload) == 0 {
			return nil, errDamaged
		}
		return payload, nil
	case flagEncrypted:
		if key == nil {
			return nil, errNoKey
		}
		a, err := aead(key)
		if err != nil {
			return nil, err
		}
		n := a.NonceSize()
		if len(payload) <= n+a.Overhead() {
			return nil, errDamaged
		}
		state, err := a.Open(nil, payload[:n], payload[n:], file[:12])
		if err != nil {
			return nil, errKey
		}
		return state, nil
	default:
		return nil, fmt.Errorf("the file has unknown flags %#x: it was written by a newer version of holdfast", flags)
	}
}
