// SPDX-License-Identifier: Apache-2.0

// Package det reads and writes the deterministic subset of CBOR (RFC 8949,
// section 4.2.1) that evidence is made of: unsigned integers, byte strings,
// text, arrays and maps with definite lengths and shortest heads.
//
// Start with NewReader, call what the format demands in order, and end with
// Done. The first fault stays: later calls return zero values, so that a
// caller checks one error at the end. Whatever Reader accepts, Writer writes
// again byte for byte; that makes a parsed structure and its bytes one thing.
package det

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Major types of RFC 8949, section 3.1.
const (
	majorUint  = 0
	majorBytes = 2
	majorText  = 3
	majorArray = 4
	majorMap   = 5
)

// Errors that a caller may want to tell apart.
var (
	ErrTruncated    = errors.New("the bytes end inside a data item")
	ErrNotShortest  = errors.New("a length or number is not in its shortest form")
	ErrIndefinite   = errors.New("an item of indefinite length or a reserved head")
	ErrTrailing     = errors.New("bytes follow the end of the structure")
	ErrNotUTF8      = errors.New("a text string is not UTF-8")
	ErrWrongType    = errors.New("an item of another type")
	ErrUnexpectedID = errors.New("an unexpected map key")
)

// Reader takes items from a byte slice. It never copies: what Bytes returns
// is part of the input.
type Reader struct {
	b   []byte
	off int
	err error
}

// NewReader starts at the first byte of b.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err is the first fault, or nil.
func (r *Reader) Err() error { return r.err }

// Fail records err if nothing failed before.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %w", r.off, err)
	}
}

// Done reports the first fault, or ErrTrailing if input is left.
func (r *Reader) Done() error {
	if r.err == nil && r.off != len(r.b) {
		r.Fail(ErrTrailing)
	}
	return r.err
}

// head reads one item head of the wanted major type and returns its argument.
func (r *Reader) head(major byte) uint64 {
	if r.err != nil {
		return 0
	}
	if r.off >= len(r.b) {
		r.Fail(ErrTruncated)
		return 0
	}
	first := r.b[r.off]
	if first>>5 != major {
		r.Fail(fmt.Errorf("%w: expected major type %d, got %d", ErrWrongType, major, first>>5))
		return 0
	}
	info := first & 0x1f
	if info < 24 {
		r.off++
		return uint64(info)
	}
	if info > 27 {
		r.Fail(ErrIndefinite)
		return 0
	}
	size := 1 << (info - 24)
	if len(r.b)-r.off-1 < size {
		r.Fail(ErrTruncated)
		return 0
	}
	var n uint64
	for _, c := range r.b[r.off+1 : r.off+1+size] {
		n = n<<8 | uint64(c)
	}
	if n < 24 || (size > 1 && n>>(4*uint(size)) == 0) {
		r.Fail(ErrNotShortest)
		return 0
	}
	r.off += 1 + size
	return n
}

// Uint reads an unsigned integer of at most limit.
func (r *Reader) Uint(limit uint64) uint64 {
	n := r.head(majorUint)
	if n > limit {
		r.Fail(fmt.Errorf("number %d is above %d", n, limit))
		return 0
	}
	return n
}

func (r *Reader) take(major byte, limit int) []byte {
	n := r.head(major)
	if r.err != nil {
		return nil
	}
	if n > uint64(limit) {
		r.Fail(fmt.Errorf("a string of %d bytes is above the limit of %d", n, limit))
		return nil
	}
	if uint64(len(r.b)-r.off) < n {
		r.Fail(ErrTruncated)
		return nil
	}
	out := r.b[r.off : r.off+int(n) : r.off+int(n)]
	r.off += int(n)
	return out
}

// Bytes reads a byte string of at most limit bytes. The result is part of the
// input.
func (r *Reader) Bytes(limit int) []byte { return r.take(majorBytes, limit) }

// Text reads a text string of at most limit bytes.
func (r *Reader) Text(limit int) string {
	b := r.take(majorText, limit)
	if !utf8.Valid(b) {
		r.Fail(ErrNotUTF8)
		return ""
	}
	return string(b)
}

// Array reads the head of an array of at most limit items.
func (r *Reader) Array(limit int) int { return r.count(majorArray, limit) }

// Map reads the head of a map of at most limit pairs. The caller reads keys
// in the order of section 4.2.1.
func (r *Reader) Map(limit int) int { return r.count(majorMap, limit) }

func (r *Reader) count(major byte, limit int) int {
	n := r.head(major)
	if n > uint64(limit) {
		r.Fail(fmt.Errorf("%d items are above the limit of %d", n, limit))
		return 0
	}
	return int(n)
}

// Key demands the unsigned integer k as the next map key.
func (r *Reader) Key(k uint64) {
	got := r.head(majorUint)
	if r.err == nil && got != k {
		r.Fail(fmt.Errorf("%w: expected %d, got %d", ErrUnexpectedID, k, got))
	}
}

// Next is the major type of the next item, or -1 at the end or after a fault.
func (r *Reader) Next() int {
	if r.err != nil || r.off >= len(r.b) {
		return -1
	}
	return int(r.b[r.off] >> 5)
}

// Writer appends items; its zero value is ready.
type Writer struct{ b []byte }

// Out is what was written.
func (w *Writer) Out() []byte { return w.b }

func (w *Writer) head(major byte, n uint64) {
	major <<= 5
	switch {
	case n < 24:
		w.b = append(w.b, major|byte(n))
	case n < 1<<8:
		w.b = append(w.b, major|24, byte(n))
	case n < 1<<16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, major|25), uint16(n))
	case n < 1<<32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, major|26), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, major|27), n)
	}
}

// Uint writes an unsigned integer; also a map key.
func (w *Writer) Uint(n uint64) { w.head(majorUint, n) }

// Bytes writes a byte string.
func (w *Writer) Bytes(b []byte) { w.head(majorBytes, uint64(len(b))); w.b = append(w.b, b...) }

// Text writes a text string.
func (w *Writer) Text(s string) { w.head(majorText, uint64(len(s))); w.b = append(w.b, s...) }

// Array writes the head of an array of n items.
func (w *Writer) Array(n int) { w.head(majorArray, uint64(n)) }

// Map writes the head of a map of n pairs.
func (w *Writer) Map(n int) { w.head(majorMap, uint64(n)) }
