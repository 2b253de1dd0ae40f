// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/enclave/daemon/anchor"
	"holdfast/enclave/epc"
	"holdfast/enclave/sgx"
	"holdfast/enclave/sigma"
	"holdfast/enclave/urts"
	"holdfast/enclave/urts/probe"
)

// TestMain is also the monitor process that Launch starts.
func TestMain(m *testing.M) {
	if os.Getenv(ConfigEnv) != "" {
		ctx, stop := context.WithCancel(context.Background())
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		go func() { <-c; stop() }()
		if err := Run(ctx); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// running is a daemon of a test.
type running struct {
	t      *testing.T
	socket string
	pid    int
	ended  chan error
	cancel context.CancelFunc
}

func launch(t *testing.T, state string, change func(*LaunchConfig)) (*running, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, ended: make(chan error, 1), cancel: cancel}
	ready := make(chan struct{})
	c := LaunchConfig{State: state, Socket: filepath.Join(t.TempDir(), "socket"), User: -1, Monitor: Monitor{Frames: 512, Algorithm: evidence.ES256}}
	c.OnReady = func(s string, pid int) {
		r.socket, r.pid = s, pid
		close(ready)
	}
	if change != nil {
		change(&c)
	}
	go func() { r.ended <- Launch(ctx, c) }()
	select {
	case err := <-r.ended:
		cancel()
		return nil, err
	case <-ready:
	case <-time.After(time.Minute):
		cancel()
		t.Fatal("the daemon does not become ready")
	}
	t.Cleanup(func() { r.stop() })
	return r, nil
}

func mustLaunch(t *testing.T, state string, change func(*LaunchConfig)) *running {
	t.Helper()
	r, err := launch(t, state, change)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stop ends the daemon in order, once.
func (r *running) stop() error {
	if r.cancel == nil {
		return nil
	}
	r.cancel()
	r.cancel = nil
	select {
	case err := <-r.ended:
		return err
	case <-time.After(time.Minute):
		r.t.Fatal("the daemon does not end")
		return nil
	}
}

// kill kills the monitor.
func (r *running) kill() error {
	_ = syscall.Kill(r.pid, syscall.SIGKILL)
	err := <-r.ended
	r.cancel()
	r.cancel = nil
	return err
}

func (r *running) dial() *Client {
	r.t.Helper()
	c, err := Dial(context.Background(), r.socket)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// probeFiles are the test enclave as files.
func probeFiles(t *testing.T, threads, heap int) (sgxs, sig *os.File) {
	t.Helper()
	img, err := probe.Image(threads, heap, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := probe.Files(dir, "probe", img); err != nil {
		t.Fatal(err)
	}
	for f, name := range map[**os.File]string{&sgxs: "probe.sgxs", &sig: "probe.sig"} {
		if *f, err = os.Open(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*f).Close() })
	}
	return sgxs, sig
}

func load(t *testing.T, c *Client, o LoadOptions) *Enclave {
	t.Helper()
	img, sig := probeFiles(t, 2, 0)
	o.Sig = sig
	e, err := c.Load(img, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func shared(t *testing.T, e *Enclave, n int) (uint64, []byte) {
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

// sealKey is the enclave's seal key.
func sealKey(t *testing.T, e *Enclave) [16]byte {
	t.Helper()
	at, b := shared(t, e, 1024)
	copy(b, (&sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMREnclave, ISVSVN: 2}).AppendTo(nil))
	if err := e.ECall(probe.Seal, at, nil); err != nil {
		t.Fatal(err)
	}
	return [16]byte(b[512:])
}

// report lets the enclave report data.
func report(t *testing.T, c *Client, e *Enclave, data evidence.ReportData) []byte {
	t.Helper()
	target, err := c.Target()
	if err != nil {
		t.Fatal(err)
	}
	at, b := shared(t, e, 2048)
	copy(b, target.AppendTo(nil))
	copy(b[512:], data[:])
	if err := e.ECall(probe.Report, at, nil); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b[1024:][:sgx.ReportSize])
}

func check(t *testing.T, b *evidence.Bundle, data evidence.ReportData, ak trust.AK) (*verify.Result, error) {
	t.Helper()
	roots, err := trust.New([]trust.AK{ak}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verify.New(roots).Verify(b.Report, b.Endorsement, data, time.Now())
}

// TestHosted: the whole way of an application: load, call, report, quote; then
// a restart, after which the same keys come, and the same record verifies.
func TestHosted(t *testing.T) {
	state := t.TempDir()
	r := mustLaunch(t, state, nil)
	c := r.dial()
	e := load(t, c, LoadOptions{})
	at, b := shared(t, e, 16)
	b[0] = 77
	if err := e.ECall(probe.Put, at, nil); err != nil {
		t.Fatal(err)
	}
	b[0] = 0
	if err := e.ECall(probe.Get, at, nil); err != nil || b[0] != 77 {
		t.Errorf("%d, %v", b[0], err)
	}
	// An OCALL that makes an ECALL, on the same thread of the enclave.
	var seen []int
	err := e.ECall(probe.OCall, at, func(n *Nested, index int, ms uint64) uint32 {
		seen = append(seen, index)
		b[0] = 78
		if err := n.ECall(probe.Put, ms); err != nil {
			t.Errorf("nested: %v", err)
		}
		return 42
	})
	if !errors.Is(err, urts.StatusError(42)) || len(seen) != 1 || seen[0] != 5 {
		t.Errorf("OCALL: %v %v", err, seen)
	}
	if err := e.ECall(probe.Get, at, nil); err != nil || b[0] != 78 {
		t.Errorf("after the nested ECALL: %d, %v", b[0], err)
	}
	key := sealKey(t, e)
	ak, err := r.dial().Enrol("host-1", "m1")
	if err != nil || ak.EnclaveLevel != evidence.LevelHosted {
		t.Fatalf("%+v, %v", ak, err)
	}
	data := evidence.ReportData{1, 2, 3}
	quote := func(c *Client, e *Enclave) {
		t.Helper()
		q, err := c.Quote(report(t, c, e, data))
		if err != nil {
			t.Fatal(err)
		}
		v, err := check(t, q, data, ak)
		if err != nil {
			t.Fatal(err)
		}
		if v.Enclave.MREnclave != e.MREnclave || v.Enclave.Level != "hosted" || v.Enclave.Mode != "HU" || v.Enclave.ISVProdID != 3 || v.Enclave.CPUSVN != CPUSVN {
			t.Errorf("%+v", v.Enclave)
		}
	}
	quote(c, e)
	l, err := c.List()
	if err != nil || len(l.Enclaves) != 1 || l.Enclaves[0].PID != int32(os.Getpid()) || l.Level != "hosted" || l.InUse == 0 {
		t.Errorf("%+v, %v", l, err)
	}
	// A second thread by a connection of its own.
	e2, err := e.Attach(r.dial())
	if err != nil {
		t.Fatal(err)
	}
	b[0] = 79
	if err := e.ECall(probe.Put, at, nil); err != nil {
		t.Fatal(err)
	}
	b[0] = 0
	if err := e2.ECall(probe.Get, at, nil); err != nil || b[0] != 79 {
		t.Errorf("attached: %d, %v", b[0], err)
	}
	old := report(t, c, e, data)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if err := e.ECall(probe.Get, at, nil); !errors.Is(err, ErrDaemonGone) {
		t.Errorf("after the end of the daemon: %v", err)
	}

	r = mustLaunch(t, state, nil)
	c = r.dial()
	e = load(t, c, LoadOptions{})
	if got := sealKey(t, e); got != key {
		t.Errorf("the seal key is %x after a restart, was %x", got, key)
	}
	quote(c, e)
	var refused *RefusedError
	if _, err := c.Quote(old); !errors.As(err, &refused) {
		t.Errorf("a REPORT of the start before was quoted: %v", err)
	}
	forged := report(t, c, e, data)
	forged[64] ^= 1
	if _, err := c.Quote(forged); !errors.As(err, &refused) {
		t.Errorf("a forged REPORT was quoted: %v", err)
	}
	debug := load(t, r.dial(), LoadOptions{Debug: true})
	if sealKey(t, debug) == key {
		t.Error("a debug enclave has the key of the other")
	}
}

// TestOtherMonitor: a changed program of the monitor does not start on the state
// of another, and with a new root it has other keys.
func TestOtherMonitor(t *testing.T) {
	state := t.TempDir()
	r := mustLaunch(t, state, nil)
	key := sealKey(t, load(t, r.dial(), LoadOptions{}))
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "changed")
	if err := os.WriteFile(changed, append(b, 0), 0o700); err != nil { // the same program, one byte longer
		t.Fatal(err)
	}
	other := func(c *LaunchConfig) { c.Image = changed }
	if _, err := launch(t, state, other); err == nil || !strings.Contains(err.Error(), anchor.ErrOtherMonitor.Error()) {
		t.Fatalf("a changed monitor: %v", err)
	}
	r = mustLaunch(t, state, func(c *LaunchConfig) { other(c); c.NewRoot = true })
	if sealKey(t, load(t, r.dial(), LoadOptions{})) == key {
		t.Error("the changed monitor derives the old key")
	}
}

// TestAsOtherUser: root's monitor runs as a user without privileges.
func TestAsOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP[root]: only root can start a process as another user")
	}
	state, err := os.MkdirTemp("/tmp", "enclave-user-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(state)
	const uid = 61999
	r := mustLaunch(t, state, func(c *LaunchConfig) { c.User = uid })
	var st unix.Stat_t
	status, err := os.ReadFile("/proc/" + strconv.Itoa(r.pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t61999\t61999\t61999\t61999", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the monitor's status lacks %q", want)
		}
	}
	if err := unix.Stat(filepath.Join(state, "tpm"), &st); err != nil || st.Uid != 0 || st.Mode&0o077 != 0 {
		t.Errorf("the TPM's folder: owner %d, mode %o, %v", st.Uid, st.Mode, err)
	}
	e := load(t, r.dial(), LoadOptions{})
	key := sealKey(t, e)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	r = mustLaunch(t, state, func(c *LaunchConfig) { c.User = uid })
	if sealKey(t, load(t, r.dial(), LoadOptions{})) != key {
		t.Error("another key after a restart")
	}
}

// TestStrangers: what a connection must not do is refused, and harms nobody.
func TestStrangers(t *testing.T) {
	r := mustLaunch(t, t.TempDir(), nil)
	c := r.dial()
	e := load(t, c, LoadOptions{})
	var refused *RefusedError
	wrong := *e
	wrong.token[3] ^= 1
	if _, err := wrong.Attach(r.dial()); !errors.As(err, &refused) {
		t.Errorf("attached with a wrong token: %v", err)
	}
	if _, err := c.enclave(msgLoad, make([]byte, 8)); !errors.As(err, &refused) {
		t.Errorf("a second enclave on one connection: %v", err)
	}
	img, sig := probeFiles(t, 1, 0)
	for what, load := range map[string]func(c *Client) error{
		"no SIGSTRUCT": func(c *Client) error { _, err := c.Load(img, LoadOptions{}); return err },
		"no enclave":   func(c *Client) error { _, err := c.Load(sig, LoadOptions{}); return err },
		"a pipe": func(c *Client) error {
			p, q, _ := os.Pipe()
			defer p.Close()
			defer q.Close()
			_, err := c.enclave(msgLoad, make([]byte, 8), p)
			return err
		},
		"a file that is not in memory": func(c *Client) error {
			f, err := os.Open("/proc/version")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = c.enclave(msgLoad, make([]byte, 8), f)
			return err
		},
		"two signatures": func(c *Client) error { _, err := c.Load(img, LoadOptions{Sig: img}); return err },
	} {
		if err := load(r.dial()); !errors.As(err, &refused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, raw := range map[string][]byte{
		"unknown request": {0, 0, 0, 0, 99, 0, 0, 0},
		"huge":            {0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0},
		"missing files":   {8, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"no image":        {8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"call of nothing": append([]byte{16, 0, 0, 0, 3, 0, 0, 0}, make([]byte, 16)...),
		"answer first":    {4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0},
	} {
		x := r.dial()
		if _, err := x.c.Write(raw); err != nil {
			t.Fatal(err)
		}
		_ = x.c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if f, err := readFrame(x.c); err == nil && f.kind != msgError || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %+v, %v", what, f, err)
		}
	}
	at, b := shared(t, e, 16)
	b[0] = 9
	if err := e.ECall(probe.Put, at, nil); err != nil {
		t.Errorf("the enclave beside: %v", err)
	}
	if err := e.ECall(probe.Jump, at, nil); !errors.Is(err, urts.ErrCrashed) {
		t.Errorf("a crash: %v", err)
	}
}

// TestApplicationDies: the enclave of a connection that ends in the middle of
// an ECALL is removed.
func TestApplicationDies(t *testing.T) {
	r := mustLaunch(t, t.TempDir(), nil)
	watch := r.dial()
	for _, talk := range []bool{false, true} {
		c := r.dial()
		e := load(t, c, LoadOptions{})
		at, _ := shared(t, e, 16)
		done := make(chan error, 1)
		go func() { done <- e.ECall(probe.Loop, at, nil) }()
		time.Sleep(30 * time.Millisecond)
		if talk { // more than the protocol allows
			for range 3 {
				_ = writeFrame(c.c, msgPS, nil)
			}
		} else {
			c.Close()
		}
		<-done
		for i := 0; ; i++ {
			l, err := watch.List()
			if err != nil {
				t.Fatal(err)
			}
			if len(l.Enclaves) == 0 && l.InUse == 0 {
				break
			}
			if i == 100 {
				t.Fatalf("talk %v: %+v", talk, l)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// TestKilledAtRandom: the monitor is killed while applications work. They get
// ErrDaemonGone, no process stays, and the sealed key is the same afterwards.
func TestKilledAtRandom(t *testing.T) {
	rounds := 3
	if os.Getenv("HOLDFAST_TEST_FULL") == "1" {
		rounds = 60
	}
	state := t.TempDir()
	var key [16]byte
	started := 0
	for round := range rounds {
		r := mustLaunch(t, state, nil)
		k := sealKey(t, load(t, r.dial(), LoadOptions{}))
		if round == 0 {
			key = k
		} else if k != key {
			t.Fatalf("round %d: the key is %x, was %x", round, k, key)
		}
		var wg sync.WaitGroup
		for range 4 {
			c := r.dial()
			wg.Go(func() {
				img, err := probe.Image(1, 0, nil)
				if err != nil {
					t.Error(err)
					return
				}
				dir, err := os.MkdirTemp("", "probe")
				if err != nil {
					t.Error(err)
					return
				}
				defer os.RemoveAll(dir)
				if err := probe.Files(dir, "p", img); err != nil {
					t.Error(err)
					return
				}
				f, err1 := os.Open(filepath.Join(dir, "p.sgxs"))
				s, err2 := os.Open(filepath.Join(dir, "p.sig"))
				if err1 != nil || err2 != nil {
					t.Error(err1, err2)
					return
				}
				defer f.Close()
				defer s.Close()
				e, err := c.Load(f, LoadOptions{Sig: s})
				for err == nil {
					err = e.ECall(probe.UD, 0, nil)
				}
				if !errors.Is(err, ErrDaemonGone) && !errors.Is(err, epc.ErrGone) {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		kids := children(t, r.pid)
		started += len(kids)
		if err := r.kill(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the launcher said %v", err)
		}
		wg.Wait()
		enclaves := 0
		for range 100 {
			if enclaves = alive(kids); enclaves == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if enclaves != 0 {
			t.Errorf("round %d: %d enclave processes are left", round, enclaves)
		}
	}
	if started == 0 {
		t.Error("no monitor had an enclave when it was killed")
	}
	t.Logf("%d monitors killed, with %d enclave processes", rounds, started)
}

// children lists the processes that a process started.
func children(t *testing.T, pid int) (out []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tasks {
		b, err := os.ReadFile(x)
		if err != nil {
			continue // the thread ended
		}
		for _, f := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

// alive counts those of the processes that still run an enclave.
func alive(pids []int) (n int) {
	for _, p := range pids {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p)); err == nil && strings.HasPrefix(exe, "/memfd:enclave") {
			n++
		}
	}
	return n
}

// TestSigma: a verifier and an enclave of the daemon agree on keys, and the
// verifier knows which enclave it is.
func TestSigma(t *testing.T) {
	r := mustLaunch(t, t.TempDir(), nil)
	c := r.dial()
	e := load(t, c, LoadOptions{})
	ak, err := r.dial().Enrol("host-1", "")
	if err != nil {
		t.Fatal(err)
	}
	v, first, err := sigma.NewVerifier()
	if err != nil {
		t.Fatal(err)
	}
	a, second, err := sigma.Respond(first, func(d [64]byte) ([]byte, error) {
		b, err := c.Quote(report(t, c, e, evidence.ReportData(d)))
		if err != nil {
			return nil, err
		}
		return b.CBOR(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	third, kv, err := v.Finish(second, func(ev []byte, d [64]byte) error {
		b, err := evidence.ParseFile(ev)
		if err != nil {
			return err
		}
		res, err := check(t, b, evidence.ReportData(d), ak)
		if err == nil && res.Enclave.MREnclave != e.MREnclave {
			err = errors.New("another enclave")
		}
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ka, err := a.Finish(third, nil)
	if err != nil || *ka != *kv {
		t.Errorf("%v", err)
	}
}

// FuzzFrame: no bytes on the socket bring the reader down or leave descriptors
// open; what reads is written the same again.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{4, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4})
	f.Add([]byte{0, 0, 0, 0, 7, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		x, y, err := localPair()
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		defer y.Close()
		if _, err := x.Write(b); err != nil {
			t.Fatal(err)
		}
		x.CloseWrite()
		m, err := readFrame(y)
		if err != nil {
			if m.files != nil || m.payload != nil {
				t.Fatal("an error with a message")
			}
			return
		}
		if err := writeFrame(y, m.kind, m.payload); err != nil {
			t.Fatal(err)
		}
		again := make([]byte, headSize+len(m.payload))
		if _, err := io.ReadFull(x, again); err != nil || !bytes.Equal(again, b[:len(again)]) {
			t.Fatalf("%x, %v", again, err)
		}
	})
}
