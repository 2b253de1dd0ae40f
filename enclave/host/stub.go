// SPDX-License-Identifier: Apache-2.0

package host

import "encoding/binary"

// The program with which an enclave's process starts: one page with the two
// instructions that the monitor needs to make system calls in its name.
const (
	stubAddr = 0x10000 // lowest address that a process may map by default
	stubCode = stubAddr + 0x80
	opLen    = 2 // of SYSCALL
)

// stubELF returns a static ELF file: SYSCALL; INT3.
func stubELF() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0x1000)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 2)  // ET_EXEC
	le.PutUint16(b[18:], 62) // EM_X86_64
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[24:], stubCode) // entry
	le.PutUint64(b[32:], 64)       // program headers
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	p := b[64:]
	le.PutUint32(p[0:], 1) // PT_LOAD
	le.PutUint32(p[4:], 5) // R X
	le.PutUint64(p[16:], stubAddr)
	le.PutUint64(p[24:], stubAddr)
	le.PutUint64(p[32:], uint64(len(b)))
	le.PutUint64(p[40:], uint64(len(b)))
	le.PutUint64(p[48:], 0x1000)
	copy(b[stubCode-stubAddr:], "\x0f\x05\xcc")
	return b
}
