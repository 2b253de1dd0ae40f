// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package sgxapp

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/enclave/daemon"
	"holdfast/enclave/sgx"
	"holdfast/enclave/urts/probe"
)

// library is where the sources are.
const library = "../../sdk/urts"

// TestMain is also the monitor process that the daemon starts.
func TestMain(m *testing.M) {
	if os.Getenv(daemon.ConfigEnv) != "" {
		ctx, stop := context.WithCancel(context.Background())
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		go func() { <-c; stop() }()
		if err := daemon.Run(ctx); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is what all tests share: library, application, enclaves.
var built struct {
	once sync.Once
	dir  string
	err  error
	skip string
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return &buildError{name, string(out), err}
	}
	return nil
}

type buildError struct {
	what, out string
	err       error
}

func (e *buildError) Error() string { return e.what + ": " + e.err.Error() + "\n" + e.out }

func build() (err error) {
	if built.dir, err = os.MkdirTemp("", "holdfast-urts-"); err != nil {
		return err
	}
	lib, stub := filepath.Join(built.dir, "lib"), filepath.Join(built.dir, "stub")
	if err := os.Mkdir(stub, 0o700); err != nil {
		return err
	}
	if err := run(".", library+"/build.sh", lib); err != nil {
		return err
	}
	// Built applications want libsgx_urts.so, or libsgx_urts.so.2 if they are newer.
	for soname, app := range map[string]string{"libsgx_urts.so": "app", "libsgx_urts.so.2": "app2"} {
		if err := run("testdata", "gcc", "-shared", "-fPIC", "-Wl,-soname,"+soname, "-o", filepath.Join(stub, "libsgx_urts.so"), "stub.c"); err != nil {
			return err
		}
		if err := run("testdata", "gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", filepath.Join(built.dir, app), "app.c", "-L"+stub, "-lsgx_urts", "-lpthread"); err != nil {
			return err
		}
	}
	production := func(s *sgx.SigStruct) { s.AttrMask.Flags = ^sgx.Flags(0) }
	for name, f := range map[string]func() ([]byte, error){
		"one.signed.so":   func() ([]byte, error) { return probe.SignedSO(1, 0, nil) },
		"five.signed.so":  func() ([]byte, error) { return probe.SignedSO(5, 0, nil) },
		"large.signed.so": func() ([]byte, error) { return probe.SignedSO(1, 3000, nil) },
		"production.so":   func() ([]byte, error) { return probe.SignedSO(1, 0, production) },
		"provision.so": func() ([]byte, error) {
			return probe.SignedSO(1, 0, func(s *sgx.SigStruct) { s.Attributes.Flags |= sgx.FlagProvisionKey })
		},
		"changed.so": func() ([]byte, error) {
			b, err := probe.SignedSO(1, 0, nil)
			if err == nil {
				b[0x1005] ^= 1 // code
			}
			return b, err
		},
		"forged.so": func() ([]byte, error) {
			b, err := probe.SignedSO(1, 0, nil)
			if i := bytes.Index(b, []byte("sgx_metadata\x00")); err == nil {
				b[i+13+64+600] ^= 1 // the signature
			}
			return b, err
		},
		"none.so": func() ([]byte, error) { return []byte("no enclave"), nil },
	} {
		b, err := f()
		if err == nil {
			err = os.WriteFile(filepath.Join(built.dir, name), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func needBuild(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIP[gcc]: no C compiler on this machine")
	}
	built.once.Do(func() { built.err = build() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// monitor is a daemon of a test.
type monitor struct {
	socket string
	pid    int
	ended  chan error
	stop   func()
}

func launch(t *testing.T, change func(*daemon.LaunchConfig)) *monitor {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &monitor{ended: make(chan error, 1), stop: cancel}
	ready := make(chan struct{})
	c := daemon.LaunchConfig{State: t.TempDir(), Socket: filepath.Join(t.TempDir(), "socket"), User: -1, Monitor: daemon.Monitor{Frames: 2048, Algorithm: evidence.ES256}}
	c.OnReady = func(s string, pid int) {
		m.socket, m.pid = s, pid
		close(ready)
	}
	if change != nil {
		change(&c)
	}
	go func() { m.ended <- daemon.Launch(ctx, c) }()
	select {
	case err := <-m.ended:
		cancel()
		t.Fatal(err)
	case <-ready:
	case <-time.After(time.Minute):
		cancel()
		t.Fatal("the daemon does not become ready")
	}
	t.Cleanup(func() {
		cancel()
		select {
		case <-m.ended:
		case <-time.After(time.Minute):
			t.Error("the daemon does not end")
		}
	})
	return m
}

// application is a run of the test application. Its environment is empty but for
// what is given.
func application(t *testing.T, program, socket string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	dir := needBuild(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, program), args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "lib"), "HOLDFAST_ENCLAVE_SOCKET=" + socket}, env...)
	return cmd
}

func succeed(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, out)
	}
	return string(out)
}

// nothingLeft waits until the monitor has no enclave.
func nothingLeft(t *testing.T, m *monitor) {
	t.Helper()
	c, err := daemon.Dial(context.Background(), m.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		l, err := c.List()
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Enclaves) == 0 && l.InUse == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left behind: %+v", l)
		}
	}
}

