// SPDX-License-Identifier: Apache-2.0

package tpm2

import "encoding/binary"

// Reader takes big-endian TPM values from a byte slice. Its first error
// sticks: later reads return zero values, so callers check Err once. The error
// is the response code that Part 2, 4.15 names for the fault. A Reader never
// copies: byte slices that it returns share the input's memory.
type Reader struct {
	b   []byte
	off int
	err RC
}

// NewReader returns a Reader over b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Reset makes r read b from its start, without an error.
func (r *Reader) Reset(b []byte) { *r = Reader{b: b} }

// Err returns the first error, nil if there was none.
func (r *Reader) Err() error {
	if r.err == RCSuccess {
		return nil
	}
	return r.err
}

// Code returns the first error as a response code, RCSuccess if there was none.
func (r *Reader) Code() RC { return r.err }

// Fail records rc as the error if there was none before. Unmarshal methods
// call it for values that are well-formed but not allowed.
func (r *Reader) Fail(rc RC) {
	if r.err == RCSuccess {
		r.err = rc
	}
}

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.b) - r.off }

// Offset returns how many bytes were read.
func (r *Reader) Offset() int { return r.off }

// Rest returns all bytes that are left and moves to the end.
func (r *Reader) Rest() []byte { return r.Bytes(r.Len()) }

// Since returns the bytes between offset start (of this Reader) and here; nil after an error.
func (r *Reader) Since(start int) []byte {
	if r.err != RCSuccess || start < 0 || start > r.off {
		return nil
	}
	return r.b[start:r.off:r.off]
}

// Bytes returns the next n bytes; RCInsufficient if there are fewer.
func (r *Reader) Bytes(n int) []byte {
	if r.err != RCSuccess {
		return nil
	}
	if n < 0 || n > len(r.b)-r.off {
		r.err = RCInsufficient
		return nil
	}
	p := r.b[r.off : r.off+n : r.off+n]
	r.off += n
	return p
}

// U8 reads a UINT8.
func (r *Reader) U8() uint8 {
	if p := r.Bytes(1); p != nil {
		return p[0]
	}
	return 0
}

// U16 reads a UINT16.
func (r *Reader) U16() uint16 {
	if p := r.Bytes(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

// U32 reads a UINT32.
func (r *Reader) U32() uint32 {
	if p := r.Bytes(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

// U64 reads a UINT64.
func (r *Reader) U64() uint64 {
	if p := r.Bytes(8); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// Bool reads a TPMI_YES_NO; RCValue for anything but 0 and 1.
func (r *Reader) Bool() bool {
	v := r.U8()
	if v > 1 {
		r.Fail(RCValue)
		return false
	}
	return v == 1
}

// Alg reads a TPM_ALG_ID.
func (r *Reader) Alg() Alg { return Alg(r.U16()) }

// Handle reads a TPM_HANDLE.
func (r *Reader) Handle() Handle { return Handle(r.U32()) }

// Sized reads a TPM2B of at most max bytes; RCSize if it says it is longer.
func (r *Reader) Sized(max int) []byte {
	n := int(r.U16())
	if r.err == RCSuccess && n > max {
		r.err = RCSize
		return nil
	}
	return r.Bytes(n)
}

// Nested reads the size of a TPM2B that holds a structure and returns a
// Reader over exactly that structure. After unmarshalling, call Done.
func (r *Reader) Nested(max int) Reader {
	b := r.Sized(max)
	return Reader{b: b, err: r.err}
}

// Done ends what Nested began: takes over the inner error, or records RCSize if
// the structure was shorter than its size field said. A structure that ends
// before its fields do is RCInsufficient.
func (r *Reader) Done(inner *Reader) {
	if inner.err != RCSuccess {
		r.Fail(inner.err)
	} else if inner.Len() != 0 {
		r.Fail(RCSize)
	}
}

// End records RCSize unless all bytes were read.
func (r *Reader) End() {
	if r.Len() != 0 {
		r.Fail(RCSize)
	}
}

// Count reads the number of elements of a list, at most max; RCSize above.
func (r *Reader) Count(max int) int {
	n := r.U32()
	if r.err == RCSuccess && n > uint32(max) {
		r.err = RCSize
		return 0
	}
	return int(n)
}

// Unmarshaler is a structure that reads its wire form.
type Unmarshaler interface{ Unmarshal(r *Reader) }

// Decode reads one whole structure from b into v: all of b must be used. On
// an error v must not be used.
func Decode(b []byte, v Unmarshaler) error {
	r := Reader{b: b}
	v.Unmarshal(&r)
	r.End()
	return r.Err()
}

// DecodeSized is Decode for a TPM2B that holds the structure.
func DecodeSized(b []byte, v Unmarshaler) error {
	r := Reader{b: b}
	in := r.Nested(len(b))
	v.Unmarshal(&in)
	r.Done(&in)
	r.End()
	return r.Err()
}
