// SPDX-License-Identifier: Apache-2.0

//go:build linux

package monitor

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/enclave/sgx"
)

// The monitor reads structures from memory that others write to at the same
// time. Each test below lets a thread change such memory between two contents,
// one of which must be refused, while a leaf is tried again and again; what is
// accepted must be the good one, whole.

// raceFor is how long each structure is raced.
func raceFor(t *testing.T) time.Duration {
	if testing.Short() {
		return 150 * time.Millisecond
	}
	return 400 * time.Millisecond
}

// twice maps a page of memory at two addresses. What is written at one can be
// read at the other, and Go's race detector takes them for two.
func twice(t *testing.T) (writer, reader *[sgx.PageSize]byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("race", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, sgx.PageSize); err != nil {
		t.Fatal(err)
	}
	var at [2]*[sgx.PageSize]byte
	for i := range at {
		b, err := unix.Mmap(fd, 0, sgx.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(b) })
		at[i] = (*[sgx.PageSize]byte)(b)
	}
	return at[0], at[1]
}

// race lets another thread turn the bytes in which a and b differ to and fro in
// page, which holds a at first, while try is called for some time. Every eighth
// time the flipper pauses, so that a try can also find either content at rest.
func race(t *testing.T, page *[sgx.PageSize]byte, a, b []byte, try func()) {
	t.Helper()
	var differ []int
	for i := range a {
		if a[i] != b[i] {
			differ = append(differ, i)
		}
	}
	if len(differ) == 0 {
		t.Fatal("nothing to change")
	}
	copy(page[:], a)
	var stop atomic.Bool
	flips := make(chan uint64)
	go func() {
		var n uint64
		for ; !stop.Load(); n++ {
			from := a
			if n%2 == 0 {
				from = b
			}
			for _, i := range differ {
				page[i] = from[i]
			}
			if n%8 >= 6 {
				for range 200 {
					if stop.Load() {
						break
					}
				}
			}
			if n%4096 == 0 {
				runtime.Gosched() // on one processor too, others get their turn
			}
		}
		flips <- n
	}()
	tries := 0
	defer func() { // also when a try fails: the memory goes away
		stop.Store(true)
		t.Logf("%d tries, %d changes meanwhile", tries, <-flips)
	}()
	for end := time.Now().Add(raceFor(t)); time.Now().Before(end); {
		for range 64 {
			try()
			tries++
		}
	}
}

func TestRaceSECS(t *testing.T) {
	writer, reader := twice(t)
	m, err := New(newFake(4), Options{Root: [32]byte{1}, NoDebug: true})
	if err != nil {
		t.Fatal(err)
	}
	good := sgx.SECS{Size: 1 << 20, BaseAddr: 0x7f0000000000, SSAFrameSize: 1, Attributes: sgx.Attributes{Flags: sgx.FlagMode64, XFRM: 3}}
	other := good
	other.Size, other.BaseAddr, other.Attributes.Flags = 1<<16, 0x7f0000010000, sgx.FlagMode64|sgx.FlagDebug
	accepted := 0
	race(t, writer, good.AppendTo(nil), other.AppendTo(nil), func() {
		e, o := m.ECREATE(0, reader)
		if !o.OK() {
			return
		}
		accepted++
		want := sgx.NewMeasurement()
		want.Create(e.secs.SSAFrameSize, e.secs.Size)
		if e.Attributes().Flags&sgx.FlagDebug != 0 || e.Base()%e.Size() != 0 || e.measure.Sum() != want.Sum() {
			t.Fatalf("accepted a mixture: %+v", e.secs)
		}
		if o := m.EREMOVE(0); !o.OK() {
			t.Fatal(o)
		}
	})
	t.Log(accepted, "accepted")
}

func TestRaceTCS(t *testing.T) {
	writer, reader := twice(t)
	w := buildWorld(t, tweak{})
	good := sgx.TCS{OSSA: 0x11000, NSSA: 2}
	bad := sgx.TCS{OSSA: 0x11000, NSSA: 2, CSSA: 1, AEP: 0x4141414141414141, Flags: sgx.TCSDebugOptIn}
	b := bad.AppendTo(nil)
	b[0], b[100], b[sgx.PageSize-1] = 1, 1, 1 // busy, and reserved bytes
	f := w.take()
	race(t, writer, good.AppendTo(nil), b, func() {
		if o := w.m.EADD(w.secs, f, base+0x30000, sgx.SecInfo{Type: sgx.PageTCS}, reader); !o.OK() {
			return
		}
		if got, err := sgx.ParseTCS(w.b.Page(f)[:]); err != nil || got.CSSA != 0 || got.AEP != 0 || got.Flags != 0 || got.NSSA != 2 {
			t.Fatalf("in the EPC: %+v, %v", got, err)
		}
		if o := w.m.EREMOVE(f); !o.OK() {
			t.Fatal(o)
		}
	})
}

