// SPDX-License-Identifier: Apache-2.0

package urts

import (
	"encoding/binary"
	"errors"
	"fmt"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// Commands of the trusted runtime, in RDI at EENTER.
const (
	cmdInit      = -1 // ECMD_INIT_ENCLAVE
	cmdOReturn   = -2 // ECMD_ORET
	cmdException = -3 // ECMD_EXCEPT
)

// What comes back in RDI at EEXIT: an OCALL's index, or:
const exitReturn = -1 // OCMD_ERET

// The application is not native code here: these two addresses name where it
// would go on. They are outside ELRANGE and nothing is mapped there.
const (
	returnAddr = 0x7000_0000_1000 // behind the application's EENTER
	aepAddr    = 0x7000_0000_2000 // its asynchronous exit pointer
)

// ErrCrashed says that the enclave raised an exception that it did not handle;
// it is of no more use.
var ErrCrashed = errors.New("urts: the enclave crashed")

// ErrClosed says that the enclave was closed.
var ErrClosed = errors.New("urts: the enclave is closed")

// StatusError is an sgx_status_t other than success that the trusted runtime
// returned.
type StatusError uint32

func (s StatusError) Error() string {
	return fmt.Sprintf("urts: the enclave returned sgx_status_t %#x", uint32(s))
}

// ECall calls function index of the enclave with a marshalling structure at
// address ms of the shared memory (0 for none).
func (e *Enclave) ECall(index int, ms uint64) error {
	if index < 0 {
		return fmt.Errorf("urts: ECALL %d: an index is not negative", index)
	}
	return e.call(int64(index), ms, e.serve())
}

// Call is an ECALL that waits for its OCALL.
type Call struct {
	e *Enclave
	s *slot
}

// CallFunc serves an OCALL like OCallFunc, and can make ECALLs on the thread
// that waits.
type CallFunc func(c *Call, index int, ms uint64) uint32

// ECallWith is ECall with OCALLs served by o; nil refuses them.
func (e *Enclave) ECallWith(index int, ms uint64, o CallFunc) error {
	if index < 0 {
		return fmt.Errorf("urts: ECALL %d: an index is not negative", index)
	}
	return e.call(int64(index), ms, o)
}

// serve is how the OCALLs of ECall are served.
func (e *Enclave) serve() CallFunc {
	if e.ocalls == nil {
		return nil
	}
	return func(_ *Call, index int, ms uint64) uint32 { return e.ocalls(e.Memory, index, ms) }
}

// room is what a nested ECALL leaves of the untrusted stack to the frame that
// it nests in.
const room = 4096

// ECall makes an ECALL from inside an OCALL, on the same thread of the enclave.
func (c *Call) ECall(index int, ms uint64, o CallFunc) error {
	if index < 0 {
		return fmt.Errorf("urts: ECALL %d: an index is not negative", index)
	}
	if err := c.e.usable(); err != nil {
		return err
	}
	// The enclave left its own view of the stack in RSP; it may have taken space
	// there (sgx_ocalloc). Such a value is the enclave's word, so look at it.
	sp := c.s.cpu.Regs.RSP
	if sp > c.s.stack || sp < c.s.low+4*room {
		return fmt.Errorf("urts: nested ECALL %d: the enclave left the stack at %#x, outside of its stack below %#x", index, sp, c.s.stack)
	}
	status, err := c.e.enter(c.s, int64(index), ms, (sp-room)&^63, o)
	switch {
	case err != nil:
		return err
	case status != 0:
		return StatusError(status)
	}
	return nil
}

// Enter is for enclaves without Intel's trusted runtime: one EENTER with these
// values of RDI, RSI, RDX, R8, R9 and R10, until EEXIT; the same registers come
// back. Exceptions end the enclave.
func (e *Enclave) Enter(in [6]uint64) (out [6]uint64, err error) {
	s := <-e.slots
	defer func() { e.slots <- s }()
	if err := e.usable(); err != nil {
		return out, err
	}
	e.n.calls.Add(1)
	r := &s.cpu.Regs
	*r = monitor.Regs{RBX: s.tcs, RCX: aepAddr, RDI: in[0], RSI: in[1], RDX: in[2], R8: in[3], R9: in[4], R10: in[5], RSP: s.stack, RBP: s.stack, RFLAGS: 0x202, XCR0: 7}
	if err := e.enterAt(s); err != nil {
		return out, err
	}
	for {
		exited, fault, err := e.runInside(s)
		switch {
		case err != nil:
			return out, err
		case fault:
			return out, e.crashed()
		case exited:
			return [6]uint64{r.RDI, r.RSI, r.RDX, r.R8, r.R9, r.R10}, nil
		}
		if err := e.eresume(s, r.RSP, r.RBP); err != nil {
			return out, err
		}
	}
}

// crashed counts an exception that the enclave did not handle.
func (e *Enclave) crashed() error {
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	e.refuse("exception")
	return ErrCrashed
}

// usable says why the enclave takes no more calls.
func (e *Enclave) usable() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	return e.broken
}

