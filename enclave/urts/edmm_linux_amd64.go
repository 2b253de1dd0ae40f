// SPDX-License-Identifier: Apache-2.0

package urts

import (
	"encoding/binary"
	"log/slog"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// OCALLs with a negative index are the trusted runtime's own: it asks for
// changes of its pages, which only the system can begin (linux-sgx,
// common/inc/internal/rts.h). Their structures, all fields u64 unless said:
const (
	edmmTrim    = -2 // {from, to}: EMODT to TRIM
	edmmCommit  = -3 // {addr}: EREMOVE of one trimmed and accepted page
	edmmModPR   = -4 // {addr, size, permissions}: EMODPR
	edmmProtect = -5 // {addr, size, permissions}: what the system's page table allows
	edmmAlloc   = -6 // {i32 result, addr, size, u32 properties, u32 flags}: pages may come when touched
	edmmModify  = -7 // {i32 result, addr, size, u32 from, u32 to}: all of the above by page type
)

// Page types in the last two.
const (
	emaType = 0xff << 8
	emaTCS  = 1 << 8
	emaREG  = 2 << 8
	emaTrim = 4 << 8
)

// sgx_status_t of the answers.
const (
	statusUnexpected = 1
	statusParameter  = 2
)

// invalid is what ALLOC and MODIFY have as result of a refusal
// (ENCLAVE_INVALID_PARAMETER).
const invalid = 0x10

func builtin(index int64) bool { return index <= edmmTrim && index >= edmmModify }

// modify serves such an OCALL: ms is the enclave's word, as all it says.
func (e *Enclave) modify(index int64, ms uint64) uint32 {
	le := binary.LittleEndian
	var b [32]byte
	n := map[int64]int{edmmTrim: 16, edmmCommit: 8, edmmModPR: 24, edmmProtect: 24, edmmAlloc: 32, edmmModify: 32}[index]
	if err := e.untrusted(ms, b[:n], false); err != nil {
		return e.refused(index, err)
	}
	a0, a1, a2 := le.Uint64(b[:]), le.Uint64(b[8:]), le.Uint64(b[16:])
	status := uint32(statusParameter)
	switch index {
	case edmmTrim:
		status = e.change(a0, a1-a0, func(f monitor.Frame) monitor.Outcome { return e.p.Monitor.EMODT(f, sgx.PageTRIM) }, true)
	case edmmCommit:
		status = e.commit(a0, sgx.PageSize)
	case edmmModPR:
		status = e.restrict(a0, a1, a2)
	case edmmProtect:
		// The monitor's mappings are what EPCM allows, nothing wider: there is no
		// page table of the system whose permissions could differ.
		if e.within(a0, a1) && a2&^7 == 0 {
			status = 0
		}
	case edmmAlloc, edmmModify:
		result := int32(invalid)
		if e.byType(index, a1, a2, le.Uint32(b[24:]), le.Uint32(b[28:])) == 0 {
			result = 0
		}
		le.PutUint32(b[:], uint32(result))
		if err := e.untrusted(ms, b[:4], true); err != nil {
			return e.refused(index, err)
		}
		status = 0
	}
	return status
}

func (e *Enclave) refused(index int64, err error) uint32 {
	slog.Debug("an enclave's request to change its pages was refused", "ocall", index, "error", err)
	return statusUnexpected
}

// byType serves ALLOC and MODIFY.
func (e *Enclave) byType(index int64, addr, size uint64, from, to uint32) uint32 {
	if !e.within(addr, size) {
		return statusParameter
	}
	if index == edmmAlloc {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.dynamic = true // only where there is no page, as ever
		return 0
	}
	was, is, prot := from&emaType, to&emaType, uint64(to&7)
	switch {
	case was == emaTrim && is == emaTrim:
		return e.commit(addr, size)
	case was == emaTrim, was != is && from&7 != to&7 && is != emaTCS:
		return statusParameter
	case is == emaTrim:
		return e.change(addr, size, func(f monitor.Frame) monitor.Outcome { return e.p.Monitor.EMODT(f, sgx.PageTRIM) }, true)
	case is == emaTCS:
		if was != emaREG || size != sgx.PageSize {
			return statusParameter
		}
		e.mu.Lock()
		full := e.extra >= maxMade
		e.mu.Unlock()
		if full {
			return statusUnexpected
		}
		status := e.change(addr, size, func(f monitor.Frame) monitor.Outcome { return e.p.Monitor.EMODT(f, sgx.PageTCS) }, true)
		if status == 0 {
			e.mu.Lock()
			e.made = append(e.made, addr)
			e.extra++
			e.mu.Unlock()
		}
		return status
	case is == emaREG && was == emaREG:
		if prot&^uint64(from&7) != 0 { // wider: that is EMODPE, the enclave's own
			return 0
		}
		return e.restrict(addr, size, prot)
	}
	return statusParameter
}

// within reports whether whole pages of ELRANGE were named.
func (e *Enclave) within(addr, size uint64) bool {
	o := addr - e.e.Base()
	return addr%sgx.PageSize == 0 && size%sgx.PageSize == 0 && size != 0 && addr >= e.e.Base() && o < e.e.Size() && size <= e.e.Size()-o
}

func (e *Enclave) restrict(addr, size, perm uint64) uint32 {
	if perm&^7 != 0 {
		return statusParameter
	}
	return e.change(addr, size, func(f monitor.Frame) monitor.Outcome { return e.p.Monitor.EMODPR(f, sgx.Perm(perm)) }, false)
}

// change applies a leaf to each page of a range, all of which must be there,
// and waits until the enclave can accept the change.
func (e *Enclave) change(addr, size uint64, leaf func(monitor.Frame) monitor.Outcome, pin bool) uint32 {
	if !e.within(addr, size) {
		return statusParameter
	}
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	for o := uint64(0); o < size; o += sgx.PageSize {
		if !e.pages.Has(addr + o) {
			return statusParameter
		}
	}
	status := uint32(0)
	for o := uint64(0); o < size && status == 0; o += sgx.PageSize {
		f, err := e.pages.Resident(addr + o)
		if err != nil {
			return statusUnexpected
		}
		if r := leaf(f); !r.OK() {
			status = statusUnexpected
		} else if pin {
			e.pages.Pin(addr + o)
		}
	}
	if e.pages.Track() != nil {
		return statusUnexpected
	}
	return status
}

// commit removes trimmed pages that the enclave accepted.
func (e *Enclave) commit(addr, size uint64) uint32 {
	if !e.within(addr, size) {
		return statusParameter
	}
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	for o := uint64(0); o < size; o += sgx.PageSize {
		if !e.p.Monitor.Trimmed(e.e, addr+o) {
			return statusParameter
		}
	}
	for o := uint64(0); o < size; o += sgx.PageSize {
		if r := e.pages.Drop(addr + o); !r.OK() {
			return statusUnexpected
		}
	}
	return 0
}

// newcomer starts a thread for a TCS that the enclave made, if there is one. It
// cannot be entered before the enclave accepted it.
func (e *Enclave) newcomer() *slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, tcs := range e.made {
		e.p.Mu.Lock()
		ready := e.p.Monitor.Enterable(e.e, tcs)
		e.p.Mu.Unlock()
		if !ready || e.closed {
			continue
		}
		s, err := e.newSlot(tcs, false)
		if err != nil {
			return nil
		}
		e.made = append(e.made[:i:i], e.made[i+1:]...)
		e.all = append(e.all, s)
		return s
	}
	return nil
}