// TestRacePage: what is measured is what is in the EPC.
func TestRacePage(t *testing.T) {
	writer, reader := twice(t)
	m, err := New(newFake(4), Options{Root: [32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	s := sgx.SECS{Size: 1 << 16, BaseAddr: 0x7f0000000000, SSAFrameSize: 1, Attributes: sgx.Attributes{Flags: sgx.FlagMode64, XFRM: 3}}
	e, o := m.ECREATE(0, (*[sgx.PageSize]byte)(s.AppendTo(nil)))
	if !o.OK() {
		t.Fatal(o)
	}
	want := sgx.NewMeasurement()
	want.Create(s.SSAFrameSize, s.Size)
	a, b := make([]byte, sgx.PageSize), make([]byte, sgx.PageSize)
	for i := range b {
		b[i] = 0xff
	}
	info := sgx.SecInfo{Perm: sgx.PermR | sgx.PermX, Type: sgx.PageREG}
	race(t, writer, a, b, func() {
		if o := m.EADD(0, 1, s.BaseAddr, info, reader); !o.OK() {
			t.Fatal(o)
		}
		want.Add(0, info)
		for i := uint32(0); i < sgx.PageSize; i += sgx.ExtendSize {
			if o := m.EEXTEND(0, 1, i); !o.OK() {
				t.Fatal(o)
			}
		}
		want.ExtendPage(0, m.b.Page(1))
		if e.measure.Sum() != want.Sum() {
			t.Fatal("measured something else than what is in the EPC")
		}
		if o := m.EREMOVE(1); !o.OK() {
			t.Fatal(o)
		}
	})
}

// TestRaceSigStruct: an SVN that was not signed is never accepted.
func TestRaceSigStruct(t *testing.T) {
	writer, reader := twice(t)
	w := buildWorld(t, tweak{})
	w.sign()
	signed := w.sig
	good := signed.AppendTo(nil)
	bad := signed
	bad.ISVSVN, bad.ISVProdID = 0x7fff, 0x7fff
	bad.Attributes.Flags |= sgx.FlagDebug
	accepted := 0
	race(t, writer, good, bad.AppendTo(nil), func() {
		if o := w.m.EINIT(w.secs, reader[:sgx.SigStructSize]); !o.OK() {
			if o.Vector != 0 {
				t.Fatal(o)
			}
			return
		}
		accepted++
		if s := w.e.secs; s.ISVSVN != signed.ISVSVN || s.ISVProdID != signed.ISVProdID || s.MRSigner != signed.MRSigner() {
			t.Fatalf("accepted SVN %d, product %d", s.ISVSVN, s.ISVProdID)
		}
		w = buildWorld(t, tweak{})
	})
	t.Log(accepted, "accepted")
}

// racing puts a page of the enclave into memory that another thread writes to.
func (w *world) racing(t *testing.T, at uint64) (writer *[sgx.PageSize]byte) {
	writer, reader := twice(t)
	*writer = *w.b.Page(w.f[at])
	w.b.racing = map[Frame]*[sgx.PageSize]byte{w.f[at]: reader}
	return writer
}

// TestRaceKeyRequest: flipping the SVN in the request never gives the key of a
// higher one, and the key given is that of the lower one.
func TestRaceKeyRequest(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	writer := w.racing(t, dataAt)
	a := *writer
	copy(a[:], (&sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMRSigner, ISVSVN: 3}).AppendTo(nil))
	b := a
	b[4] = 4 // ISVSVN above the enclave's 3
	get := func() (key [16]byte, o Outcome) {
		c.Regs.RAX, c.Regs.RBX, c.Regs.RCX = uint64(sgx.EGETKEY), dataAt, dataAt+0x1000
		o = w.m.EGETKEY(c)
		copy(key[:], w.get(dataAt+0x1000, 16))
		return key, o
	}
	*writer = a
	want, o := get()
	if !o.OK() {
		t.Fatal(o)
	}
	race(t, writer, a[:], b[:], func() {
		switch key, o := get(); {
		case o.OK() && key != want:
			t.Fatal("another key")
		case !o.OK() && o != code(sgx.InvalidISVSVN):
			t.Fatal(o)
		}
	})
}

// TestRaceTargetInfo: a REPORT is for one of the two targets, whole.
func TestRaceTargetInfo(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	writer := w.racing(t, dataAt)
	var first, second sgx.TargetInfo
	second.MREnclave[7] = 1 // one byte: there is nothing between the two
	a, b := *writer, *writer
	copy(a[:], first.AppendTo(nil))
	copy(b[:], second.AppendTo(nil))
	race(t, writer, a[:], b[:], func() {
		c.Regs.RBX, c.Regs.RCX, c.Regs.RDX = dataAt, dataAt+0x1000, dataAt+0x1200
		if o := w.m.EREPORT(c); !o.OK() {
			t.Fatal(o)
		}
		r, err := sgx.ParseReport(w.get(dataAt+0x1200, sgx.ReportSize))
		if err != nil {
			t.Fatal(err)
		}
		if w.m.VerifyReport(r, &first) == w.m.VerifyReport(r, &second) {
			t.Fatal("the REPORT is for neither target, or for both")
		}
	})
}

// TestRaceSecInfo: permissions that EACCEPTCOPY must refuse never come into
// force, and those in force are those of the mapping.
func TestRaceSecInfo(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	writer := w.racing(t, dataAt)
	a, b := *writer, *writer
	copy(a[:], (sgx.SecInfo{Perm: sgx.PermR | sgx.PermX, Type: sgx.PageREG}).AppendTo(nil))
	copy(b[:], (sgx.SecInfo{Perm: sgx.PermW, Type: sgx.PageREG}).AppendTo(nil)) // W without R
	b[40] = 1                                                                   // and a reserved byte
	f, at := w.take(), uint64(base+0x30000)
	race(t, writer, a[:], b[:], func() {
		if o := w.m.EAUG(w.secs, f, at); !o.OK() {
			t.Fatal(o)
		}
		c.Regs.RBX, c.Regs.RCX, c.Regs.RDX = dataAt, at, dataAt+0x1000
		if o := w.m.EACCEPTCOPY(c); o.OK() {
			p, m := w.m.epcm[f], w.b.mapped[[2]uint64{w.e.ID(), at}]
			if p.perm&sgx.PermW != 0 && p.perm&sgx.PermR == 0 || p.pending || m.perm != p.perm || m.f != f {
				t.Fatalf("accepted %v, mapped %v", p.perm, m.perm)
			}
		} else if o.Vector != sgx.VectorGP || !w.m.epcm[f].pending {
			t.Fatal(o)
		}
		w.m.drop(f) // as if the enclave had ended: no leaf takes a page while a thread is inside
	})
}

// TestRaceSSA: another thread of the enclave changes the SSA frame while ERESUME
// reads it. What is loaded into the processor is what was looked at.
func TestRaceSSA(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	if o := w.m.AEX(c, false, 0, 0, 0); !o.OK() {
		t.Fatal(o)
	}
	resume := c.Regs
	writer := w.racing(t, ssaAt)
	tcs := w.b.Page(w.f[tcsAt])
	interrupted := *tcs
	a := *writer
	b := a
	b[512], b[513+7], b[24+3] = 0xff, 1, 0xff               // XSTATE_BV beyond XFRM, a reserved byte, MXCSR
	le.PutUint64(b[sgx.PageSize-sgx.GPRSize+136:], 1<<63)   // RIP
	le.PutUint64(b[sgx.PageSize-sgx.GPRSize+168:], 1<<62+1) // FS base
	resumed := 0
	race(t, writer, a[:], b[:], func() {
		c.Regs = resume
		o := w.m.ERESUME(c, w.e, next)
		if !xsaveOK(c.XSave[:576], 3) {
			t.Fatal("an image that XRSTOR refuses is to be loaded")
		}
		if !o.OK() {
			if o != gp || c.Inside() != nil {
				t.Fatal(o)
			}
			return
		}
		resumed++
		if !canonical(c.Regs.RIP) || !canonical(c.Regs.FSBase) {
			t.Fatalf("%#x %#x", c.Regs.RIP, c.Regs.FSBase)
		}
		// Back, as if interrupted at the same place, without writing the frame.
		w.m.scrub(c, tcs)
		*tcs = interrupted
	})
	t.Log(resumed, "resumed")
}
