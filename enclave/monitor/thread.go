// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/binary"

	"holdfast/enclave/sgx"
)

var le = binary.LittleEndian

// Regs are the registers that entry and exit move.
type Regs struct {
	RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI uint64
	R8, R9, R10, R11, R12, R13, R14, R15   uint64
	RIP, RFLAGS                            uint64
	FSBase, GSBase                         uint64
	XCR0                                   uint64
}

// Bits of RFLAGS.
const (
	flagCF = 1 << 0
	flagPF = 1 << 2
	flagAF = 1 << 4
	flagZF = 1 << 6
	flagSF = 1 << 7
	flagTF = 1 << 8
	flagOF = 1 << 11

	// what an enclave may change by an exit; IF, IOPL and the like are not its own
	flagsUser = flagCF | flagPF | flagAF | flagZF | flagSF | flagTF | flagOF | 1<<10 | 1<<14 | 1<<16 | 1<<18 | 1<<21
)

// CPU is one logical processor (a vCPU or a thread): its registers and, while
// it is inside an enclave, what it needs to get out. The zero value is outside.
type CPU struct {
	Regs Regs
	// XSave is the processor's XSAVE image. The backend stores it before AEX
	// and loads it after EENTER-free leaves that change it (ERESUME, AEX).
	XSave []byte

	e     *Enclave
	tcs   Frame
	epoch uint64
	// what EENTER saved of the application
	fs, gs, xcr0 uint64
}

// Inside returns the enclave that the processor is in, or nil.
func (c *CPU) Inside() *Enclave { return c.e }

// Offsets in a TCS page.
const (
	tcsState   = 0
	tcsFlags   = 8
	tcsOSSA    = 16
	tcsCSSA    = 24
	tcsNSSA    = 28
	tcsOEntry  = 32
	tcsAEP     = 40
	tcsOFSBase = 48
	tcsOGSBase = 56
	// The monitor's own: where the EENTER of each SSA slot came from, which is
	// where EEXIT must lead. The page is out of everybody's reach; ERESUME
	// brings the slot of the interrupted entry back.
	tcsReturn  = 128
	tcsReturns = (sgx.PageSize - tcsReturn) / 8
)

// Offsets of fields in GPRSGX that entry writes.
const (
	gprURSP      = 144
	gprURBP      = 152
	gprExitInfo  = 160
	gprAEXNotify = 167
)

// ssa finds the pages of one SSA frame: all present, writable and the
// enclave's own. It returns the frame numbers of the first page and of the last
// (which holds GPRSGX).
func (m *Monitor) ssa(e *Enclave, tcs *[sgx.PageSize]byte, slot uint32) (base uint64, last Frame, o Outcome) {
	n := uint64(e.secs.SSAFrameSize)
	base = e.secs.BaseAddr + le.Uint64(tcs[tcsOSSA:]) + uint64(slot)*n*sgx.PageSize
	for i := uint64(0); i < n; i++ {
		linear := base + i*sgx.PageSize
		if !e.contains(linear, sgx.PageSize) {
			return 0, NoFrame, gp
		}
		p, f := m.page(e, linear)
		if p == nil || p.typ != sgx.PageREG || p.pending || p.modified || p.blocked || p.perm&(sgx.PermR|sgx.PermW) != sgx.PermR|sgx.PermW {
			return 0, NoFrame, pf(linear)
		}
		last = f
	}
	return base, last, ok
}

// heldSSA finds the SSA frame of a thread that is inside. EENTER or ERESUME
// checked its pages; since then they may have been blocked or restricted, which
// a processor with cached translations would not notice either, but they cannot
// have left the EPC: that needs a completed ETRACK, or nobody inside.
func (m *Monitor) heldSSA(e *Enclave, tcs *[sgx.PageSize]byte, slot uint32) (base uint64, last Frame) {
	n := uint64(e.secs.SSAFrameSize)
	base, last = e.secs.BaseAddr+le.Uint64(tcs[tcsOSSA:])+uint64(slot)*n*sgx.PageSize, NoFrame
	for i := uint64(0); i < n; i++ {
		if _, last = m.page(e, base+i*sgx.PageSize); last == NoFrame {
			return base, NoFrame
		}
	}
	return base, last
}

