// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"testing"

	"holdfast/enclave/sgx"
)

const newAt = base + 0x30000

func (w *world) mapped(at uint64) (sgx.Perm, bool) {
	m, there := w.b.mapped[[2]uint64{w.e.ID(), at}]
	return m.perm, there
}

// secinfo puts a SECINFO where the enclave's code would have it.
func (w *world) secinfo(p sgx.Perm, t sgx.PageType) uint64 {
	w.put(dataAt+0x800, sgx.SecInfo{Perm: p, Type: t}.AppendTo(nil))
	return dataAt + 0x800
}

func TestEAUGAndAccept(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	w.refused("frame in use", pf(0), func() Outcome { return w.m.EAUG(w.secs, w.f[codeAt], newAt) })
	w.refused("address taken", gp, func() Outcome { return w.m.EAUG(w.secs, 50, dataAt) })
	w.refused("outside", gp, func() Outcome { return w.m.EAUG(w.secs, 50, base+elrange) })
	if o := w.m.EAUG(w.secs, 50, newAt); !o.OK() {
		t.Fatal(o)
	}
	w.f[newAt] = 50
	if _, there := w.mapped(newAt); there {
		t.Error("a pending page is reachable")
	}
	rw := sgx.PermR | sgx.PermW
	w.refusedCall("EACCEPT expects another state", gp, c, sgx.EACCEPT, w.secinfo(rw|sgx.BitModified, sgx.PageREG), newAt, 0)
	before := w.m.epcm[50]
	if o := call(w, c, sgx.EACCEPT, w.secinfo(rw, sgx.PageREG), newAt, 0); o.Code != sgx.PageAttributeMismatch || c.Regs.RAX != 19 || c.Regs.RFLAGS&flagZF == 0 || w.m.epcm[50] != before {
		t.Errorf("EACCEPT without PENDING: %+v", o)
	}
	if o := call(w, c, sgx.EACCEPT, w.secinfo(rw|sgx.BitPending, sgx.PageREG), newAt, 0); !o.OK() || c.Regs.RAX != 0 || c.Regs.RFLAGS&flagZF != 0 {
		t.Fatalf("EACCEPT: %+v", o)
	}
	if p, there := w.mapped(newAt); !there || p != rw {
		t.Errorf("accepted page: %v %v", p, there)
	}
	if o := call(w, c, sgx.EACCEPT, w.secinfo(rw|sgx.BitPending, sgx.PageREG), newAt, 0); o.Code != sgx.PageAttributeMismatch {
		t.Errorf("twice: %+v", o)
	}
	w.refusedCall("EACCEPT outside", gp, c, sgx.EACCEPT, w.secinfo(rw, sgx.PageREG), base+elrange, 0)
	w.refusedCall("EACCEPT missing page", pf(0), c, sgx.EACCEPT, dataAt+0x800, base+0x38000, 0)
	w.refusedCall("SECINFO not aligned", gp, c, sgx.EACCEPT, dataAt+0x810, newAt, 0)
}

func TestEACCEPTCOPY(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	w.put(dataAt+0x1000, bytes.Repeat([]byte{7}, 4096))
	if o := w.m.EAUG(w.secs, 50, newAt); !o.OK() {
		t.Fatal(o)
	}
	w.f[newAt] = 50
	rx := sgx.PermR | sgx.PermX
	w.refusedCall("W without R", gp, c, sgx.EACCEPTCOPY, w.secinfo(sgx.PermW, sgx.PageREG), newAt, dataAt+0x1000)
	w.refusedCall("source missing", pf(0), c, sgx.EACCEPTCOPY, w.secinfo(rx, sgx.PageREG), newAt, base+0x38000)
	w.refusedCall("source pending", pf(0), c, sgx.EACCEPTCOPY, dataAt+0x800, newAt, newAt)
	if o := call(w, c, sgx.EACCEPTCOPY, w.secinfo(rx, sgx.PageREG), newAt, dataAt+0x1000); !o.OK() {
		t.Fatalf("%+v", o)
	}
	if p, _ := w.mapped(newAt); p != rx || w.get(newAt, 1)[0] != 7 {
		t.Errorf("copied page: %v, %v", p, w.get(newAt, 1))
	}
	if o := call(w, c, sgx.EACCEPTCOPY, w.secinfo(rx, sgx.PageREG), newAt, dataAt+0x1000); o.Code != sgx.PageAttributeMismatch {
		t.Errorf("twice: %+v", o)
	}
}

