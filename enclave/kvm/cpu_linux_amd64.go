// SPDX-License-Identifier: Apache-2.0

package kvm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
)

// cpu is one virtual processor. Only one thread of the system uses it, since
// KVM waits long when the thread changes.
type cpu struct {
	m     *machine
	fd    int
	run   []byte // struct kvm_run
	state []byte // its page of the machine
	at    uint64 // linear address of that page
	fresh []byte // struct kvm_sregs at EENTER
	sregs []byte // P: as they were at the last exit, or are to be
	dirty bool   // sregs must be loaded: P's, or GU's after an interrupt in ring 3

	countInterrupts, countExceptions uint64
}

// exit says why a processor stopped.
type exit struct {
	interrupt bool // a signal, or none at all: nothing happened
	call      bool // P: HLT of the enclave
	vector    uint8
	code      uint32
	cr2       uint64
}

// quirks switch off what is on by default, for probes.
type quirks struct {
	syscall bool // EFER.SCE
	tsd     bool // RDTSC faults
}

// newCPU makes a processor whose XCR0 is xfrm.
func (m *machine) newCPU(xfrm uint64, q quirks) (*cpu, error) {
	if m.cpus >= maxCPUs {
		return nil, fmt.Errorf("enclave/kvm: an enclave has at most %d threads", maxCPUs)
	}
	n := m.cpus
	m.cpus++
	c := &cpu{m: m, state: m.state[n*statePageSize:][:statePageSize], at: linearState + uint64(n)*statePageSize}
	var err error
	if c.fd, err = ioctl(m.vm, createVCPU, uintptr(n)); err != nil {
		return nil, fmt.Errorf("enclave/kvm: KVM_CREATE_VCPU: %w", err)
	}
	unix.CloseOnExec(c.fd)
	if c.run, err = unix.Mmap(c.fd, 0, m.d.runSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		err = c.set(n, xfrm, q)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("enclave/kvm: virtual processor: %w", err)
	}
	return c, nil
}

func (c *cpu) close() {
	if c.run != nil {
		_ = unix.Munmap(c.run)
	}
	_ = unix.Close(c.fd)
}

// set brings the processor into the state in which enclaves are entered.
func (c *cpu) set(n int, xfrm uint64, q quirks) error {
	m := c.m
	statePage(c.state, c.at)
	if err := m.tables.Map(c.at, physState+uint64(n)*statePageSize, stateFlags); err != nil {
		return err
	}
	if _, err := ioctlBytes(c.fd, setCPUID2, m.d.cpuid); err != nil {
		return fmt.Errorf("KVM_SET_CPUID2: %w", err)
	}
	b := make([]byte, 104)
	le.PutUint32(b, capEnforcePV)
	le.PutUint64(b[8:], 1)
	if _, err := ioctlBytes(c.fd, enableCap, b); err != nil {
		return fmt.Errorf("KVM_CAP_ENFORCE_PV_FEATURE_CPUID: %w", err)
	}
	s := make([]byte, sregsSize)
	if _, err := ioctlBytes(c.fd, getSregs, s); err != nil {
		return fmt.Errorf("KVM_GET_SREGS: %w", err)
	}
	r := 0
	if m.mode == GU {
		r = 3
	}
	ring(s, 0) // the stub lets the enclave in
	for _, o := range []int{segDS, segES, segFS, segGS} {
		if r == 3 {
			putSeg(s[o:], 0, ^uint32(0), selData3, 3, 3, 1, 0)
		} else {
			putSeg(s[o:], 0, ^uint32(0), selData0, 3, 0, 1, 0)
		}
	}
	putSeg(s[segTR:], c.at+offTSS, sizeTSS-1, selTSS, 11, 0, 0, 0)
	table := func(at int, base uint64, limit uint16) {
		clear(s[at : at+16])
		le.PutUint64(s[at:], base)
		le.PutUint16(s[at+8:], limit)
	}
	table(segGDT, c.at+offGDT, selTSS+15)
	table(segIDT, linearIDT, 32*16-1)
	le.PutUint64(s[sregCR0:], cr0)
	le.PutUint64(s[sregCR2:], 0)
	le.PutUint64(s[sregCR3:], m.tables.Root())
	cr4 := uint64(cr4PAE | cr4OSFXSR | cr4OSXMMEXCPT | cr4FSGSBASE | cr4OSXSAVE)
	if m.mode == GU {
		ebx, ecx := m.d.cpuid.reg(7, 0, 1), m.d.cpuid.reg(7, 0, 2)
		for _, x := range []struct {
			has bool
			bit uint64
		}{{ebx&(1<<7) != 0, cr4SMEP}, {ebx&(1<<20) != 0, cr4SMAP}, {ecx&(1<<2) != 0, cr4UMIP}, {q.tsd, cr4TSD}} {
			if x.has {
				cr4 |= x.bit
			}
		}
	}
	le.PutUint64(s[sregCR4:], cr4)
	e := uint64(efer)
	if q.syscall {
		e |= eferSCE
	}
	le.PutUint64(s[sregEFER:], e)
	c.fresh = s
	c.sregs = append([]byte(nil), s...)
	copy(c.run[runSregs:], s)
	le.PutUint64(c.run[runDirty:], syncSregs)
	valid := uint64(syncRegs | syncEvents | syncSregs)
	le.PutUint64(c.run[runValid:], valid)
	x := make([]byte, 392)
	le.PutUint32(x, 1)
	le.PutUint64(x[16:], xfrm)
	if _, err := ioctlBytes(c.fd, setXCRs, x); err != nil {
		return fmt.Errorf("KVM_SET_XCRS %#x: %w", xfrm, err)
	}
	return c.setMSRs()
}

