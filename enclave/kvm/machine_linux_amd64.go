// SPDX-License-Identifier: Apache-2.0

package kvm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/pagetable"
	"holdfast/enclave/sgx"
)

// device is /dev/kvm and what it can do.
type device struct {
	f       *os.File
	cpuid   cpuid
	runSize int
}

// Device is the path of KVM.
const Device = "/dev/kvm"

// open opens KVM and checks that it has what this backend needs.
func open() (*device, error) {
	f, err := os.OpenFile(Device, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("enclave/kvm: %w", err)
	}
	d := &device{f: f}
	if err := d.check(); err != nil {
		f.Close()
		return nil, fmt.Errorf("enclave/kvm: %s: %w", Device, err)
	}
	return d, nil
}

func (d *device) check() error {
	fd := int(d.f.Fd())
	if v, err := ioctl(fd, getAPIVersion, 0); err != nil || v != apiVersion {
		return fmt.Errorf("expected version %d of the interface, got %d (%v)", apiVersion, v, err)
	}
	for _, c := range []struct {
		n    uintptr
		bits int
		name string
	}{{capUserMemory, 1, "USER_MEMORY"}, {capXSave, 1, "XSAVE"}, {capXCRs, 1, "XCRS"}, {capSyncRegs, syncRegs | syncSregs | syncEvents, "SYNC_REGS"},
		{capReadonlyMem, 1, "READONLY_MEM"}, {capImmediateExit, 1, "IMMEDIATE_EXIT"}, {capUserSpaceMSR, 1, "X86_USER_SPACE_MSR"},
		{capMSRFilter, 1, "X86_MSR_FILTER"}, {capEnforcePV, 1, "ENFORCE_PV_FEATURE_CPUID"}} {
		if v, err := ioctl(fd, checkExtension, c.n); err != nil || v&c.bits != c.bits {
			return fmt.Errorf("the kernel lacks KVM_CAP_%s (Linux 5.10 has all that is needed)", c.name)
		}
	}
	var err error
	if d.runSize, err = ioctl(fd, getVCPUMmapSize, 0); err != nil || d.runSize < runLeast {
		return fmt.Errorf("expected at least %d bytes shared with a processor, got %d (%v)", runLeast, d.runSize, err)
	}
	const most = 256
	c := make(cpuid, 8+most*cpuidEntry)
	le.PutUint32(c, most)
	if _, err := ioctlBytes(fd, getSupportedCPUID, c); err != nil {
		return fmt.Errorf("KVM_GET_SUPPORTED_CPUID: %w", err)
	}
	d.cpuid = c.filter()
	if d.cpuid.reg(7, 0, 1)&1 == 0 || d.cpuid.reg(1, 0, 2)&(1<<26) == 0 || d.cpuid.reg(0x80000001, 0, 3)&(1<<20) == 0 {
		return errors.New("the virtual processor lacks FSGSBASE, XSAVE or NX")
	}
	return nil
}

// xfrm are the XSAVE features that a virtual processor has.
func (d *device) xfrm() uint64 {
	return uint64(d.cpuid.reg(13, 0, 3))<<32 | uint64(d.cpuid.reg(13, 0, 0))
}

func (d *device) close() { d.f.Close() }

// machine is one virtual machine.
type machine struct {
	d      *device
	mode   Mode
	vm     int
	base   uint64 // of the enclave's range
	code   []byte // two pages: code, exception table
	state  []byte // processors' pages, page tables
	shared [][]byte
	area   []byte // the enclave's range: nothing, with the pages of the EPC put in
	tables *pagetable.Table
	cpus   int
}

// newMachine makes a machine for an enclave with the range base, size. It has
// no page of the enclave yet.
func newMachine(d *device, mode Mode, base, size uint64, shared []epc.Shared) (*machine, error) {
	if size > maxRange || base%sgx.PageSize != 0 || size%sgx.PageSize != 0 || size == 0 || base>>47 != 0 || size > 1<<47-base {
		return nil, fmt.Errorf("enclave/kvm: expected whole pages in the lower half and at most %d GiB for an enclave, got %d bytes at %#x", maxRange>>30, size, base)
	}
	m := &machine{d: d, mode: mode, vm: -1, base: base}
	if err := m.build(size, shared); err != nil {
		m.close()
		return nil, fmt.Errorf("enclave/kvm: virtual machine: %w", err)
	}
	return m, nil
}

func reserve(size uint64, prot int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(size), prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err == nil {
		_ = unix.Madvise(b, unix.MADV_DONTDUMP)
		_ = unix.Madvise(b, unix.MADV_DONTFORK)
	}
	return b, err
}

func (m *machine) build(size uint64, shared []epc.Shared) error {
	tables := 2 + pagetable.Tables(m.base, size) + pagetable.Tables(linearCode, 1<<24)
	for _, s := range shared {
		tables += pagetable.Tables(s.Addr, s.Size)
	}
	const rw = unix.PROT_READ | unix.PROT_WRITE
	var err error
	if m.code, err = reserve(2*sgx.PageSize, rw); err != nil {
		return err
	}
	copy(m.code, code)
	copy(m.code[sgx.PageSize:], idt(m.mode))
	if m.state, err = reserve(uint64(maxCPUs+tables)*sgx.PageSize, rw); err != nil {
		return err
	}
	if m.area, err = reserve(size, unix.PROT_NONE); err != nil {
		return err
	}
	if m.tables, err = pagetable.New(words(m.state[maxCPUs*statePageSize:]), physState+maxCPUs*statePageSize); err != nil {
		return err
	}
	if m.vm, err = ioctl(int(m.d.f.Fd()), createVM, 0); err != nil {
		return fmt.Errorf("KVM_CREATE_VM: %w", err)
	}
	unix.CloseOnExec(m.vm)
	if err := m.guard(); err != nil {
		return err
	}
	if err := m.slot(0, memReadonly, physCode, m.code); err != nil {
		return err
	}
	if err := m.slot(1, 0, physState, m.state); err != nil {
		return err
	}
	if err := m.slot(2, 0, physEnclave, m.area); err != nil {
		return err
	}
	for p := uint64(0); p < 2*sgx.PageSize; p += sgx.PageSize {
		f := pagetable.NoExe
		if p == 0 {
			f = 0
		}
		if err := m.tables.Map(linearCode+p, physCode+p, f); err != nil {
			return err
		}
	}
	if m.mode == P {
		if err := m.tables.Map(linearRoot, m.tables.Root(), stateFlags); err != nil {
			return err
		}
	}
	for i, s := range shared {
		if err := m.share(3+i, s); err != nil {
			return err
		}
	}
	return nil
}