func TestEMODPEAndEMODPR(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	if o := call(w, c, sgx.EMODPE, w.secinfo(sgx.PermX, sgx.PageREG), dataAt+0x1000, 0); !o.OK() {
		t.Fatal(o)
	}
	if p, _ := w.mapped(dataAt + 0x1000); p != sgx.PermRWX {
		t.Errorf("EMODPE: %v", p)
	}
	w.refusedCall("EMODPE on a TCS", pf(0), c, sgx.EMODPE, dataAt+0x800, tcsAt, 0)
	f := w.f[dataAt+0x1000]
	w.refused("EMODPR W without R", gp, func() Outcome { return w.m.EMODPR(f, sgx.PermW) })
	w.refused("EMODPR of a TCS", pf(0), func() Outcome { return w.m.EMODPR(w.f[tcsAt], sgx.PermR) })
	if o := w.m.EMODPR(f, sgx.PermR); !o.OK() {
		t.Fatal(o)
	}
	if p, _ := w.mapped(dataAt + 0x1000); p != sgx.PermR {
		t.Errorf("EMODPR: still mapped %v", p)
	}
	accept := func() Outcome {
		return call(w, c, sgx.EACCEPT, w.secinfo(sgx.PermR|sgx.BitPR, sgx.PageREG), dataAt+0x1000, 0)
	}
	if o := accept(); o.Code != sgx.NotTracked {
		t.Errorf("accept before ETRACK: %+v", o)
	}
	if o := w.m.ETRACK(w.secs); !o.OK() {
		t.Fatal(o)
	}
	w.refused("second ETRACK with the thread still inside", code(sgx.PrevTrkIncmpl), func() Outcome { return w.m.ETRACK(w.secs) })
	if o := accept(); o.Code != sgx.NotTracked {
		t.Errorf("accept while an old thread is inside: %+v", o)
	}
	// the shoot-down makes the thread leave and come back
	if o := w.m.AEX(c, false, 32, 0, 0); !o.OK() {
		t.Fatal(o)
	}
	if o := w.m.ENCLU(c, w.e, next); !o.OK() {
		t.Fatal(o)
	}
	if o := accept(); !o.OK() {
		t.Errorf("accept after tracking: %+v", o)
	}
}

func TestEMODTTrim(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	f := w.f[dataAt+0x1000]
	w.refused("to REG", gp, func() Outcome { return w.m.EMODT(f, sgx.PageREG) })
	w.refused("free frame", pf(0), func() Outcome { return w.m.EMODT(50, sgx.PageTRIM) })
	w.refused("SECS", pf(0), func() Outcome { return w.m.EMODT(w.secs, sgx.PageTRIM) })
	if o := w.m.EMODT(f, sgx.PageTRIM); !o.OK() {
		t.Fatal(o)
	}
	if _, there := w.mapped(dataAt + 0x1000); there {
		t.Error("a trimmed page is reachable")
	}
	w.refused("twice", code(sgx.PageNotModifiable), func() Outcome { return w.m.EMODT(f, sgx.PageTRIM) })
	w.refused("not accepted", code(sgx.EnclaveAct), func() Outcome { return w.m.EREMOVE(f) })
	if o := w.m.ETRACK(w.secs); !o.OK() {
		t.Fatal(o)
	}
	if o := w.m.AEX(c, false, 32, 0, 0); !o.OK() {
		t.Fatal(o)
	}
	if o := w.m.ENCLU(c, w.e, next); !o.OK() {
		t.Fatal(o)
	}
	if o := call(w, c, sgx.EACCEPT, w.secinfo(sgx.BitModified, sgx.PageTRIM), dataAt+0x1000, 0); !o.OK() {
		t.Fatalf("EACCEPT: %+v", o)
	}
	if o := w.m.EREMOVE(f); !o.OK() {
		t.Errorf("EREMOVE of an accepted TRIM page with a thread inside: %+v", o)
	}
}

