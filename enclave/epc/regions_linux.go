// SPDX-License-Identifier: Apache-2.0

package epc

import (
	"fmt"
	"slices"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// Region is a piece of the application's memory that an enclave may reach, at
// the address at which the application has it. Its bytes are in the file that
// the threads got as a Shared of size 0.
type Region struct {
	Addr, Size uint64 // multiples of the page size
	Offset     uint64 // in the file
	Write      bool
}

func (r Region) end() uint64 { return r.Addr + r.Size }

// maxRegions bounds what one enclave makes the platform keep.
const maxRegions = 4096

// A process may map from lowAddr, where backends have what they need themselves
// below, to topAddr.
const (
	lowAddr = 0x20000
	topAddr = 1<<47 - sgx.PageSize
)

// check refuses a region that would cover something else than the
// application's memory.
func (r Region) check(e *monitor.Enclave) error {
	overlaps := func(start, size uint64) bool { return r.Addr < start+size && start < r.end() }
	switch {
	case r.Size == 0, r.Addr%sgx.PageSize != 0, r.Size%sgx.PageSize != 0, r.Offset%sgx.PageSize != 0, r.Offset > 1<<62, r.Size > topAddr, r.Addr > topAddr-r.Size:
		return fmt.Errorf("enclave: region of %#x bytes at %#x: expected whole pages below %#x", r.Size, r.Addr, uint64(topAddr))
	case r.Addr < lowAddr:
		return fmt.Errorf("enclave: region at %#x: expected one above the first pages of a process", r.Addr)
	case overlaps(e.Base(), e.Size()):
		return fmt.Errorf("enclave: region of %#x bytes at %#x lies inside the enclave's range", r.Size, r.Addr)
	}
	return nil
}

// without cuts a range out of regions.
func without(regions []Region, addr, size uint64) []Region {
	var out []Region
	end := addr + size
	for _, r := range regions {
		if r.Addr < addr && addr < r.end() || r.Addr < end && end < r.end() || addr <= r.Addr && r.end() <= end {
			if r.Addr < addr {
				out = append(out, Region{r.Addr, addr - r.Addr, r.Offset, r.Write})
			}
			if end < r.end() {
				out = append(out, Region{end, r.end() - end, r.Offset + end - r.Addr, r.Write})
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

// Opener is a Runner whose threads can reach memory of the application where the
// application has it.
type Opener interface {
	// Open tells of a region that threads of e reach from their next run on.
	// Platform.Mu is held.
	Open(e *monitor.Enclave, r Region) error
	// Shut takes a range away; the function that it returns waits until no
	// thread reaches it. Platform.Mu is held for Shut, and not for the function.
	Shut(e *monitor.Enclave, addr, size uint64) func()
	// Due reports whether a region has not reached the thread yet: then an
	// access that faulted is worth another try. Platform.Mu is held.
	Due(t Thread) bool
}

// CanOpen says why enclaves of this platform cannot reach memory of their
// application, nil if they can.
func (p *Platform) CanOpen() error {
	if _, can := p.runner.(Opener); !can {
		return fmt.Errorf("enclave: in mode %s an enclave does not reach the memory of its application; use HU", p.Mode())
	}
	return nil
}

// Grant lets the threads of e reach a region from their next run on. It
// replaces what was granted there. The caller holds Mu.
func (p *Platform) Grant(e *monitor.Enclave, r Region) error {
	o, can := p.runner.(Opener)
	if !can {
		return p.CanOpen()
	}
	if err := r.check(e); err != nil {
		return err
	}
	l := append(without(p.regions[e], r.Addr, r.Size), r)
	if len(l) > maxRegions {
		return fmt.Errorf("enclave: expected at most %d regions of the application's memory, one more was offered", maxRegions)
	}
	if err := o.Open(e, r); err != nil {
		return err
	}
	p.regions[e] = l
	return nil
}

// Region returns what e was granted at an address. The caller holds Mu.
func (p *Platform) Region(e *monitor.Enclave, addr uint64) (Region, bool) {
	for _, r := range p.regions[e] {
		if r.Addr <= addr && addr < r.end() {
			return r, true
		}
	}
	return Region{}, false
}

// Regions returns all that e was granted; do not write to it. The caller holds
// Mu.
func (p *Platform) Regions(e *monitor.Enclave) []Region { return p.regions[e] }

// Due reports whether a grant has not reached a thread yet. The caller holds Mu.
func (p *Platform) Due(t Thread) bool {
	o, can := p.runner.(Opener)
	return can && o.Due(t)
}

// Revoke takes a range of the application's memory away from e, and returns
// when no thread can reach it any more. The caller does not hold Mu.
func (p *Platform) Revoke(e *monitor.Enclave, addr, size uint64) error {
	o, can := p.runner.(Opener)
	if !can {
		return p.CanOpen()
	}
	if err := (Region{Addr: addr, Size: size}).check(e); err != nil {
		return err
	}
	p.Mu.Lock()
	before := p.regions[e]
	after := without(before, addr, size)
	if slices.Equal(before, after) {
		p.Mu.Unlock()
		return nil
	}
	p.regions[e] = after
	wait := o.Shut(e, addr, size)
	p.Mu.Unlock()
	wait()
	return nil
}
