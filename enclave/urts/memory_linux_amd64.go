// SPDX-License-Identifier: Apache-2.0

package urts

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MemoryAddr is where an enclave finds the shared memory. ELRANGE never
// reaches it.
const MemoryAddr = 0x10_0000_0000

// Memory is what application and enclave share: arguments, buffers, and the
// untrusted stack. It is outside ELRANGE and holds no secret.
type Memory struct {
	b    []byte
	file *os.File
	next uint64 // bump allocation, from the start
}

// NewMemory makes size bytes of shared memory (rounded up to pages).
func NewMemory(size int) (*Memory, error) {
	size = (size + 4095) &^ 4095
	fd, err := unix.MemfdCreate("enclave-shared", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("urts: shared memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "enclave-shared")
	if err := f.Truncate(int64(size)); err != nil {
		f.Close()
		return nil, fmt.Errorf("urts: shared memory of %d bytes: %w", size, err)
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("urts: map shared memory: %w", err)
	}
	return &Memory{b: b, file: f, next: 4096}, nil // the first page stays free, so that 0 offsets show
}

// Close frees the memory.
func (m *Memory) Close() {
	_ = unix.Munmap(m.b)
	m.file.Close()
}

// Alloc returns the address, as the enclave sees it, of n bytes of zeros,
// aligned to 64.
func (m *Memory) Alloc(n int) (uint64, error) {
	at := (m.next + 63) &^ 63
	if n < 0 || uint64(n) > uint64(len(m.b)) || at > uint64(len(m.b))-uint64(n) {
		return 0, fmt.Errorf("urts: %d bytes do not fit into the shared memory of %d bytes", n, len(m.b))
	}
	m.next = at + uint64(n)
	clear(m.b[at:m.next])
	return MemoryAddr + at, nil
}

// Bytes returns n bytes at an address of the enclave's view, or an error if
// they are not all within the memory. An enclave names such addresses in
// OCALLs: they are not to be trusted.
func (m *Memory) Bytes(addr, n uint64) ([]byte, error) {
	o := addr - MemoryAddr
	if addr < MemoryAddr || o > uint64(len(m.b)) || n > uint64(len(m.b))-o {
		return nil, fmt.Errorf("urts: %d bytes at %#x are outside the shared memory", n, addr)
	}
	return m.b[o : o+n : o+n], nil
}
