// SPDX-License-Identifier: Apache-2.0

package urts

import (
	"errors"
	"fmt"

	"holdfast/enclave/epc"
	"holdfast/enclave/sgx"
)

// What follows serves an application in another process whose enclave reaches
// its memory as on SGX: stacks, "user_check" pointers, marshalling structures.
// The application gives its memory piece by piece, when the enclave touches it.

// ErrNoThread says that all threads of the enclave are taken.
var ErrNoThread = errors.New("urts: no thread of the enclave is free (SGX_ERROR_OUT_OF_TCS)")

// Commands of the trusted runtime that an application may give, beside the
// indices of ECALLs.
const (
	CommandUninit  = -5 // ECMD_UNINIT_ENCLAVE
	CommandPThread = -6 // ECMD_ECALL_PTHREAD
)

// Service is what an application does during an ECALL.
type Service struct {
	OCall CallFunc
	// Fault is asked when the enclave touches the application's memory at addr,
	// where it was granted nothing. Without ok the enclave gets a page fault.
	Fault func(addr uint64) (r epc.Region, ok bool)
}

// Held is a thread of the enclave that one thread of an application holds.
type Held struct {
	e *Enclave
	s *slot
}

// Hold takes a free thread of the enclave, and fails with ErrNoThread at once
// if there is none.
func (e *Enclave) Hold() (*Held, error) {
	select {
	case s := <-e.slots:
		return &Held{e, s}, nil
	default:
	}
	if s := e.newcomer(); s != nil {
		return &Held{e, s}, nil
	}
	return nil, ErrNoThread
}

// Release gives the thread back.
func (h *Held) Release() { h.e.slots <- h.s }

// Bind reports whether the enclave wants a thread of the application to keep
// the thread that it got first (TCS_POLICY_BIND).
func (e *Enclave) Bind() bool { return e.bind }

// ECall calls function index, or one of the commands above. stack and size are
// the application's memory where the enclave may put what it hands over in
// OCALLs; it was granted, or will be when it is touched.
func (h *Held) ECall(index int, ms, stack, size uint64, v Service) error {
	if index < 0 && index != CommandUninit && index != CommandPThread {
		return fmt.Errorf("urts: ECALL %d: expected an index or the commands %d and %d", index, CommandUninit, CommandPThread)
	}
	const least = 64 << 10
	if size < least || stack > 1<<47-size {
		return fmt.Errorf("urts: an untrusted stack of %d bytes at %#x: expected at least %d below 2^47", size, stack, least)
	}
	if err := h.e.usable(); err != nil {
		return err
	}
	s := h.s
	top, low := s.stack, s.low
	defer func() { s.stack, s.low, s.fault = top, low, nil }()
	s.raised = 0
	s.low, s.stack, s.fault = stack, (stack+size-64)&^63, v.Fault
	status, err := h.e.enter(s, int64(index), ms, s.stack, v.OCall)
	switch {
	case err != nil:
		return err
	case status != 0:
		return StatusError(status)
	}
	return nil
}

// reach answers a page fault outside ELRANGE by what the application grants.
// The thread is outside the enclave.
func (e *Enclave) reach(s *slot) bool {
	addr := s.last.Address
	if e.app == nil || s.fault == nil || s.last.Vector != sgx.VectorPF || addr >= e.e.Base() && addr-e.e.Base() < e.e.Size() {
		return false
	}
	e.p.Mu.Lock()
	had, read := e.p.Region(e.e, addr)
	due := e.p.Due(s.t)
	e.p.Mu.Unlock()
	switch {
	case due: // granted to another thread meanwhile
		return true
	case had.Write:
		return false
	}
	r, ok := s.fault(addr)
	if !ok || addr-r.Addr >= r.Size || read && !r.Write {
		return false
	}
	return e.Grant(r) == nil
}

// Grant lets the enclave reach a region of the application's memory.
func (e *Enclave) Grant(r epc.Region) error {
	if e.app == nil {
		return errors.New("urts: the enclave was loaded without memory of its application")
	}
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	return e.p.Grant(e.e, r)
}

// Revoke takes a range of the application's memory away; when it returns no
// thread reaches it.
func (e *Enclave) Revoke(addr, size uint64) error { return e.p.Revoke(e.e, addr, size) }

// Self is the target for whom another enclave makes a REPORT that this one can
// verify, and the enclave's range.
func (e *Enclave) Self() (t *sgx.TargetInfo, base, size uint64) {
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	return &sgx.TargetInfo{MREnclave: e.e.MREnclave(), Attributes: e.e.Attributes(), MiscSelect: e.e.MiscSelect()}, e.e.Base(), e.e.Size()
}

// untrusted copies between b and memory outside ELRANGE at addr: Memory, or
// what the application granted.
func (e *Enclave) untrusted(addr uint64, b []byte, write bool) error {
	err := e.Memory.copy(addr, b, write)
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	if e.app == nil {
		return fmt.Errorf("urts: %d bytes at %#x are outside the shared memory", len(b), addr)
	}
	for len(b) > 0 {
		e.p.Mu.Lock()
		r, ok := e.p.Region(e.e, addr)
		e.p.Mu.Unlock()
		if !ok || write && !r.Write {
			return fmt.Errorf("urts: the application's memory at %#x was not granted", addr)
		}
		n := min(uint64(len(b)), r.Addr+r.Size-addr)
		at := int64(r.Offset + addr - r.Addr)
		var err error
		if write {
			_, err = e.app.WriteAt(b[:n], at)
		} else {
			_, err = e.app.ReadAt(b[:n], at)
		}
		if err != nil {
			return fmt.Errorf("urts: the application's memory at %#x: %w", addr, err)
		}
		addr, b = addr+n, b[n:]
	}
	return nil
}
