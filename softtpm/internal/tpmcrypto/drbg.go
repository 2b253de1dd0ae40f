// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/rand"
	"hash"
	"io"
)

// Random is the system's random source; Read never fails.
var Random io.Reader = rand.Reader

// DRBG is HMAC_DRBG of SP 800-90A, 10.1.2, without reseeding: the same inputs
// give the same octets for ever. It is the source from which primary keys are
// derived (Part 1, "Primary Seed"), never a source of fresh randomness. Not
// safe for concurrent use.
type DRBG struct {
	h    Hash
	k, v []byte
}

// NewDRBG instantiates the generator with the concatenated parts as seed
// material. Callers make the parts unambiguous (fixed sizes or digests). It
// panics if h is not Available.
func NewDRBG(h Hash, parts ...[]byte) *DRBG {
	if !h.Available() {
		panic("tpmcrypto: DRBG with a hash that is not implemented")
	}
	d := &DRBG{h: h, k: make([]byte, h.Size()), v: make([]byte, h.Size())}
	for i := range d.v {
		d.v[i] = 1
	}
	d.update(parts...)
	return d
}

// update is HMAC_DRBG_Update.
func (d *DRBG) update(parts ...[]byte) {
	for _, b := range []byte{0, 1} {
		m := NewHMAC(d.h, d.k)
		m.Write(d.v)
		m.Write([]byte{b})
		n := 0
		for _, p := range parts {
			m.Write(p)
			n += len(p)
		}
		d.k = sumInto(m, d.k)
		d.v = sumInto(hmacOf(d.h, d.k, d.v), d.v)
		if n == 0 {
			return
		}
	}
}

// hmacOf is NewHMAC with data already written.
func hmacOf(h Hash, key, data []byte) hash.Hash {
	m := NewHMAC(h, key)
	m.Write(data)
	return m
}

func sumInto(m hash.Hash, b []byte) []byte { return m.Sum(b[:0]) }

// Read fills p; it never fails. Each call is one Generate function: the split
// of the output into calls is part of what the octets depend on.
func (d *DRBG) Read(p []byte) (int, error) {
	m := NewHMAC(d.h, d.k)
	for n := 0; n < len(p); {
		m.Reset()
		m.Write(d.v)
		d.v = sumInto(m, d.v)
		n += copy(p[n:], d.v)
	}
	d.update()
	return len(p), nil
}

// Close erases the state.
func (d *DRBG) Close() {
	clear(d.k)
	clear(d.v)
}
