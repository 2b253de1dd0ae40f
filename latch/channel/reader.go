// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"encoding/binary"
	"fmt"
	"io"
)

// frameReader cuts a byte stream into frames. Its memory grows to the largest
// frame seen, at most max.
type frameReader struct {
	r    io.Reader
	max  int
	buf  []byte
	from int // unread bytes are buf[from:to]
	to   int
}

// next returns a frame that is already buffered, or nil. It is valid until fill.
func (f *frameReader) next() ([]byte, error) {
	have := f.buf[f.from:f.to]
	if len(have) < 4 {
		return nil, nil
	}
	n := binary.BigEndian.Uint32(have)
	if n == 0 || uint64(n) > uint64(f.max) {
		return nil, fmt.Errorf("channel: frame of %d bytes, expected 1 to %d", n, f.max)
	}
	if len(have)-4 < int(n) {
		return nil, nil
	}
	f.from += 4 + int(n)
	return have[4 : 4+n : 4+n], nil
}

// fill reads once, blocking, after making room for the frame that is under way.
func (f *frameReader) fill() error {
	f.room()
	n, err := f.r.Read(f.buf[f.to:])
	f.to += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// room makes place for at least one more byte.
func (f *frameReader) room() {
	if f.from > 0 {
		f.to = copy(f.buf, f.buf[f.from:f.to])
		f.from = 0
	}
	if f.to == len(f.buf) {
		n := max(4<<10, 2*len(f.buf))
		f.buf = append(make([]byte, 0, n), f.buf...)[:n]
	}
}