func (c *cpu) setMSRs() error {
	if c.m.mode == P {
		return nil
	}
	list := []struct {
		index uint32
		value uint64
	}{{msrSTAR, selCode0 << 32}, {msrLSTAR, linearCode + codeSyscall}, {msrSFMASK, 0xffffffff}, {msrPlatformInfo, 1 << 31}, {msrMiscFeatures, 1}}
	for _, r := range list {
		b := make([]byte, 8+16)
		le.PutUint32(b, 1)
		le.PutUint32(b[8:], r.index)
		le.PutUint64(b[16:], r.value)
		n, err := ioctlBytes(c.fd, setMSRs, b)
		cpuidFaults := r.index == msrPlatformInfo || r.index == msrMiscFeatures
		if (err != nil || n != 1) && !cpuidFaults { // whether CPUID faults is found out by a probe
			return fmt.Errorf("KVM_SET_MSRS %#x: %d, %w", r.index, n, err)
		}
	}
	return nil
}

// forget makes the processor start afresh at an EENTER.
func (c *cpu) forget() {
	if c.m.mode == GU {
		return
	}
	copy(c.sregs, c.fresh)
	c.dirty = true
}

// system returns a copy of what P mode keeps of a thread beside its registers;
// restore brings it back.
func (c *cpu) system() []byte { return append([]byte(nil), c.sregs...) }

func (c *cpu) restore(s []byte) {
	copy(c.sregs, s)
	c.dirty = true
}

