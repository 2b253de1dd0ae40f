// SPDX-License-Identifier: Apache-2.0

package tpm2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errTooLong is the error of a Writer that was given a buffer which a 16-bit size
// field cannot describe.
var errTooLong = errors.New("tpm2: buffer longer than 65535 bytes does not fit a TPM2B")

// Writer appends big-endian TPM values to a byte slice. The zero value is
// ready. Its first error sticks; the only ones are buffers too long for their
// size field and structures with a selector that has no wire form.
type Writer struct {
	b   []byte
	err error
}

// NewWriter returns a Writer that appends to b.
func NewWriter(b []byte) *Writer { return &Writer{b: b} }

// Reset makes w append to b, without an error.
func (w *Writer) Reset(b []byte) { *w = Writer{b: b} }

// Bytes returns what was written, nil after an error.
func (w *Writer) Bytes() []byte {
	if w.err != nil {
		return nil
	}
	return w.b
}

// Err returns the first error.
func (w *Writer) Err() error { return w.err }

// Fail records err as the error if there was none before.
func (w *Writer) Fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// unknown records that a structure's selector has no wire form.
func (w *Writer) unknown(what string, sel uint64) {
	w.Fail(fmt.Errorf("tpm2: %s: selector 0x%x has no wire form in this version", what, sel))
}

// Len returns how many bytes the slice has, those before the Writer included.
func (w *Writer) Len() int { return len(w.b) }

// Truncate drops what was written after Len was n.
func (w *Writer) Truncate(n int) {
	if n >= 0 && n <= len(w.b) {
		w.b = w.b[:n]
	}
}

// Raw appends p as it is.
func (w *Writer) Raw(p []byte) { w.b = append(w.b, p...) }

// U8 appends a UINT8.
func (w *Writer) U8(v uint8) { w.b = append(w.b, v) }

// U16 appends a UINT16.
func (w *Writer) U16(v uint16) { w.b = binary.BigEndian.AppendUint16(w.b, v) }

// U32 appends a UINT32.
func (w *Writer) U32(v uint32) { w.b = binary.BigEndian.AppendUint32(w.b, v) }

// U64 appends a UINT64.
func (w *Writer) U64(v uint64) { w.b = binary.BigEndian.AppendUint64(w.b, v) }

// Bool appends a TPMI_YES_NO.
func (w *Writer) Bool(v bool) {
	if v {
		w.U8(1)
	} else {
		w.U8(0)
	}
}

// Alg appends a TPM_ALG_ID.
func (w *Writer) Alg(a Alg) { w.U16(uint16(a)) }

// Handle appends a TPM_HANDLE.
func (w *Writer) Handle(h Handle) { w.U32(uint32(h)) }

// Sized appends a TPM2B.
func (w *Writer) Sized(p []byte) {
	if len(p) > 0xFFFF {
		w.Fail(errTooLong)
		return
	}
	w.U16(uint16(len(p)))
	w.Raw(p)
}

// Begin starts a TPM2B whose content follows; give its result to End.
func (w *Writer) Begin() int {
	w.U16(0)
	return len(w.b)
}

// End fills in the size of the TPM2B that Begin started.
func (w *Writer) End(mark int) {
	n := len(w.b) - mark
	if n < 0 || mark < 2 || n > 0xFFFF {
		w.Fail(errTooLong)
		return
	}
	binary.BigEndian.PutUint16(w.b[mark-2:], uint16(n))
}

// PutU32 overwrites the four bytes at offset off; those must have been written.
func (w *Writer) PutU32(off int, v uint32) {
	if off >= 0 && off+4 <= len(w.b) {
		binary.BigEndian.PutUint32(w.b[off:], v)
	}
}

// Marshaler is a structure that writes its wire form.
type Marshaler interface{ Marshal(w *Writer) }

// Encode returns the wire form of v.
func Encode(v Marshaler) ([]byte, error) {
	var w Writer
	v.Marshal(&w)
	return w.b, w.err
}

// EncodeSized returns the wire form of v inside a TPM2B.
func EncodeSized(v Marshaler) ([]byte, error) {
	var w Writer
	m := w.Begin()
	v.Marshal(&w)
	w.End(m)
	return w.b, w.err
}
