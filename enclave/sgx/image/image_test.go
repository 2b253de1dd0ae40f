// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"holdfast/enclave/sgx"
)

// layoutRow is one 32-byte layout entry or group for the builder below.
type layoutRow struct {
	ID, Attr            uint16
	Pages               uint32
	RVA                 uint64
	Size, ContentOffset uint32
	Flags               uint64
	group               bool
	count               uint16
	times               uint32
	step                uint64
}

// build makes the smallest ELF file that the SDK's signer could have made: one
// code segment at 0 with the given content, one data segment at 0x2000, and the
// metadata note.
func build(code, data []byte, dataMem uint64, rows []layoutRow, content []byte, change func(meta []byte)) []byte {
	const enclaveSize = 1 << 20
	meta := make([]byte, metaDirs+4*8)
	le.PutUint64(meta, metaMagic)
	le.PutUint64(meta[8:], 2<<32|4)
	le.PutUint32(meta[24:], 1)
	le.PutUint64(meta[40:], enclaveSize)
	le.PutUint64(meta[48:], uint64(sgx.FlagMode64))
	le.PutUint64(meta[56:], 3)
	copy(meta[metaSig:], (&sgx.SigStruct{}).AppendTo(nil))
	// patches: overwrite the first four bytes of the code in the file
	const codeOff, dataOff = 0x1000, 0x2000
	patchAt := uint32(len(meta))
	p := make([]byte, 32)
	le.PutUint64(p, codeOff)
	le.PutUint32(p[8:], patchAt+32)
	le.PutUint32(p[12:], 4)
	meta = append(meta, p...)
	meta = append(meta, "PTCH"...)
	le.PutUint32(meta[metaDirs:], patchAt)
	le.PutUint32(meta[metaDirs+4:], 32)
	contentAt := uint32(len(meta))
	meta = append(meta, content...)
	layoutAt := uint32(len(meta))
	for _, r := range rows {
		b := make([]byte, layoutEntry)
		le.PutUint16(b, r.ID)
		if r.group {
			le.PutUint16(b[2:], r.count)
			le.PutUint32(b[4:], r.times)
			le.PutUint64(b[8:], r.step)
		} else {
			le.PutUint16(b[2:], r.Attr)
			le.PutUint32(b[4:], r.Pages)
			le.PutUint64(b[8:], r.RVA)
			le.PutUint32(b[16:], r.Size)
			if r.ContentOffset != 0 {
				le.PutUint32(b[20:], contentAt)
			}
			le.PutUint64(b[24:], r.Flags)
		}
		meta = append(meta, b...)
	}
	le.PutUint32(meta[metaDirs+8:], layoutAt)
	le.PutUint32(meta[metaDirs+12:], uint32(len(meta))-layoutAt)
	le.PutUint32(meta[16:], uint32(len(meta)))
	if change != nil {
		change(meta)
	}
	note := make([]byte, 12)
	le.PutUint32(note, uint32(len(metaName)))
	le.PutUint32(note[4:], uint32(len(meta)))
	le.PutUint32(note[8:], 1)
	note = append(append(note, metaName...), meta...)

	var f bytes.Buffer
	names := "\x00.note.sgxmeta\x00.shstrtab\x00"
	noteOff := uint64(0x3000)
	strOff := noteOff + uint64(len(note))
	shOff := (strOff + uint64(len(names)) + 7) &^ 7
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Shoff: shOff, Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	binary.Write(&f, le, h)
	binary.Write(&f, le, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: codeOff, Vaddr: 0, Filesz: uint64(len(code)), Memsz: uint64(len(code)), Align: 4096})
	binary.Write(&f, le, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: dataOff, Vaddr: 0x2010, Filesz: uint64(len(data)), Memsz: dataMem, Align: 4096})
	out := make([]byte, shOff+3*64)
	copy(out, f.Bytes())
	copy(out[codeOff:], code)
	copy(out[dataOff:], data)
	copy(out[noteOff:], note)
	copy(out[strOff:], names)
	var sh bytes.Buffer
	binary.Write(&sh, le, elf.Section64{})
	binary.Write(&sh, le, elf.Section64{Name: 1, Type: uint32(elf.SHT_NOTE), Off: noteOff, Size: uint64(len(note))})
	binary.Write(&sh, le, elf.Section64{Name: 15, Type: uint32(elf.SHT_STRTAB), Off: strOff, Size: uint64(len(names))})
	copy(out[shOff:], sh.Bytes())
	return out
}

