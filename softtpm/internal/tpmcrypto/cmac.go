// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/cipher"
	"crypto/subtle"
	"errors"
)

// CMAC is a running CMAC (NIST SP 800-38B) over a block cipher with blocks of
// 16 octets. Its state can be taken away and given back, without the key.
type CMAC struct {
	b   cipher.Block
	x   [16]byte // chaining value
	buf [16]byte // last block so far, not yet chained: it may be the final one
	n   int      // octets in buf
}

// NewCMAC starts a CMAC.
func NewCMAC(b cipher.Block) *CMAC {
	if b.BlockSize() != 16 {
		panic("tpmcrypto: CMAC is for blocks of 16 octets")
	}
	return &CMAC{b: b}
}

// Write adds p to the message.
func (m *CMAC) Write(p []byte) {
	for len(p) > 0 {
		if m.n == 16 {
			subtle.XORBytes(m.x[:], m.x[:], m.buf[:])
			m.b.Encrypt(m.x[:], m.x[:])
			m.n = 0
		}
		k := copy(m.buf[m.n:], p)
		m.n += k
		p = p[k:]
	}
}

// Sum returns the MAC, 16 octets. The state stays as it is.
func (m *CMAC) Sum() []byte {
	var k, last [16]byte
	m.b.Encrypt(k[:], k[:])
	double(&k)
	copy(last[:], m.buf[:m.n])
	if m.n < 16 {
		last[m.n] = 0x80
		double(&k)
	}
	subtle.XORBytes(last[:], last[:], k[:])
	subtle.XORBytes(last[:], last[:], m.x[:])
	out := make([]byte, 16)
	m.b.Encrypt(out, last[:])
	clear(k[:])
	return out
}

// double multiplies by x in GF(2^128) (SP 800-38B, 6.1), without a branch on
// the value.
func double(k *[16]byte) {
	top := k[0] >> 7
	for i := 0; i < 15; i++ {
		k[i] = k[i]<<1 | k[i+1]>>7
	}
	k[15] = k[15]<<1 ^ -top&0x87
}

// State returns the running state: 33 octets.
func (m *CMAC) State() []byte {
	s := make([]byte, 0, 33)
	s = append(s, m.x[:]...)
	s = append(s, m.buf[:]...)
	return append(s, byte(m.n))
}

// ErrCMACState says that a state does not come from CMAC.State.
var ErrCMACState = errors.New("tpmcrypto: not a state of a CMAC")

// ResumeCMAC goes on from a state with the same key.
func ResumeCMAC(b cipher.Block, state []byte) (*CMAC, error) {
	if len(state) != 33 || state[32] > 16 || b.BlockSize() != 16 {
		return nil, ErrCMACState
	}
	m := &CMAC{b: b, n: int(state[32])}
	copy(m.x[:], state)
	copy(m.buf[:], state[16:])
	return m, nil
}
