// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/test/host"
)

// built builds `holdfast` once and returns its path.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-tpmtools")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "holdfast")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "holdfast/cmd/holdfast")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %v\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func holdfast(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts `holdfast tpm serve` and returns the addresses that it names
// when it is ready, and a function that ends it by SIGTERM.
func serve(t testing.TB, args ...string) (addresses []string, stop func()) {
	t.Helper()
	p := start(t, args...)
	return p.addresses, p.term
}

type process struct {
	t         testing.TB
	cmd       *exec.Cmd
	addresses []string
	out       bytes.Buffer
	done      bool
}

func start(t testing.TB, args ...string) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := &process{t: t, cmd: exec.Command(holdfast(t), append([]string{"tpm", "serve", "--ready-fd", "3"}, args...)...)}
	p.cmd.ExtraFiles = []*os.File{w}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	r.SetReadDeadline(time.Now().Add(30 * time.Second))
	for s := bufio.NewScanner(r); s.Scan(); {
		p.addresses = append(p.addresses, s.Text())
	}
	if len(p.addresses) == 0 {
		p.kill()
		t.Fatalf("holdfast tpm serve %v did not get ready:\n%s", args, p.out.String())
	}
	return p
}

// term ends the server in order and checks that it says so.
func (p *process) term() {
	p.t.Helper()
	if p.done {
		return
	}
	p.done = true
	p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("holdfast tpm serve: after SIGTERM: %v\n%s", err, p.out.String())
	}
}

func (p *process) kill() {
	if p.done {
		return
	}
	p.done = true
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// tools runs tpm2-tools against one TPM.
type tools struct {
	*testing.T
	tcti, dir string
	ours      bool
}

// pair returns two neighbouring free TCP ports.
func pair(t testing.TB) int {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		a.Close()
		if err == nil {
			b.Close()
			return port
		}
	}
	t.Fatal("no two neighbouring free ports")
	return 0
}

// targets runs f against our TPM over both protocols and against swtpm.
func targets(t *testing.T, f func(t *tools)) {
	host.Need(t, "tpm2-tools")
	t.Run("mssim", func(t *testing.T) {
		addresses, stop := serve(t, "--ephemeral", "--startup", "clear", "--mssim", "127.0.0.1:0")
		hostPort := strings.TrimPrefix(addresses[0], "mssim:")
		h, port, _ := net.SplitHostPort(hostPort)
		f(&tools{T: t, ours: true, dir: t.TempDir(), tcti: "mssim:host=" + h + ",port=" + port})
		stop()
	})
	t.Run("swtpm protocol", func(t *testing.T) {
		port := pair(t)
		_, stop := serve(t, "--ephemeral", "--startup", "clear", "--swtpm", fmt.Sprintf("127.0.0.1:%d", port), "--swtpm-ctrl", fmt.Sprintf("127.0.0.1:%d", port+1))
		f(&tools{T: t, ours: true, dir: t.TempDir(), tcti: fmt.Sprintf("swtpm:host=127.0.0.1,port=%d", port)})
		stop()
	})
	t.Run("oracle", func(t *testing.T) {
		host.Need(t, "swtpm")
		port := pair(t)
		dir := t.TempDir()
		cmd := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir, "--flags", "not-need-init,startup-clear",
			"--server", fmt.Sprintf("type=tcp,port=%d", port), "--ctrl", fmt.Sprintf("type=tcp,port=%d", port+1))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			// The control port: the data port serves one connection only.
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
			if err == nil {
				c.Close()
				break
			}
			if time.Now().After(end) {
				t.Fatalf("swtpm did not come up: %s", out.String())
			}
		}
		f(&tools{T: t, dir: t.TempDir(), tcti: fmt.Sprintf("swtpm:host=127.0.0.1,port=%d", port)})
	})
}

// try runs one tool and returns its output; then it unloads what the tool left
// loaded, which is a resource manager's work.
func (t *tools) try(line string, stdin string) (string, error) {
	t.Helper()
	args := strings.Fields(line)
	out, err := t.exec(args, stdin)
	if strings.Contains(line, ".ctx") && args[0] != "tpm2_startauthsession" {
		if _, e := t.exec([]string{"tpm2_flushcontext", "-t"}, ""); e != nil && err == nil {
			t.Fatalf("tpm2_flushcontext -t after %s: %v", line, e)
		}
	}
	return out, err
}

func (t *tools) exec(args []string, stdin string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "TPM2TOOLS_TCTI="+t.tcti, "TSS2_LOG=all+NONE")
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%v: %s", err, stderr.String())
	}
	return stdout.String(), nil
}

// run runs lines of tools, each of which must succeed, and returns the output
// of the last one. Empty lines and those that begin with # are left out.
func (t *tools) run(script string) string {
	t.Helper()
	last := ""
	for _, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		out, err := t.try(line, "")
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		last = out
	}
	return last
}

// refused runs a tool that must fail.
func (t *tools) refused(line string) {
	t.Helper()
	if out, err := t.try(line, ""); err == nil {
		t.Fatalf("%s: succeeded, expected a refusal: %s", line, out)
	}
}

func (t *tools) write(name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(t.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (t *tools) read(name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(t.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (t *tools) same(a, b string) {
	t.Helper()
	if t.read(a) != t.read(b) {
		t.Fatalf("%s and %s differ", a, b)
	}
}