// enterable checks what EENTER and ERESUME have in common and returns the TCS.
func (m *Monitor) enterable(c *CPU, e *Enclave) (Frame, *[sgx.PageSize]byte, Outcome) {
	linear, aep := c.Regs.RBX, c.Regs.RCX
	if c.e != nil || e == nil || e.dead || linear%sgx.PageSize != 0 || !canonical(aep) {
		return 0, nil, gp
	}
	if !e.contains(linear, sgx.PageSize) {
		return 0, nil, gp
	}
	p, f := m.page(e, linear)
	if p == nil || p.blocked || p.pending || p.modified || p.typ != sgx.PageTCS {
		return 0, nil, pf(linear)
	}
	t := m.b.Page(f)
	ofs, ogs := le.Uint64(t[tcsOFSBase:]), le.Uint64(t[tcsOGSBase:])
	switch {
	case !e.init,
		le.Uint64(t[tcsState:]) != 0,
		le.Uint64(t[tcsOSSA:])%sgx.PageSize != 0, ofs%sgx.PageSize != 0, ogs%sgx.PageSize != 0,
		!canonical(e.secs.BaseAddr + ofs), !canonical(e.secs.BaseAddr + ogs), !canonical(e.secs.BaseAddr + le.Uint64(t[tcsOEntry:])),
		e.secs.Attributes.XFRM&^c.Regs.XCR0 != 0:
		return 0, nil, gp
	}
	return f, t, ok
}

// enter books the thread in.
func (m *Monitor) enter(c *CPU, e *Enclave, f Frame, t *[sgx.PageSize]byte) {
	le.PutUint64(t[tcsState:], 1)
	le.PutUint64(t[tcsAEP:], c.Regs.RCX)
	c.e, c.tcs, c.epoch = e, f, e.epoch
	c.fs, c.gs, c.xcr0 = c.Regs.FSBase, c.Regs.GSBase, c.Regs.XCR0
	e.inside++
	c.Regs.XCR0 = e.secs.Attributes.XFRM
}

// leave books the thread out and restores what EENTER saved.
func (m *Monitor) leave(c *CPU) {
	e := c.e
	le.PutUint64(m.b.Page(c.tcs)[tcsState:], 0)
	e.inside--
	if c.epoch < e.epoch {
		if e.previous--; e.previous == 0 {
			e.tracking = false
		}
	}
	c.Regs.FSBase, c.Regs.GSBase, c.Regs.XCR0 = c.fs, c.gs, c.xcr0
	c.e, c.tcs = nil, 0
}

// EENTER enters enclave e (SDM, "EENTER"): RBX is the linear address of the
// TCS, RCX the asynchronous exit pointer; next is the address of the
// instruction after ENCLU. On success the registers are those with which the
// enclave starts.
func (m *Monitor) EENTER(c *CPU, e *Enclave, next uint64) Outcome {
	f, t, o := m.enterable(c, e)
	if !o.OK() {
		return o
	}
	cssa := le.Uint32(t[tcsCSSA:])
	if cssa >= le.Uint32(t[tcsNSSA:]) {
		return gp
	}
	_, last, o := m.ssa(e, t, cssa)
	if !o.OK() {
		return o
	}
	m.start(c, e, f, t, last, cssa, next)
	return ok
}

func (m *Monitor) start(c *CPU, e *Enclave, f Frame, t *[sgx.PageSize]byte, last Frame, cssa uint32, next uint64) {
	gpr := m.b.Page(last)[sgx.PageSize-sgx.GPRSize:]
	le.PutUint64(gpr[gprURSP:], c.Regs.RSP)
	le.PutUint64(gpr[gprURBP:], c.Regs.RBP)
	m.enter(c, e, f, t)
	if cssa < tcsReturns {
		le.PutUint64(t[tcsReturn+8*cssa:], next)
	}
	c.Regs.RAX, c.Regs.RCX = uint64(cssa), next
	c.Regs.RIP = e.secs.BaseAddr + le.Uint64(t[tcsOEntry:])
	c.Regs.FSBase = e.secs.BaseAddr + le.Uint64(t[tcsOFSBase:])
	c.Regs.GSBase = e.secs.BaseAddr + le.Uint64(t[tcsOGSBase:])
	c.Regs.RFLAGS &^= flagTF
}

