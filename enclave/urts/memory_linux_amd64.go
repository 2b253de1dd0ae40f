// SPDX-License-Identifier: Apache-2.0

package urts

import (
	"errors"
	"fmt"
	"os"
	"sync"

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

	open   sync.RWMutex // read-locked while copy is at work
	closed bool
}

// NewMemory makes size bytes of shared memory (rounded up to pages).
func NewMemory(size int) (*Memory, error) {
	size = (size + 4095) &^ 4095
	fd, err := unix.MemfdCreate("enclave-shared", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("urts: shared memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "enclave-shared")
	if err := f.Truncate(int64(size)); err != nil {
		f.Close()
		return nil, fmt.Errorf("urts: shared memory of %d bytes: %w", size, err)
	}
	// Whoever holds the file must not make it shorter under us.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		f.Close()
		return nil, fmt.Errorf("urts: seal shared memory: %w", err)
	}
	return mapMemory(f, size)
}

// OpenMemory maps the shared memory that a monitor in another process passed;
// the file belongs to it afterwards. Below the address free the monitor uses it
// itself. It fails if the memory could become shorter.
func OpenMemory(f *os.File, size, free uint64) (*Memory, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	if err == nil && (size == 0 || size%4096 != 0 || size > 1<<40 || uint64(st.Size) != size) {
		err = fmt.Errorf("expected %d bytes, got %d", size, st.Size)
	}
	if err == nil && (free < MemoryAddr || free-MemoryAddr > size) {
		err = fmt.Errorf("expected free space within it, got %#x", free)
	}
	if err == nil {
		var seals int
		if seals, err = unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err == nil && seals&unix.F_SEAL_SHRINK == 0 {
			err = errors.New("it is not sealed against shrinking")
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("urts: shared memory: %w", err)
	}
	m, err := mapMemory(f, int(size))
	if err == nil {
		m.next = max(m.next, free-MemoryAddr)
	}
	return m, err
}

func mapMemory(f *os.File, size int) (*Memory, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("urts: map shared memory: %w", err)
	}
	return &Memory{b: b, file: f, next: 4096}, nil // the first page stays free, so that 0 offsets show
}

// File is the memory as a file, to pass to another process.
func (m *Memory) File() *os.File { return m.file }

// Size is the memory's size in bytes.
func (m *Memory) Size() uint64 { return uint64(len(m.b)) }

// Free is the address from which on Alloc has not given anything away.
func (m *Memory) Free() uint64 { return MemoryAddr + m.next }

// Close frees the memory. Slices from Bytes must not be used any more.
func (m *Memory) Close() {
	m.open.Lock()
	defer m.open.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	_ = unix.Munmap(m.b)
	m.file.Close()
}

// copy copies between b and the memory at an address; unlike a slice of Bytes it
// may come at the same time as Close.
func (m *Memory) copy(addr uint64, b []byte, write bool) error {
	m.open.RLock()
	defer m.open.RUnlock()
	at, err := m.Bytes(addr, uint64(len(b)))
	switch {
	case m.closed:
		return ErrClosed
	case err != nil:
		return err
	case write:
		copy(at, b)
	default:
		copy(b, at)
	}
	return nil
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