// TestApplication: the built application works in every respect.
func TestApplication(t *testing.T) {
	needBuild(t)
	m := launch(t, nil)
	for name, image := range map[string]string{"calls": "one", "memory": "one", "threads": "five", "tcs": "one", "cycles": "one", "faults": "one", "forks": "one", "arguments": "one", "signals": "one"} {
		t.Run(name, func(t *testing.T) {
			succeed(t, application(t, "app", m.socket, nil, name, image+".signed.so"))
		})
	}
	t.Run("newer", func(t *testing.T) { succeed(t, application(t, "app2", m.socket, nil, "calls", "one.signed.so")) })
	nothingLeft(t, m)
}

// TestLog: each conversion of memory is named when that is asked for, and no
// line is written when it is not.
func TestLog(t *testing.T) {
	needBuild(t)
	m := launch(t, nil)
	out := succeed(t, application(t, "app", m.socket, []string{"HOLDFAST_ENCLAVE_LOG=info"}, "memory", "one.signed.so"))
	for _, want := range []string{"moved stack at", "moved memory at", "moved file mapping at", "copied file mapping at", "took back"} {
		if !strings.Contains(out, want) {
			t.Errorf("the log lacks %q:\n%s", want, out)
		}
	}
	if out := succeed(t, application(t, "app", m.socket, nil, "memory", "one.signed.so")); out != "" {
		t.Errorf("the log is not silent: %s", out)
	}
}

// TestStrict: without leave, nothing but the marshalling buffer is reached.
func TestStrict(t *testing.T) {
	needBuild(t)
	m := launch(t, nil)
	out := succeed(t, application(t, "app", m.socket, []string{"HOLDFAST_ENCLAVE_MEMORY=strict"}, "strict", "one.signed.so"))
	if !strings.Contains(out, "strict mode: the enclave touched stack at") {
		t.Errorf("the refusal is not named: %s", out)
	}
}

// TestStatus: each failure of sgx_create_enclave has the status that Intel
// documents for it.
func TestStatus(t *testing.T) {
	dir := needBuild(t)
	m := launch(t, func(c *daemon.LaunchConfig) { c.Frames = 512 })
	closed := launch(t, nil)
	if os.Geteuid() == 0 { // root may connect to what only root may: so the application is another user
		for _, p := range []string{dir, filepath.Join(dir, "lib")} {
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		what, image, status, debug, socket string
	}{
		{"good", "one.signed.so", "0", "1", m.socket},
		{"no such file", "nothing.so", "0x200f", "1", m.socket},
		{"no enclave", "none.so", "0x2001", "1", m.socket},
		{"changed code", "changed.so", "0x2001", "1", m.socket},
		{"forged signature", "forged.so", "0x2003", "1", m.socket},
		{"attributes that it must not have", "provision.so", "0x3002", "1", m.socket},
		{"debug of a production enclave", "production.so", "0x2004", "1", m.socket},
		{"production", "production.so", "0", "0", m.socket},
		{"neither debug nor not", "one.signed.so", "2", "2", m.socket},
		{"the EPC is full", "large.signed.so", "0x2005", "1", m.socket},
		{"no monitor", "one.signed.so", "0x2006", "1", filepath.Join(dir, "nobody")},
		{"a socket path that is too long", "one.signed.so", "0x2006", "1", "/" + strings.Repeat("x", 200)},
	} {
		t.Run(c.what, func(t *testing.T) {
			succeed(t, application(t, "app", c.socket, []string{"HOLDFAST_ENCLAVE_LOG=none"}, "create", c.image, c.status, c.debug))
		})
	}
	if os.Geteuid() == 0 {
		for p := filepath.Dir(closed.socket); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := application(t, "app", closed.socket, []string{"HOLDFAST_ENCLAVE_LOG=none"}, "create", "one.signed.so", "0x5002", "1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61998, Gid: 61998}}
		succeed(t, cmd)
	}
}

// TestLost: the monitor is killed while an ECALL runs: the application gets
// SGX_ERROR_ENCLAVE_LOST at once, and can go on without.
func TestLost(t *testing.T) {
	needBuild(t)
	m := launch(t, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := application(t, "app", m.socket, []string{"HOLDFAST_ENCLAVE_LOG=none"}, "lost", "one.signed.so")
	cmd.ExtraFiles = []*os.File{w}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if n, err := r.Read(make([]byte, 1)); n != 1 {
		_ = cmd.Wait()
		t.Fatalf("the application did not get ready: %v\n%s", err, out.String())
	}
	_ = syscall.Kill(m.pid, syscall.SIGKILL)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestApplicationKilled: what an application had is gone with it.
func TestApplicationKilled(t *testing.T) {
	needBuild(t)
	m := launch(t, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := application(t, "app", m.socket, nil, "lost", "one.signed.so")
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if n, err := r.Read(make([]byte, 1)); n != 1 {
		t.Errorf("the application did not get ready: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	nothingLeft(t, m)
}

// TestClang: the other compiler has nothing to say either.
func TestClang(t *testing.T) {
	clang := ""
	for _, c := range []string{"clang", "clang-14"} {
		if _, err := exec.LookPath(c); err == nil {
			clang = c
			break
		}
	}
	if clang == "" {
		t.Skip("SKIP[clang-14]: no clang on this machine")
	}
	sources, err := filepath.Glob(library + "/*.c")
	if err != nil || len(sources) < 10 {
		t.Fatalf("%d sources, %v", len(sources), err)
	}
	if out, err := exec.Command(clang, append([]string{"-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"}, sources...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
