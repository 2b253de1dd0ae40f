// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"holdfast/enclave/sgx"
)

// ReadSGXS reads a canonical .sgxs stream: ECREATE first, then EADD blocks,
// each followed by the EEXTEND blocks of its page in ascending order. SHA-256
// of the stream is MRENCLAVE. Unmeasured content is not part of the stream and
// is zero.
func ReadSGXS(r io.Reader) (*Image, error) {
	var b [64]byte
	bad := func(format string, a ...any) (*Image, error) {
		return nil, &FormatError{".sgxs", fmt.Sprintf(format, a...)}
	}
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return bad("no ECREATE block: %v", err)
	}
	le := binary.LittleEndian
	if string(b[:8]) != "ECREATE\x00" || !zero(b[20:]) {
		return bad("the first block is no ECREATE")
	}
	m := &Image{SSAFrameSize: le.Uint32(b[8:]), Size: le.Uint64(b[12:])}
	if m.Size == 0 || m.Size&(m.Size-1) != 0 || m.Size > MaxSize {
		return bad("size %#x is no power of two up to %#x", m.Size, uint64(MaxSize))
	}
	for {
		_, err := io.ReadFull(r, b[:])
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return bad("cut off inside a block")
		}
		offset := le.Uint64(b[8:])
		switch string(b[:8]) {
		case "EADD\x00\x00\x00\x00":
			info, err := sgx.ParseSecInfo(append(append([]byte{}, b[16:]...), make([]byte, 16)...))
			if err != nil {
				return bad("EADD at %#x: %v", offset, err)
			}
			if offset%sgx.PageSize != 0 || offset >= m.Size || len(m.Pages) >= MaxPages {
				return bad("EADD at %#x lies outside the enclave or is not page aligned", offset)
			}
			if n := len(m.Pages); n > 0 && offset <= m.Pages[n-1].Offset {
				return bad("EADD at %#x is not in ascending order", offset)
			}
			m.Pages = append(m.Pages, Page{Offset: offset, Info: info})
		case "EEXTEND\x00":
			if !zero(b[16:]) || len(m.Pages) == 0 {
				return bad("EEXTEND at %#x has no page or has bytes set that must be zero", offset)
			}
			p := &m.Pages[len(m.Pages)-1]
			if offset < p.Offset || offset >= p.Offset+sgx.PageSize || offset%sgx.ExtendSize != 0 {
				return bad("EEXTEND at %#x is outside the page at %#x", offset, p.Offset)
			}
			c := uint((offset - p.Offset) / sgx.ExtendSize)
			if p.Extend>>c != 0 {
				return bad("EEXTEND at %#x is not in ascending order", offset)
			}
			if p.Data == nil {
				p.Data = new([sgx.PageSize]byte)
			}
			if _, err := io.ReadFull(r, p.Data[offset-p.Offset:][:sgx.ExtendSize]); err != nil {
				return bad("cut off inside the chunk at %#x", offset)
			}
			p.Extend |= 1 << c
		default:
			return bad("unknown block %q", b[:8])
		}
	}
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
