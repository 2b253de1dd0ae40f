// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"testing"

	"holdfast/enclave/sgx"
)

func TestEnterExit(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.cpu()
	before := c.Regs
	if o := w.m.ENCLU(c, w.e, next); !o.OK() {
		t.Fatalf("%+v", o)
	}
	r := c.Regs
	if r.RAX != 0 || r.RCX != next || r.RIP != base+0x40 || r.FSBase != base+0x20000 || r.GSBase != base+0x21000 || r.XCR0 != 3 ||
		r.RDI != 11 || r.RSI != 22 || r.RSP != before.RSP || c.Inside() != w.e {
		t.Errorf("after EENTER: %+v", r)
	}
	gpr, _ := sgx.ParseGPR(w.get(ssaAt+sgx.GPROffset(1), sgx.GPRSize))
	if gpr.URSP != before.RSP || gpr.URBP != before.RBP {
		t.Errorf("URSP %#x URBP %#x", gpr.URSP, gpr.URBP)
	}
	// the same TCS a second time
	other := w.cpu()
	w.refused("TCS busy", gp, func() Outcome { return w.m.ENCLU(other, w.e, next) })
	w.refused("EENTER inside", gp, func() Outcome { c.Regs.RAX = uint64(sgx.EENTER); return w.m.ENCLU(c, w.e, next) })
	// exit
	c.Regs.RAX, c.Regs.RBX = uint64(sgx.EEXIT), next+1
	w.refused("EEXIT elsewhere", gp, func() Outcome { return w.m.ENCLU(c, nil, 0) })
	c.Regs.RBX = next
	c.Regs.RDI = 99
	if o := w.m.ENCLU(c, nil, 0); !o.OK() {
		t.Fatalf("EEXIT: %+v", o)
	}
	r = c.Regs
	if r.RIP != next || r.RCX != aep || r.RDI != 99 || r.FSBase != 0xf5 || r.GSBase != 0x65 || r.XCR0 != 7 || c.Inside() != nil {
		t.Errorf("after EEXIT: %+v", r)
	}
	c.Regs.RAX = uint64(sgx.EEXIT)
	w.refused("EEXIT outside", gp, func() Outcome { return w.m.ENCLU(c, nil, 0) })
}

func TestAnyExitTarget(t *testing.T) {
	w := newWorld(t, tweak{opt: func(o *Options) { o.AnyExitTarget = true }})
	c := w.enter()
	c.Regs.RAX, c.Regs.RBX = uint64(sgx.EEXIT), 1<<63
	w.refused("not canonical", gp, func() Outcome { return w.m.ENCLU(c, nil, 0) })
	c.Regs.RBX = 0x1234
	if o := w.m.ENCLU(c, nil, 0); !o.OK() || c.Regs.RIP != 0x1234 {
		t.Errorf("%+v, RIP %#x", o, c.Regs.RIP)
	}
}