// share gives the machine memory of the application, at one address everywhere.
func (m *machine) share(slot int, s epc.Shared) error {
	if s.Addr%sgx.PageSize != 0 || s.Size%sgx.PageSize != 0 || s.Size == 0 || s.Addr < 1<<32 || s.Addr > physEnclave || s.Size > physEnclave-s.Addr {
		return fmt.Errorf("shared memory: expected whole pages between %#x and %#x, got %d bytes at %#x", uint64(1)<<32, uint64(physEnclave), s.Size, s.Addr)
	}
	b, err := unix.Mmap(int(s.File.Fd()), 0, int(s.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("shared memory: %w", err)
	}
	m.shared = append(m.shared, b)
	if err := m.slot(slot, 0, s.Addr, b); err != nil {
		return err
	}
	for o := uint64(0); o < s.Size; o += sgx.PageSize {
		if err := m.tables.Map(s.Addr+o, s.Addr+o, m.user(pagetable.Write|pagetable.NoExe)); err != nil {
			return err
		}
	}
	return nil
}

// stateFlags are those of the stub's own pages, which ring 3 does not reach.
const stateFlags = pagetable.NoExe | pagetable.Write

// user adds what lets the enclave's ring reach a page.
func (m *machine) user(f pagetable.Flags) pagetable.Flags {
	if m.mode == GU {
		f |= pagetable.User
	}
	return f
}

// guard lets no machine register through but those of system calls, and no
// service of KVM.
func (m *machine) guard() error {
	b := make([]byte, 104)
	le.PutUint32(b, capUserSpaceMSR)
	le.PutUint64(b[8:], 1|2|4) // invalid, unknown, filtered
	if _, err := ioctlBytes(m.vm, enableCap, b); err != nil {
		return fmt.Errorf("KVM_CAP_X86_USER_SPACE_MSR: %w", err)
	}
	f := make([]byte, 0x188)
	le.PutUint32(f, 1) // KVM_MSR_FILTER_DEFAULT_DENY
	calls, bases := uint64(0x1f), uint64(0x7)
	for i, first := range []uint32{0xc0000080, 0xc0000100} {
		r := f[8+24*i:]
		le.PutUint32(r, 1|2) // read, write
		le.PutUint32(r[4:], 8)
		le.PutUint32(r[8:], first)
	}
	if _, err := ioctlFilter(m.vm, setMSRFilter, f, map[int]*uint64{8 + 16: &calls, 8 + 24 + 16: &bases}); err != nil {
		return fmt.Errorf("KVM_X86_SET_MSR_FILTER: %w", err)
	}
	return nil
}

func (m *machine) slot(n, flags int, physical uint64, b []byte) error {
	r := make([]byte, 32)
	le.PutUint32(r, uint32(n))
	le.PutUint32(r[4:], uint32(flags))
	le.PutUint64(r[8:], physical)
	le.PutUint64(r[16:], uint64(len(b)))
	le.PutUint64(r[24:], address(b))
	if _, err := ioctlBytes(m.vm, setUserMemoryRegion, r); err != nil {
		return fmt.Errorf("memory of %d bytes at %#x: %w", len(b), physical, err)
	}
	return nil
}

// place puts pages of a file where the enclave sees them. The machine gets the
// memory before the page tables lead to it.
func (m *machine) place(linear, size uint64, perm sgx.Perm, fd int, offset int64) error {
	o := linear - m.base
	prot, f := unix.PROT_READ, m.user(0)
	if perm&sgx.PermW != 0 {
		prot |= unix.PROT_WRITE
		f |= pagetable.Write
	}
	if perm&sgx.PermX == 0 {
		f |= pagetable.NoExe
	}
	b := m.area[o : o+size]
	if err := mapAt(b, prot, unix.MAP_SHARED, fd, offset); err != nil {
		return err
	}
	_ = unix.Madvise(b, unix.MADV_DONTDUMP)
	_ = unix.Madvise(b, unix.MADV_DONTFORK)
	for p := uint64(0); p < size; p += sgx.PageSize {
		if err := m.tables.Map(linear+p, physEnclave+o+p, f); err != nil {
			return err
		}
	}
	return nil
}

// remove takes pages away: out of the page tables first, then out of the
// machine, which makes the processors forget translations.
func (m *machine) remove(linear, size uint64) error {
	var bad error
	for p := uint64(0); p < size; p += sgx.PageSize {
		bad = errors.Join(bad, m.tables.Unmap(linear+p))
	}
	o := linear - m.base
	return errors.Join(mapAt(m.area[o:o+size], unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, -1, 0), bad)
}

// close ends the machine; its processors are closed already.
func (m *machine) close() {
	if m.vm >= 0 {
		_ = unix.Close(m.vm)
	}
	for _, b := range append(m.shared, m.code, m.state, m.area) {
		if b != nil {
			_ = unix.Munmap(b)
		}
	}
}
