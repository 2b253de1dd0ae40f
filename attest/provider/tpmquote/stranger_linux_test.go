// SPDX-License-Identifier: Apache-2.0

package tpmquote_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/tpmquote"
	"holdfast/tpm2"
	"holdfast/tpmio/swtpm"
	"holdfast/tss"
)

// asNobody connects to a socket as user 65534. The change of user is the
// thread's alone, and the thread ends with the goroutine.
func asNobody(t *testing.T, sock string) (net.Conn, error) {
	t.Helper()
	type result struct {
		c   net.Conn
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); e != 0 {
			done <- result{nil, e}
			return
		}
		c, err := net.Dial("unix", sock)
		done <- result{c, err}
	}()
	r := <-done
	return r.c, r.err
}

// TestStranger: an unprivileged user asks the TPM for a quote over its own
// report data. The socket's mode stops it; where somebody opened the socket,
// the key's secret does, even with the key file in hand.
func TestStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP[root]: only root can become another user")
	}
	client, sock := swtpmAt(t)
	if err := os.Chmod(filepath.Dir(sock), 0o755); err != nil {
		t.Fatal(err)
	}
	sec := secret(t)
	k, _ := enroll(t, client, tpmquote.ES256, sec)
	client.Close()

	if err := os.Chmod(sock, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tpmquote.CheckExclusive("swtpm:unix:" + sock); err != nil {
		t.Errorf("a private socket: %v", err)
	}
	if c, err := asNobody(t, sock); !errors.Is(err, os.ErrPermission) {
		t.Fatalf("a stranger at a private socket: got %v, %v", c, err)
	}

	if err := os.Chmod(sock, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := tpmquote.CheckExclusive("swtpm:unix:" + sock); err == nil {
		t.Error("an open socket passes for private")
	}
	c, err := asNobody(t, sock)
	if err != nil {
		t.Fatalf("a stranger at an open socket: %v", err)
	}
	stranger := swtpm.NewClient(c, sock)
	defer stranger.Close()
	guess := secret(t)
	p, err := tpmquote.Open(stranger, k, guess, tpmquote.Options{PCRs: []string{"sha256:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var refused *tss.Error
	if r, err := p.Report(t.Context(), evidence.ReportData{66}); r.Body != nil || !errors.As(err, &refused) || !(errors.Is(err, tpm2.RCAuthFail) || errors.Is(err, tpm2.RCBadAuth)) {
		t.Errorf("a stranger's quote: got %v, %v", r.Body != nil, err)
	}
}