func sample(change func([]byte)) []byte {
	tcs := make([]byte, 72)
	le.PutUint64(tcs[16:], 0x1000) // OSSA, relative to the TCS page
	le.PutUint32(tcs[28:], 2)
	le.PutUint64(tcs[48:], 0x3000)
	le.PutUint64(tcs[56:], 0x3000)
	rows := []layoutRow{
		{ID: 1, Attr: attrEADD, Pages: 2, RVA: 0x8000, Flags: 0x203},                                                          // heap: unmeasured
		{ID: 5, Pages: 16, RVA: 0xa000},                                                                                       // guard
		{ID: 3, Attr: attrEADD | attrEEXTEND, Pages: 1, RVA: 0x20000, Size: 0xcccccccc, Flags: 0x203},                         // stack, filled
		{ID: 4, Attr: attrEADD | attrEEXTEND, Pages: 1, RVA: 0x21000, Size: uint32(len(tcs)), ContentOffset: 1, Flags: 0x100}, // TCS
		{ID: 0x1001, group: true, count: 2, times: 1, step: 0x10000},
		{ID: 9, Attr: attrPostAdd, Pages: 3, RVA: 0x50000, Flags: 0x203},
	}
	return build([]byte("code........"), []byte("data"), 0x1800, rows, tcs, change)
}

// TestReadSDK measures the sample by a second way, block by block from the
// SDK's order of loading.
func TestReadSDK(t *testing.T) {
	m, err := ReadSDK(sample(nil))
	if err != nil {
		t.Fatal(err)
	}
	w := sgx.NewMeasurement()
	w.Create(1, 1<<20)
	page := func(off uint64, flags uint64, content string, at int, measured bool) {
		var p [sgx.PageSize]byte
		copy(p[at:], content)
		w.Add(off, sgx.SecInfo{Perm: sgx.Perm(flags & 7), Type: sgx.PageType(flags >> 8)})
		if measured {
			w.ExtendPage(off, &p)
		}
	}
	tcs := func(base uint64) string {
		b := make([]byte, 72)
		le.PutUint64(b[16:], 0x1000+base)
		le.PutUint32(b[28:], 2)
		le.PutUint64(b[48:], 0x3000+base)
		le.PutUint64(b[56:], 0x3000+base)
		return string(b)
	}
	page(0, 0x205, "PTCH........", 0, true)
	page(0x2000, 0x203, "data", 0x10, true)
	page(0x3000, 0x203, "", 0, true) // zero-filled rest of the data segment
	page(0x8000, 0x203, "", 0, false)
	page(0x9000, 0x203, "", 0, false)
	fill := strings.Repeat("\xcc", sgx.PageSize)
	page(0x20000, 0x203, fill, 0, true)
	page(0x21000, 0x100, tcs(0x21000), 0, true)
	page(0x30000, 0x203, fill, 0, true)
	page(0x31000, 0x100, tcs(0x31000), 0, true)
	if m.Measure() != w.Sum() {
		t.Errorf("MRENCLAVE %x, want %x", m.Measure(), w.Sum())
	}
	if len(m.Metadata.PostAdd) != 1 || m.Metadata.PostAdd[0] != (Range{0x50000, 0x3000, 0x203, 9}) || m.Metadata.Major != 2 || m.Metadata.Minor != 4 {
		t.Errorf("metadata %+v", m.Metadata)
	}
}

