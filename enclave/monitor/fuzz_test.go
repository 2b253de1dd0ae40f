// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"math/rand/v2"
	"testing"

	"holdfast/enclave/sgx"
)

// invariants hold after any sequence of leaves.
func (w *world) invariants(cpus []*CPU) {
	w.t.Helper()
	children := map[*Enclave]int{}
	for f := range w.m.epcm {
		p := &w.m.epcm[f]
		if !p.valid {
			if *p != (epcm{}) {
				w.t.Fatalf("frame %d: free, but %+v", f, *p)
			}
			continue
		}
		if p.typ == sgx.PageSECS || p.typ == sgx.PageVA {
			continue
		}
		children[p.enclave]++
		if p.enclave.pages[p.linear] != Frame(f) {
			w.t.Fatalf("frame %d: not the page at its own address", f)
		}
		if !p.enclave.contains(p.linear, sgx.PageSize) {
			w.t.Fatalf("frame %d: outside ELRANGE", f)
		}
		m, there := w.b.mapped[[2]uint64{p.enclave.eid, p.linear}]
		hidden := p.typ != sgx.PageREG || p.pending || p.modified || p.blocked || p.perm == 0
		if there && (hidden || m.f != Frame(f) || m.perm&^p.perm != 0) {
			w.t.Fatalf("frame %d: the enclave reaches %+v with %+v", f, m, *p)
		}
	}
	for k, m := range w.b.mapped {
		p := w.m.epcm[m.f]
		if !p.valid || p.enclave.eid != k[0] || p.linear != k[1] {
			w.t.Fatalf("mapping %v to a frame that is %+v", k, p)
		}
	}
	for e, n := range children {
		if e.children != n || len(e.pages) != n || e.dead {
			w.t.Fatalf("enclave %d counts %d children, has %d", e.eid, e.children, n)
		}
	}
	inside := 0
	for _, c := range cpus {
		if c.Inside() == w.e {
			inside++
			if p := w.m.epcm[c.tcs]; !p.valid || p.enclave != w.e || le.Uint64(w.b.Page(c.tcs)[:]) != 1 {
				w.t.Fatalf("a thread is inside by frame %d, which is %+v", c.tcs, p)
			}
		}
	}
	if w.e.inside != inside {
		w.t.Fatalf("%d threads inside, counted %d", inside, w.e.inside)
	}
}

// step carries out one leaf chosen by three bytes, with operands that are
// often right. It reports a refused leaf that changed something.
func (w *world) step(cpus []*CPU, evicted *[8]Evicted, op, a, b byte) {
	frames := []Frame{w.secs, w.f[codeAt], w.f[tcsAt], w.f[ssaAt], w.f[dataAt], w.f[dataAt+0x1000], 40, 41, 42, 43, 63, 64}
	addrs := []uint64{codeAt, tcsAt, ssaAt, ssaAt + 0x1000, dataAt, dataAt + 0x1000, newAt, newAt + 0x1000, base + elrange, dataAt + 8, 0, dataAt + 0x800}
	perms := []sgx.Perm{0, 1, 3, 5, 7, 2, 11, 16, 33, 19}
	types := []sgx.PageType{sgx.PageREG, sgx.PageTCS, sgx.PageTRIM, sgx.PageSECS}
	f, g := frames[int(a)%len(frames)], frames[int(b)%len(frames)]
	at, perm, typ := addrs[int(b)%len(addrs)], perms[int(a)%len(perms)], types[int(b)%len(types)]
	c := cpus[int(a)%len(cpus)]
	slot := int(b) % 8
	var page [sgx.PageSize]byte
	w.put2(dataAt+0x800, sgx.SecInfo{Perm: perm, Type: typ})
	before := w.digest()
	var o Outcome
	switch op % 18 {
	case 0:
		o = w.m.EAUG(w.secs, f, at)
	case 1:
		o = w.m.EMODPR(f, perm)
	case 2:
		o = w.m.EMODT(f, typ)
	case 3:
		o = w.m.EREMOVE(f)
	case 4:
		o = w.m.EBLOCK(f)
	case 5:
		o = w.m.ETRACK(w.secs)
	case 6:
		o = w.m.EPA(f)
	case 7:
		o = w.m.EWB(f, g, slot, &evicted[slot])
	case 8:
		o = w.m.ELDU(w.secs, f, g, slot, &evicted[slot], b&16 != 0)
	case 9, 10:
		c.Regs.RAX, c.Regs.RBX, c.Regs.RCX = uint64(sgx.EENTER), tcsAt, aep
		o = w.m.ENCLU(c, w.e, next)
	case 11:
		o = w.m.AEX(c, b&1 != 0, b, 0, at)
	case 12:
		c.Regs.RAX, c.Regs.RBX, c.Regs.RCX = uint64(sgx.ERESUME), tcsAt, aep
		o = w.m.ENCLU(c, w.e, next)
	case 13:
		o = call(w, c, sgx.EEXIT, next, 0, 0)
	case 14:
		o = call(w, c, sgx.EACCEPT, dataAt+0x800, at, 0)
	case 15:
		o = call(w, c, sgx.EMODPE, dataAt+0x800, at, 0)
	case 16:
		o = call(w, c, sgx.EACCEPTCOPY, dataAt+0x800, at, addrs[int(a)%len(addrs)])
	case 17:
		o = w.m.EADD(w.secs, f, at, sgx.SecInfo{Perm: perm, Type: typ}, &page)
	}
	if !o.OK() && w.digest() != before {
		w.t.Fatalf("leaf %d(%d, %d) was refused with %+v, but the state changed", op%18, a, b, o)
	}
	w.invariants(cpus)
}

func (w *world) put2(at uint64, s sgx.SecInfo) {
	if f, there := w.e.pages[at&^0xfff]; there {
		copy(w.b.Page(f)[at%0x1000:], s.AppendTo(nil))
	}
}

func (w *world) play(program []byte) {
	cpus := []*CPU{w.cpu(), w.cpu(), w.cpu()}
	var evicted [8]Evicted
	for ; len(program) >= 3; program = program[3:] {
		w.step(cpus, &evicted, program[0], program[1], program[2])
	}
}

// TestRandomLeaves plays random sequences; FuzzLeaves lets a fuzzer choose.
func TestRandomLeaves(t *testing.T) {
	n := 20
	if testing.Short() {
		n = 10
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		p := make([]byte, 3*200)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		newWorld(t, tweak{}).play(p)
	}
}

func FuzzLeaves(f *testing.F) {
	f.Add([]byte{9, 0, 0, 11, 0, 1, 12, 0, 0, 13, 0, 0})
	f.Add([]byte{0, 6, 6, 9, 0, 0, 14, 6, 6})
	f.Add([]byte{6, 7, 0, 4, 4, 0, 5, 0, 0, 7, 4, 7, 8, 8, 7})
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > 600 {
			p = p[:600]
		}
		newWorld(t, tweak{}).play(p)
	})
}