func TestEMODTTCS(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	at := uint64(dataAt + 0x1000)
	tcs := sgx.TCS{OSSA: ssaAt - base, NSSA: 2, OEntry: 0x40, Flags: sgx.TCSDebugOptIn, AEP: 5}
	w.put(at, tcs.AppendTo(nil))
	if o := w.m.EMODT(w.f[at], sgx.PageTCS); !o.OK() {
		t.Fatal(o)
	}
	d := w.cpu()
	d.Regs.RBX = at
	w.refused("enter before accept", pf(0), func() Outcome { return w.m.ENCLU(d, w.e, next) })
	if o := w.m.ETRACK(w.secs); !o.OK() {
		t.Fatal(o)
	}
	if o := w.m.AEX(c, false, 32, 0, 0); !o.OK() {
		t.Fatal(o)
	}
	if o := w.m.ENCLU(c, w.e, next); !o.OK() {
		t.Fatal(o)
	}
	if o := call(w, c, sgx.EACCEPT, w.secinfo(sgx.BitModified, sgx.PageTCS), at, 0); !o.OK() {
		t.Fatalf("EACCEPT: %+v", o)
	}
	if got, err := sgx.ParseTCS(w.get(at, 4096)); err != nil || got.Flags != 0 || got.AEP != 0 {
		t.Errorf("TCS %+v %v", got, err)
	}
	if o := w.m.ENCLU(d, w.e, next); !o.OK() {
		t.Errorf("enter by the new TCS: %+v", o)
	}
}

func TestEviction(t *testing.T) {
	w := newWorld(t, tweak{})
	w.put(dataAt, []byte("secret"))
	f, va := w.f[dataAt], Frame(40)
	var out Evicted
	w.refused("EPA on a used frame", pf(0), func() Outcome { return w.m.EPA(f) })
	if o := w.m.EPA(va); !o.OK() {
		t.Fatal(o)
	}
	w.refused("not blocked", code(sgx.PageNotBlocked), func() Outcome { return w.m.EWB(f, va, 0, &out) })
	w.refused("block the SECS", code(sgx.PGIsSECS), func() Outcome { return w.m.EBLOCK(w.secs) })
	w.refused("block a VA page", code(sgx.NotBlockable), func() Outcome { return w.m.EBLOCK(va) })
	w.refused("block a free page", code(sgx.PGInvld), func() Outcome { return w.m.EBLOCK(50) })
	if o := w.m.EBLOCK(f); !o.OK() {
		t.Fatal(o)
	}
	w.refused("block twice", code(sgx.Blkstate), func() Outcome { return w.m.EBLOCK(f) })
	w.refused("not tracked", code(sgx.NotTracked), func() Outcome { return w.m.EWB(f, va, 0, &out) })
	if o := w.m.ETRACK(w.secs); !o.OK() {
		t.Fatal(o)
	}
	w.refused("bad slot", gp, func() Outcome { return w.m.EWB(f, va, VASlots, &out) })
	w.refused("no VA page", pf(0), func() Outcome { return w.m.EWB(f, 50, 0, &out) })
	if o := w.m.EWB(f, va, 3, &out); !o.OK() {
		t.Fatal(o)
	}
	if bytes.Contains(out.Data[:], []byte("secret")) || w.b.mem[f] != [sgx.PageSize]byte{} {
		t.Error("the page is in the clear, or was not wiped")
	}
	good := out
	for what, change := range map[string]func(*Evicted){
		"ciphertext": func(e *Evicted) { e.Data[9] ^= 1 }, "tag": func(e *Evicted) { e.Data[4100] ^= 1 },
		"permissions": func(e *Evicted) { e.Info.Perm |= sgx.PermX }, "address": func(e *Evicted) { e.Linear = newAt }, "enclave": func(e *Evicted) { e.EID++ },
	} {
		e := good
		change(&e)
		w.refused(what, code(sgx.MACCompareFail), func() Outcome { return w.m.ELDU(w.secs, f, va, 3, &e, false) })
	}
	w.refused("empty slot", code(sgx.MACCompareFail), func() Outcome { return w.m.ELDU(w.secs, f, va, 4, &good, false) })
	w.refused("frame in use", pf(0), func() Outcome { return w.m.ELDU(w.secs, w.f[codeAt], va, 3, &good, false) })
	if o := w.m.ELDU(w.secs, 41, va, 3, &good, false); !o.OK() {
		t.Fatal(o)
	}
	if string(w.b.mem[41][:6]) != "secret" {
		t.Error("the content did not come back")
	}
	if p, there := w.mapped(dataAt); !there || p != sgx.PermR|sgx.PermW {
		t.Errorf("mapped %v %v", p, there)
	}
	// replay of the old copy
	if o := w.m.EBLOCK(41); !o.OK() {
		t.Fatal(o)
	}
	w.m.ETRACK(w.secs)
	var second Evicted
	if o := w.m.EWB(41, va, 3, &second); !o.OK() {
		t.Fatal(o)
	}
	w.refused("replay", code(sgx.MACCompareFail), func() Outcome { return w.m.ELDU(w.secs, 41, va, 3, &good, false) })
	if o := w.m.ELDU(w.secs, 41, va, 3, &second, true); !o.OK() {
		t.Fatal(o)
	}
	if _, there := w.mapped(dataAt); there {
		t.Error("ELDB mapped a blocked page")
	}
}

