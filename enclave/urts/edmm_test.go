// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package urts

import (
	"errors"
	"testing"

	"holdfast/enclave/sgx"
	"holdfast/enclave/urts/probe"
)

// SECINFO flags as the enclave gives them to EACCEPT.
const (
	regR        = 0x201
	regRW       = 0x203
	regRPR      = 0x221
	trimDone    = 0x410 // TRIM, modified
	tcsDone     = 0x110 // TCS, modified
	regRWNew    = 0x20b
	pages       = 8
	regReserved = 0x80
)

// edmm is an enclave with a heap of some pages, its structures in the memory of
// its application or, for the Go runtime, in Memory.
type edmm struct {
	t    *testing.T
	e    *Enclave
	call func(cmd int, words ...uint64) error
	ask  func(index int64, words ...uint64) (error, uint32)
}

func newEDMM(t *testing.T, app bool, o Options) *edmm {
	t.Helper()
	img, err := probe.Image(2, pages, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := platform(t, 128)
	d := &edmm{t: t}
	put := func(words []uint64) []byte {
		var b []byte
		for _, w := range words {
			b = le.AppendUint64(b, w)
		}
		return b
	}
	if app {
		a := newApplication(t, 1, o)
		a.e.Close()
		o.App = dup(t, a.f)
		if d.e, err = Load(p, img, o); err != nil {
			t.Fatal(err)
		}
		if a.h, err = d.e.Hold(); err != nil {
			t.Fatal(err)
		}
		write := func(at uint64, words []uint64) {
			for i, w := range words {
				a.put(at+8*uint64(i), w)
			}
		}
		d.call = func(cmd int, words ...uint64) error {
			write(appBase, words)
			return a.ecall(cmd, appBase)
		}
		d.ask = func(index int64, words ...uint64) (error, uint32) {
			write(appBase+0x800, words)
			err := d.call(probe.Ask, uint64(index), appBase+0x800)
			return err, uint32(a.get(appBase + 0x800))
		}
	} else {
		if d.e, err = Load(p, img, o); err != nil {
			t.Fatal(err)
		}
		at, b := ms(t, d.e, 4096)
		d.call = func(cmd int, words ...uint64) error {
			copy(b, put(words))
			return d.e.ECall(cmd, at)
		}
		d.ask = func(index int64, words ...uint64) (error, uint32) {
			copy(b[2048:], put(words))
			err := d.call(probe.Ask, uint64(index), at+2048)
			return err, le.Uint32(b[2048:])
		}
	}
	t.Cleanup(d.e.Close)
	return d
}

func (d *edmm) must(what string, err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("%s: %v", what, err)
	}
}

func both(t *testing.T, f func(t *testing.T, d *edmm)) {
	for name, app := range map[string]bool{"memory": false, "application": true} {
		t.Run(name, func(t *testing.T) { f(t, newEDMM(t, app, Options{})) })
	}
}

const heapAt = enclaveBase + probe.OffHeap

// TestTrim: pages are trimmed, accepted, removed and come anew, by the older
// requests (-2, -3) and the newer one (-7).
func TestTrim(t *testing.T) {
	both(t, func(t *testing.T, d *edmm) {
		d.must("fill", d.call(probe.Fill, probe.OffHeap, pages, 5))
		before := stats(d.e.p).InUse
		err, _ := d.ask(edmmTrim, heapAt, heapAt+3*4096)
		d.must("TRIM", err)
		if err, _ = d.ask(edmmCommit, heapAt); !errors.Is(err, StatusError(statusParameter)) {
			t.Errorf("removed before the enclave accepted: %v", err)
		}
		d.must("EACCEPT", d.call(probe.AcceptAs, probe.OffHeap, trimDone, 3))
		for i := range uint64(3) {
			err, _ := d.ask(edmmCommit, heapAt+i*4096)
			d.must("COMMIT", err)
		}
		if err, _ = d.ask(edmmCommit, heapAt); !errors.Is(err, StatusError(statusParameter)) {
			t.Errorf("removed twice: %v", err)
		}
		err, result := d.ask(edmmModify, 0, heapAt+3*4096, 4096, emaREG|3|uint64(emaTrim|3)<<32)
		d.must("MODIFY to TRIM", err)
		d.must("EACCEPT", d.call(probe.AcceptAs, probe.OffHeap+3*4096, trimDone, 1))
		if result != 0 {
			t.Errorf("MODIFY to TRIM: result %d", result)
		}
		if err, result = d.ask(edmmModify, 0, heapAt+3*4096, 4096, emaTrim|uint64(emaTrim)<<32); err != nil || result != 0 {
			t.Errorf("MODIFY from TRIM to TRIM: %v, %d", err, result)
		}
		if n := before - stats(d.e.p).InUse; n != 4 {
			t.Errorf("%d pages came back, want 4", n)
		}
		d.must("the pages that stay", d.call(probe.Check, probe.OffHeap+4*4096, pages-4, 5+4))
		// The removed pages may come again, empty.
		if err, result = d.ask(edmmAlloc, 0, heapAt, 2*4096, emaREG|3|4<<32); err != nil || result != 0 {
			t.Errorf("ALLOC: %v, %d", err, result)
		}
		d.must("EACCEPT of new pages", d.call(probe.AcceptAs, probe.OffHeap, regRWNew, 2))
		d.must("fill the new pages", d.call(probe.Fill, probe.OffHeap, 2, 9))
		d.must("check the new pages", d.call(probe.Check, probe.OffHeap, 2, 9))
	})
}

