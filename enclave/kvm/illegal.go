// SPDX-License-Identifier: Apache-2.0

package kvm

// illegal reports whether an instruction that raised a general protection fault
// is one that SGX makes illegal inside an enclave, so that the enclave expects
// an invalid opcode instead (SDM, table "Illegal Instructions Inside an
// Enclave"; RDTSC is legal with SGX2, and here only where it was not switched
// off). op is what can be read of it, at most 15 bytes.
func illegal(op []byte) bool {
	for len(op) > 0 && prefix(op[0]) {
		op = op[1:]
	}
	if len(op) > 0 && op[0]&0xf0 == 0x40 { // REX
		op = op[1:]
	}
	at := func(i int) byte {
		if i < len(op) {
			return op[i]
		}
		return 0
	}
	reg, memory := at(2)>>3&7, at(2)>>6 != 3
	switch b := at(0); {
	case len(op) == 0:
		return false
	case b >= 0x6c && b <= 0x6f, b >= 0xe4 && b <= 0xe7, b >= 0xec && b <= 0xef: // INS OUTS, IN OUT
		return true
	case b == 0xcd, b == 0xcf, b == 0xca, b == 0xcb: // INT, IRET, far RET
		return true
	case b == 0xff: // far CALL, far JMP
		r := at(1) >> 3 & 7
		return len(op) > 1 && (r == 3 || r == 5) && at(1)>>6 != 3
	case b == 0x8e: // MOV to a segment register
		return true
	case b != 0x0f, len(op) < 2:
		return false
	}
	switch at(1) {
	case 0x31, 0x33, 0x34, 0x37, 0xa2, 0xa1, 0xa9, 0xb2, 0xb4, 0xb5, 0x05: // RDTSC RDPMC SYSENTER GETSEC CPUID POP FS, GS LSS LFS LGS SYSCALL
		return true
	case 0x00: // SLDT STR
		return len(op) > 2 && reg <= 1
	case 0x01: // SGDT SIDT SMSW; RDTSCP; VMCALL VMMCALL VMFUNC ENCLV
		switch at(2) {
		case 0xf9, 0xc1, 0xd9, 0xd4, 0xc0:
			return true
		}
		return len(op) > 2 && (reg == 4 || memory && reg <= 1)
	}
	return false
}

func prefix(b byte) bool {
	switch b {
	case 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
		return true
	}
	return false
}
