// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package sdk

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
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
	"holdfast/enclave/sgx/image"
	"holdfast/sdk/edl"
	"holdfast/sdk/sign"
	"holdfast/test/host"
)

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

// built is the SDK, which all tests share.
var built struct {
	once sync.Once
	dir  string
}

func sdkDir(t *testing.T) string {
	t.Helper()
	host.Need(t, "gcc", "musl")
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "holdfast-sdk-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
		run(t, ".", "../../sdk/build.sh", dir)
	})
	return built.dir
}

// sample copies a sample.
func sample(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("../../sdk/samples", name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	if bytes.Contains(out, []byte("warning:")) {
		t.Errorf("%s %s:\n%s", name, strings.Join(args, " "), out)
	}
	return string(out)
}

// launch starts a monitor and returns its socket.
func launch(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan string, 1)
	c := daemon.LaunchConfig{State: t.TempDir(), Socket: filepath.Join(t.TempDir(), "socket"), User: -1, Monitor: daemon.Monitor{Frames: 4096, Algorithm: evidence.ES256}}
	c.OnReady = func(s string, _ int) { ready <- s }
	go func() { ended <- daemon.Launch(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the daemon does not end")
		}
	})
	select {
	case s := <-ready:
		return s
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("the daemon does not become ready")
	}
	return ""
}

func key(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	b, err := os.ReadFile("../../enclave/urts/probe/testdata/signer-test-key.pem")
	if err != nil {
		t.Fatal(err)
	}
	p, _ := pem.Decode(b)
	k, err := x509.ParsePKCS8PrivateKey(p.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k.(*rsa.PrivateKey)
}

// generate is what the makefile's `holdfast enclave edger8r` does.
func generate(t *testing.T, dir, name string) {
	t.Helper()
	i, err := (&edl.Loader{Read: os.ReadFile, Search: []string{"../../sdk/include"}}).Load(filepath.Join(dir, name+".edl"))
	if err != nil {
		t.Fatal(err)
	}
	tr, un := i.Trusted(), i.Untrusted(false)
	for f, text := range map[string]string{"_t.h": tr.Header, "_t.c": tr.Source, "_u.h": un.Header, "_u.c": un.Source} {
		if err := os.WriteFile(filepath.Join(dir, name+f), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// signed is what the makefile's `holdfast enclave sign` does.
func signed(t *testing.T, dir, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "enclave.config.xml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := sign.ParseConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	so, err := os.ReadFile(filepath.Join(dir, name+".so"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := sign.Prepare(so, c, sign.Options{Date: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Sign(key(t))
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.ReadSDK(b)
	if err != nil || img.Measure() != img.Sig.EnclaveHash {
		t.Fatalf("what was signed is not what is measured (%v)", err)
	}
	out := filepath.Join(dir, name+".signed.so")
	if err := os.WriteFile(out, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSamples: built by their makefiles with the SDK alone, without a warning; the
// application, in its own process, does what it checks itself.
func TestSamples(t *testing.T) {
	root := sdkDir(t)
	socket := launch(t)
	for _, name := range []string{"hello", "threads", "seal"} {
		t.Run(name, func(t *testing.T) {
			if name == "seal" {
				host.Need(t, "mbedtls", "binutils")
			}
			dir := sample(t, name)
			generate(t, dir, name)
			run(t, dir, "make", "HOLDFAST_SDK="+root, "app", name+".so")
			signed(t, dir, name)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "./app")
			cmd.Dir = dir
			cmd.Env = []string{"LD_LIBRARY_PATH=" + filepath.Join(root, "lib"), "HOLDFAST_ENCLAVE_SOCKET=" + socket}
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("all right\n")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestKernelIsNamed: an enclave that would enter the kernel is refused, and the
// function is named; so is a function that nothing provides.
func TestKernelIsNamed(t *testing.T) {
	root := sdkDir(t)
	dir := sample(t, "hello")
	generate(t, dir, "hello")
	source := filepath.Join(dir, "enclave.c")
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, "\n#include <unistd.h>\n__attribute__((used)) static int uses(void) { return (int)getpid(); }\n"...)
	if err := os.WriteFile(source, b, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "make", "HOLDFAST_SDK="+root, "hello.so")
	so, err := os.ReadFile(filepath.Join(dir, "hello.so"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sign.Prepare(so, sign.Default(), sign.Options{}); err == nil || !strings.Contains(err.Error(), "SYSCALL at") || !strings.Contains(err.Error(), "in getpid") {
		t.Errorf("got %v, want SYSCALL in getpid", err)
	}
}
