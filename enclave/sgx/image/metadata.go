// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"holdfast/enclave/sgx"
)

var le = binary.LittleEndian

// Layout of the SDK's metadata block (linux-sgx common/inc/internal/metadata.h).
const (
	metaMagic   = 0x86A80294635D0E4C
	metaName    = "sgx_metadata\x00"
	metaSig     = 64
	metaDirs    = metaSig + sgx.SigStructSize // 1872
	metaMinSize = metaDirs + 2*8
	dirPatch    = 0
	dirLayout   = 1
)

// metadata is one block, checked to lie within its section.
type metadata struct {
	b            []byte
	major, minor uint32
}

// findMetadata picks the newest block that this code knows from the note; an
// image may carry several for older runtimes.
func findMetadata(f *elf.File) (*metadata, error) {
	s := f.Section(".note.sgxmeta")
	if s == nil {
		return nil, sdkError("no section .note.sgxmeta: not an SGX enclave, or not signed (sign it first)")
	}
	d, err := s.Data()
	if err != nil {
		return nil, sdkError(".note.sgxmeta: %v", err)
	}
	if len(d) < 12 || le.Uint32(d) != uint32(len(metaName)) || !bytes.HasPrefix(d[12:], []byte(metaName)) {
		return nil, sdkError(".note.sgxmeta: not the note %q", metaName)
	}
	d = d[12+len(metaName):] // the block follows unaligned
	var best *metadata
	for len(d) >= metaMinSize && le.Uint64(d) == metaMagic {
		v, size := le.Uint64(d[8:]), uint64(le.Uint32(d[16:]))
		if size < metaMinSize || size > uint64(len(d)) {
			return nil, sdkError("metadata size %d does not fit the section", size)
		}
		m := &metadata{d[:size], uint32(v >> 32), uint32(v)}
		if m.major >= 1 && m.major <= 3 && (best == nil || v > uint64(best.major)<<32|uint64(best.minor)) {
			best = m
		}
		d = d[size:]
	}
	if best == nil {
		return nil, sdkError("no metadata block of version 1.x to 3.x")
	}
	return best, nil
}

// image reads the fixed fields.
func (m *metadata) image() (*Image, error) {
	sig, err := sgx.ParseSigStruct(m.b[metaSig:metaDirs])
	if err != nil {
		return nil, err
	}
	i := &Image{
		Size: le.Uint64(m.b[40:]), SSAFrameSize: le.Uint32(m.b[24:]), MiscSelect: sgx.MiscSelect(le.Uint32(m.b[32:])),
		Attributes: sgx.Attributes{Flags: sgx.Flags(le.Uint64(m.b[48:])), XFRM: le.Uint64(m.b[56:])},
		Sig:        sig,
		Metadata:   Metadata{Major: m.major, Minor: m.minor, TCSPolicy: le.Uint32(m.b[20:]), TCSMinPool: le.Uint32(m.b[36:])},
	}
	if i.Size < 2*sgx.PageSize || i.Size&(i.Size-1) != 0 || i.Size > MaxSize {
		return nil, sdkError("enclave size %#x is no power of two up to %#x", i.Size, uint64(MaxSize))
	}
	if i.SSAFrameSize == 0 || i.SSAFrameSize > 1<<10 {
		return nil, sdkError("SSA frame of %d pages", i.SSAFrameSize)
	}
	return i, nil
}

// dir returns the bytes of one directory; offsets are relative to the block.
func (m *metadata) dir(n int) ([]byte, error) {
	o, size := uint64(le.Uint32(m.b[metaDirs+8*n:])), uint64(le.Uint32(m.b[metaDirs+8*n+4:]))
	return m.slice(o, size)
}

func (m *metadata) slice(o, size uint64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	if o > uint64(len(m.b)) || size > uint64(len(m.b))-o {
		return nil, sdkError("metadata refers to bytes %d..%d outside its %d", o, o+size, len(m.b))
	}
	return m.b[o : o+size], nil
}

// patch returns a copy of the file with the metadata's patches applied: the
// signer's copy of what the loader needs (ELF header, global data).
func (m *metadata) patch(file []byte) ([]byte, error) {
	out := bytes.Clone(file)
	d, err := m.dir(dirPatch)
	if err != nil {
		return nil, err
	}
	const entry = 32 // dst u64, src u32, size u32, reserved 16
	if len(d)%entry != 0 {
		return nil, sdkError("patch table of %d bytes is no multiple of %d", len(d), entry)
	}
	for ; len(d) > 0; d = d[entry:] {
		dst := le.Uint64(d)
		src, err := m.slice(uint64(le.Uint32(d[8:])), uint64(le.Uint32(d[12:])))
		if err != nil {
			return nil, err
		}
		if dst > uint64(len(out)) || uint64(len(src)) > uint64(len(out))-dst {
			return nil, sdkError("a patch of %d bytes at %#x lies outside the file", len(src), dst)
		}
		copy(out[dst:], src)
	}
	return out, nil
}
