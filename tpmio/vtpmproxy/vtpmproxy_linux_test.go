// SPDX-License-Identifier: Apache-2.0

package vtpmproxy

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNew(t *testing.T) {
	_, err := os.Stat(controlDevice)
	d, newErr := New()
	if errors.Is(err, os.ErrNotExist) {
		if !errors.Is(newErr, ErrUnsupported) {
			t.Fatalf("without %s: %v", controlDevice, newErr)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIP[root]: /dev/vtpmx is for root only")
	}
	if newErr != nil {
		t.Fatal(newErr)
	}
	defer d.Conn().Close()
	// The kernel sends its first command at once.
	b := make([]byte, 4096)
	if n, err := d.Conn().Read(b); err != nil || n < 10 {
		t.Fatal(n, err)
	}
}

// TestConn: the connection over a socket pair, which like the device keeps
// messages apart: whole messages, and an end of Read by Close.
func TestConn(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	c := (&Device{Path: "/dev/tpm9", file: os.NewFile(uintptr(fds[0]), "x")}).Conn()
	unix.Write(fds[1], []byte("command"))
	b := make([]byte, 100)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "command" {
		t.Fatal(n, err)
	}
	if n, err := c.Write([]byte("response")); n != 8 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := unix.Read(fds[1], b); err != nil || string(b[:n]) != "response" {
		t.Fatal(n, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close did not end Read")
	}
	if _, err := c.Write(b); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}
