// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
)

// share is a change of the application's memory that a thread has yet to carry
// out.
type share struct {
	r    epc.Region
	gone bool
}

// Open implements epc.Opener.
func (r *runner) Open(e *monitor.Enclave, region epc.Region) error {
	for t := range r.threads {
		if t.e != e {
			continue
		}
		if t.appFD == 0 {
			return fmt.Errorf("enclave/host: region at %#x: the enclave was loaded without memory of its application", region.Addr)
		}
		for _, s := range t.fixed {
			if region.Addr < s.Addr+s.Size && s.Addr < region.Addr+region.Size {
				return fmt.Errorf("enclave/host: region of %#x bytes at %#x covers the runtime's own at %#x", region.Size, region.Addr, s.Addr)
			}
		}
	}
	for t := range r.threads {
		if t.e == e {
			t.shares = append(t.shares, share{region, false})
		}
	}
	return nil
}

// Shut implements epc.Opener.
func (r *runner) Shut(e *monitor.Enclave, addr, size uint64) func() {
	var threads []*Thread
	for t := range r.threads {
		if t.e == e {
			t.shares = append(t.shares, share{epc.Region{Addr: addr, Size: size}, true})
			threads = append(threads, t)
		}
	}
	return func() {
		for _, t := range threads {
			t.settle()
		}
	}
}

// Due implements epc.Opener.
func (r *runner) Due(t epc.Thread) bool {
	h, ours := t.(*Thread)
	return ours && len(h.shares) > 0
}

// settle waits until the thread has stopped since the call. It carries out what
// is due before it runs again.
func (t *Thread) settle() {
	n := t.stops.Load()
	t.Interrupt()
	for t.running.Load() && t.stops.Load() == n {
		select {
		case <-t.done:
			return
		case <-time.After(20 * time.Microsecond):
		}
	}
}

// due takes the changes of regions that the thread has to carry out.
func (t *Thread) due() []share {
	t.p.Mu.Lock()
	defer t.p.Mu.Unlock()
	s := t.shares
	t.shares = nil
	return s
}

func (t *Thread) syncRegions() error {
	for _, s := range t.due() {
		var err error
		if s.gone {
			err = t.unmapApp(s.r.Addr, s.r.Size)
		} else {
			prot := uint64(unix.PROT_READ)
			if s.r.Write {
				prot |= unix.PROT_WRITE
			}
			err = t.mmap(s.r.Addr, s.r.Size, prot, t.appFD, s.r.Offset)
		}
		if err != nil {
			return fmt.Errorf("enclave/host: the application's memory at %#x: %w", s.r.Addr, err)
		}
	}
	return nil
}

// unmapApp unmaps a range, around what the runtime itself has there.
func (t *Thread) unmapApp(addr, size uint64) error {
	end := addr + size
	for _, s := range t.fixed {
		if s.Addr < end && addr < s.Addr+s.Size {
			if addr < s.Addr {
				if _, err := t.inject(unix.SYS_MUNMAP, addr, s.Addr-addr); err != nil {
					return err
				}
			}
			addr = s.Addr + s.Size
		}
	}
	if addr >= end {
		return nil
	}
	_, err := t.inject(unix.SYS_MUNMAP, addr, end-addr)
	return err
}
