// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/host"
)

// insideVariable tells the inner half which binary to run.
const insideVariable = "HOLDFAST_TPMTOOLS_INSIDE"

// TestStranger: a process of another user reaches neither root's default
// socket nor a key behind it. It runs itself again with a /run of its own, so
// that a TPM of this machine is left alone.
func TestStranger(t *testing.T) {
	host.Need(t, "root")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestStrangerInside$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"="+holdfast(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("ALL REFUSED")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// as runs `holdfast` as a user and returns its exit status and output.
func as(t *testing.T, uid uint32, binary string, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestStrangerInside is the inner half of TestStranger.
func TestStrangerInside(t *testing.T) {
	binary := os.Getenv(insideVariable)
	if binary == "" {
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	const (
		sock   = "/run/holdfast/tpm.sock"
		spec   = "swtpm:unix:" + sock
		nobody = 65534
	)
	server := exec.Command(binary, "tpm", "serve", "--ephemeral", "--startup", "clear", "--ready-fd", "3")
	server.Env = []string{"XDG_RUNTIME_DIR=/tmp"} // counts for others, not for root
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	server.ExtraFiles = []*os.File{w}
	var log bytes.Buffer
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer func() { server.Process.Kill(); server.Wait() }()
	r.SetReadDeadline(time.Now().Add(20 * time.Second))
	line := make([]byte, 200)
	n, _ := r.Read(line)
	if got := strings.TrimSpace(string(line[:n])); got != spec {
		t.Fatalf("the server listens at %q, expected %q\n%s", got, spec, log.String())
	}
	if info, err := os.Stat(sock); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	if code, out := as(t, 0, binary, "tpm", "createak", "-C", "o", "-G", "mldsa65", "-p", "secret", "-c", "/run/ak.ctx"); code == 0 {
		t.Fatalf("a hierarchy was taken for a parent: %s", out)
	}
	for _, step := range [][]string{
		{"tpm", "createprimary", "-G", "mlkem768", "-c", "/run/srk.ctx"},
		{"tpm", "createak", "-C", "/run/srk.ctx", "-G", "mldsa65", "-p", "secret", "-c", "/run/ak.ctx"},
		{"tpm", "quote", "-c", "/run/ak.ctx", "-p", "secret", "-l", "sha256:0,16", "-q", "00"},
	} {
		if code, out := as(t, 0, binary, step...); code != 0 {
			t.Fatalf("root: %v: %d %s", step, code, out)
		}
	}
	os.Chmod("/run/ak.ctx", 0o644) // what the stranger may read does not help him
	tries := [][]string{
		{"tpm", "getrandom", "--tpm", spec, "8"},
		{"tpm", "quote", "--tpm", spec, "-c", "/run/ak.ctx", "-p", "secret", "-l", "sha256:0,16", "-q", "00"},
		{"tpm", "pcrextend", "--tpm", spec, "16:sha256=" + strings.Repeat("00", 32)},
	}
	for _, try := range tries {
		if code, out := as(t, nobody, binary, try...); code != 1 || !strings.Contains(out, "permission denied") {
			t.Fatalf("a stranger: %v: %d %s", try, code, out)
		}
	}
	// Even when somebody opened the modes by mistake.
	os.Chmod("/run/holdfast", 0o755)
	os.Chmod(sock, 0o666)
	for _, try := range tries {
		if code, out := as(t, nobody, binary, try...); code != 1 {
			t.Fatalf("a stranger, with open modes: %v: %d %s", try, code, out)
		}
	}
	if code, out := as(t, 0, binary, "tpm", "getrandom", "--hex", "8"); code != 0 {
		t.Fatalf("root, afterwards: %d %s", code, out)
	}
	if !strings.Contains(log.String(), "the peer is user 65534") {
		t.Fatalf("the refusals are not in the log: %s", log.String())
	}
	t.Log("ALL REFUSED")
}
