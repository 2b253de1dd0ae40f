// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"crypto/sha256"
	"hash"
)

// ExtendSize is the number of bytes that one EEXTEND measures.
const ExtendSize = 256

// Measurement computes MRENCLAVE: SHA-256 over one 64-byte block for ECREATE
// and EADD, and one plus four for EEXTEND (SDM, pseudo-code of ECREATE, EADD,
// EEXTEND). Call Create first, then Add and Extend in the order in which the
// enclave is built; Sum may be called at any time.
//
// The blocks written are exactly the .sgxs file format, so SHA-256 of such a
// file is the MRENCLAVE of its enclave.
type Measurement struct {
	h   hash.Hash
	buf [64]byte
}

// NewMeasurement returns a measurement to which nothing was added.
func NewMeasurement() *Measurement { return &Measurement{h: sha256.New()} }

// Tags of the measurement blocks.
const (
	tagCreate = "ECREATE\x00"
	tagAdd    = "EADD\x00\x00\x00\x00"
	tagExtend = "EEXTEND\x00"
)

func (m *Measurement) block(tag string) []byte {
	clear(m.buf[:])
	copy(m.buf[:], tag)
	return m.buf[:]
}

// Create measures ECREATE: the SSA frame size in pages and the size of ELRANGE
// in bytes.
func (m *Measurement) Create(ssaFrameSize uint32, size uint64) {
	b := m.block(tagCreate)
	le.PutUint32(b[8:], ssaFrameSize)
	le.PutUint64(b[12:], size)
	m.h.Write(b)
}

// Add measures EADD of the page at offset from the enclave's base. The
// permissions of a TCS page count as zero, as the processor forces them.
func (m *Measurement) Add(offset uint64, s SecInfo) {
	if s.Type == PageTCS {
		s.Perm = 0
	}
	b := m.block(tagAdd)
	le.PutUint64(b[8:], offset)
	le.PutUint64(b[16:], s.Flags())
	m.h.Write(b)
}

// Extend measures one chunk of 256 bytes at offset.
func (m *Measurement) Extend(offset uint64, chunk *[ExtendSize]byte) {
	b := m.block(tagExtend)
	le.PutUint64(b[8:], offset)
	m.h.Write(b)
	m.h.Write(chunk[:])
}

// ExtendPage measures the 16 chunks of a page.
func (m *Measurement) ExtendPage(offset uint64, page *[PageSize]byte) {
	for i := 0; i < PageSize; i += ExtendSize {
		m.Extend(offset+uint64(i), (*[ExtendSize]byte)(page[i:]))
	}
}

// Sum returns MRENCLAVE as EINIT would find it now.
func (m *Measurement) Sum() (mrenclave [32]byte) {
	m.h.Sum(mrenclave[:0])
	return mrenclave
}
