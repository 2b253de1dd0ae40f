// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package urts

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/urts/probe"
)

// application plays an application: its memory is a file, in which the byte at
// address a is at offset a-appBase+appShift.
const (
	appBase  = 0x5555_0000_0000
	appShift = 0x10_0000
	appStack = appBase + 0x40_0000
	appSize  = 1 << 20
)

type application struct {
	t      *testing.T
	f      *os.File
	faults []uint64
	grant  func(addr uint64) (epc.Region, bool)
	e      *Enclave
	h      *Held
}

func newApplication(t *testing.T, threads int, o Options) *application {
	t.Helper()
	fd, err := unix.MemfdCreate("application", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	a := &application{t: t, f: os.NewFile(uintptr(fd), "application")}
	if err := a.f.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	a.grant = func(addr uint64) (epc.Region, bool) {
		at := addr &^ 4095
		return epc.Region{Addr: at, Size: 4096, Offset: at - appBase + appShift, Write: true}, at >= appBase && at < appBase+1<<30
	}
	o.App = dup(t, a.f)
	t.Cleanup(func() { a.f.Close() })
	a.e = load(t, platform(t, 128), threads, o)
	if a.h, err = a.e.Hold(); err != nil {
		t.Fatal(err)
	}
	return a
}

func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "application")
}

func (a *application) put(addr, v uint64) {
	a.t.Helper()
	if _, err := a.f.WriteAt(le.AppendUint64(nil, v), int64(addr-appBase+appShift)); err != nil {
		a.t.Fatal(err)
	}
}

func (a *application) get(addr uint64) uint64 {
	a.t.Helper()
	var b [8]byte
	if _, err := a.f.ReadAt(b[:], int64(addr-appBase+appShift)); err != nil {
		a.t.Fatal(err)
	}
	return le.Uint64(b[:])
}

func (a *application) service(o CallFunc) Service {
	return Service{OCall: o, Fault: func(addr uint64) (epc.Region, bool) {
		a.faults = append(a.faults, addr)
		return a.grant(addr)
	}}
}

func (a *application) ecall(cmd int, ms uint64) error {
	return a.h.ECall(cmd, ms, appStack, appSize, a.service(nil))
}