// TestTrimmedIsGone: a trimmed page cannot be touched, accepted or not.
func TestTrimmedIsGone(t *testing.T) {
	both(t, func(t *testing.T, d *edmm) {
		err, _ := d.ask(edmmTrim, heapAt, heapAt+4096)
		d.must("TRIM", err)
		if err := d.call(probe.Touch, probe.OffHeap); !errors.Is(err, ErrCrashed) {
			t.Errorf("%v", err)
		}
	})
}

// TestRestrict: permissions go by request and come back by EMODPE.
func TestRestrict(t *testing.T) {
	both(t, func(t *testing.T, d *edmm) {
		err, _ := d.ask(edmmModPR, heapAt, 4096, 1)
		d.must("MODPR", err)
		d.must("EACCEPT", d.call(probe.AcceptAs, probe.OffHeap, regRPR, 1))
		err, _ = d.ask(edmmProtect, heapAt, 4096, 1)
		d.must("MPROTECT", err)
		d.must("EMODPE", d.call(probe.Extend, probe.OffHeap, regRW))
		d.must("write", d.call(probe.Touch, probe.OffHeap))
		err, result := d.ask(edmmModify, 0, heapAt, 4096, emaREG|3|uint64(emaREG|1)<<32)
		if err != nil || result != 0 {
			t.Errorf("MODIFY to read only: %v %d", err, result)
		}
		d.must("EACCEPT", d.call(probe.AcceptAs, probe.OffHeap, regRPR, 1))
		if err := d.call(probe.Touch, probe.OffHeap); !errors.Is(err, ErrCrashed) {
			t.Errorf("writing to a page that may be read only: %v", err)
		}
	})
}