// EEXIT leaves the enclave (SDM, "EEXIT"): RBX is where the application goes
// on. Other registers stay as the enclave left them; clearing them is its duty.
func (m *Monitor) EEXIT(c *CPU) Outcome {
	if c.e == nil || !canonical(c.Regs.RBX) {
		return gp
	}
	t := m.b.Page(c.tcs)
	if cssa := le.Uint32(t[tcsCSSA:]); !m.o.AnyExitTarget && (cssa >= tcsReturns || c.Regs.RBX != le.Uint64(t[tcsReturn+8*cssa:])) {
		return gp
	}
	c.Regs.RIP = c.Regs.RBX
	c.Regs.RCX = le.Uint64(t[tcsAEP:])
	m.leave(c)
	return ok
}

// AEX is the asynchronous exit: an interrupt, or an exception with its vector
// (SDM, "Asynchronous Enclave Exits"). The registers and the XSAVE image go to
// the SSA frame; synthetic ones replace them. exception is false for interrupts.
func (m *Monitor) AEX(c *CPU, exception bool, vector uint8, errorCode uint32, address uint64) Outcome {
	e := c.e
	if e == nil {
		return gp
	}
	t := m.b.Page(c.tcs)
	cssa := le.Uint32(t[tcsCSSA:])
	base, last := m.heldSSA(e, t, cssa)
	if last == NoFrame {
		// Cannot be; see heldSSA. Registers do not get out even so.
		m.scrub(c, t)
		return pf(base)
	}
	gpr := m.b.Page(last)[sgx.PageSize-sgx.GPRSize:]
	r := &c.Regs
	for i, v := range [...]uint64{r.RAX, r.RCX, r.RDX, r.RBX, r.RSP, r.RBP, r.RSI, r.RDI, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15, r.RFLAGS, r.RIP} {
		le.PutUint64(gpr[8*i:], v)
	}
	info := sgx.ExitInfo(0)
	if exception && sgx.Reported(vector, e.secs.MiscSelect) {
		typ := uint8(sgx.ExitHardware)
		if vector == sgx.VectorBP {
			typ = sgx.ExitSoftware
		}
		info = sgx.NewExitInfo(vector, typ)
	}
	le.PutUint32(gpr[gprExitInfo:], uint32(info))
	le.PutUint64(gpr[168:], r.FSBase)
	le.PutUint64(gpr[176:], r.GSBase)
	if e.secs.MiscSelect&sgx.MiscExInfo != 0 && exception && (vector == sgx.VectorPF || vector == sgx.VectorGP) {
		m.writeExInfo(e, base, vector, errorCode, address)
	}
	m.copySSA(e, base, c.XSave[:min(uint64(len(c.XSave)), e.xsave)], true)
	le.PutUint32(t[tcsCSSA:], cssa+1)
	ursp, urbp := le.Uint64(gpr[gprURSP:]), le.Uint64(gpr[gprURBP:])
	m.scrub(c, t)
	c.Regs.RSP, c.Regs.RBP = ursp, urbp
	return ok
}

// writeExInfo stores the fault's address and error code below GPRSGX. The MISC
// region may start on the page before the last.
func (m *Monitor) writeExInfo(e *Enclave, base uint64, vector uint8, errorCode uint32, address uint64) {
	var b [sgx.ExInfoSize]byte
	if vector == sgx.VectorPF {
		le.PutUint64(b[:], address)
	}
	le.PutUint32(b[8:], errorCode)
	at := base + sgx.ExInfoOffset(e.secs.SSAFrameSize)
	if _, f := m.page(e, at); f != NoFrame {
		copy(m.b.Page(f)[at%sgx.PageSize:], b[:])
	}
}

// copySSA moves the XSAVE image to (store) or from the start of an SSA frame.
func (m *Monitor) copySSA(e *Enclave, base uint64, x []byte, store bool) {
	for len(x) > 0 {
		_, f := m.page(e, base) // there: the caller looked at the whole frame
		n := min(len(x), sgx.PageSize)
		if store {
			copy(m.b.Page(f)[:n], x)
		} else {
			copy(x[:n], m.b.Page(f)[:n])
		}
		x, base = x[n:], base+sgx.PageSize
	}
}

