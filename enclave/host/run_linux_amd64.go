// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// kickSignal interrupts a running enclave. It never reaches a handler, since
// the tracer swallows it.
const kickSignal = unix.SIGURG

const ptraceSYSEMU = 31

// Interrupt makes a running thread stop soon; a thread that does not run stops
// at its next Run at once.
func (t *Thread) Interrupt() {
	t.kick.Store(true)
	if t.running.Load() {
		_ = unix.Kill(t.pid, kickSignal)
	}
}

// Run lets the enclave code of c run until an exception or an interrupt. The
// registers of c are loaded before and stored afterwards; RIP is that of the
// instruction that stopped. loadX and the XSAVE image of c: see [Thread.LoadX].
func (t *Thread) Run(c *monitor.CPU) (s epc.Stop, err error) {
	if e := t.do(func() { s, err = t.run(c) }); e != nil {
		return epc.Stop{}, e
	}
	return s, gone(err)
}

// gone turns the errors that a system call for a dead process gives into
// ErrGone: it may die at any moment.
func gone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ECHILD) {
		return fmt.Errorf("%w (%v)", epc.ErrGone, err)
	}
	return err
}

func (t *Thread) run(c *monitor.CPU) (epc.Stop, error) {
	if err := t.sync(); err != nil {
		return epc.Stop{}, err
	}
	r := t.regs // segments; all else is the enclave's
	store(&r, &c.Regs)
	if err := unix.PtraceSetRegs(t.pid, &r); err != nil {
		return epc.Stop{}, gone(fmt.Errorf("enclave/host: set registers: %w", err))
	}
	for {
		t.running.Store(true)
		if t.kick.Swap(false) {
			t.running.Store(false)
			return epc.Stop{Interrupt: true}, nil
		}
		if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, ptraceSYSEMU, uintptr(t.pid), 0, 0, 0, 0); e != 0 {
			return epc.Stop{}, epc.ErrGone
		}
		var ws unix.WaitStatus
		_, err := unix.Wait4(t.pid, &ws, unix.WALL, nil)
		t.running.Store(false)
		t.stops.Add(1)
		if err != nil || !ws.Stopped() {
			return epc.Stop{}, epc.ErrGone
		}
		if err := unix.PtraceGetRegs(t.pid, &r); err != nil {
			return epc.Stop{}, epc.ErrGone
		}
		sig := ws.StopSignal()
		if sig == kickSignal && !t.kick.Swap(false) {
			continue // somebody else's signal
		}
		s, err := t.why(&r, sig)
		if err != nil {
			return epc.Stop{}, err
		}
		load(&c.Regs, &r)
		return s, nil
	}
}

// Bare implements epc.Bare: what a world switch costs at least.
func (t *Thread) Bare(c *monitor.CPU, n int) (d time.Duration, err error) {
	if e := t.do(func() {
		if err = t.sync(); err != nil {
			return
		}
		var r unix.PtraceRegs
		if err = unix.PtraceGetRegs(t.pid, &r); err != nil {
			return
		}
		begin := time.Now()
		for range n {
			store(&r, &c.Regs)
			if err = unix.PtraceSetRegs(t.pid, &r); err != nil {
				return
			}
			if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, ptraceSYSEMU, uintptr(t.pid), 0, 0, 0, 0); e != 0 {
				err = e
				return
			}
			var ws unix.WaitStatus
			if _, err = unix.Wait4(t.pid, &ws, unix.WALL, nil); err != nil {
				return
			}
			if err = unix.PtraceGetRegs(t.pid, &r); err != nil {
				return
			}
		}
		d = time.Since(begin)
	}); e != nil {
		return 0, e
	}
	return d, gone(err)
}