func TestEENTERRefuses(t *testing.T) {
	w := newWorld(t, tweak{})
	tcs := w.b.Page(w.f[tcsAt])
	good := *tcs
	for _, c := range []struct {
		what string
		want Outcome
		regs func(*Regs)
		tcs  func()
		e    *Enclave
	}{
		{"no enclave", gp, nil, nil, nil},
		{"RBX not aligned", gp, func(r *Regs) { r.RBX++ }, nil, w.e},
		{"RBX outside", gp, func(r *Regs) { r.RBX = base + elrange }, nil, w.e},
		{"no page", pf(0), func(r *Regs) { r.RBX = base + 0x30000 }, nil, w.e},
		{"REG page", pf(0), func(r *Regs) { r.RBX = dataAt }, nil, w.e},
		{"AEP not canonical", gp, func(r *Regs) { r.RCX = 1 << 60 }, nil, w.e},
		{"XCR0 lacks a feature", gp, func(r *Regs) { r.XCR0 = 1 }, nil, w.e},
		{"CSSA = NSSA", gp, nil, func() { le.PutUint32(tcs[24:], 2) }, w.e},
		{"OSSA not aligned", gp, nil, func() { le.PutUint64(tcs[16:], 0x11008) }, w.e},
		{"SSA page missing", pf(0), nil, func() { le.PutUint64(tcs[16:], 0x30000) }, w.e},
		{"SSA outside", gp, nil, func() { le.PutUint64(tcs[16:], elrange) }, w.e},
		{"SSA not writable", pf(0), nil, func() { le.PutUint64(tcs[16:], 0) }, w.e},
		{"SSA is the TCS", pf(0), nil, func() { le.PutUint64(tcs[16:], tcsAt-base) }, w.e},
		{"OFSBASE not aligned", gp, nil, func() { le.PutUint64(tcs[48:], 8) }, w.e},
		{"OGSBASE not canonical", gp, nil, func() { le.PutUint64(tcs[56:], 1<<60) }, w.e},
		{"OENTRY not canonical", gp, nil, func() { le.PutUint64(tcs[32:], 1<<60) }, w.e},
	} {
		*tcs = good
		if c.tcs != nil {
			c.tcs()
		}
		p := w.cpu()
		if c.regs != nil {
			c.regs(&p.Regs)
		}
		regs := p.Regs
		w.refused(c.what, c.want, func() Outcome { return w.m.ENCLU(p, c.e, next) })
		if p.Regs != regs || p.Inside() != nil {
			t.Errorf("%s: registers changed", c.what)
		}
	}
	*tcs = good
	b := buildWorld(t, tweak{})
	b.refused("before EINIT", gp, func() Outcome { return b.m.ENCLU(b.cpu(), b.e, next) })
	p := w.cpu()
	p.Regs.RAX = uint64(sgx.ERESUME)
	w.refused("ERESUME with CSSA 0", gp, func() Outcome { return w.m.ENCLU(p, w.e, next) })
	for leaf := uint64(8); leaf < 12; leaf++ {
		p.Regs.RAX = leaf
		w.refused("unknown leaf", gp, func() Outcome { return w.m.ENCLU(p, w.e, next) })
	}
	for _, leaf := range []sgx.ENCLU{sgx.EREPORT, sgx.EGETKEY, sgx.EACCEPT, sgx.EACCEPTCOPY, sgx.EMODPE} {
		p.Regs.RAX = uint64(leaf)
		w.refused("outside", gp, func() Outcome { return w.m.ENCLU(p, w.e, next) })
	}
}

