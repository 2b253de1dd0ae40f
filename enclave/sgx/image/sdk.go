// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"

	"holdfast/enclave/sgx"
)

// ReadSDK reads a signed enclave of Intel's SDK. The image is copied, since the
// metadata patches it before it is measured.
func ReadSDK(file []byte) (*Image, error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, sdkError("not an ELF file: %v", err)
	}
	defer f.Close()
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 || f.Type != elf.ET_DYN {
		return nil, sdkError("expected a 64-bit x86 shared object, got %v %v %v", f.Class, f.Machine, f.Type)
	}
	md, err := findMetadata(f)
	if err != nil {
		return nil, err
	}
	m, err := md.image()
	if err != nil {
		return nil, err
	}
	patched, err := md.patch(file)
	if err != nil {
		return nil, err
	}
	b := &builder{m: m, last: -1}
	if err := b.segments(f, patched); err != nil {
		return nil, err
	}
	if err := b.layout(md); err != nil {
		return nil, err
	}
	return m, nil
}

// builder appends pages in loading order.
type builder struct {
	m    *Image
	last int64 // offset of the last segment page, to refuse overlap
}

func (b *builder) add(p Page) error {
	if p.Offset%sgx.PageSize != 0 || p.Offset > b.m.Size-sgx.PageSize {
		return sdkError("a page at %#x is not aligned or outside ELRANGE of %#x bytes", p.Offset, b.m.Size)
	}
	if len(b.m.Pages) >= MaxPages {
		return sdkError("more than %d pages", MaxPages)
	}
	b.m.Pages = append(b.m.Pages, p)
	return nil
}

// segments adds each PT_LOAD page by page, content and zero-filled rest, all
// measured. Pages of a read-only segment that hold relocations become writable,
// since the trusted runtime relocates itself (only if the file has DT_TEXTREL).
func (b *builder) segments(f *elf.File, file []byte) error {
	writable, err := textRelocations(f)
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Memsz == 0 {
			continue
		}
		if p.Filesz > p.Memsz || p.Off > uint64(len(file)) || p.Filesz > uint64(len(file))-p.Off || p.Vaddr > b.m.Size || p.Memsz > b.m.Size-p.Vaddr {
			return sdkError("segment at %#x reaches outside the file or the enclave", p.Vaddr)
		}
		perm := sgx.Perm(0)
		if p.Flags&elf.PF_R != 0 {
			perm |= sgx.PermR
		}
		if p.Flags&elf.PF_W != 0 {
			perm |= sgx.PermW
		}
		if p.Flags&elf.PF_X != 0 {
			perm |= sgx.PermX
		}
		data := file[p.Off : p.Off+p.Filesz]
		for off := p.Vaddr &^ (sgx.PageSize - 1); off < p.Vaddr+p.Memsz; off += sgx.PageSize {
			if int64(off) <= b.last {
				return sdkError("segments overlap or are out of order in the page at %#x", off)
			}
			b.last = int64(off)
			page := new([sgx.PageSize]byte)
			if off < p.Vaddr {
				copy(page[p.Vaddr-off:], data)
			} else if off-p.Vaddr < uint64(len(data)) {
				copy(page[:], data[off-p.Vaddr:])
			}
			pp := perm
			if writable[off] {
				pp |= sgx.PermW
			}
			if err := b.add(Page{Offset: off, Info: sgx.SecInfo{Perm: pp, Type: sgx.PageREG}, Data: page, Extend: 0xffff}); err != nil {
				return err
			}
		}
	}
	if len(b.m.Pages) == 0 {
		return sdkError("no segment to load")
	}
	return nil
}

// textRelocations returns the pages that hold relocations if the file says
// DT_TEXTREL; without it no read-only page is relocated.
func textRelocations(f *elf.File) (map[uint64]bool, error) {
	pages := map[uint64]bool{}
	textrel := false
	if v, err := f.DynValue(elf.DT_TEXTREL); err == nil && len(v) > 0 {
		textrel = true
	}
	if v, err := f.DynValue(elf.DT_FLAGS); err == nil && len(v) > 0 && v[0]&uint64(elf.DF_TEXTREL) != 0 {
		textrel = true
	}
	if !textrel {
		return pages, nil
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		d, err := s.Data()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, sdkError("relocations of %s: %v", s.Name, err)
		}
		for ; len(d) >= 24; d = d[24:] {
			o := le.Uint64(d)
			pages[o&^(sgx.PageSize-1)] = true
			if o%sgx.PageSize > sgx.PageSize-8 {
				pages[(o+8)&^(sgx.PageSize-1)] = true
			}
		}
	}
	return pages, nil
}
