// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

const page = 4096

// source is an unsigned enclave: a shared object of which all is known that the
// signer needs.
type source struct {
	file          []byte
	elf           *elf.File
	end           uint64 // of the segments in memory, rounded up to pages
	entry, global uint64 // addresses of enclave_entry and g_global_data
	globalAt      uint64 // where g_global_data lies in the file
	tls, tlsAlign uint64 // size and alignment of the thread-local data
	note          uint64 // where the metadata goes in the file
	room          uint64 // bytes there
}

const noteName = "sgx_metadata\x00"

// openSource reads the file and refuses what cannot become an enclave.
func openSource(file []byte) (*source, error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("sign: not an ELF file: %w", err)
	}
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 || f.Type != elf.ET_DYN {
		return nil, fmt.Errorf("sign: expected a shared object for 64-bit x86 (link with -shared or -pie), got %v %v %v", f.Class, f.Machine, f.Type)
	}
	s := &source{file: file, elf: f, tlsAlign: 1}
	for _, step := range []func() error{s.segments, s.symbols, s.dynamic, s.relocations, s.metadata} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *source) segments() error {
	for _, p := range s.elf.Progs {
		switch p.Type {
		case elf.PT_LOAD:
			if p.Filesz > p.Memsz || p.Off > uint64(len(s.file)) || p.Filesz > uint64(len(s.file))-p.Off || p.Vaddr > maxMemory || p.Memsz > maxMemory {
				return fmt.Errorf("sign: the segment at %#x reaches outside the file", p.Vaddr)
			}
			if p.Flags&(elf.PF_W|elf.PF_X) == elf.PF_W|elf.PF_X {
				return fmt.Errorf("sign: the segment at %#x is writable and executable", p.Vaddr)
			}
			s.end = max(s.end, (p.Vaddr+p.Memsz+page-1)&^(page-1))
		case elf.PT_TLS:
			s.tls, s.tlsAlign = p.Memsz, max(1, p.Align)
			if s.tls > 1<<24 || s.tlsAlign > page || s.tlsAlign&(s.tlsAlign-1) != 0 {
				return fmt.Errorf("sign: %d bytes of thread-local data, aligned to %d: at most 16 MiB and 4096", s.tls, s.tlsAlign)
			}
		case elf.PT_INTERP:
			return errors.New("sign: the file names a dynamic loader (PT_INTERP): link with -nostdlib -shared")
		}
	}
	if s.end == 0 {
		return errors.New("sign: the file has no segment to load")
	}
	return nil
}

func (s *source) symbols() error {
	syms, err := s.elf.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("sign: no dynamic symbols, so that enclave_entry cannot be found: export it in the linker's version script (%w)", err)
	}
	var missing []string
	var size uint64
	for _, y := range syms {
		switch {
		case y.Section == elf.SHN_UNDEF && elf.ST_BIND(y.Info) != elf.STB_WEAK && y.Name != "":
			missing = append(missing, y.Name)
		case y.Name == "enclave_entry":
			s.entry = y.Value
		case y.Name == "g_global_data":
			s.global, size = y.Value, y.Size
		}
	}
	switch {
	case missing != nil:
		return fmt.Errorf("sign: undefined symbols, which nothing provides in an enclave: %s", strings.Join(missing, ", "))
	case s.entry == 0 || s.global == 0:
		return errors.New("sign: the symbols enclave_entry and g_global_data are missing: link with the trusted runtime (libsgx_trts.a, --whole-archive), and export both in the version script")
	case size != globalSize:
		return fmt.Errorf("sign: g_global_data has %d bytes, expected %d: the trusted runtime is of a version that this signer does not know", size, globalSize)
	}
	for _, p := range s.elf.Progs {
		if p.Type == elf.PT_LOAD && s.global >= p.Vaddr && s.global+globalSize <= p.Vaddr+p.Filesz {
			s.globalAt = p.Off + s.global - p.Vaddr
		}
	}
	if s.globalAt == 0 {
		return errors.New("sign: g_global_data has no place in the file; it must not be in .bss")
	}
	return nil
}

func (s *source) dynamic() error {
	if libs, err := s.elf.ImportedLibraries(); err != nil || len(libs) > 0 {
		return fmt.Errorf("sign: the file needs shared libraries, which an enclave cannot load: %s (link them statically)", strings.Join(libs, ", "))
	}
	textrel := false
	if v, err := s.elf.DynValue(elf.DT_TEXTREL); err == nil && len(v) > 0 {
		textrel = true
	}
	if v, err := s.elf.DynValue(elf.DT_FLAGS); err == nil && len(v) > 0 && v[0]&uint64(elf.DF_TEXTREL) != 0 {
		textrel = true
	}
	if textrel {
		return errors.New("sign: the file has text relocations, so that its code pages would have to be writable: compile everything with -fPIC (or -fpie), and link with -Wl,-z,text to find what is not")
	}
	return nil
}

// relocations refuses those that the trusted runtime does not know.
func (s *source) relocations() error {
	for _, sec := range s.elf.Sections {
		if sec.Type != elf.SHT_RELA || sec.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		d, err := sec.Data()
		if err != nil {
			return fmt.Errorf("sign: %s: %w", sec.Name, err)
		}
		for ; len(d) >= 24; d = d[24:] {
			switch t := elf.R_X86_64(s.elf.ByteOrder.Uint64(d[8:]) & 0xffffffff); t {
			case elf.R_X86_64_NONE, elf.R_X86_64_64, elf.R_X86_64_GLOB_DAT, elf.R_X86_64_JMP_SLOT, elf.R_X86_64_RELATIVE, elf.R_X86_64_DTPMOD64, elf.R_X86_64_DTPOFF64, elf.R_X86_64_TPOFF64:
			default:
				return fmt.Errorf("sign: relocation %v at %#x in %s is not known to the trusted runtime", t, s.elf.ByteOrder.Uint64(d), sec.Name)
			}
		}
	}
	return nil
}

// metadata finds the room that the trusted runtime keeps for the signer.
func (s *source) metadata() error {
	sec := s.elf.Section(".note.sgxmeta")
	if sec == nil {
		return errors.New("sign: no section .note.sgxmeta, the room for the signature: link with the trusted runtime (libsgx_trts.a, --whole-archive)")
	}
	if sec.Flags&elf.SHF_ALLOC != 0 || sec.Type == elf.SHT_NOBITS {
		return errors.New("sign: .note.sgxmeta is part of the enclave's memory: it would have to measure itself")
	}
	head := uint64(12 + len(noteName))
	if sec.Offset > uint64(len(s.file)) || sec.Size > uint64(len(s.file))-sec.Offset || sec.Size < head+metaSize {
		return fmt.Errorf("sign: .note.sgxmeta has %d bytes, expected %d", sec.Size, head+metaSize)
	}
	n := s.file[sec.Offset : sec.Offset+sec.Size]
	if le.Uint32(n) != uint32(len(noteName)) || string(n[12:head]) != noteName {
		return fmt.Errorf("sign: .note.sgxmeta is not the note %q", strings.TrimSuffix(noteName, "\x00"))
	}
	s.note, s.room = sec.Offset+head, sec.Size-head
	return nil
}
