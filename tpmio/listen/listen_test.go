// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOpenUnix(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	old := syscall.Umask(0) // the mode must not depend on it
	l, err := Open("unix:" + path)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Open("unix:" + path); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Fatal(err)
	}
	l.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the socket file stays behind")
	}
	// A socket that a killed server left is replaced.
	l, _ = Open("unix:" + path)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if l, err = Open("unix:" + path); err != nil {
		t.Fatal(err)
	}
	l.Close()
	os.WriteFile(path, []byte("precious"), 0o600)
	if _, err := Open("unix:" + path); err == nil {
		t.Fatal("a file was taken for a socket")
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Fatal("the file is gone")
	}
	os.Chmod(dir, 0o777)
	if _, err := Open("unix:" + filepath.Join(dir, "t")); err == nil || !strings.Contains(err.Error(), "others can replace") {
		t.Fatal(err)
	}
	for _, bad := range []string{"unix:", "unix:@x", "", ":2321", "2321", "127.0.0.1", "127.0.0.1:"} {
		if l, err := Open(bad); err == nil {
			l.Close()
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestStranger: a process of another user is turned away by the mode of the
// socket, and by the check of the peer when the mode was opened.
func TestStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP[root]: becoming another user needs root")
	}
	dir, err := os.MkdirTemp("", "listen")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	path := filepath.Join(dir, "s")
	l, err := Open("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(Limits{}, nil)
	go s.Serve(l, func(c *Conn) { io.WriteString(c, "secret") })
	defer s.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "probe")
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32) string {
		cmd := exec.Command(copied, "-test.run=^TestProbe$", "-test.v")
		cmd.Dir = "/"
		cmd.Env = []string{"LISTEN_PROBE=" + path}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if out := as(0); !strings.Contains(out, "GOT secret") {
		t.Fatalf("root: %s", out)
	}
	if out := as(65534); !strings.Contains(out, "permission denied") {
		t.Fatalf("mode 0600 did not stop a stranger: %s", out)
	}
	os.Chmod(path, 0o666)
	if out := as(65534); strings.Contains(out, "secret") || !strings.Contains(out, "GOT ") {
		t.Fatalf("the peer check did not stop a stranger: %s", out)
	}
}

// TestProbe is the other side of TestStranger.
func TestProbe(t *testing.T) {
	path := os.Getenv("LISTEN_PROBE")
	if path == "" {
		return
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(5 * time.Second))
	b, _ := io.ReadAll(c)
	t.Logf("GOT %s", b)
}
