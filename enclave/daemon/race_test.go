// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/sgx/image"
	"holdfast/enclave/urts"
	"holdfast/enclave/urts/probe"
)

// TestRaceImage: an application changes image and SIGSTRUCT while the monitor
// reads them. What is loaded is one of the two enclaves, whole: its MRENCLAVE,
// and what it does.
func TestRaceImage(t *testing.T) {
	c := mustLaunch(t, t.TempDir(), nil)
	var files [2][2][]byte // of each enclave: image, SIGSTRUCT
	var mr [2][32]byte
	for i := range files {
		img, err := probe.Image(1, 0, func(m *image.Image) {
			d := m.Pages[len(m.Pages)-1].Data // the data page: what Get returns
			for j := range d {
				d[j] = byte(i + 1)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		files[i] = [2][]byte{probe.SGXS(img), img.Sig.AppendTo(nil)}
		mr[i] = img.Measure()
	}
	var memory [2]*os.File
	var view [2][]byte
	for i := range memory {
		fd, err := unix.MemfdCreate("race", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		memory[i] = os.NewFile(uintptr(fd), "race")
		defer memory[i].Close()
		size := len(files[0][i])
		if len(files[1][i]) != size {
			t.Fatal("the two differ in size")
		}
		if err := memory[i].Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
		if view[i], err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(view[i]) }()
	}
	var stop atomic.Bool
	flips := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			for i := range view {
				copy(view[i], files[n%2][i])
			}
			if n%3 == 0 { // at rest for a while, so that some loads succeed
				time.Sleep(time.Millisecond)
			}
			runtime.Gosched()
		}
		flips <- n
	}()
	loaded, refused := 0, 0
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		x := c.dial()
		e, err := x.enclave(msgLoad, make([]byte, 8), memory[0], memory[1])
		if err != nil {
			var no *RefusedError
			if !errors.As(err, &no) {
				t.Fatal(err)
			}
			refused++
			x.Close()
			continue
		}
		loaded++
		at, b := shared(t, e, 16)
		if err := e.ECall(probe.Get, at, nil); err != nil {
			t.Fatal(err)
		}
		if is := int(b[0]) - 1; is < 0 || is > 1 || e.MREnclave != mr[is] {
			t.Fatalf("MRENCLAVE %x, data %x", e.MREnclave, b[:8])
		}
		e.Memory.Close()
		x.Close()
	}
	stop.Store(true)
	t.Logf("%d loaded, %d refused, %d changes meanwhile", loaded, refused, <-flips)
}

// TestKill: its owner ends an enclave that floods exceptions; the listing says
// what it did, and the application hears that it is gone.
func TestKill(t *testing.T) {
	r := mustLaunch(t, t.TempDir(), func(c *LaunchConfig) { c.MaxExceptions = 100 })
	watch, c := r.dial(), r.dial()
	e := load(t, c, LoadOptions{})
	at, b := shared(t, e, 16)
	if err := e.ECall(probe.Flood, at, nil); !errors.Is(err, urts.ErrCrashed) {
		t.Errorf("a flood ended with %v", err)
	}
	l, err := watch.List()
	if err != nil || len(l.Enclaves) != 1 {
		t.Fatal(l, err)
	}
	if x := l.Enclaves[0]; x.Exceptions != 101 || x.Calls < 2 || x.Refused != 1 || l.Refused["exception flood"] != 1 {
		t.Errorf("%+v, %v", x, l.Refused)
	}
	looped := make(chan error, 1)
	clear(b)
	other, err := e.Attach(r.dial())
	if err != nil {
		t.Fatal(err)
	}
	go func() { looped <- other.ECall(probe.Loop, at, nil) }()
	if err := watch.Kill(l.Enclaves[0].ID + 1); err == nil {
		t.Error("an enclave that is not there was ended")
	}
	if err := watch.Kill(l.Enclaves[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := <-looped; !errors.Is(err, epc.ErrGone) {
		t.Errorf("the ECALL ended with %v", err)
	}
	if err := e.ECall(probe.Get, at, nil); !errors.Is(err, epc.ErrGone) {
		t.Errorf("another one: %v", err)
	}
}

// TestInitLoops: an enclave that loops in its initialization goes with its
// application.
func TestInitLoops(t *testing.T) {
	r := mustLaunch(t, t.TempDir(), nil)
	img, err := probe.Image(1, 0, func(m *image.Image) { copy(m.Pages[0].Data[:], "\xeb\xfe") })
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := probe.Files(dir, "loops", img); err != nil {
		t.Fatal(err)
	}
	var files [2]*os.File
	for i, name := range []string{"loops.sgxs", "loops.sig"} {
		if files[i], err = os.Open(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	watch, c := r.dial(), r.dial()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Load(files[0], LoadOptions{Sig: files[1]})
		ended <- err
	}()
	used := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			l, err := watch.List()
			if err != nil {
				t.Fatal(err)
			}
			if (l.InUse > 0) == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d pages in use", l.InUse)
			}
		}
	}
	used(true)
	c.Close()
	if err := <-ended; err == nil {
		t.Error("loaded")
	}
	used(false)
}