// TestApplicationMemory: the enclave reads and writes the application's memory
// where it lies, by grants on demand; what was revoked is asked for again, and
// what is refused is a page fault.
func TestApplicationMemory(t *testing.T) {
	a := newApplication(t, 1, Options{})
	const x, y = appBase + 0x2010, appBase + 0x9000
	a.put(x, 0xfeed)
	for range 2 { // the second time nothing is asked
		if err := a.ecall(probe.Put, x); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.ecall(probe.Get, y); err != nil || a.get(y) != 0xfeed {
		t.Fatalf("%#x, %v", a.get(y), err)
	}
	if want := []uint64{x &^ 4095, y}; len(a.faults) != 2 || a.faults[0] != want[0] || a.faults[1] != want[1] {
		t.Errorf("faults at %#x, want %#x", a.faults, want)
	}
	if err := a.e.Revoke(x&^4095, 4096); err != nil {
		t.Fatal(err)
	}
	if err := a.ecall(probe.Put, x); err != nil || len(a.faults) != 3 {
		t.Errorf("after Revoke: %v, faults %#x", err, a.faults)
	}
	// A page that may be read only is not written to.
	a.grant = func(addr uint64) (epc.Region, bool) {
		return epc.Region{Addr: addr, Size: 4096, Offset: addr - appBase + appShift}, true
	}
	if err := a.ecall(probe.Put, appBase+0x20000); err != nil {
		t.Errorf("reading a page: %v", err)
	}
	if err := a.ecall(probe.Get, appBase+0x20000); !errors.Is(err, ErrCrashed) {
		t.Errorf("writing to a page that may only be read: %v", err)
	}
}

// TestApplicationRefuses: bad grants end in a page fault, never in a mapping.
func TestApplicationRefuses(t *testing.T) {
	for what, r := range map[string]epc.Region{
		"nothing":               {},
		"another place":         {Addr: appBase + 0x8000, Size: 4096},
		"inside the enclave":    {Addr: enclaveBase, Size: 1 << 50},
		"over the enclave":      {Addr: 0x1000_0000_0000, Size: 0x2000_0000_0000},
		"the stub":              {Addr: 0x10000, Size: 1 << 46},
		"not aligned":           {Addr: appBase + 0x2008, Size: 4096},
		"half a page":           {Addr: appBase + 0x2000, Size: 2048},
		"offset not aligned":    {Addr: appBase + 0x2000, Size: 4096, Offset: 1},
		"over the end":          {Addr: appBase + 0x2000, Size: 1 << 47},
		"over the shared":       {Addr: MemoryAddr, Size: appBase},
		"wraps around":          {Addr: appBase + 0x2000, Size: ^uint64(0) &^ 4095},
		"an impossible offset":  {Addr: appBase + 0x2000, Size: 4096, Offset: 1 << 63},
		"beyond the file's end": {Addr: appBase + 0x2000, Size: 4096, Offset: 1 << 50},
	} {
		a := newApplication(t, 1, Options{})
		a.grant = func(uint64) (epc.Region, bool) { return r, true }
		if err := a.ecall(probe.Put, appBase+0x2000); !errors.Is(err, ErrCrashed) {
			t.Errorf("%s: %v", what, err)
		}
		a.h.Release()
		a.e.Close()
	}
}

// TestApplicationOCall: an OCALL's structure lies on the application's stack,
// nested calls and their limits too.
func TestApplicationOCall(t *testing.T) {
	a := newApplication(t, 1, Options{})
	a.put(appBase, 77)
	var got []uint64
	err := a.h.ECall(probe.OCall, appBase+8, appStack, appSize, a.service(func(c *Call, index int, ms uint64) uint32 {
		got = append(got, uint64(index), ms)
		if err := c.ECall(probe.Put, appBase, nil); err != nil {
			t.Errorf("nested: %v", err)
		}
		return 42
	}))
	if !errors.Is(err, StatusError(42)) || len(got) != 2 || got[0] != 5 || got[1] != appBase+8 {
		t.Errorf("%v %#x", err, got)
	}
	if err := a.ecall(probe.Get, appBase+16); err != nil || a.get(appBase+16) != 77 {
		t.Errorf("%v", err)
	}
	for what, bad := range map[string][2]uint64{"too small": {appStack, 4096}, "beyond": {1 << 47, 1 << 20}} {
		if err := a.h.ECall(probe.Get, appBase, bad[0], bad[1], a.service(nil)); err == nil {
			t.Errorf("a stack that is %s was taken", what)
		}
	}
	if err := a.h.ECall(-2, appBase, appStack, appSize, a.service(nil)); err == nil {
		t.Error("the command ORET was passed on")
	}
}

// TestHold: no thread is waited for, and what is released can be taken.
func TestHold(t *testing.T) {
	a := newApplication(t, 2, Options{})
	b, err := a.e.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.e.Hold(); !errors.Is(err, ErrNoThread) {
		t.Errorf("a third of two threads: %v", err)
	}
	b.Release()
	if b, err = a.e.Hold(); err != nil {
		t.Error(err)
	} else {
		b.Release()
	}
}

// TestRevokeWhileRunning: a thread that runs inside loses the page before Revoke
// returns.
func TestRevokeWhileRunning(t *testing.T) {
	a := newApplication(t, 1, Options{})
	page := a.grant
	var refuse atomic.Bool
	a.grant = func(addr uint64) (epc.Region, bool) {
		r, ok := page(addr)
		return r, ok && !refuse.Load()
	}
	done := make(chan error, 1)
	go func() { done <- a.ecall(probe.Loop, appBase) }()
	for granted := false; !granted; time.Sleep(time.Millisecond) {
		a.e.p.Mu.Lock()
		_, granted = a.e.p.Region(a.e.e, appBase)
		a.e.p.Mu.Unlock()
	}
	refuse.Store(true)
	if err := a.e.Revoke(appBase, 4096); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, ErrCrashed) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the enclave still reads what was revoked")
	}
}

// TestStackStaysLower: what the enclave took of the untrusted stack it keeps
// through exceptions and interrupts.
func TestStackStaysLower(t *testing.T) {
	a := newApplication(t, 1, Options{})
	for range 20 {
		if err := a.ecall(probe.Lower, appBase); err != nil {
			t.Fatal(err)
		}
	}
	e := load(t, platform(t, 64), 1, Options{})
	for range 20 {
		ecall(t, e, probe.Lower, 0)
	}
}