func (e *Enclave) call(command int64, ms uint64, o CallFunc) error {
	s := <-e.slots
	defer func() { e.slots <- s }()
	if err := e.usable(); err != nil {
		return err
	}
	s.raised = 0
	status, err := e.enter(s, command, ms, s.stack, o)
	switch {
	case err != nil:
		return err
	case status != 0:
		return StatusError(status)
	}
	return nil
}

// initRuntime lets the trusted runtime set itself up.
func (e *Enclave) initRuntime() error {
	at, err := e.Memory.Alloc(4096)
	if err != nil {
		return err
	}
	b, err := e.Memory.Bytes(at, 4096)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	const (
		baseline   = 0x7ff   // SSE to SSE4.2: what the trusted runtime demands
		sdkVersion = 5       // of the structure: SDK 3.0
		extended   = 1 << 63 // feature_set[0]: the structure has this field
	)
	le.PutUint64(b[0:], baseline)
	le.PutUint32(b[8:], sdkVersion)
	le.PutUint64(b[16:], extended)
	if err := e.call(cmdInit, at, e.serve()); err != nil {
		return fmt.Errorf("initialize the trusted runtime: %w", err)
	}
	return nil
}

// enter runs one EENTER until its EEXIT with a result, serving OCALLs. sp is
// the top of the untrusted stack.
func (e *Enclave) enter(s *slot, command int64, ms, sp uint64, o CallFunc) (uint32, error) {
	e.n.calls.Add(1)
	for {
		rdi, rsi, err := e.round(s, command, ms, sp)
		if err != nil {
			return 0, err
		}
		if rdi == exitReturn {
			return uint32(rsi), nil
		}
		if builtin(rdi) {
			command, ms = cmdOReturn, uint64(e.modify(rdi, rsi))
			continue
		}
		if rdi < 0 || o == nil {
			command, ms = cmdOReturn, uint64(statusUnsupported)
			continue
		}
		e.n.ocalls.Add(1)
		command, ms = cmdOReturn, uint64(o(&Call{e, s}, int(rdi), rsi))
	}
}

// statusUnsupported tells the enclave that nobody serves its OCALL
// (SGX_ERROR_OCALL_NOT_ALLOWED, sgx_error.h).
const statusUnsupported = 0x1008

// What the enclave's handler may say of an exception so that the ECALL returns it
// (SGX_ERROR_STACK_OVERRUN, SGX_ERROR_ENCLAVE_LOST).
const (
	statusStackOverrun = 0x1009
	statusLost         = 4
)

// round is one EENTER to the matching EEXIT, through any number of asynchronous
// exits and exceptions that the enclave handles.
func (e *Enclave) round(s *slot, command int64, ms, sp uint64) (rdi int64, rsi uint64, err error) {
	if err := e.eenter(s, command, ms, sp); err != nil {
		return 0, 0, err
	}
	for {
		exited, fault, err := e.runInside(s)
		if err != nil {
			return 0, 0, err
		}
		if exited {
			r := &s.cpu.Regs
			return int64(r.RDI), r.RSI, nil
		}
		// What AEX left: the enclave may have lowered URSP (sgx_ocalloc), and
		// ERESUME must not undo that.
		usp, ubp := s.cpu.Regs.RSP, s.cpu.Regs.RBP
		if fault {
			if err := e.raised(s); err != nil {
				return 0, 0, err
			}
			handled, err := e.exception(s, usp)
			if err != nil {
				return 0, 0, err
			}
			if !handled {
				return 0, 0, e.crashed()
			}
		}
		if err := e.eresume(s, usp, ubp); err != nil {
			return 0, 0, err
		}
	}
}