// scrub loads the synthetic state (SDM, table "GPR, x87 Synthetic States on
// Asynchronous Enclave Exit") and leaves.
func (m *Monitor) scrub(c *CPU, t *[sgx.PageSize]byte) {
	aep := le.Uint64(t[tcsAEP:])
	tcs := m.epcm[c.tcs].linear
	flags := c.Regs.RFLAGS
	m.leave(c)
	fs, gs, xcr0 := c.Regs.FSBase, c.Regs.GSBase, c.Regs.XCR0
	c.Regs = Regs{RAX: uint64(sgx.ERESUME), RBX: tcs, RCX: aep, RIP: aep, FSBase: fs, GSBase: gs, XCR0: xcr0}
	c.Regs.RFLAGS = flags &^ (flagCF | flagPF | flagAF | flagZF | flagSF | flagOF)
	initXSave(c.XSave)
}

// initXSave puts an XSAVE image (standard format) into the initial state: FCW
// 37Fh, MXCSR 1F80h, no component in use.
func initXSave(x []byte) {
	clear(x)
	if len(x) >= sgx.XSaveLegacy {
		le.PutUint16(x[0:], 0x37f)
		le.PutUint32(x[24:], 0x1f80)
	}
}

// ERESUME goes on after an asynchronous exit (SDM, "ERESUME"). If the frame
// asks for it (AEX-Notify) the enclave's handler is entered instead.
func (m *Monitor) ERESUME(c *CPU, e *Enclave, next uint64) Outcome {
	f, t, o := m.enterable(c, e)
	if !o.OK() {
		return o
	}
	cssa := le.Uint32(t[tcsCSSA:])
	if cssa == 0 {
		return gp
	}
	base, last, o := m.ssa(e, t, cssa-1)
	if !o.OK() {
		return o
	}
	gpr := m.b.Page(last)[sgx.PageSize-sgx.GPRSize:]
	if le.Uint64(t[tcsFlags:])&uint64(sgx.TCSAEXNotify) != 0 && gpr[gprAEXNotify]&1 != 0 {
		if cssa >= le.Uint32(t[tcsNSSA:]) {
			return gp
		}
		_, top, o := m.ssa(e, t, cssa)
		if !o.OK() {
			return o
		}
		m.start(c, e, f, t, top, cssa, next)
		return ok
	}
	rip, fs, gs := le.Uint64(gpr[136:]), le.Uint64(gpr[168:]), le.Uint64(gpr[176:])
	x := c.XSave[:min(uint64(len(c.XSave)), e.xsave)]
	if !canonical(rip) || !canonical(fs) || !canonical(gs) || len(x) < sgx.XSaveLegacy {
		return gp
	}
	// Other threads of the enclave may write to the frame: what is looked at is
	// what is loaded.
	m.copySSA(e, base, x, false)
	if !xsaveOK(x, e.secs.Attributes.XFRM) {
		initXSave(c.XSave)
		return gp
	}
	m.enter(c, e, f, t)
	le.PutUint32(t[tcsCSSA:], cssa-1)
	// URSP and URBP are those of the thread that now runs.
	le.PutUint64(gpr[gprURSP:], c.Regs.RSP)
	le.PutUint64(gpr[gprURBP:], c.Regs.RBP)
	r := &c.Regs
	for i, v := range [...]*uint64{&r.RAX, &r.RCX, &r.RDX, &r.RBX, &r.RSP, &r.RBP, &r.RSI, &r.RDI, &r.R8, &r.R9, &r.R10, &r.R11, &r.R12, &r.R13, &r.R14, &r.R15} {
		*v = le.Uint64(gpr[8*i:])
	}
	r.RFLAGS = r.RFLAGS&^flagsUser | le.Uint64(gpr[128:])&flagsUser&^flagTF
	r.RIP, r.FSBase, r.GSBase = rip, fs, gs
	return ok
}

// xsaveOK checks the header of an XSAVE image as XRSTOR would: no component
// beyond XFRM, no compaction, reserved bytes zero, MXCSR valid.
func xsaveOK(x []byte, xfrm uint64) bool {
	h := x[512:576]
	if le.Uint64(h)&^xfrm != 0 {
		return false
	}
	for _, b := range h[8:] {
		if b != 0 {
			return false
		}
	}
	return le.Uint32(x[24:])&^0xffff == 0
}
