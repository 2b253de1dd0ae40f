// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sockdiag_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/latch/sockdiag"
	"holdfast/test/host"
)

// pair is a TCP connection on the loopback device of the calling thread's
// network namespace.
func pair(t *testing.T, addr string) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func names(t *testing.T, c *net.TCPConn) (cookie uint64, local, remote netip.AddrPort) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) { cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE) }); errors.Join(e, err) != nil {
		t.Fatal(e, err)
	}
	return cookie, c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
}

// TestDestroy: only the socket with the cookie is aborted, and both ends learn
// of it at once.
func TestDestroy(t *testing.T) {
	host.Need(t, "root")
	d, err := sockdiag.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		client, server := pair(t, addr)
		cookie, local, remote := names(t, server)
		if !d.Has(cookie, local, remote) || d.Has(cookie+1, local, remote) {
			t.Fatalf("%s: the socket is not found by its cookie", addr)
		}
		if found, err := d.Destroy(cookie+1, local, remote, 0); found || err != nil {
			t.Errorf("%s: another cookie: found %v, %v", addr, found, err)
		}
		client.SetDeadline(time.Now().Add(20 * time.Second))
		server.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := server.Write([]byte("x")); err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		if n, err := client.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		if found, err := d.Destroy(cookie, local, remote, 0); !found || err != nil {
			t.Fatalf("%s: found %v, %v", addr, found, err)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNABORTED) {
			t.Errorf("%s: the server's end: %v, expected ECONNABORTED", addr, err)
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%s: the client's end: %v, expected ECONNRESET", addr, err)
		}
		if found, err := d.Destroy(cookie, local, remote, 0); found || err != nil {
			t.Errorf("%s: a second time: found %v, %v", addr, found, err)
		}
	}
}

// TestDump lists a socket that is there and aborts it from the list.
func TestDump(t *testing.T) {
	host.Need(t, "root")
	client, server := pair(t, "127.0.0.1:0")
	cookie, _, _ := names(t, server)
	err := sockdiag.In("/proc/thread-self/ns/net", func(d *sockdiag.Diag) error {
		var found []byte
		err := d.Dump(unix.AF_INET, nil, func(msg []byte) {
			if len(msg) >= 72 && binary.NativeEndian.Uint64(msg[44:]) == cookie {
				found = append(found, msg[:72]...)
			}
		})
		if err == nil && found == nil {
			err = errors.New("the socket is not in the list")
		}
		if err == nil {
			err = d.DestroyListed(found)
		}
		if err == nil {
			err = d.DestroyListed(found) // one that is gone
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	client.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the client's end: %v, expected ECONNRESET", err)
	}
	if err := sockdiag.In("/proc/self/ns/none", func(*sockdiag.Diag) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such namespace: %v", err)
	}
	if err := sockdiag.In("/dev/null", func(*sockdiag.Diag) error { return nil }); !errors.Is(err, unix.EINVAL) {
		t.Errorf("no namespace: %v", err)
	}
}
