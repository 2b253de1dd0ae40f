// SPDX-License-Identifier: Apache-2.0

package host

import (
	"crypto/rand"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"holdfast/enclave/monitor"
	"holdfast/enclave/pager"
	"holdfast/enclave/sgx"
)

// Platform is an EPC in memory of this process, and the monitor over it.
type Platform struct {
	// Mu is the monitor's lock; hold it for every call of Monitor.
	Mu      sync.Mutex
	Monitor *monitor.Monitor

	epc     []byte
	fd      *os.File // of the EPC, which enclave processes map page by page
	stub    *os.File
	threads map[*Thread]struct{}
	pages   map[*monitor.Enclave]map[uint64]mapping

	keeper *pager.Pager
}

type mapping struct {
	f    monitor.Frame
	perm sgx.Perm
}

// New makes a platform with an EPC of frames pages of 4096 bytes.
func New(frames int, o monitor.Options) (*Platform, error) {
	p := &Platform{threads: map[*Thread]struct{}{}, pages: map[*monitor.Enclave]map[uint64]mapping{}}
	var err error
	if p.fd, err = memfd("epc", make([]byte, 0), int64(frames)*sgx.PageSize); err != nil {
		return nil, err
	}
	if p.stub, err = memfd("enclave", stubELF(), 0); err != nil {
		p.fd.Close()
		return nil, err
	}
	if p.epc, err = unix.Mmap(int(p.fd.Fd()), 0, frames*sgx.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		p.fd.Close()
		p.stub.Close()
		return nil, fmt.Errorf("enclave/host: map an EPC of %d pages: %w", frames, err)
	}
	// The EPC is in no core dump and, after a fork, in no child.
	_ = unix.Madvise(p.epc, unix.MADV_DONTDUMP)
	_ = unix.Madvise(p.epc, unix.MADV_DONTFORK)
	if p.Monitor, err = monitor.New(p, o); err != nil {
		p.release()
		return nil, err
	}
	p.keeper = pager.New(p.Monitor, frames, 0, &p.Mu)
	return p, nil
}

// memfd makes an anonymous file that cannot grow or shrink afterwards.
func memfd(name string, content []byte, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("enclave/host: memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if size == 0 {
		size = int64(len(content))
	}
	err = f.Truncate(size)
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("enclave/host: memory file: %w", err)
	}
	return f, nil
}

// Close ends every thread and wipes the EPC.
func (p *Platform) Close() {
	p.Mu.Lock()
	var all []*Thread
	for t := range p.threads {
		all = append(all, t)
	}
	p.Mu.Unlock()
	for _, t := range all {
		t.Close()
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Monitor.Close()
	p.release()
}

func (p *Platform) release() {
	_ = unix.Munmap(p.epc)
	p.fd.Close()
	p.stub.Close()
}

// The methods below make a Platform the monitor's Backend.

// Frames implements monitor.Backend.
func (p *Platform) Frames() int { return len(p.epc) / sgx.PageSize }

// Page implements monitor.Backend.
func (p *Platform) Page(f monitor.Frame) *[sgx.PageSize]byte {
	return (*[sgx.PageSize]byte)(p.epc[int(f)*sgx.PageSize:])
}

// Map implements monitor.Backend. The change reaches the threads of the enclave
// before they run again.
func (p *Platform) Map(e *monitor.Enclave, linear uint64, f monitor.Frame, perm sgx.Perm) {
	m := p.pages[e]
	if m == nil {
		m = map[uint64]mapping{}
		p.pages[e] = m
	}
	m[linear] = mapping{f, perm}
	p.changed(e, linear)
}

// Unmap implements monitor.Backend.
func (p *Platform) Unmap(e *monitor.Enclave, linear uint64) {
	if m := p.pages[e]; m != nil {
		if _, there := m[linear]; there {
			delete(m, linear)
			p.changed(e, linear)
		}
	}
}

func (p *Platform) changed(e *monitor.Enclave, linear uint64) {
	for t := range p.threads {
		if t.e == e {
			t.stale[linear] = struct{}{}
		}
	}
}

// Shootdown implements monitor.Backend: threads inside are interrupted, and
// take the new mappings before they go on.
func (p *Platform) Shootdown(e *monitor.Enclave) {
	for t := range p.threads {
		if t.e == e {
			t.Interrupt()
		}
	}
}

// Rand implements monitor.Backend.
func (p *Platform) Rand(b []byte) error {
	_, err := rand.Read(b)
	return err
}

// XSaveSize implements monitor.Backend: x87, SSE, and AVX. The size of further
// components depends on the processor, and XCR0 cannot be set for a process.
func (p *Platform) XSaveSize(xfrm uint64) uint64 {
	switch xfrm {
	case 3:
		return sgx.XSaveLegacy
	case 7:
		return sgx.XSaveLegacy + 256
	}
	return 0
}
