// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package urts

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/enclave/epc"
	"holdfast/enclave/host"
	"holdfast/enclave/kvm"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
	"holdfast/enclave/urts/probe"
)

var le = binary.LittleEndian

// Commands of the test enclave.
const (
	cmdPut      = probe.Put
	cmdGet      = probe.Get
	cmdOCall    = probe.OCall
	cmdUD       = probe.UD
	cmdReport   = probe.Report
	cmdSeal     = probe.Seal
	cmdLoop     = probe.Loop
	cmdSyscall  = probe.Syscall
	cmdPeek     = probe.Peek
	cmdJump     = probe.Jump
	cmdAccept   = probe.Accept
	cmdScribble = probe.Scribble
	cmdFill     = probe.Fill
	cmdCheck    = probe.Check
)

const (
	offTCS = probe.OffTCS
	offNew = probe.OffNew
)

// probeImage is the test enclave with the given number of threads, signed.
func probeImage(t testing.TB, threads int, change func(*image.Image)) *image.Image {
	t.Helper()
	img, err := probe.Image(threads, 0, change)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func platform(t testing.TB, frames int) *epc.Platform {
	t.Helper()
	o := monitor.Options{Root: [32]byte{1}}
	var p *epc.Platform
	var err error
	switch mode := os.Getenv("HOLDFAST_TEST_ENCLAVE_MODE"); mode { // set by test/enclavevm
	case "", "HU":
		p, err = host.New(frames, o)
	case "GU":
		p, err = kvm.New(frames, o, kvm.GU)
	case "P":
		p, err = kvm.New(frames, o, kvm.P)
	default:
		t.Fatalf("mode %q", mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func load(t testing.TB, p *epc.Platform, threads int, o Options) *Enclave {
	t.Helper()
	e, err := Load(p, probeImage(t, threads, nil), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// ms allocates a marshalling structure of n bytes.
func ms(t testing.TB, e *Enclave, n int) (uint64, []byte) {
	t.Helper()
	at, err := e.Memory.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Memory.Bytes(at, uint64(n))
	if err != nil {
		t.Fatal(err)
	}
	return at, b
}

func ecall(t testing.TB, e *Enclave, cmd int, at uint64) {
	t.Helper()
	if err := e.ECall(cmd, at); err != nil {
		t.Fatalf("ECALL %d: %v", cmd, err)
	}
}

func TestPutGet(t *testing.T) {
	p := platform(t, 64)
	img := probeImage(t, 1, nil)
	e, err := Load(p, img, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e.MREnclave() != img.Measure() {
		t.Error("MRENCLAVE is not the image's")
	}
	at, b := ms(t, e, 16)
	le.PutUint64(b, 0xfeedface)
	ecall(t, e, cmdPut, at)
	clear(b)
	ecall(t, e, cmdGet, at)
	if le.Uint64(b) != 0xfeedface {
		t.Errorf("got %#x", le.Uint64(b))
	}
	if err := e.ECall(99, at); !errors.Is(err, StatusError(1)) {
		t.Errorf("unknown command: %v", err)
	}
	e.Close()
	if p.InUse() != 0 {
		t.Errorf("%d pages are still in use", p.InUse())
	}
	if err := e.ECall(cmdGet, at); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestOCall(t *testing.T) {
	var got []uint64
	e := load(t, platform(t, 64), 1, Options{OCalls: func(m *Memory, index int, ms uint64) uint32 {
		got = append(got, uint64(index), ms)
		return 42
	}})
	at, _ := ms(t, e, 8)
	if err := e.ECall(cmdOCall, at); !errors.Is(err, StatusError(42)) {
		t.Errorf("the OCALL's status did not come back: %v", err)
	}
	if len(got) != 2 || got[0] != 5 || got[1] != at {
		t.Errorf("OCALL %v", got)
	}
	none := load(t, platform(t, 64), 1, Options{})
	if err := none.ECall(cmdOCall, 0); !errors.Is(err, StatusError(statusUnsupported)) {
		t.Errorf("without OCALLs: %v", err)
	}
}

// TestException: the enclave's handler skips an illegal instruction, and all
// registers, XMM included, are as before.
func TestException(t *testing.T) {
	e := load(t, platform(t, 64), 1, Options{})
	for range 20 {
		ecall(t, e, cmdUD, 0)
	}
}

// TestSyscallIsIllegal: the kernel does nothing for an enclave.
func TestSyscallIsIllegal(t *testing.T) {
	e := load(t, platform(t, 64), 1, Options{})
	ecall(t, e, cmdSyscall, 0)
}

func TestReportAndKey(t *testing.T) {
	p := platform(t, 64)
	e := load(t, p, 1, Options{})
	at, b := ms(t, e, 2048)
	target := &sgx.TargetInfo{MREnclave: e.MREnclave(), Attributes: sgx.Attributes{Flags: sgx.FlagInit | sgx.FlagMode64, XFRM: 7}, MiscSelect: 1}
	copy(b, target.AppendTo(nil))
	copy(b[512:], bytes.Repeat([]byte{0xcd}, 64))
	ecall(t, e, cmdReport, at)
	r, err := sgx.ParseReport(b[1024 : 1024+sgx.ReportSize])
	if err != nil {
		t.Fatal(err)
	}
	p.Mu.Lock()
	good := p.Monitor.VerifyReport(r, target)
	p.Mu.Unlock()
	if !good || r.MREnclave != e.MREnclave() || r.ISVProdID != 3 || r.ReportData[9] != 0xcd || r.Attributes != target.Attributes {
		t.Errorf("report %+v, genuine %v", r, good)
	}
	seal := func(e *Enclave, k sgx.KeyRequest) ([]byte, error) {
		at, b := ms(t, e, 1024)
		copy(b, k.AppendTo(nil))
		err := e.ECall(cmdSeal, at)
		return bytes.Clone(b[512:528]), err
	}
	k1, err := seal(e, sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMREnclave, ISVSVN: 2})
	if err != nil || bytes.Equal(k1, make([]byte, 16)) {
		t.Fatalf("%x %v", k1, err)
	}
	if _, err := seal(e, sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMREnclave, ISVSVN: 3}); !errors.Is(err, StatusError(sgx.InvalidISVSVN)) {
		t.Errorf("a newer ISVSVN: %v", err)
	}
	// the same enclave on another start of the platform, and with another root
	again := load(t, platform(t, 64), 1, Options{})
	if k2, err := seal(again, sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMREnclave, ISVSVN: 2}); err != nil || !bytes.Equal(k1, k2) {
		t.Errorf("after a restart: %x, %v, want %x", k2, err, k1)
	}
	debug, err := Load(p, probeImage(t, 1, nil), Options{Debug: true})
	if err != nil {
		t.Fatal(err)
	}
	defer debug.Close()
	if k3, err := seal(debug, sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMREnclave, ISVSVN: 2}); err != nil || bytes.Equal(k1, k3) {
		t.Errorf("a debug enclave: %x, %v", k3, err)
	}
}

// TestInterrupt: an enclave that loops is interrupted again and again (AEX and
// ERESUME) without noticing.
func TestInterrupt(t *testing.T) {
	e := load(t, platform(t, 64), 1, Options{})
	at, b := ms(t, e, 16)
	done := make(chan error, 1)
	go func() { done <- e.ECall(cmdLoop, at) }()
	for range 50 {
		time.Sleep(time.Millisecond)
		e.all[0].t.Interrupt()
	}
	b[0] = 1
	select {
	case err := <-done:
		if err != nil || le.Uint64(b[8:]) == 0 {
			t.Errorf("%v, counted %d", err, le.Uint64(b[8:]))
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the enclave hangs")
	}
}

// TestCloseWhileRunning: an enclave that never ends is ended, and its pages come
// back.
func TestCloseWhileRunning(t *testing.T) {
	p := platform(t, 64)
	e := load(t, p, 1, Options{})
	at, _ := ms(t, e, 16)
	done := make(chan error, 1)
	go func() { done <- e.ECall(cmdLoop, at) }()
	time.Sleep(20 * time.Millisecond)
	e.Close()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the ECALL ended well")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the ECALL hangs")
	}
	if p.InUse() != 0 {
		t.Errorf("%d pages are still in use", p.InUse())
	}
}

// TestHostile: what an enclave must not do ends it, and only it.
func TestHostile(t *testing.T) {
	p := platform(t, 256)
	secret := bytes.Repeat([]byte("host secret "), 10)
	other := load(t, p, 1, Options{})
	otherAt, otherMS := ms(t, other, 16)
	le.PutUint64(otherMS, 0x0123)
	ecall(t, other, cmdPut, otherAt)
	for _, c := range []struct {
		what string
		cmd  int
		arg  uint64
	}{
		{"read the application's heap", cmdPeek, addrOf(secret)},
		{"read the stub", cmdPeek, 0x10000 - 8},
		{"read its own TCS", cmdPeek, enclaveBase + offTCS},
		{"read beyond ELRANGE", cmdPeek, enclaveBase + 1<<18},
		{"read the kernel", cmdPeek, 0xffffffff81000000},
		{"exit to a chosen place", cmdJump, 0x400000},
		{"exit to a non-canonical place", cmdJump, 1 << 62},
		{"write to its code", cmdScribble, 0},
	} {
		e := load(t, p, 1, Options{})
		at, b := ms(t, e, 16)
		le.PutUint64(b, c.arg)
		before := refused(p)
		if err := e.ECall(c.cmd, at); !errors.Is(err, ErrCrashed) {
			t.Errorf("%s: %v", c.what, err)
		}
		if refused(p) == before {
			t.Errorf("%s: not counted", c.what)
		}
		if err := other.ECall(cmdGet, otherAt); err != nil || le.Uint64(otherMS) != 0x0123 {
			t.Errorf("%s: the enclave beside: %v, %#x", c.what, err, le.Uint64(otherMS))
		}
		e.Close()
	}
	other.Close()
	if p.InUse() != 0 {
		t.Errorf("%d pages are still in use", p.InUse())
	}
}

// refused counts all that the platform refused.
func refused(p *epc.Platform) (n uint64) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, c := range p.Refused() {
		n += c
	}
	return n
}

// TestEDMM: the system adds a page, the enclave accepts and uses it.
func TestEDMM(t *testing.T) {
	p := platform(t, 64)
	e := load(t, p, 1, Options{})
	at, b := ms(t, e, 16)
	le.PutUint64(b, offNew)
	if err := e.ECall(cmdAccept, at); !errors.Is(err, ErrCrashed) {
		t.Errorf("accepting a page that is not there: %v", err)
	}
	e = load(t, p, 1, Options{})
	at, b = ms(t, e, 16)
	le.PutUint64(b, offNew)
	p.Mu.Lock()
	f, err := p.Pager().Alloc()
	o := p.Monitor.EAUG(e.secs, f, enclaveBase+offNew)
	e.pages.Add(enclaveBase+offNew, f, sgx.PageREG)
	p.Mu.Unlock()
	if err != nil || !o.OK() {
		t.Fatal(err, o)
	}
	ecall(t, e, cmdAccept, at)
	if p.Page(f)[0] != 77 {
		t.Error("the enclave did not write to its new page")
	}
	if err := e.ECall(cmdAccept, at); !errors.Is(err, StatusError(sgx.PageAttributeMismatch)) {
		t.Errorf("twice: %v", err)
	}
}

func TestThreads(t *testing.T) {
	const threads = 4
	e := load(t, platform(t, 128), threads, Options{})
	var wg sync.WaitGroup
	for i := 0; i < 4*threads; i++ {
		wg.Add(1)
		at, b := ms(t, e, 16)
		go func() {
			defer wg.Done()
			for range 20 {
				if err := e.ECall(cmdPut, at); err != nil {
					t.Error(err)
				}
				if err := e.ECall(cmdGet, at); err != nil {
					t.Error(err)
				}
			}
			_ = b
		}()
	}
	wg.Wait()
}

func TestLoadRefuses(t *testing.T) {
	p := platform(t, 64)
	for what, change := range map[string]func(*image.Image){
		"no signature":     func(m *image.Image) { m.Sig = nil },
		"changed code":     func(m *image.Image) { m.Pages[0].Data[0] ^= 1 },
		"changed layout":   func(m *image.Image) { m.Pages[4].Offset += 0x1000 },
		"changed product":  func(m *image.Image) { m.Sig.ISVProdID++ },
		"forged signature": func(m *image.Image) { m.Sig.Signature[5] ^= 1 },
		"no thread":        func(m *image.Image) { m.Pages = append(m.Pages[:1:1], m.Pages[2:]...) },
	} {
		img := probeImage(t, 1, nil)
		change(img)
		if e, err := Load(p, img, Options{}); err == nil || e != nil {
			t.Errorf("%s: loaded", what)
		}
		if p.InUse() != 0 {
			t.Errorf("%s: %d pages are still in use", what, p.InUse())
		}
	}
	small := platform(t, 4)
	if _, err := Load(small, probeImage(t, 1, nil), Options{}); err == nil {
		t.Error("an EPC of 4 pages was enough")
	}
}

// TestProcessIsGone: somebody kills the enclave's process.
func TestProcessIsGone(t *testing.T) {
	p := platform(t, 64)
	e := load(t, p, 1, Options{})
	at, _ := ms(t, e, 16)
	done := make(chan error, 1)
	go func() { done <- e.ECall(cmdLoop, at) }()
	time.Sleep(20 * time.Millisecond)
	e.all[0].t.Kill()
	select {
	case err := <-done:
		if !errors.Is(err, epc.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the ECALL hangs")
	}
	e.Close()
	if p.InUse() != 0 {
		t.Errorf("%d pages are still in use", p.InUse())
	}
}

// TestManyCycles: enclaves come, work and go; pages, descriptors, processes and
// memory are as before.
func TestManyCycles(t *testing.T) {
	n := 100
	if testing.Short() {
		n = 20
	}
	if full() {
		n = 5000
	}
	p := platform(t, 64)
	img := probeImage(t, 1, nil)
	cycle := func(i int) {
		e, err := Load(p, img, Options{})
		if err != nil {
			t.Fatalf("cycle %d: %v", i, err)
		}
		ecall(t, e, cmdUD, 0)
		e.Close()
	}
	for i := range 10 { // what is made once
		cycle(i)
	}
	before, rss := leftovers(t), resident(t)
	start := time.Now()
	for i := range n {
		cycle(i)
	}
	before.compare(t)
	grown := resident(t) - rss
	t.Logf("%d cycles in %.1f s, resident memory %+d KiB", n, time.Since(start).Seconds(), grown)
	if p.InUse() != 0 || grown > 16<<10 {
		t.Errorf("%d pages in use, resident memory grew by %d KiB", p.InUse(), grown)
	}
}

// resident is the memory of this process in KiB, after a collection.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return n * os.Getpagesize() >> 10
}

func countFDs(t *testing.T) int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// TestProbeIsBuiltFromSource compares the code with what the assembler makes.
func TestProbeIsBuiltFromSource(t *testing.T) {
	oc, err := exec.LookPath("objcopy")
	if err != nil {
		t.Skip("SKIP[binutils]: no objcopy on this machine")
	}
	as, err := exec.LookPath("as")
	if err != nil {
		t.Fatal("objcopy is there, but not as, which comes with it")
	}
	dir := t.TempDir()
	for name, code := range map[string][]byte{"probe": probe.Code, "p": probe.PCode} {
		o, bin := filepath.Join(dir, name+".o"), filepath.Join(dir, name+".bin")
		if out, err := exec.Command(as, "-o", o, "probe/testdata/"+name+".s").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out, err := exec.Command(oc, "-O", "binary", "-j", ".text", o, bin).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, err := os.ReadFile(bin); err != nil || !bytes.Equal(got, code) {
			t.Errorf("%s.bin is not built from %s.s (%v): run go generate ./enclave/urts/probe", name, name, err)
		}
	}
}

func BenchmarkECall(b *testing.B) {
	e := load(b, platform(b, 64), 1, Options{})
	at, _ := ms(b, e, 16)
	for b.Loop() {
		if err := e.ECall(cmdPut, at); err != nil {
			b.Fatal(err)
		}
	}
}