// TestBlockedSSA: a thread inside keeps its SSA frame although the page is
// blocked, and nobody evicts it under the thread.
func TestBlockedSSA(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	if o := w.m.EBLOCK(w.f[ssaAt]); !o.OK() {
		t.Fatal(o)
	}
	if o := w.m.EPA(40); !o.OK() {
		t.Fatal(o)
	}
	w.m.ETRACK(w.secs)
	var out Evicted
	w.refused("evict under a thread", code(sgx.NotTracked), func() Outcome { return w.m.EWB(w.f[ssaAt], 40, 0, &out) })
	c.Regs.RDX = 0x5ec4e7
	if o := w.m.AEX(c, false, 32, 0, 0); !o.OK() || c.Regs.RDX != 0 {
		t.Errorf("AEX: %+v", o)
	}
	w.refused("resume on a blocked frame", pf(0), func() Outcome { return w.m.ENCLU(c, w.e, next) })
	if o := w.m.EWB(w.f[ssaAt], 40, 0, &out); !o.OK() {
		t.Errorf("evict after the thread left: %+v", o)
	}
}

func TestDebug(t *testing.T) {
	w := newWorld(t, tweak{})
	w.refused("read production", gp, func() Outcome { _, o := w.m.EDBGRD(w.f[dataAt], 0); return o })
	w.refused("write production", gp, func() Outcome { return w.m.EDBGWR(w.f[dataAt], 0, 1) })
	w = newWorld(t, tweak{secs: func(s *sgx.SECS) { s.Attributes.Flags |= sgx.FlagDebug }})
	if o := w.m.EDBGWR(w.f[dataAt], 8, 0x1122); !o.OK() {
		t.Fatal(o)
	}
	if v, o := w.m.EDBGRD(w.f[dataAt], 8); !o.OK() || v != 0x1122 {
		t.Errorf("%#x %+v", v, o)
	}
	w.refused("SECS", code(sgx.PageNotDebuggable), func() Outcome { _, o := w.m.EDBGRD(w.secs, 0); return o })
	w.refused("not aligned", gp, func() Outcome { _, o := w.m.EDBGRD(w.f[dataAt], 4); return o })
	w.refused("TCS field", gp, func() Outcome { return w.m.EDBGWR(w.f[tcsAt], 32, 0) })
	if o := w.m.EDBGWR(w.f[tcsAt], 8, 1); !o.OK() {
		t.Errorf("TCS.FLAGS.DBGOPTIN: %+v", o)
	}
}
