// SPDX-License-Identifier: Apache-2.0

package epc

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

	mem     []byte
	file    *os.File // of the EPC, which backends map page by page
	pages   map[*monitor.Enclave]map[uint64]Mapping
	regions map[*monitor.Enclave][]Region // of applications' memory
	keeper  *pager.Pager
	runner  Runner
	refused map[string]uint64
}

// Mapping is a page that an enclave reaches.
type Mapping struct {
	Frame monitor.Frame
	Perm  sgx.Perm
}

// New makes a platform with an EPC of frames pages of 4096 bytes, on which what
// runner returns runs the code.
func New(frames int, o monitor.Options, runner func(*Platform) (Runner, error)) (*Platform, error) {
	p := &Platform{pages: map[*monitor.Enclave]map[uint64]Mapping{}, regions: map[*monitor.Enclave][]Region{}, refused: map[string]uint64{}}
	var err error
	if p.file, err = MemoryFile("epc", nil, int64(frames)*sgx.PageSize); err != nil {
		return nil, err
	}
	if p.mem, err = unix.Mmap(int(p.file.Fd()), 0, frames*sgx.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		p.file.Close()
		return nil, fmt.Errorf("enclave: map an EPC of %d pages: %w", frames, err)
	}
	// The EPC is in no core dump and, after a fork, in no child.
	_ = unix.Madvise(p.mem, unix.MADV_DONTDUMP)
	_ = unix.Madvise(p.mem, unix.MADV_DONTFORK)
	if p.runner, err = runner(p); err != nil {
		p.release()
		return nil, err
	}
	if p.Monitor, err = monitor.New(p, o); err != nil {
		p.runner.Close()
		p.release()
		return nil, err
	}
	p.keeper = pager.New(p.Monitor, frames, 0, &p.Mu)
	return p, nil
}

// MemoryFile makes an anonymous file of size bytes, or as long as its content,
// that cannot grow or shrink afterwards.
func MemoryFile(name string, content []byte, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("enclave: memory file: %w", err)
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
		return nil, fmt.Errorf("enclave: memory file: %w", err)
	}
	return f, nil
}

// Close ends every thread and wipes the EPC.
func (p *Platform) Close() {
	p.runner.Close()
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Monitor.Close()
	p.release()
}

func (p *Platform) release() {
	_ = unix.Munmap(p.mem)
	p.file.Close()
}

// File is the memory of the EPC; frame f is at f times the page size.
func (p *Platform) File() *os.File { return p.file }

// Mode names the mode in which enclaves run: HU, GU or P.
func (p *Platform) Mode() string { return p.runner.Mode() }

// NewThread makes a thread of e that reaches the shared regions, which must lie
// outside of its range.
func (p *Platform) NewThread(e *monitor.Enclave, shared ...Shared) (Thread, error) {
	for _, s := range shared {
		if s.Size > 0 && s.Addr < e.Base()+e.Size() && e.Base() < s.Addr+s.Size {
			return nil, fmt.Errorf("enclave: shared memory at %#x lies inside the enclave's range", s.Addr)
		}
	}
	return p.runner.NewThread(e, shared...)
}

// Pager hands out the pages of the EPC; the caller holds Mu.
func (p *Platform) Pager() *pager.Pager { return p.keeper }

// InUse counts the frames that are allocated; the caller holds Mu.
func (p *Platform) InUse() int { return p.keeper.InUse() }

// Forget drops what the platform keeps of an enclave that is gone; the caller
// holds Mu.
func (p *Platform) Forget(e *monitor.Enclave) {
	delete(p.pages, e)
	delete(p.regions, e)
	p.runner.Forget(e)
}

// Lookup returns what e sees at a linear address of a page; the caller holds Mu.
func (p *Platform) Lookup(e *monitor.Enclave, linear uint64) (Mapping, bool) {
	m, there := p.pages[e][linear]
	return m, there
}

// Each calls f for every page that e sees, in no order; the caller holds Mu.
func (p *Platform) Each(e *monitor.Enclave, f func(linear uint64, m Mapping)) {
	for linear, m := range p.pages[e] {
		f(linear, m)
	}
}

// Refuse counts something that an application or an enclave attempted and did
// not get; the caller holds Mu.
func (p *Platform) Refuse(what string) { p.refused[what]++ }

// Refused returns those counts; the caller holds Mu.
func (p *Platform) Refused() map[string]uint64 {
	out := make(map[string]uint64, len(p.refused))
	for what, n := range p.refused {
		out[what] = n
	}
	return out
}

// The methods below make a Platform the monitor's Backend.

// Frames implements monitor.Backend.
func (p *Platform) Frames() int { return len(p.mem) / sgx.PageSize }

// Page implements monitor.Backend.
func (p *Platform) Page(f monitor.Frame) *[sgx.PageSize]byte {
	return (*[sgx.PageSize]byte)(p.mem[int(f)*sgx.PageSize:])
}

// Map implements monitor.Backend. The change reaches the threads of the enclave
// before they run again.
func (p *Platform) Map(e *monitor.Enclave, linear uint64, f monitor.Frame, perm sgx.Perm) {
	m := p.pages[e]
	if m == nil {
		m = map[uint64]Mapping{}
		p.pages[e] = m
	}
	// EACCEPT and others confirm what is there: no thread need hear of that.
	if was, there := m[linear]; there && was == (Mapping{f, perm}) {
		return
	}
	m[linear] = Mapping{f, perm}
	p.runner.Changed(e, linear)
}

// Unmap implements monitor.Backend.
func (p *Platform) Unmap(e *monitor.Enclave, linear uint64) {
	if m := p.pages[e]; m != nil {
		if _, there := m[linear]; there {
			delete(m, linear)
			p.runner.Changed(e, linear)
		}
	}
}

// Shootdown implements monitor.Backend: threads inside are interrupted, and
// take the new mappings before they go on.
func (p *Platform) Shootdown(e *monitor.Enclave) { p.runner.Shootdown(e) }

// Rand implements monitor.Backend.
func (p *Platform) Rand(b []byte) error {
	_, err := rand.Read(b)
	return err
}

// XSaveSize implements monitor.Backend.
func (p *Platform) XSaveSize(xfrm uint64) uint64 { return p.runner.XSaveSize(xfrm) }