// why translates a stop into what the processor did.
func (t *Thread) why(r *unix.PtraceRegs, sig unix.Signal) (epc.Stop, error) {
	if sig == kickSignal {
		return epc.Stop{Interrupt: true}, nil
	}
	inside := r.Rip >= t.e.Base() && r.Rip-t.e.Base() < t.e.Size()
	switch sig {
	case unix.SIGTRAP | 0x80: // a system call, suppressed: in SGX an illegal instruction
		r.Rip -= opLen
		r.Rax = r.Orig_rax
		if !inside {
			return epc.Stop{Vector: sgx.VectorGP}, nil
		}
		return epc.Stop{Vector: sgx.VectorUD}, nil
	case unix.SIGILL:
		if !inside {
			return epc.Stop{Vector: sgx.VectorGP}, nil
		}
		return epc.Stop{Vector: sgx.VectorUD}, nil
	case unix.SIGSEGV, unix.SIGBUS:
		info, err := getSigInfo(t.pid)
		if err != nil {
			return epc.Stop{}, err
		}
		const (
			segvMapErr = 1
			segvAccErr = 2
			busAdrAln  = 1
		)
		switch {
		case sig == unix.SIGBUS && info.code == busAdrAln:
			return epc.Stop{Vector: sgx.VectorAC}, nil
		case sig == unix.SIGSEGV && (info.code == segvMapErr || info.code == segvAccErr):
			return epc.Stop{Vector: sgx.VectorPF, ErrorCode: 4, Address: info.addr &^ (sgx.PageSize - 1)}, nil
		}
		return epc.Stop{Vector: sgx.VectorGP}, nil
	case unix.SIGFPE:
		info, err := getSigInfo(t.pid)
		if err != nil {
			return epc.Stop{}, err
		}
		if info.code == 1 || info.code == 2 { // FPE_INTDIV, FPE_INTOVF
			return epc.Stop{Vector: sgx.VectorDE}, nil
		}
		return epc.Stop{Vector: sgx.VectorXM}, nil
	case unix.SIGTRAP:
		info, err := getSigInfo(t.pid)
		if err != nil {
			return epc.Stop{}, err
		}
		if info.code == 0x80 { // SI_KERNEL: INT3
			return epc.Stop{Vector: sgx.VectorBP}, nil
		}
		return epc.Stop{Vector: sgx.VectorDB}, nil
	case unix.SIGKILL:
		return epc.Stop{}, epc.ErrGone
	}
	return epc.Stop{Interrupt: true}, nil // a signal from outside means nothing here
}

// LoadX gives the process the XSAVE image of c, after ERESUME.
func (t *Thread) LoadX(c *monitor.CPU) (err error) {
	if e := t.do(func() {
		x := t.xsave
		clear(x[:512])
		clear(x[sgx.XSaveLegacy:])
		copy(x, c.XSave)
		clear(x[464:512]) // reserved for software: the kernel fills it
		err = setXState(t.pid, x)
	}); e != nil {
		return e
	}
	return gone(err)
}

// SaveX stores the process's XSAVE image in c, before AEX, and leaves the
// process with a clean one.
func (t *Thread) SaveX(c *monitor.CPU) (err error) {
	if e := t.do(func() {
		var x []byte
		if x, err = getXState(t.pid); err != nil {
			return
		}
		copy(c.XSave, x)
		clear(c.XSave[464:512])
		// Only what the image has room for is in use.
		for i := range c.XSave[512:576] {
			if i >= 8 {
				c.XSave[512+i] = 0
			}
		}
		c.XSave[512] &= 7
		clear(c.XSave[513:520])
	}); e != nil {
		return e
	}
	return gone(err)
}

func store(r *unix.PtraceRegs, c *monitor.Regs) {
	r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi = c.RAX, c.RCX, c.RDX, c.RBX, c.RSP, c.RBP, c.RSI, c.RDI
	r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15 = c.R8, c.R9, c.R10, c.R11, c.R12, c.R13, c.R14, c.R15
	r.Rip, r.Fs_base, r.Gs_base = c.RIP, c.FSBase, c.GSBase
	r.Eflags = c.RFLAGS&0x244dd5 | 0x202
	r.Orig_rax = ^uint64(0) // no system call is restarted
}

func load(c *monitor.Regs, r *unix.PtraceRegs) {
	c.RAX, c.RCX, c.RDX, c.RBX, c.RSP, c.RBP, c.RSI, c.RDI = r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi
	c.R8, c.R9, c.R10, c.R11, c.R12, c.R13, c.R14, c.R15 = r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15
	c.RIP, c.FSBase, c.GSBase, c.RFLAGS = r.Rip, r.Fs_base, r.Gs_base, r.Eflags
}