func TestAEXAndResume(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	c.Regs = Regs{RAX: 1, RCX: 2, RDX: 3, RBX: 4, RSP: 5, RBP: 6, RSI: 7, RDI: 8, R8: 9, R9: 10, R10: 11, R11: 12, R12: 13, R13: 14, R14: 15, R15: 16,
		RIP: base + 0x123, RFLAGS: 0x202 | flagZF | flagCF, FSBase: base + 0x1000, GSBase: base + 0x2000, XCR0: 3}
	inside := c.Regs
	for i := range c.XSave[:512] {
		c.XSave[i] = byte(i)
	}
	le.PutUint32(c.XSave[24:], 0x1f80)
	le.PutUint64(c.XSave[512:], 3)
	x := bytes.Clone(c.XSave)
	if o := w.m.AEX(c, true, sgx.VectorPF, 7, dataAt); !o.OK() {
		t.Fatalf("AEX: %+v", o)
	}
	want := Regs{RAX: 3, RBX: tcsAt, RCX: aep, RIP: aep, RSP: 0x7ffff000, RBP: 0x7ffff100, RFLAGS: 0x202, FSBase: 0xf5, GSBase: 0x65, XCR0: 7}
	if c.Regs != want {
		t.Errorf("synthetic state\n%+v\nwant\n%+v", c.Regs, want)
	}
	clean := make([]byte, len(c.XSave))
	initXSave(clean)
	if !bytes.Equal(c.XSave, clean) {
		t.Error("the XSAVE image leaks")
	}
	gpr, _ := sgx.ParseGPR(w.get(ssaAt+sgx.GPROffset(1), sgx.GPRSize))
	if gpr.RAX != 1 || gpr.R15 != 16 || gpr.RIP != base+0x123 || gpr.RDI != 8 || gpr.RSI != 7 || gpr.RFLAGS != inside.RFLAGS || gpr.FSBase != base+0x1000 ||
		gpr.ExitInfo != 0x8000030e {
		t.Errorf("GPRSGX %+v", gpr)
	}
	ex := w.get(ssaAt+sgx.ExInfoOffset(1), 16)
	if le.Uint64(ex) != dataAt || le.Uint32(ex[8:]) != 7 {
		t.Errorf("EXINFO %x", ex)
	}
	if !bytes.Equal(w.get(ssaAt, 576), x[:576]) {
		t.Error("XSAVE image in the SSA differs")
	}
	// A handler enters the same TCS on the next slot, and leaves.
	h := w.cpu()
	if o := w.m.ENCLU(h, w.e, next+0x100); !o.OK() || h.Regs.RAX != 1 {
		t.Fatalf("EENTER of the handler: %+v, CSSA %d", o, h.Regs.RAX)
	}
	h.Regs.RAX, h.Regs.RBX = uint64(sgx.EEXIT), next
	w.refused("the handler exits to the interrupted call's return", gp, func() Outcome { return w.m.ENCLU(h, nil, 0) })
	h.Regs.RBX = next + 0x100
	if o := w.m.ENCLU(h, nil, 0); !o.OK() {
		t.Fatalf("EEXIT of the handler: %+v", o)
	}
	// Resume on another processor.
	d := w.cpu()
	d.Regs.RAX, d.Regs.RSP = uint64(sgx.ERESUME), 0x1111
	if o := w.m.ENCLU(d, w.e, next); !o.OK() {
		t.Fatalf("ERESUME: %+v", o)
	}
	if d.Regs != inside {
		t.Errorf("resumed\n%+v\nwant\n%+v", d.Regs, inside)
	}
	if !bytes.Equal(d.XSave[:576], x[:576]) {
		t.Error("XSAVE image after ERESUME differs")
	}
	gpr, _ = sgx.ParseGPR(w.get(ssaAt+sgx.GPROffset(1), sgx.GPRSize))
	if gpr.URSP != 0x1111 {
		t.Errorf("URSP %#x is not that of the resuming thread", gpr.URSP)
	}
	d.Regs.RAX, d.Regs.RBX = uint64(sgx.EEXIT), next
	if o := w.m.ENCLU(d, nil, 0); !o.OK() {
		t.Errorf("EEXIT after ERESUME to the first EENTER's return: %+v", o)
	}
}

func TestAEXReports(t *testing.T) {
	for _, c := range []struct {
		exception bool
		vector    uint8
		misc      sgx.MiscSelect
		want      sgx.ExitInfo
	}{
		{false, 32, 1, 0},
		{true, sgx.VectorUD, 0, 0x80000306},
		{true, sgx.VectorBP, 0, 0x80000603},
		{true, sgx.VectorGP, 0, 0},
		{true, sgx.VectorGP, 1, 0x8000030d},
		{true, sgx.VectorPF, 0, 0},
	} {
		w := newWorld(t, tweak{secs: func(s *sgx.SECS) { s.MiscSelect = c.misc }})
		p := w.enter()
		if o := w.m.AEX(p, c.exception, c.vector, 0, 0); !o.OK() {
			t.Fatal(o)
		}
		gpr, _ := sgx.ParseGPR(w.get(ssaAt+sgx.GPROffset(1), sgx.GPRSize))
		if gpr.ExitInfo != c.want {
			t.Errorf("vector %d, MISCSELECT %d: EXITINFO %#x, want %#x", c.vector, c.misc, uint32(gpr.ExitInfo), uint32(c.want))
		}
	}
	w := newWorld(t, tweak{})
	if o := w.m.AEX(w.cpu(), false, 32, 0, 0); o.Vector != sgx.VectorGP {
		t.Errorf("AEX outside: %+v", o)
	}
}

