// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package urts

import (
	"errors"
	"testing"
	"time"

	"holdfast/enclave/epc"
	"holdfast/enclave/kvm"
	"holdfast/enclave/monitor"
	"holdfast/enclave/urts/probe"
	"holdfast/test/host"
)

// inP loads the enclave for P mode.
func inP(t *testing.T) (*epc.Platform, *Enclave) {
	t.Helper()
	host.Need(t, "kvm", "enclave-p")
	p, err := kvm.New(128, monitor.Options{Root: [32]byte{1}}, kvm.P)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, loadP(t, p)
}

func loadP(t *testing.T, p *epc.Platform) *Enclave {
	t.Helper()
	img, err := probe.PImage()
	if err != nil {
		t.Fatal(err)
	}
	e, err := Load(p, img, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// TestPHandlesItself: exceptions reach the enclave's handler without the
// monitor; what one costs is logged beside one that the monitor handles.
func TestPHandlesItself(t *testing.T) {
	p, e := inP(t)
	at, b := ms(t, e, 16)
	run := func(cmd int, n uint64) time.Duration {
		le.PutUint64(b, n)
		begin := time.Now()
		ecall(t, e, cmd, at)
		if got := le.Uint64(b[8:]); got != n {
			t.Fatalf("%d of %d were handled", got, n)
		}
		return time.Since(begin)
	}
	each := func(cmd int, n uint64) time.Duration {
		run(cmd, 1)
		one := run(cmd, 1)
		return max(1, (run(cmd, n)-one)/time.Duration(n-1))
	}
	ud, pf := each(probe.PUD, 5000), each(probe.PFault, 20000)
	two := load(t, p, 1, Options{})
	at2, _ := ms(t, two, 16)
	took := func(cmd int) time.Duration {
		const rounds = 40
		ecall(t, two, cmd, at2)
		begin := time.Now()
		for range rounds {
			ecall(t, two, cmd, at2)
		}
		return time.Since(begin) / rounds
	}
	through := took(cmdUD) - took(cmdPut)
	ratio := func(d time.Duration) float64 { return float64(through) / float64(d) }
	t.Logf("an exception through the monitor (two phases): %v; handled inside: illegal instruction %v (ratio %.0f), page fault %v (ratio %.0f)", through, ud, ratio(ud), pf, ratio(pf))
	if ud > through || pf > through {
		t.Error("handling inside is not cheaper")
	}
}

// TestPSandbox: a part of the enclave is kept from a page by page tables of the
// enclave's own.
func TestPSandbox(t *testing.T) {
	_, e := inP(t)
	at, b := ms(t, e, 32)
	for range 2 { // each entry starts with the monitor's tables
		ecall(t, e, probe.PSandbox, at)
		if denied, allowed, faults, where := le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]); denied != 0xdead || allowed != 0x5ec4e7 || faults != 2 || where != enclaveBase+0x45000 {
			t.Errorf("denied %#x, allowed %#x, %d faults, the last at %#x", denied, allowed, faults, where)
		}
	}
}

// TestPCountsInterrupts: the enclave can count its asynchronous exits.
func TestPCountsInterrupts(t *testing.T) {
	_, e := inP(t)
	at, b := ms(t, e, 16)
	done := make(chan error, 1)
	go func() { done <- e.ECall(probe.PCount, at) }()
	for range 30 {
		time.Sleep(time.Millisecond)
		e.all[0].t.Interrupt()
	}
	b[0] = 1
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := le.Uint64(b[8:]); n == 0 || n > 1000 {
		t.Errorf("%d interrupts counted", n)
	}
}

// TestPHostile: ring 0 gains nothing over ring 3.
func TestPHostile(t *testing.T) {
	p, e := inP(t)
	e.Close()
	for _, c := range []struct {
		what  string
		n     uint64
		class string // that is counted; "" for an exception that the enclave does not handle
		ends  bool   // ErrForbidden
	}{
		{"port output", 0, "port input or output", true},
		{"port input", 11, "port input or output", true},
		{"read APIC_BASE", 1, "machine register", false},
		{"write VM_HSAVE_PA", 10, "machine register", false},
		{"page tables that lead outside", 2, "memory outside", true},
		{"page tables that lead to its TCS", 6, "memory outside", true},
		{"write to the stub's code", 7, "memory outside", true},
		{"write to its own measured code by another mapping", 8, "memory outside", true},
		{"triple fault", 3, "shutdown", true},
		{"switch paging off", 5, "", false},
		{"forge the stub's exit", 9, "", false},
	} {
		e := loadP(t, p)
		at, b := ms(t, e, 24)
		le.PutUint64(b, c.n)
		p.Mu.Lock()
		before := p.Refused()[c.class]
		p.Mu.Unlock()
		err := e.ECall(probe.PHostile, at)
		p.Mu.Lock()
		counted := p.Refused()[c.class] - before
		p.Mu.Unlock()
		if !errors.Is(err, ErrCrashed) || errors.Is(err, epc.ErrForbidden) != c.ends || (counted == 0) != (c.class == "") {
			t.Errorf("%s: %v, counted %d", c.what, err, counted)
		}
		e.Close()
	}
	e = loadP(t, p)
	at, b := ms(t, e, 24)
	le.PutUint64(b, 4)
	ecall(t, e, probe.PHostile, at)
	for i, r := range []int64{int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:]))} {
		if r >= 0 {
			t.Errorf("hypercall %d returned %d", i, r)
		}
	}
	e.Close()
	if p.InUse() != 0 {
		t.Errorf("%d pages are still in use", p.InUse())
	}
}