func TestReadSDKRefuses(t *testing.T) {
	good := sample(nil)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"not ELF":         {[]byte("hello"), "not an ELF file"},
		"unsigned":        {bytes.Replace(bytes.Clone(good), []byte(".note.sgxmeta"), []byte(".note.xxxmeta"), 1), ".note.sgxmeta"},
		"version 9":       {sample(func(m []byte) { le.PutUint64(m[8:], 9<<32) }), "no metadata block"},
		"size not power":  {sample(func(m []byte) { le.PutUint64(m[40:], 0x30000) }), "power of two"},
		"too large":       {sample(func(m []byte) { le.PutUint64(m[40:], 1<<40) }), "power of two"},
		"too small":       {sample(func(m []byte) { le.PutUint64(m[40:], 0x10000) }), "outside the enclave"},
		"no SSA":          {sample(func(m []byte) { le.PutUint32(m[24:], 0) }), "SSA frame"},
		"patch outside":   {sample(func(m []byte) { le.PutUint64(m[le.Uint32(m[metaDirs:]):], 1<<40) }), "outside the file"},
		"patch source":    {sample(func(m []byte) { le.PutUint32(m[le.Uint32(m[metaDirs:])+8:], 1<<30) }), "refers to bytes"},
		"layout outside":  {sample(func(m []byte) { le.PutUint32(m[metaDirs+8:], 1<<30) }), "refers to bytes"},
		"group too large": {sample(func(m []byte) { le.PutUint16(m[le.Uint32(m[metaDirs+8:])+4*32+2:], 9) }), "repeats 9 entries"},
		"huge page count": {sample(func(m []byte) { le.PutUint32(m[le.Uint32(m[metaDirs+8:])+4:], 1<<31) }), "outside the enclave"},
	} {
		m, err := ReadSDK(c.file)
		var fe *FormatError
		if err == nil || m != nil || !errors.As(err, &fe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

// sgxs writes an image as a stream, the inverse of ReadSGXS.
func sgxs(m *Image) []byte {
	var out []byte
	block := func(tag string, f func(b []byte)) {
		b := make([]byte, 64)
		copy(b, tag)
		f(b)
		out = append(out, b...)
	}
	block("ECREATE\x00", func(b []byte) { le.PutUint32(b[8:], m.SSAFrameSize); le.PutUint64(b[12:], m.Size) })
	for _, p := range m.Pages {
		block("EADD\x00\x00\x00\x00", func(b []byte) { le.PutUint64(b[8:], p.Offset); le.PutUint64(b[16:], p.Info.Flags()) })
		for c := 0; c < 16; c++ {
			if p.Extend&(1<<c) != 0 {
				block("EEXTEND\x00", func(b []byte) { le.PutUint64(b[8:], p.Offset+uint64(c)*256) })
				out = append(out, p.Data[c*256:c*256+256]...)
			}
		}
	}
	return out
}

func sgxsSample() []byte {
	p := new([sgx.PageSize]byte)
	copy(p[:], "hello")
	return sgxs(&Image{Size: 0x8000, SSAFrameSize: 1, Pages: []Page{
		{0, sgx.SecInfo{Perm: sgx.PermR | sgx.PermX, Type: sgx.PageREG}, p, 0xffff},
		{0x1000, sgx.SecInfo{Type: sgx.PageTCS}, p, 0x8001},
		{0x4000, sgx.SecInfo{Perm: sgx.PermR | sgx.PermW, Type: sgx.PageREG}, nil, 0},
	}})
}

func TestReadSGXS(t *testing.T) {
	b := sgxsSample()
	m, err := ReadSGXS(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if m.Measure() != sha256.Sum256(b) {
		t.Error("MRENCLAVE is not SHA-256 of the stream")
	}
	if !bytes.Equal(sgxs(m), b) {
		t.Error("the stream does not come out again")
	}
	for cut := 1; cut < len(b); cut += 13 {
		if m, err := ReadSGXS(bytes.NewReader(b[:cut])); err == nil && !bytes.Equal(sgxs(m), b[:cut]) {
			t.Errorf("cut at %d was accepted", cut)
		}
	}
}

func FuzzReadSGXS(f *testing.F) {
	f.Add(sgxsSample())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadSGXS(bytes.NewReader(b))
		if err != nil {
			if m != nil {
				t.Error("an error came with a result")
			}
			return
		}
		if m.Measure() != sha256.Sum256(b) {
			t.Error("MRENCLAVE is not SHA-256 of an accepted stream")
		}
	})
}

func FuzzReadSDK(f *testing.F) {
	f.Add(sample(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadSDK(b)
		if err != nil {
			if m != nil {
				t.Error("an error came with a result")
			}
			return
		}
		for _, p := range m.Pages {
			if p.Offset%sgx.PageSize != 0 || p.Offset >= m.Size {
				t.Errorf("page at %#x outside %#x", p.Offset, m.Size)
			}
		}
		if m.Measure() != m.Measure() {
			t.Error("the measurement is not a function of the image")
		}
	})
}