func TestERESUMERefuses(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	le.PutUint64(c.XSave[512:], 3)
	if o := w.m.AEX(c, false, 32, 0, 0); !o.OK() {
		t.Fatal(o)
	}
	page := w.b.Page(w.f[ssaAt])
	good := *page
	for what, change := range map[string]func(){
		"RIP not canonical":    func() { le.PutUint64(page[sgx.GPROffset(1)+136:], 1<<62) },
		"FSBASE not canonical": func() { le.PutUint64(page[sgx.GPROffset(1)+168:], 1<<62) },
		"XSTATE_BV over XFRM":  func() { page[512] = 7 },
		"XCOMP_BV":             func() { page[520] = 1 },
		"reserved header":      func() { page[550] = 1 },
		"MXCSR":                func() { page[26] = 1 },
	} {
		*page = good
		change()
		w.refused(what, gp, func() Outcome { return w.m.ERESUME(c, w.e, next) })
	}
	*page = good
	// RFLAGS cannot be used to get privileges.
	le.PutUint64(page[sgx.GPROffset(1)+128:], ^uint64(0))
	if o := w.m.ERESUME(c, w.e, next); !o.OK() || c.Regs.RFLAGS&0x3000 != 0 || c.Regs.RFLAGS&(1<<17) != 0 || c.Regs.RFLAGS&flagTF != 0 {
		t.Errorf("%+v, RFLAGS %#x", o, c.Regs.RFLAGS)
	}
}

func TestAEXNotify(t *testing.T) {
	w := newWorld(t, tweak{tcs: func(s *sgx.TCS) { s.Flags = sgx.TCSAEXNotify }})
	c := w.enter()
	if o := w.m.AEX(c, false, 32, 0, 0); !o.OK() {
		t.Fatal(o)
	}
	w.put(ssaAt+sgx.GPROffset(1)+167, []byte{1})
	if o := w.m.ENCLU(c, w.e, next); !o.OK() {
		t.Fatalf("ERESUME: %+v", o)
	}
	if c.Regs.RAX != 1 || c.Regs.RIP != base+0x40 {
		t.Errorf("expected the handler at OENTRY with CSSA 1, got RIP %#x RAX %d", c.Regs.RIP, c.Regs.RAX)
	}
	if le.Uint32(w.get(tcsAt+24, 4)) != 1 {
		t.Error("the frame was popped")
	}
}

func TestSwitchDoesNotAllocate(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.cpu()
	start := c.Regs
	n := testing.AllocsPerRun(100, func() {
		c.Regs = start
		if o := w.m.ENCLU(c, w.e, next); !o.OK() {
			t.Fatal(o)
		}
		if o := w.m.AEX(c, true, sgx.VectorUD, 0, 0); !o.OK() {
			t.Fatal(o)
		}
		if o := w.m.ENCLU(c, w.e, next); !o.OK() {
			t.Fatal(o)
		}
		c.Regs.RAX, c.Regs.RBX = uint64(sgx.EEXIT), next
		if o := w.m.ENCLU(c, nil, 0); !o.OK() {
			t.Fatal(o)
		}
	})
	if n != 0 {
		t.Errorf("EENTER, AEX, ERESUME, EEXIT allocate %v times", n)
	}
}

func BenchmarkEnterExit(b *testing.B) {
	w := newWorld(b, tweak{})
	c := w.cpu()
	start := c.Regs
	b.ReportAllocs()
	for b.Loop() {
		c.Regs = start
		w.m.ENCLU(c, w.e, next)
		c.Regs.RAX, c.Regs.RBX = uint64(sgx.EEXIT), next
		w.m.ENCLU(c, nil, 0)
	}
}