// load puts the registers in with which to go on. flush makes the processor
// forget translations first; the counters are for P enclaves to read.
func (c *cpu) load(r *monitor.Regs, flush bool) {
	b := c.run[runRegs:]
	for i, v := range [...]uint64{r.RAX, r.RBX, r.RCX, r.RDX, r.RSI, r.RDI, r.RSP, r.RBP, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15, r.RIP, 0} {
		le.PutUint64(b[8*i:], v)
	}
	const ours = 0x244cd5 // CF PF AF ZF SF DF OF NT AC ID; TF is left out
	flags := r.RFLAGS&ours | 2
	set := uint64(syncRegs)
	if c.m.mode == P {
		le.PutUint64(c.state[offInterrupts:], c.countInterrupts)
		le.PutUint64(c.state[offExceptions:], c.countExceptions)
		le.PutUint64(b[8*17:], flags)
		if le.Uint64(c.sregs[segFS:]) != r.FSBase || le.Uint64(c.sregs[segGS:]) != r.GSBase {
			le.PutUint64(c.sregs[segFS:], r.FSBase)
			le.PutUint64(c.sregs[segGS:], r.GSBase)
			c.dirty = true
		}
	} else {
		f := c.state[offFrame:]
		for i, v := range [...]uint64{r.GSBase, r.FSBase, 0, 0, 0, r.RIP, selCode3, flags | 0x200, r.RSP, selData3} {
			le.PutUint64(f[8*i:], v)
		}
		back := uint64(linearCode + codeResume)
		if flush {
			back = linearCode + codeFlush
		}
		le.PutUint64(b[8*6:], c.at+offFrame)
		le.PutUint64(b[8*16:], back)
		le.PutUint64(b[8*17:], 2)
	}
	if c.dirty {
		copy(c.run[runSregs:], c.sregs)
		set |= syncSregs
		c.dirty = false
	}
	le.PutUint64(c.run[runDirty:], le.Uint64(c.run[runDirty:])|set)
}

// store reads the registers that KVM stored at an exit.
func (c *cpu) store(r *monitor.Regs) {
	b := c.run[runRegs:]
	for i, p := range [...]*uint64{&r.RAX, &r.RBX, &r.RCX, &r.RDX, &r.RSI, &r.RDI, &r.RSP, &r.RBP, &r.R8, &r.R9, &r.R10, &r.R11, &r.R12, &r.R13, &r.R14, &r.R15, &r.RIP, &r.RFLAGS} {
		*p = le.Uint64(b[8*i:])
	}
	s := c.run[runSregs:][:sregsSize]
	r.FSBase, r.GSBase = le.Uint64(s[segFS:]), le.Uint64(s[segGS:])
	if c.m.mode == P {
		copy(c.sregs, s)
	}
}

// errAgain says that the processor must run on before it can be looked at.
var errAgain = errors.New("enclave/kvm: run on")

// step lets the processor run until it stops once and stores its registers.
func (c *cpu) step(r *monitor.Regs) (exit, error) {
	_, err := ioctl(c.fd, runVCPU, 0)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return c.interrupted(r)
	case errors.Is(err, unix.EFAULT):
		return exit{}, errFault
	case err != nil:
		return exit{}, fmt.Errorf("enclave/kvm: KVM_RUN: %w", err)
	}
	x := c.run[runExit:]
	switch reason := le.Uint32(c.run[runReason:]); reason {
	case exitHLT:
		return c.halted(r)
	case exitRDMSR, exitWRMSR:
		index := le.Uint32(x[12:])
		x[0] = 1 // the machine sees a general protection fault
		return exit{}, &refusal{fmt.Sprintf("machine register %#x", index), "machine register", true}
	case exitIO:
		return exit{}, &refusal{fmt.Sprintf("port %#x", le.Uint16(x[2:])), "port input or output", false}
	case exitMMIO:
		return exit{}, &refusal{fmt.Sprintf("physical address %#x, where there is no memory", le.Uint64(x)), "memory outside", false}
	case exitShutdown:
		return exit{}, &refusal{"a triple fault", "shutdown", false}
	case exitInternal:
		return exit{}, &refusal{fmt.Sprintf("an instruction at %#x that KVM cannot carry out (suberror %d)", le.Uint64(c.run[runRegs+8*16:]), le.Uint32(x)), "not carried out", false}
	default:
		return exit{}, &refusal{fmt.Sprintf("exit %d of the virtual machine", reason), "other exit", false}
	}
}

// refusal is something that a machine did and did not get.
type refusal struct {
	what  string
	class string // for counting
	goOn  bool   // the machine sees an exception and can go on
}

func (r *refusal) Error() string { return "enclave/kvm: " + r.what }
func (r *refusal) Unwrap() error { return epc.ErrForbidden }