// TestMadeThread: the enclave makes a TCS of a page and accepts it; the
// application gets one thread more.
func TestMadeThread(t *testing.T) {
	a := newApplication(t, 1, Options{})
	a.e.Close()
	img, err := probe.Image(1, pages, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.e, err = Load(platform(t, 128), img, Options{App: dup(t, a.f)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.e.Close)
	if a.h, err = a.e.Hold(); err != nil {
		t.Fatal(err)
	}
	call := func(cmd int, words ...uint64) error {
		for i, w := range words {
			a.put(appBase+8*uint64(i), w)
		}
		return a.ecall(cmd, appBase)
	}
	// Its SSA frames are the two heap pages behind it.
	tcs := (&sgx.TCS{OSSA: probe.OffHeap + 4096, NSSA: 2, FSLimit: 0xfff, GSLimit: 0xfff}).AppendTo(nil)
	words := []uint64{probe.OffHeap, 72}
	for i := 0; i < 72; i += 8 {
		words = append(words, le.Uint64(tcs[i:]))
	}
	if err := call(probe.Poke, words...); err != nil {
		t.Fatal(err)
	}
	for i, w := range []uint64{0, heapAt, 4096, emaREG | 3 | uint64(emaTCS)<<32} {
		a.put(appBase+0x800+8*uint64(i), w)
	}
	if err := call(probe.Ask, ^uint64(6), appBase+0x800); err != nil || uint32(a.get(appBase+0x800)) != 0 {
		t.Fatalf("MODIFY to TCS: %v, %d", err, a.get(appBase+0x800))
	}
	if _, err := a.e.Hold(); !errors.Is(err, ErrNoThread) {
		t.Errorf("a thread that the enclave did not accept: %v", err)
	}
	if err := call(probe.AcceptAs, probe.OffHeap, tcsDone, 1); err != nil {
		t.Fatal(err)
	}
	h, err := a.e.Hold()
	if err != nil {
		t.Fatal(err)
	}
	a.put(appBase, 99)
	if err := h.ECall(probe.Put, appBase, appStack, appSize, a.service(nil)); err != nil {
		t.Error(err)
	}
	if err := a.ecall(probe.Get, appBase+8); err != nil || a.get(appBase+8) != 99 {
		t.Errorf("%v", err)
	}
	h.Release()
	if h, err = a.e.Hold(); err != nil {
		t.Error("the thread was not given back")
	} else {
		h.Release()
	}
}

// TestEDMMRefused: a hostile runtime asks for what is not its own, is not there,
// or makes no sense. Nothing of the enclave changes.
func TestEDMMRefused(t *testing.T) {
	both(t, func(t *testing.T, d *edmm) {
		d.must("fill", d.call(probe.Fill, probe.OffHeap, pages, 5))
		const end = enclaveBase + 1<<19
		for _, c := range []struct {
			what  string
			index int64
			words []uint64
		}{
			{"TRIM below ELRANGE", edmmTrim, []uint64{heapAt - 1<<40, heapAt}},
			{"TRIM beyond ELRANGE", edmmTrim, []uint64{heapAt, end + 4096}},
			{"TRIM backwards", edmmTrim, []uint64{heapAt + 4096, heapAt}},
			{"TRIM of nothing", edmmTrim, []uint64{heapAt, heapAt}},
			{"TRIM not aligned", edmmTrim, []uint64{heapAt + 8, heapAt + 4096 + 8}},
			{"TRIM of a hole", edmmTrim, []uint64{enclaveBase + probe.OffNew, enclaveBase + probe.OffNew + 4096}},
			{"TRIM with a hole behind", edmmTrim, []uint64{heapAt, heapAt + (pages+1)*4096}},
			{"TRIM of the application", edmmTrim, []uint64{0x7000_0000_0000, 0x7000_0000_1000}},
			{"TRIM of everything", edmmTrim, []uint64{0, ^uint64(0) &^ 4095}},
			{"COMMIT of a live page", edmmCommit, []uint64{heapAt}},
			{"COMMIT elsewhere", edmmCommit, []uint64{0x1000}},
			{"MODPR of a TCS", edmmModPR, []uint64{enclaveBase + offTCS, 4096, 1}},
			{"MODPR with unknown bits", edmmModPR, []uint64{heapAt, 4096, regReserved | 1}},
			{"MODPR to W without R", edmmModPR, []uint64{heapAt, 4096, 2}},
			{"MODPR that wraps around", edmmModPR, []uint64{heapAt, ^uint64(0) &^ 4095, 1}},
			{"MPROTECT elsewhere", edmmProtect, []uint64{0x400000, 4096, 1}},
			{"MPROTECT with unknown bits", edmmProtect, []uint64{heapAt, 4096, 8}},
		} {
			if err, _ := d.ask(c.index, c.words...); err == nil {
				t.Errorf("%s: done", c.what)
			}
		}
		for what, w := range map[string][4]uint64{
			"ALLOC elsewhere":       {0, 0x400000, 4096, emaREG | 3},
			"MODIFY elsewhere":      {1, 0x400000, 4096, emaREG | 3 | uint64(emaTrim|3)<<32},
			"MODIFY TRIM to REG":    {1, heapAt, 4096, emaTrim | 3 | uint64(emaREG|3)<<32},
			"MODIFY REG to SECS":    {1, heapAt, 4096, emaREG | 3 | 3<<32},
			"MODIFY two to TCS":     {1, heapAt, 8192, emaREG | 3 | uint64(emaTCS)<<32},
			"MODIFY TCS to TCS":     {1, enclaveBase + offTCS, 4096, emaTCS | uint64(emaTCS)<<32},
			"MODIFY type and right": {1, heapAt, 4096, emaREG | 3 | uint64(emaTrim|1)<<32},
			"MODIFY a live page":    {1, heapAt, 4096, emaTrim | uint64(emaTrim)<<32},
		} {
			index := int64(edmmModify)
			if w[0] == 0 {
				index = edmmAlloc
			}
			if err, result := d.ask(index, 0, w[1], w[2], w[3]); err != nil || result == 0 {
				t.Errorf("%s: %v, result %d", what, err, int32(result))
			}
		}
		for what, at := range map[string]uint64{"inside the enclave": heapAt, "in nobody's memory": 0x6000_0000_0000, "at the end": ^uint64(0) - 3} {
			for index := int64(edmmModify); index <= edmmTrim; index++ {
				if err := d.call(probe.Ask, uint64(index), at); err == nil {
					t.Errorf("OCALL %d with a structure %s: done", index, what)
				}
			}
		}
		d.must("check", d.call(probe.Check, probe.OffHeap, pages, 5))
	})
}