func (e *Enclave) eenter(s *slot, command int64, ms, sp uint64) error {
	s.cpu.Regs = monitor.Regs{RBX: s.tcs, RCX: aepAddr, RDI: uint64(command), RSI: ms, RSP: sp, RBP: sp, RFLAGS: 0x202, XCR0: 7}
	return e.enterAt(s)
}

// enterAt is EENTER with the registers of s.
func (e *Enclave) enterAt(s *slot) error {
	if err := e.outside(s, sgx.EENTER, returnAddr); err != nil {
		return err
	}
	return e.kept(s, s.t.Entered())
}

// kept passes on the error of a thread that is inside; the enclave is then of no
// more use.
func (e *Enclave) kept(s *slot, err error) error {
	if err != nil {
		e.lost(s, err)
	}
	return err
}

// eresume goes on after an asynchronous exit; sp and bp are what it left in RSP
// and RBP.
func (e *Enclave) eresume(s *slot, sp, bp uint64) error {
	r := &s.cpu.Regs
	r.RBX, r.RCX, r.RSP, r.RBP, r.XCR0 = s.tcs, aepAddr, sp, bp, 7
	if err := e.outside(s, sgx.ERESUME, aepAddr); err != nil {
		return err
	}
	return e.kept(s, s.t.LoadX(&s.cpu))
}

// outside carries out EENTER or ERESUME, after pages that it misses are back.
func (e *Enclave) outside(s *slot, l sgx.ENCLU, next uint64) error {
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	for {
		if err := e.usable(); err != nil { // closed between two entries of one call
			return err
		}
		s.cpu.Regs.RAX = uint64(l)
		o := e.p.Monitor.ENCLU(&s.cpu, e.e, next)
		if o.Vector != sgx.VectorPF || !e.pages.Absent(o.Address) {
			if !o.OK() {
				e.refuse(l.String())
			}
			return leaf(l.String(), o)
		}
		if err := e.pages.In(o.Address); err != nil {
			return fmt.Errorf("urts: %w", err)
		}
	}
}

// runInside lets the enclave run until it exits, or until an asynchronous exit:
// then fault says whether an exception caused it that the enclave must see.
func (e *Enclave) runInside(s *slot) (exited, fault bool, err error) {
	exited, fault, err = e.runUntil(s)
	if fault && e.reach(s) {
		e.n.faults.Add(1)
		fault = false
	}
	return exited, fault, err
}

func (e *Enclave) runUntil(s *slot) (exited, fault bool, err error) {
	for {
		stop, err := s.t.Run(&s.cpu)
		if err != nil {
			e.lost(s, err)
			if errors.Is(err, epc.ErrForbidden) {
				err = fmt.Errorf("%w: %w", ErrCrashed, err)
			}
			return false, false, err
		}
		o := monitor.Outcome{Vector: stop.Vector, ErrorCode: stop.ErrorCode, Address: stop.Address}
		e.p.Mu.Lock()
		if s.cpu.Inside() == nil { // Close booked the thread out meanwhile
			e.p.Mu.Unlock()
			return false, false, ErrClosed
		}
		enclu, next := stop.Call, s.cpu.Regs.RIP
		if !enclu && stop.Vector == sgx.VectorUD && e.atENCLU(next) {
			enclu, next = true, next+uint64(len(sgx.OpENCLU))
		}
		if enclu {
			o = e.p.Monitor.ENCLU(&s.cpu, nil, next)
			if o.Vector == 0 {
				out := s.cpu.Inside() == nil
				if out {
					e.p.Pager().Left()
				}
				e.p.Mu.Unlock()
				if out {
					return true, false, nil
				}
				continue
			}
		}
		if enclu {
			e.refuse("ENCLU inside")
		}
		// What the page fault is about is decided now: later the page may be back.
		paged := o.Vector == sgx.VectorPF && !stop.Interrupt && e.mayHelp(s, o.Address)
		e.p.Mu.Unlock()
		if err := s.t.SaveX(&s.cpu); err != nil {
			e.lost(s, err)
			return false, false, err
		}
		e.p.Mu.Lock()
		defer e.p.Mu.Unlock()
		if s.cpu.Inside() == nil {
			return false, false, ErrClosed
		}
		if err := leaf("AEX", e.p.Monitor.AEX(&s.cpu, !stop.Interrupt, o.Vector, o.ErrorCode, o.Address)); err != nil {
			return false, false, err
		}
		e.p.Pager().Left()
		s.last = o
		if stop.Interrupt {
			e.n.interrupts.Add(1)
		}
		if !paged {
			return false, !stop.Interrupt, nil
		}
		e.n.faults.Add(1)
		return false, false, e.help(o.Address)
	}
}

