// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package urts

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
	"holdfast/enclave/urts/probe"
)

// What several threads do at once, in each mode. The structures that leaves read
// are raced harder, without enclave code, in enclave/monitor.

// rounds is how often something that costs world switches is tried; GU and P are
// emulated in the tests.
func rounds(normal, short int) int {
	if testing.Short() {
		return short
	}
	return normal
}

// until waits for a fact.
func until(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !fact(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within two minutes: ", what)
		}
	}
}

// TestRaceOneTCS: threads that all enter by one TCS. One at a time gets in; the
// others get #GP.
func TestRaceOneTCS(t *testing.T) {
	const racers = 3
	p := platform(t, 128)
	e := load(t, p, 1, Options{})
	var in, refusals atomic.Uint64
	var all sync.WaitGroup
	for i := range uint64(racers) {
		th, err := p.NewThread(e.e, e.shared...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(th.Close)
		low, err := e.Memory.Alloc(stackSize)
		if err != nil {
			t.Fatal(err)
		}
		s := &slot{tcs: e.all[0].tcs, t: th, low: low, stack: low + stackSize - 64}
		s.cpu.XSave = make([]byte, len(e.all[0].cpu.XSave))
		at, b := ms(t, e, 16)
		le.PutUint64(b, at) // the entry reads its own structure
		all.Go(func() {
			for wins := 0; wins < rounds(300, 30); {
				status, err := e.enter(s, probe.Peek, at, s.stack, nil)
				var l *LeafError
				switch {
				case err == nil && status == 0:
					in.Add(1)
					wins++
					if s.cpu.Inside() != nil {
						t.Error("still inside")
					}
				case errors.As(err, &l) && l.Outcome.Vector == sgx.VectorGP:
					refusals.Add(1)
					runtime.Gosched()
				default:
					t.Errorf("racer %d: %v, status %d", i, err, status)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d got in, %d were refused", in.Load(), refusals.Load())
	if n := e.Stats().Refused; n != refusals.Load() {
		t.Errorf("counted %d refusals", n)
	}
	at, _ := ms(t, e, 16)
	ecall(t, e, cmdPut, at) // the TCS is free
}

// TestRaceKeys: one thread of the enclave turns the SVN in a KEYREQUEST to and
// fro between its own and a higher one while another asks for keys by it. Only
// the key of its own SVN ever comes.
func TestRaceKeys(t *testing.T) {
	img, err := probe.Image(2, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := platform(t, 128)
	e, err := Load(p, img, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	k := sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMRSigner, ISVSVN: 2}
	own := le.Uint64(k.AppendTo(nil))
	k.ISVSVN = 3
	higher := le.Uint64(k.AppendTo(nil))
	keys := func(at uint64, b []byte, tries int) {
		le.PutUint64(b, probe.OffHeap)
		le.PutUint64(b[8:], uint64(tries))
		ecall(t, e, probe.Keys, at)
	}
	at, b := ms(t, e, 48)
	flipAt, f := ms(t, e, 48)
	flip := func(a, b uint64, stop uint64) {
		for i, v := range []uint64{probe.OffHeap, a, b, stop} {
			le.PutUint64(f[8*i:], v)
		}
	}
	flip(own, own, 1) // once: the request is there
	ecall(t, e, probe.Flip, flipAt)
	keys(at, b, 1)
	if le.Uint64(b[16:]) != 1 {
		t.Fatal("no key")
	}
	want := le.Uint64(b[40:])
	flip(own, higher, 0)
	flipped := make(chan error, 1)
	go func() { flipped <- e.ECall(probe.Flip, flipAt) }()
	until(t, "the flipper runs", func() bool { return le.Uint64(f[32:]) > 1000 })
	tries := rounds(4000, 400)
	keys(at, b, tries)
	le.PutUint64(f[24:], 1)
	if err := <-flipped; err != nil {
		t.Error(err)
	}
	came, differed, refused := le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:])
	t.Logf("%d keys, %d refused, %d changes of the request", came, refused, le.Uint64(f[32:]))
	if differed != 0 || came > 0 && le.Uint64(b[40:]) != want || came+refused != uint64(tries) {
		t.Errorf("of %d keys %d differed, %#x, want %#x", came, differed, le.Uint64(b[40:]), want)
	}
}

// TestRaceRequest: the application changes the structure with which an enclave
// asks for fewer permissions, while the monitor reads it. What is applied is one
// of the requests that were there, to a page that was named.
func TestRaceRequest(t *testing.T) {
	img, err := probe.Image(1, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := platform(t, 128)
	e, err := Load(p, img, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	at, b := ms(t, e, 64)
	const heap = enclaveBase + probe.OffHeap
	index := int64(edmmModPR)
	le.PutUint64(b, uint64(index))
	le.PutUint64(b[8:], at+16)
	// The application's own mapping, which the race detector takes for other memory.
	all, err := unix.Mmap(int(e.Memory.File().Fd()), 0, int(e.Memory.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	b = all[at-MemoryAddr:]
	var stop atomic.Bool
	flips := make(chan uint64)
	go func() {
		n := uint64(0)
		for ; !stop.Load(); n++ {
			perm, page := uint64(3), uint64(heap)
			if n%2 == 1 {
				perm, page = 0x300, 0x1000 // nothing that may be asked for, outside
			}
			le.PutUint64(b[16:], page)
			le.PutUint64(b[24:], 4096)
			le.PutUint64(b[32:], perm)
		}
		flips <- n
	}()
	applied := 0
	for range rounds(3000, 200) {
		var s StatusError
		switch err := e.ECall(probe.Ask, at); {
		case err == nil:
			applied++
		case !errors.As(err, &s):
			t.Fatal(err)
		}
	}
	stop.Store(true)
	t.Logf("%d applied, %d changes meanwhile", applied, <-flips)
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for off, want := range map[uint64]sgx.Perm{0: sgx.PermR | sgx.PermX, probe.OffHeap: sgx.PermR | sgx.PermW, probe.OffHeap + 4096: sgx.PermR | sgx.PermW} {
		if m, there := p.Lookup(e.e, enclaveBase+off); !there || m.Perm != want {
			t.Errorf("page %#x: %v, want %v", off, m.Perm, want)
		}
	}
}

// TestRaceAccept: two threads accept the same new page; one of them does, the
// other hears that it is no longer pending. The fault brings one page.
func TestRaceAccept(t *testing.T) {
	p := platform(t, 128)
	e := load(t, p, 2, Options{Dynamic: true})
	p.Mu.Lock()
	before := p.InUse()
	p.Mu.Unlock()
	n := rounds(16, 6)
	for page := range uint64(n) {
		var got [2]error
		var both sync.WaitGroup
		for i := range got {
			at, b := ms(t, e, 24)
			le.PutUint64(b, probe.OffNew+page*4096)
			le.PutUint64(b[8:], regRWNew)
			le.PutUint64(b[16:], 1)
			both.Go(func() { got[i] = e.ECall(probe.AcceptAs, at) })
		}
		both.Wait()
		mismatch := StatusError(sgx.PageAttributeMismatch)
		if (got[0] == nil) == (got[1] == nil) || got[0] != nil && !errors.Is(got[0], mismatch) || got[1] != nil && !errors.Is(got[1], mismatch) {
			t.Fatalf("page %d: %v, %v", page, got[0], got[1])
		}
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if got := p.InUse() - before; got != n {
		t.Errorf("%d pages came, want %d", got, n)
	}
}

// TestRaceRemove: while a thread is inside, and is interrupted again and again,
// no page of the enclave can be removed.
func TestRaceRemove(t *testing.T) {
	p := platform(t, 128)
	e := load(t, p, 1, Options{})
	at, b := ms(t, e, 16)
	looped := make(chan error, 1)
	go func() { looped <- e.ECall(cmdLoop, at) }()
	s := e.all[0]
	try := func() (tried int) {
		p.Mu.Lock()
		defer p.Mu.Unlock()
		if s.cpu.Inside() == nil {
			return 0
		}
		for _, a := range []uint64{enclaveBase, enclaveBase + probe.OffSSA, enclaveBase + probe.OffData} {
			m, there := p.Lookup(e.e, a)
			if !there {
				t.Fatalf("no page at %#x", a)
			}
			if o := p.Monitor.EREMOVE(m.Frame); o != (monitor.Outcome{Code: sgx.EnclaveAct}) {
				t.Fatalf("EREMOVE of %#x: %+v", a, o)
			}
			tried++
		}
		if o := p.Monitor.EREMOVE(e.secs); o != (monitor.Outcome{Code: sgx.ChildPresent}) {
			t.Fatalf("EREMOVE of the SECS: %+v", o)
		}
		return tried
	}
	want, tried := rounds(30000, 600), 0
	until(t, "enough tries", func() bool {
		for range 100 {
			tried += try()
		}
		s.t.Interrupt()
		return tried >= want && e.Stats().Interrupts > 3
	})
	b[0] = 1
	if err := <-looped; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tries, %d interrupts", tried, e.Stats().Interrupts)
}

// TestFlood: an enclave that raises exceptions without end is counted, bounded,
// and does not keep another one from its work; closing it ends it.
func TestFlood(t *testing.T) {
	p := platform(t, 256)
	other := load(t, p, 1, Options{})
	e := load(t, p, 1, Options{MaxExceptions: 300})
	at, b := ms(t, e, 16)
	if err := e.ECall(probe.Flood, at); !errors.Is(err, ErrFlood) || !errors.Is(err, ErrCrashed) {
		t.Errorf("the flood ended with %v", err)
	}
	st := e.Stats()
	if n := le.Uint64(b[8:]); n != 300 || st.Exceptions != 301 || st.Refused != 1 {
		t.Errorf("%d exceptions were handled, counted %+v", n, st)
	}
	p.Mu.Lock()
	counted := p.Refused()["exception flood"]
	p.Mu.Unlock()
	if counted != 1 {
		t.Errorf("counted %d times", counted)
	}
	// Below the bound nothing happens, call after call.
	calm := load(t, p, 1, Options{MaxExceptions: 1})
	calmAt, _ := ms(t, calm, 16)
	for range 3 {
		ecall(t, calm, cmdUD, calmAt)
	}
	// Without a bound: others work on, and it can be ended.
	endless := load(t, p, 1, Options{})
	endlessAt, n := ms(t, endless, 16)
	ended := make(chan error, 1)
	go func() { ended <- endless.ECall(probe.Flood, endlessAt) }()
	until(t, "the flood runs", func() bool { return le.Uint64(n[8:]) > 50 })
	otherAt, _ := ms(t, other, 16)
	for range 20 {
		ecall(t, other, cmdPut, otherAt)
	}
	endless.Close()
	if err := <-ended; err == nil {
		t.Error("the flood came back")
	}
}

// loopsAtOnce makes the first instruction of the enclave a jump to itself.
func loopsAtOnce(m *image.Image) { copy(m.Pages[0].Data[:], "\xeb\xfe") }

// TestLoadIsEnded: an enclave that never comes back from its initialization ends
// when its application is gone.
func TestLoadIsEnded(t *testing.T) {
	p := platform(t, 64)
	img := probeImage(t, 1, loopsAtOnce)
	done, loaded := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := Load(p, img, Options{Done: done})
		loaded <- err
	}()
	close(done)
	select {
	case err := <-loaded:
		if err == nil {
			t.Error("loaded")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the load goes on")
	}
	if p.InUse() != 0 {
		t.Errorf("%d pages are still in use", p.InUse())
	}
}

// TestClosedMeanwhile: what a thread had under way when its enclave was closed
// reaches neither memory that is gone nor the enclave that has its pages now.
func TestClosedMeanwhile(t *testing.T) {
	p := platform(t, 128)
	e := load(t, p, 1, Options{Dynamic: true})
	at, b := ms(t, e, 64)
	le.PutUint64(b, 1)
	old := e.secs
	e.Close()
	if err := e.untrusted(at, make([]byte, 32), false); !errors.Is(err, ErrClosed) {
		t.Errorf("its memory: %v", err)
	}
	if status := e.modify(edmmModify, at); status == 0 {
		t.Error("a request of it was served")
	}
	other := load(t, p, 1, Options{Dynamic: true})
	if other.secs != old {
		t.Fatalf("SECS in frame %d; for this test it must be the same, %d", other.secs, old)
	}
	p.Mu.Lock()
	before := p.InUse()
	err := e.help(enclaveBase + probe.OffNew)
	after := p.InUse()
	p.Mu.Unlock()
	if !errors.Is(err, ErrClosed) || before != after {
		t.Errorf("a page for it: %v; %d pages in use, before %d", err, after, before)
	}
	otherAt, words := ms(t, other, 24)
	le.PutUint64(words, probe.OffNew)
	le.PutUint64(words[8:], regRWNew)
	le.PutUint64(words[16:], 1)
	ecall(t, other, probe.AcceptAs, otherAt)
	other.Close()
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.InUse() != 0 {
		t.Errorf("%d pages are left", p.InUse())
	}
}

// TestOverrun: where the enclave's handler says that the stack overran, the ECALL
// returns that.
func TestOverrun(t *testing.T) {
	e := load(t, platform(t, 64), 1, Options{})
	at, _ := ms(t, e, 16)
	if err := e.ECall(probe.Overrun, at); !errors.Is(err, StatusError(statusStackOverrun)) {
		t.Error(err)
	}
}
