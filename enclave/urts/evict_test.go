// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package urts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/enclave/epc"
	"holdfast/enclave/pager"
	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
	"holdfast/enclave/urts/probe"
)

const offHeap = probe.OffHeap

// heap gives the test enclave n more pages, not measured.
func heap(n int) func(*image.Image) {
	return func(m *image.Image) {
		for m.Size < offHeap+uint64(n)*sgx.PageSize {
			m.Size *= 2
		}
		for i := range n {
			m.Pages = append(m.Pages, image.Page{Offset: offHeap + uint64(i)*sgx.PageSize, Info: sgx.SecInfo{Perm: sgx.PermR | sgx.PermW, Type: sgx.PageREG}})
		}
	}
}

// fill and check call the enclave for its n heap pages.
func fillHeap(e *Enclave, cmd, n int, value uint64) error {
	at, err := e.Memory.Alloc(24)
	if err != nil {
		return err
	}
	b, err := e.Memory.Bytes(at, 24)
	if err != nil {
		return err
	}
	le.PutUint64(b, offHeap)
	le.PutUint64(b[8:], uint64(n))
	le.PutUint64(b[16:], value)
	return e.ECall(cmd, at)
}

func stats(p *epc.Platform) pager.Stats {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return p.Pager().Stats()
}

// TestEviction: an enclave three times as large as the EPC.
func TestEviction(t *testing.T) {
	const pages = 300
	p := platform(t, 100)
	e, err := Load(p, probeImage(t, 1, heap(pages)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for round := range uint64(3) {
		if err := fillHeap(e, cmdFill, pages, 1000*round); err != nil {
			t.Fatal(err)
		}
		if err := fillHeap(e, cmdCheck, pages, 1000*round); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		ecall(t, e, cmdUD, 0) // an exception handler whose frame may be outside
	}
	if err := fillHeap(e, cmdCheck, pages, 7); !errors.Is(err, StatusError(1)) {
		t.Errorf("the check finds no difference: %v", err)
	}
	s := stats(p)
	if s.Evicted < pages || s.Loaded < pages || s.Outside < 200 {
		t.Errorf("%+v", s)
	}
	e.Close()
	if s := stats(p); s.InUse != 0 || s.Outside != 0 {
		t.Errorf("after the end: %+v", s)
	}
}

// TestEvictionUnderThreads: pages leave while threads are inside, and an
// enclave that only loops is made to leave for it.
func TestEvictionUnderThreads(t *testing.T) {
	const pages = 60
	p := platform(t, 160)
	var all []*Enclave
	for range 3 {
		e, err := Load(p, probeImage(t, 3, heap(pages)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		all = append(all, e)
	}
	stop, b := ms(t, all[0], 16)
	looped := make(chan error, 1)
	go func() { looped <- all[0].ECall(cmdLoop, stop) }()
	var wg sync.WaitGroup
	for i, e := range all {
		wg.Go(func() {
			for round := range uint64(8) {
				v := round*1000 + uint64(i)*100000
				if err := fillHeap(e, cmdFill, pages, v); err != nil {
					t.Errorf("enclave %d: %v", i, err)
					return
				}
				if err := fillHeap(e, cmdCheck, pages, v); err != nil {
					t.Errorf("enclave %d, round %d: %v", i, round, err)
					return
				}
			}
		})
		wg.Go(func() {
			for range 40 {
				if err := e.ECall(cmdUD, 0); err != nil {
					t.Errorf("enclave %d: exceptions: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b[0] = 1
	if err := <-looped; err != nil || le.Uint64(b[8:]) == 0 {
		t.Errorf("the loop: %v, counted %d", err, le.Uint64(b[8:]))
	}
	if s := stats(p); s.Evicted == 0 {
		t.Errorf("nothing was evicted: %+v", s)
	}
}

// TestDynamic: pages on demand, as with SGX2 and the Linux driver.
func TestDynamic(t *testing.T) {
	p := platform(t, 64)
	e, err := Load(p, probeImage(t, 1, nil), Options{Dynamic: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	at, b := ms(t, e, 16)
	before := stats(p).InUse
	for _, off := range []uint64{offNew, offNew + 0x2000, offHeap - 0x1000} {
		le.PutUint64(b, off)
		ecall(t, e, cmdAccept, at)
	}
	if got := stats(p).InUse - before; got != 3 {
		t.Errorf("%d pages were added, want 3", got)
	}
	if err := e.ECall(cmdAccept, at); !errors.Is(err, StatusError(sgx.PageAttributeMismatch)) {
		t.Errorf("accepted twice: %v", err)
	}
	// A page that it touches without accepting stays out of reach.
	le.PutUint64(b, enclaveBase+offNew+0x5000)
	if err := e.ECall(cmdPeek, at); !errors.Is(err, ErrCrashed) {
		t.Errorf("an unaccepted page: %v", err)
	}
	e.Close()
	if s := stats(p); s.InUse != 0 {
		t.Errorf("after the end: %+v", s)
	}
}

// TestEnter: an enclave without Intel's runtime, by registers. The probe takes
// its command in RDI and gives -1 and a status back.
func TestEnter(t *testing.T) {
	e, err := Load(platform(t, 64), probeImage(t, 1, nil), Options{Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	out, err := e.Enter([6]uint64{99, 0, 7, 8, 9, 10})
	if err != nil || out[0] != ^uint64(0) || out[1] != 1 || out[2] != 7 || out[5] != 10 {
		t.Errorf("%x, %v", out, err)
	}
	if _, err := e.Enter([6]uint64{cmdUD}); !errors.Is(err, ErrCrashed) {
		t.Errorf("an exception: %v", err)
	}
}

// full says whether the long versions run.
func full() bool { return os.Getenv("HOLDFAST_TEST_FULL") == "1" }

// many runs count enclaves of pages heap pages each at once.
func many(t *testing.T, p *epc.Platform, count, pages, rounds int) {
	img := probeImage(t, 1, heap(pages))
	all := make([]*Enclave, count)
	var wg sync.WaitGroup
	limit := make(chan struct{}, 8)
	for i := range all {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			e, err := Load(p, img, Options{SharedSize: 1 << 19})
			if err != nil {
				t.Errorf("enclave %d: %v", i, err)
				return
			}
			all[i] = e
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for round := range rounds {
		for i, e := range all {
			wg.Go(func() {
				v := uint64(i)<<32 | uint64(round)<<20
				if err := fillHeap(e, cmdFill, pages, v); err != nil {
					t.Errorf("enclave %d: fill: %v", i, err)
				}
			})
		}
		wg.Wait()
		for i, e := range all {
			wg.Go(func() {
				v := uint64(i)<<32 | uint64(round)<<20
				if err := fillHeap(e, cmdCheck, pages, v); err != nil {
					t.Errorf("enclave %d: check: %v", i, err)
				}
			})
		}
		wg.Wait()
	}
	for _, e := range all {
		e.Close()
	}
}

// Test64Enclaves: 64 at once whose pages do not fit into the EPC together. The
// long version has an EPC of 256 MiB and 400 MiB of enclaves.
func Test64Enclaves(t *testing.T) {
	frames, pages, rounds := 1000, 24, 1
	if full() {
		frames, pages, rounds = 65536, 1600, 3
	}
	p := platform(t, frames)
	before := leftovers(t)
	start := time.Now()
	many(t, p, 64, pages, rounds)
	s := stats(p)
	t.Logf("64 enclaves of %d pages in an EPC of %d: %d pages out, %d back in, %.1f s", pages+5, frames, s.Evicted, s.Loaded, time.Since(start).Seconds())
	if s.InUse != 0 || s.Outside != 0 || s.Evicted < 1000 {
		t.Errorf("after the end: %+v", s)
	}
	before.compare(t)
}

// TestKilledAtRandom: processes of enclaves are killed while they work. The call
// says so, the others go on, and nothing is left.
func TestKilledAtRandom(t *testing.T) {
	rounds := 6
	if full() {
		rounds = 300
	}
	p := platform(t, 200)
	before := leftovers(t)
	img := probeImage(t, 1, heap(50))
	keep, err := Load(p, img, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := fillHeap(keep, cmdFill, 50, 1); err != nil {
		t.Fatal(err)
	}
	gone := 0
	for range rounds {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 3 {
			wg.Go(func() {
				e, err := Load(p, img, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				defer e.Close()
				timer := time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, e.all[0].t.Kill)
				defer timer.Stop()
				for round := range uint64(1000) {
					if err = fillHeap(e, cmdFill, 50, round); err == nil {
						err = fillHeap(e, cmdCheck, 50, round)
					}
					if err != nil {
						break
					}
				}
				if !errors.Is(err, epc.ErrGone) {
					t.Errorf("the call ended with %v, want ErrGone", err)
				}
				if again := e.ECall(cmdUD, 0); !errors.Is(again, epc.ErrGone) {
					t.Errorf("the next call ended with %v", again)
				}
				mu.Lock()
				gone++
				mu.Unlock()
			})
		}
		wg.Wait()
		if err := fillHeap(keep, cmdCheck, 50, 1); err != nil {
			t.Fatalf("the enclave beside: %v", err)
		}
	}
	keep.Close()
	t.Logf("%d enclaves killed", gone)
	if s := stats(p); s.InUse != 0 || s.Outside != 0 {
		t.Errorf("after the end: %+v", s)
	}
	before.compare(t)
}

// TestClosedAtRandom: an enclave is closed at any moment of its calls, also
// between two requests to its process.
func TestClosedAtRandom(t *testing.T) {
	rounds := 40
	if full() {
		rounds = 2000
	}
	p := platform(t, 64)
	img := probeImage(t, 1, nil)
	for range rounds {
		e, err := Load(p, img, Options{})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				err = e.ECall(cmdUD, 0)
			}
			done <- err
		}()
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		e.Close()
		if err := <-done; !errors.Is(err, epc.ErrGone) && !errors.Is(err, ErrClosed) {
			t.Fatalf("the call ended with %v", err)
		}
	}
	if s := stats(p); s.InUse != 0 {
		t.Errorf("%+v", s)
	}
}

// left is what a process can leave behind.
type left struct {
	fds, children, maps int
	cgroups             string
}

func leftovers(t *testing.T) left {
	t.Helper()
	l := left{fds: countFDs(t)}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tasks {
		c, err := os.ReadFile("/proc/self/task/" + x.Name() + "/children")
		if err == nil {
			l.children += len(strings.Fields(string(c)))
		}
	}
	m, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	l.maps = strings.Count(string(m), "enclave-shared")
	c, err := os.ReadFile("/proc/self/cgroup")
	if err == nil {
		l.cgroups = string(c)
	}
	return l
}

// compare allows two descriptors, which the Go runtime may open for itself.
func (l left) compare(t *testing.T) {
	t.Helper()
	var now left
	for range 50 { // a killed process is reaped by its tracer's goroutine
		now = leftovers(t)
		if now.children == l.children {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if now.fds > l.fds+2 || now.children != l.children || now.maps != l.maps || now.cgroups != l.cgroups {
		t.Errorf("left behind: %s", fmt.Sprintf("%+v before, %+v now", l, now))
	}
}
