// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"debug/elf"
	"fmt"
	"sort"
)

// kernelEntries looks for instructions that enter the kernel. found names those
// that a straight walk through the code meets (at most 8 of them), odd counts the
// byte patterns that lie within other instructions.
func (s *source) kernelEntries() (found []string, odd int, err error) {
	var funcs []elf.Symbol
	for _, read := range []func() ([]elf.Symbol, error){s.elf.Symbols, s.elf.DynamicSymbols} {
		if y, err := read(); err == nil {
			for _, y := range y {
				if elf.ST_TYPE(y.Info) == elf.STT_FUNC && y.Section != elf.SHN_UNDEF {
					funcs = append(funcs, y)
				}
			}
		}
	}
	sort.Slice(funcs, func(i, j int) bool { return funcs[i].Value < funcs[j].Value })
	total := 0
	for _, sec := range s.elf.Sections {
		if sec.Type != elf.SHT_PROGBITS || sec.Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		code, err := sec.Data()
		if err != nil {
			return nil, 0, fmt.Errorf("sign: %s: %w", sec.Name, err)
		}
		n := 0
		for i := 0; i < len(code); {
			name := kernelEntry(code[i:])
			if name != "" {
				n++
				if total++; total <= 8 {
					found = append(found, fmt.Sprintf("%s at %#x%s", name, sec.Addr+uint64(i), within(funcs, sec.Addr+uint64(i))))
				}
			}
			i += instructionLength(code[i:])
		}
		all := 0
		for i := range code {
			if kernelEntry(code[i:]) != "" {
				all++
			}
		}
		odd += all - n
	}
	if total > len(found) {
		found = append(found, fmt.Sprintf("%d more", total-len(found)))
	}
	return found, odd, nil
}

func kernelEntry(b []byte) string {
	switch {
	case len(b) < 2:
	case b[0] == 0x0f && b[1] == 0x05:
		return "SYSCALL"
	case b[0] == 0x0f && b[1] == 0x34:
		return "SYSENTER"
	case b[0] == 0xcd && b[1] == 0x80:
		return "INT 0x80"
	}
	return ""
}

func within(funcs []elf.Symbol, addr uint64) string {
	i := sort.Search(len(funcs), func(i int) bool { return funcs[i].Value > addr })
	if i > 0 && addr < funcs[i-1].Value+max(1, funcs[i-1].Size) {
		return " in " + funcs[i-1].Name
	}
	return ""
}

// instructionLength is the length of a 64-bit x86 instruction, at least 1, at most
// what is there. What is no instruction counts as one byte.
//
// Source: Intel SDM volume 2, appendix A (opcode maps).
func instructionLength(b []byte) int {
	n := lengthOf(b)
	return max(1, min(n, len(b), 15))
}

func lengthOf(b []byte) int {
	i, wide, short, addr32 := 0, false, false, false
prefixes:
	for ; i < len(b) && i < 14; i++ {
		switch b[i] {
		case 0x66:
			short = true
		case 0x67:
			addr32 = true
		case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0xf0, 0xf2, 0xf3:
		default:
			break prefixes
		}
	}
	at := func(k int) byte {
		if k < len(b) {
			return b[k]
		}
		return 0
	}
	if at(i)&0xf0 == 0x40 {
		wide = at(i)&8 != 0
		i++
	}
	op := at(i)
	i++
	immz := 4
	if short && !wide {
		immz = 2
	}
	switch {
	case op == 0xc5: // VEX, two bytes
		return vector(b, i+1, 1)
	case op == 0xc4:
		return vector(b, i+2, int(at(i)&0x1f))
	case op == 0x62:
		return vector(b, i+3, int(at(i)&7))
	case op == 0x0f:
		return secondMap(b, i)
	}
	modrm, imm := false, 0
	switch {
	case op < 0x40:
		switch op & 7 {
		case 4:
			imm = 1
		case 5:
			imm = immz
		case 6, 7:
			return 1
		default:
			modrm = true
		}
	case op == 0x63:
		modrm = true
	case op == 0x68:
		imm = immz
	case op == 0x69:
		modrm, imm = true, immz
	case op == 0x6a:
		imm = 1
	case op == 0x6b:
		modrm, imm = true, 1
	case op >= 0x70 && op < 0x80:
		imm = 1
	case op == 0x80, op == 0x83, op == 0xc0, op == 0xc1, op == 0xc6:
		modrm, imm = true, 1
	case op == 0x81, op == 0xc7:
		modrm, imm = true, immz
	case op >= 0x84 && op < 0x90, op >= 0xd0 && op < 0xd4, op >= 0xd8 && op < 0xe0, op == 0xfe, op == 0xff:
		modrm = true
	case op >= 0xa0 && op < 0xa4:
		if imm = 8; addr32 {
			imm = 4
		}
	case op == 0xa8, op >= 0xb0 && op < 0xb8, op == 0xcd, op >= 0xe0 && op < 0xe8, op == 0xeb:
		imm = 1
	case op == 0xa9:
		imm = immz
	case op >= 0xb8 && op < 0xc0:
		if imm = immz; wide {
			imm = 8
		}
	case op == 0xc2, op == 0xca:
		imm = 2
	case op == 0xc8:
		imm = 3
	case op == 0xe8, op == 0xe9:
		imm = 4
	case op == 0xf6, op == 0xf7:
		modrm = true
		if at(i)&0x38 < 0x10 {
			if imm = 1; op == 0xf7 {
				imm = immz
			}
		}
	}
	if op >= 0xe4 && op < 0xe8 {
		imm = 1
	}
	if op == 0xe8 || op == 0xe9 {
		imm = 4
	}
	if modrm {
		i += modrmLength(b, i)
	}
	return i + imm
}

// secondMap is what follows 0F.
func secondMap(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	op := b[i]
	i++
	switch {
	case op == 0x38:
		return i + 1 + modrmLength(b, i+1)
	case op == 0x3a:
		return i + 1 + modrmLength(b, i+1) + 1
	case op >= 0x80 && op < 0x90:
		return i + 4
	case op == 0x0f, op >= 0x70 && op < 0x74, op == 0xa4, op == 0xac, op == 0xba, op == 0xc2, op >= 0xc4 && op < 0xc7:
		return i + modrmLength(b, i) + 1
	case op >= 0x05 && op < 0x0c, op == 0x0e, op >= 0x30 && op < 0x38, op == 0x77, op >= 0xa0 && op < 0xa3, op >= 0xa8 && op < 0xab, op >= 0xc8 && op < 0xd0:
		return i
	}
	return i + modrmLength(b, i)
}

// vector is what follows a VEX or EVEX prefix; m is the opcode map.
func vector(b []byte, i, m int) int {
	if i >= len(b) {
		return i
	}
	op := b[i]
	i++
	if m == 1 && op == 0x77 {
		return i
	}
	n := i + modrmLength(b, i)
	if m == 3 || m == 1 && (op >= 0x70 && op < 0x74 || op == 0xc2 || op >= 0xc4 && op < 0xc7) {
		n++
	}
	return n
}

// modrmLength is the size of ModRM, SIB and displacement.
func modrmLength(b []byte, i int) int {
	if i >= len(b) {
		return 1
	}
	mod, rm := b[i]>>6, b[i]&7
	n := 1
	base := rm
	if mod != 3 && rm == 4 {
		n++
		if i+1 < len(b) {
			base = b[i+1] & 7
		}
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, mod == 0 && base == 5:
		n += 4
	}
	return n
}
