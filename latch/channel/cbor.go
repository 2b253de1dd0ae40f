// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Major types of RFC 8949, section 3.1, that the format uses.
const (
	majorUint  = 0
	majorBytes = 2
	majorText  = 3
	majorArray = 4
)

var majorNames = [8]string{"unsigned integer", "negative integer", "byte string", "text string", "array", "map", "tag", "simple value"}

// appendHead appends the shortest head for a major type and its argument.
func appendHead(b []byte, major byte, v uint64) []byte {
	m := major << 5
	switch {
	case v < 24:
		return append(b, m|byte(v))
	case v < 1<<8:
		return append(b, m|24, byte(v))
	case v < 1<<16:
		return append(b, m|25, byte(v>>8), byte(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, m|26), uint32(v))
	default:
		return binary.BigEndian.AppendUint64(append(b, m|27), v)
	}
}

func appendUint(b []byte, v uint64) []byte { return appendHead(b, majorUint, v) }
func appendArray(b []byte, n int) []byte   { return appendHead(b, majorArray, uint64(n)) }
func appendBytes(b, v []byte) []byte       { return append(appendHead(b, majorBytes, uint64(len(v))), v...) }
func appendText(b []byte, v string) []byte {
	return append(appendHead(b, majorText, uint64(len(v))), v...)
}
func appendHashes(b []byte, v []Hash) []byte {
	b = appendArray(b, len(v))
	for i := range v {
		b = appendBytes(b, v[i][:])
	}
	return b
}
func appendTexts(b []byte, v []string) []byte {
	b = appendArray(b, len(v))
	for _, s := range v {
		b = appendText(b, s)
	}
	return b
}

// decoder reads one CBOR item strictly. The first error sticks; reads after it
// return zero values, so that callers check once.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("channel: "+format, args...)
	}
}

// head reads a head of the wanted major type and refuses any form that is not
// the shortest, and indefinite lengths.
func (d *decoder) head(major byte, what string) uint64 {
	if d.err != nil {
		return 0
	}
	if len(d.b) == 0 {
		d.fail("%s: expected %s, message ends", what, majorNames[major])
		return 0
	}
	if got := d.b[0] >> 5; got != major {
		d.fail("%s: expected %s, got %s", what, majorNames[major], majorNames[got])
		return 0
	}
	info := d.b[0] & 31
	d.b = d.b[1:]
	if info < 24 {
		return uint64(info)
	}
	if info > 27 {
		d.fail("%s: indefinite or reserved length (additional information %d), expected a definite one", what, info)
		return 0
	}
	n := 1 << (info - 24)
	if len(d.b) < n {
		d.fail("%s: head needs %d more bytes, %d are left", what, n, len(d.b))
		return 0
	}
	var v uint64
	for _, c := range d.b[:n] {
		v = v<<8 | uint64(c)
	}
	d.b = d.b[n:]
	if n == 1 && v < 24 || n > 1 && v>>(4*n) == 0 {
		d.fail("%s: %d is not in its shortest form", what, v)
		return 0
	}
	return v
}

func (d *decoder) uint(max uint64, what string) uint64 {
	v := d.head(majorUint, what)
	if v > max {
		d.fail("%s: %d, expected at most %d", what, v, max)
		return 0
	}
	return v
}

// array reads an array head of lo to hi elements.
func (d *decoder) array(lo, hi int, what string) int {
	v := d.head(majorArray, what)
	if d.err != nil {
		return 0
	}
	if v < uint64(lo) || v > uint64(hi) {
		d.fail("%s: %d elements, expected %d to %d", what, v, lo, hi)
		return 0
	}
	return int(v)
}

// str reads a byte or text string of at most max bytes; it refers to the input.
func (d *decoder) str(major byte, max int, what string) []byte {
	v := d.head(major, what)
	if d.err != nil {
		return nil
	}
	if v > uint64(max) {
		d.fail("%s: %d bytes, expected at most %d", what, v, max)
		return nil
	}
	if v > uint64(len(d.b)) {
		d.fail("%s: %d bytes announced, %d are left", what, v, len(d.b))
		return nil
	}
	s := d.b[:v:v]
	d.b = d.b[v:]
	return s
}

func (d *decoder) bytes(max int, what string) []byte { return d.str(majorBytes, max, what) }

func (d *decoder) text(max int, what string) string {
	s := d.str(majorText, max, what)
	if !utf8.Valid(s) {
		d.fail("%s: not valid UTF-8", what)
		return ""
	}
	return string(s)
}

func (d *decoder) hash(what string) (h Hash) {
	s := d.str(majorBytes, len(h), what)
	if d.err == nil && len(s) != len(h) {
		d.fail("%s: %d bytes, expected %d", what, len(s), len(h))
	}
	copy(h[:], s)
	return h
}

func (d *decoder) hashes(dst []Hash, max int, what string) []Hash {
	n := d.array(0, max, what)
	for i := 0; i < n && d.err == nil; i++ {
		dst = append(dst, d.hash(what))
	}
	return dst
}

func (d *decoder) texts(max, size int, what string) []string {
	n := d.array(0, max, what)
	var out []string
	for i := 0; i < n && d.err == nil; i++ {
		out = append(out, d.text(size, what))
	}
	return out
}

var errTrailing = errors.New("channel: bytes follow the message inside its frame")

// end reports the first error, or that bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) != 0 {
		d.err = errTrailing
	}
	return d.err
}