// errFault says that the machine reached for memory that the process does not
// give it: a page that was just taken away, or, in P, one that never was there.
var errFault = errors.New("enclave/kvm: a page that is not the machine's")

// interrupted is a KVM_RUN that a signal ended.
func (c *cpu) interrupted(r *monitor.Regs) (exit, error) {
	if le.Uint64(c.run[runDirty:])&syncRegs != 0 {
		return exit{interrupt: true}, nil // KVM did not even take the registers
	}
	rip := le.Uint64(c.run[runRegs+8*16:])
	if c.m.mode == GU && le.Uint16(c.run[runSregs+segCS+12:])&3 == 0 {
		if o := rip - linearCode; o >= codeFlush && o < codeBackEnd {
			return exit{interrupt: true}, nil // it had not reached the enclave: r is as it was
		}
		return exit{}, errAgain // on its way to us with an exception
	}
	c.store(r)
	c.dirty = c.dirty || c.m.mode == GU // the way back is through the stub, in ring 0
	e := c.run[runEvents:]
	if e[0]|e[3] != 0 {
		// An exception was about to be delivered; the instruction raises it again.
		e[0], e[3] = 0, 0
		le.PutUint64(c.run[runDirty:], le.Uint64(c.run[runDirty:])|syncEvents)
	}
	c.countInterrupts++
	return exit{interrupt: true}, nil
}

// halted is HLT: the stub's after an exception or, in P, the enclave's own. In P
// the enclave could have made all that is read here; it would only deceive
// itself.
func (c *cpu) halted(r *monitor.Regs) (exit, error) {
	c.store(r)
	switch at := r.RIP; {
	case at == linearCode+codeStop+1 && r.RSP == c.at+offFrame:
	case c.m.mode == P:
		return exit{call: true}, nil
	case at == linearCode+codeSyscall+1:
		// SYSCALL saved these two; what they held before is lost.
		r.RIP, r.RFLAGS = r.RCX-2, r.R11
		return exit{vector: 6}, nil
	default:
		return exit{}, fmt.Errorf("enclave/kvm: the stub stopped at %#x", at)
	}
	var f [frameSize]byte
	copy(f[:], c.state[offFrame:])
	get := func(at int) uint64 { return le.Uint64(f[at:]) }
	x := exit{vector: uint8(get(frameVector)), code: uint32(get(frameCode)), cr2: get(frameCR2)}
	cs := get(frameCS)
	r.RIP, r.RSP, r.RFLAGS = get(frameRIP), get(frameRSP), get(frameFlags)
	r.GSBase, r.FSBase = get(frameGS), get(frameFS)
	c.countExceptions++
	switch {
	case c.m.mode == GU && cs != selCode3:
		return exit{}, fmt.Errorf("enclave/kvm: exception %d (code %#x, address %#x) in the stub at %#x", x.vector, x.code, x.cr2, r.RIP)
	case c.m.mode == P && cs == selCode0:
		ring(c.sregs, 0)
		c.dirty = true
	case c.m.mode == P && cs == selCode3: // a part of the enclave that it put into ring 3
		ring(c.sregs, 3)
		c.dirty = true
	case c.m.mode == P:
		return exit{}, &refusal{fmt.Sprintf("an exception in a segment %#x of its own", cs), "foreign segment", false}
	}
	return x, nil
}

// xsave reads the XSAVE image (standard format) into b; setX loads it.
func (c *cpu) xsave(b []byte) error {
	var x [4096]byte
	if _, err := ioctlBytes(c.fd, getXSave, x[:]); err != nil {
		return fmt.Errorf("enclave/kvm: KVM_GET_XSAVE: %w", err)
	}
	copy(b, x[:])
	return nil
}

func (c *cpu) setX(b []byte) error {
	var x [4096]byte
	copy(x[:], b)
	clear(x[464:512]) // not the processor's
	if _, err := ioctlBytes(c.fd, setXSave, x[:]); err != nil {
		return fmt.Errorf("enclave/kvm: KVM_SET_XSAVE: %w", err)
	}
	return nil
}