// mayHelp reports whether a page fault is the runtime's business: a page that
// left the EPC, one that is back since the thread looked, or one that the
// enclave is to get.
func (e *Enclave) mayHelp(s *slot, linear uint64) bool {
	return e.pages.Absent(linear) || s.t.Stale(linear) || e.missing(linear)
}

// missing: the enclave may have a page there and has none.
func (e *Enclave) missing(linear uint64) bool {
	return e.dynamic && linear >= e.e.Base() && linear-e.e.Base() < e.e.Size() && !e.pages.Has(linear)
}

// help answers such a fault, after the thread left the enclave.
func (e *Enclave) help(linear uint64) error {
	linear &^= sgx.PageSize - 1
	if !e.missing(linear) {
		if err := e.pages.In(linear); err != nil {
			return fmt.Errorf("urts: %w", err)
		}
		return nil
	}
	keeper := e.p.Pager()
	f, err := keeper.Alloc()
	if err != nil {
		return fmt.Errorf("urts: %w", err)
	}
	// Alloc may have waited. An enclave that was closed meanwhile has no pages, and
	// its SECS may be another's by now.
	if err := e.usable(); err != nil {
		keeper.Free(f)
		return err
	}
	if !e.missing(linear) { // another thread was faster
		keeper.Free(f)
		return nil
	}
	if err := leaf("EAUG", e.p.Monitor.EAUG(e.secs, f, linear)); err != nil {
		keeper.Free(f)
		return err
	}
	e.pages.Add(linear, f, sgx.PageREG)
	return nil
}

// lost books a thread out whose process is gone. What it had in registers is
// gone too, so the enclave is of no more use.
func (e *Enclave) lost(s *slot, err error) {
	e.p.Mu.Lock()
	if s.cpu.Inside() != nil {
		e.p.Monitor.AEX(&s.cpu, false, 0, 0, 0)
		e.p.Pager().Left()
	}
	e.p.Mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken == nil {
		e.broken = err
	}
}

// atENCLU looks whether the instruction at rip is ENCLU, in a page that the
// enclave may execute. The caller holds the monitor's lock.
func (e *Enclave) atENCLU(rip uint64) bool {
	var op [3]byte
	return e.p.Monitor.Fetch(e.e, rip, op[:]) && op == sgx.OpENCLU
}

// exception asks the enclave to handle what is recorded in its SSA: a nested
// EENTER on the next slot. handled is false if the enclave gives up.
func (e *Enclave) exception(s *slot, sp uint64) (handled bool, err error) {
	// Below what the interrupted call has on the untrusted stack.
	sp = (sp - 16<<10) &^ 63
	if err := e.eenter(s, cmdException, 0, sp); err != nil {
		var l *LeafError
		if errors.As(err, &l) { // no SSA frame left: the handler itself faulted
			return false, nil
		}
		return false, err
	}
	for {
		exited, fault, err := e.runInside(s)
		if err != nil {
			return false, err
		}
		if exited {
			status := uint32(s.cpu.Regs.RSI)
			switch {
			case int64(s.cpu.Regs.RDI) != exitReturn:
				return false, nil
			case status == statusStackOverrun, status == statusLost:
				return false, StatusError(status)
			}
			return status == 0, nil
		}
		if fault {
			return false, nil
		}
		if err := e.eresume(s, s.cpu.Regs.RSP, s.cpu.Regs.RBP); err != nil {
			return false, err
		}
	}
}
