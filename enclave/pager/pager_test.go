// SPDX-License-Identifier: Apache-2.0

package pager

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// memory is a monitor's backend in plain memory.
type memory [][sgx.PageSize]byte

func (b memory) Frames() int                                           { return len(b) }
func (b memory) Page(f monitor.Frame) *[sgx.PageSize]byte              { return &b[f] }
func (b memory) Map(*monitor.Enclave, uint64, monitor.Frame, sgx.Perm) {}
func (b memory) Unmap(*monitor.Enclave, uint64)                        {}
func (b memory) Shootdown(*monitor.Enclave)                            {}
func (b memory) Rand(p []byte) error                                   { p[0] = 1; return nil }
func (b memory) XSaveSize(uint64) uint64                               { return 576 }

const base = 0x7f0000000000

type world struct {
	t   *testing.T
	mu  sync.Mutex
	mem memory
	m   *monitor.Monitor
	p   *Pager
}

func newWorld(t *testing.T, frames, maxOut int) *world {
	t.Helper()
	w := &world{t: t, mem: make(memory, frames)}
	var err error
	if w.m, err = monitor.New(w.mem, monitor.Options{Root: [32]byte{1}}); err != nil {
		t.Fatal(err)
	}
	w.p = New(w.m, frames, maxOut, &w.mu)
	w.mu.Lock()
	t.Cleanup(w.mu.Unlock)
	return w
}

func (w *world) alloc() monitor.Frame {
	w.t.Helper()
	f, err := w.p.Alloc()
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// enclave makes one with pages pages; byte 0 of page i is i+1.
func (w *world) enclave(pages int) *Enclave {
	w.t.Helper()
	f := w.alloc()
	s := sgx.SECS{Size: 1 << 24, BaseAddr: base, SSAFrameSize: 1, Attributes: sgx.Attributes{Flags: sgx.FlagMode64, XFRM: 3}}
	if _, o := w.m.ECREATE(f, (*[sgx.PageSize]byte)(s.AppendTo(nil))); !o.OK() {
		w.t.Fatal(o)
	}
	e := w.p.NewEnclave(f)
	for i := range pages {
		f := w.alloc()
		content := [sgx.PageSize]byte{byte(i + 1)}
		at := uint64(base + i*sgx.PageSize)
		if o := w.m.EADD(e.secs, f, at, sgx.SecInfo{Perm: sgx.PermR | sgx.PermW, Type: sgx.PageREG}, &content); !o.OK() {
			w.t.Fatal(o)
		}
		e.Add(at, f, sgx.PageREG)
	}
	return e
}

func (w *world) check(e *Enclave, i int) {
	w.t.Helper()
	at := uint64(base + i*sgx.PageSize)
	if err := e.In(at); err != nil {
		w.t.Fatalf("page %d: %v", i, err)
	}
	if got := w.mem[e.pages[at].frame][0]; got != byte(i+1) {
		w.t.Fatalf("page %d holds %d", i, got)
	}
}

// outside finds pages that have left.
func (e *Enclave) outsidePages() (out []*page) {
	for _, pg := range e.pages {
		if pg.frame == monitor.NoFrame {
			out = append(out, pg)
		}
	}
	return out
}

func TestOutAndBack(t *testing.T) {
	w := newWorld(t, 64, 0)
	e := w.enclave(200)
	if n := len(e.outsidePages()); n < 130 || n != w.p.Stats().Outside {
		t.Errorf("%d pages are outside, %+v", n, w.p.Stats())
	}
	for range 2000 {
		w.check(e, rand.IntN(200))
	}
	for _, pg := range e.outsidePages() {
		if !e.Absent(pg.linear+5) || !e.Has(pg.linear) {
			t.Fatal("a page outside is not reported")
		}
	}
	if e.Has(base+200*sgx.PageSize) || e.Absent(base+200*sgx.PageSize) {
		t.Error("a page that does not exist is reported")
	}
	if err := e.Remove(); err != nil {
		t.Error(err)
	}
	if s := w.p.Stats(); s.InUse != 0 || s.Outside != 0 || s.Evicted-s.Loaded > 200 {
		t.Errorf("%+v", s)
	}
	for f := range w.mem {
		if w.mem[f] != [sgx.PageSize]byte{} {
			t.Fatalf("frame %d was not wiped", f)
		}
	}
}

// TestReplayed: a page that comes back altered, exchanged or in an old version
// is refused, and stays refused.
func TestReplayed(t *testing.T) {
	for what, change := range map[string]func(w *world, e *Enclave, a, b *page){
		"altered":    func(_ *world, _ *Enclave, a, _ *page) { a.blob.Data[100] ^= 1 },
		"exchanged":  func(_ *world, _ *Enclave, a, b *page) { a.blob, b.blob = b.blob, a.blob },
		"other slot": func(_ *world, _ *Enclave, a, b *page) { a.slot, b.slot = b.slot, a.slot },
		"permission": func(_ *world, _ *Enclave, a, _ *page) { a.blob.Info.Perm |= sgx.PermX },
		"old version": func(w *world, e *Enclave, a, _ *page) {
			old := *a.blob
			w.check(e, int(a.linear-base)/sgx.PageSize) // in ...
			for i := 0; a.frame != monitor.NoFrame; i++ {
				w.check(e, i%200) // ... and out again
			}
			a.blob = &old
		},
	} {
		w := newWorld(t, 64, 0)
		e := w.enclave(200)
		out := e.outsidePages()
		a := out[0]
		change(w, e, a, out[1])
		for range 2 {
			if err := e.In(a.linear); !errors.Is(err, ErrLost) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := e.Remove(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if s := w.p.Stats(); s.InUse != 0 {
			t.Errorf("%s: %+v", what, s)
		}
		w.mu.Unlock()
		w.mu.Lock()
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, 64, 20)
	e := w.enclave(60)
	if _, err := w.p.Alloc(); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 100 {
		if _, err = w.p.Alloc(); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) || w.p.Stats().Outside != 20 {
		t.Errorf("%v, %+v", err, w.p.Stats())
	}
	if err := e.Remove(); err != nil {
		t.Error(err)
	}
	small := newWorld(t, 20, 0)
	small.enclave(18)
	if _, err := small.p.Alloc(); !errors.Is(err, ErrFull) {
		t.Errorf("an enclave with no room to run was thinned out: %v", err)
	}
}

// TestManyEnclaves: a random history of enclaves that come, work and go.
func TestManyEnclaves(t *testing.T) {
	w := newWorld(t, 128, 0)
	live := map[*Enclave]int{}
	for range 400 {
		if len(live) < 6 && rand.IntN(3) > 0 {
			n := 1 + rand.IntN(90)
			live[w.enclave(n)] = n
		}
		for e, n := range live {
			for range 10 {
				w.check(e, rand.IntN(n))
			}
			if rand.IntN(8) == 0 {
				if err := e.Remove(); err != nil {
					t.Fatal(err)
				}
				delete(live, e)
			}
			break
		}
	}
	for e := range live {
		if err := e.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if s := w.p.Stats(); s.InUse != 0 || s.Outside != 0 || s.Evicted == 0 {
		t.Errorf("%+v", s)
	}
}
