// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/test/host"
)

// Addresses of [Pair] and [Routed]. The client is ...1, the server ...2.
const (
	ClientV4 = "10.77.0.1"
	ServerV4 = "10.77.1.2"
	ClientV6 = "fd77::1"
	ServerV6 = "fd77:0:0:1::2"
	// the router's addresses on the client's and the server's wire
	RouterClientV4 = "10.77.0.254"
	RouterServerV4 = "10.77.1.254"
	RouterClientV6 = "fd77::fe"
	RouterServerV6 = "fd77:0:0:1::fe"
)

// Test is New for a test: it skips without the needed features and closes the
// network at the end.
func Test(t testing.TB) *Net {
	t.Helper()
	host.Need(t, "root", "netns")
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close the network: %v", err)
		}
	})
	return n
}

// Pair makes two hosts on one wire:
//
//	client eth0 10.77.0.1, fd77::1 ──── eth0 10.77.1.2, fd77:0:0:1::2 server
func Pair(t testing.TB) (n *Net, client, server *Namespace) {
	t.Helper()
	n = Test(t)
	hosts, err := n.pair()
	if err != nil {
		t.Fatal(err)
	}
	return n, hosts[0], hosts[1]
}

// Pair is the same outside of tests.
func (n *Net) Pair() (client, server *Namespace, err error) {
	hosts, err := n.pair()
	return hosts[0], hosts[1], err
}

func (n *Net) pair() (hosts [2]*Namespace, err error) {
	for i, name := range []string{"client", "server"} {
		if hosts[i], err = n.Namespace(name); err != nil {
			return hosts, err
		}
	}
	return hosts, n.Join(
		End{hosts[0], "eth0", []string{ClientV4 + "/16", ClientV6 + "/32"}},
		End{hosts[1], "eth0", []string{ServerV4 + "/16", ServerV6 + "/32"}})
}

// Routed makes client and server with a router between them, which forwards
// honestly until somebody there decides otherwise:
//
//	client eth0 ── eth0 router eth1 ── eth0 server
func Routed(t testing.TB) (n *Net, client, router, server *Namespace) {
	t.Helper()
	n = Test(t)
	client, router, server, err := n.Routed()
	if err != nil {
		t.Fatal(err)
	}
	return n, client, router, server
}

// Routed is the same outside of tests.
func (n *Net) Routed() (client, router, server *Namespace, err error) {
	var hosts [3]*Namespace
	for i, name := range []string{"client", "router", "server"} {
		if hosts[i], err = n.Namespace(name); err != nil {
			return nil, nil, nil, err
		}
	}
	client, router, server = hosts[0], hosts[1], hosts[2]
	steps := []func() error{
		router.Forward,
		func() error {
			return n.Join(End{client, "eth0", []string{ClientV4 + "/24", ClientV6 + "/64"}},
				End{router, "eth0", []string{RouterClientV4 + "/24", RouterClientV6 + "/64"}})
		},
		func() error {
			return n.Join(End{server, "eth0", []string{ServerV4 + "/24", ServerV6 + "/64"}},
				End{router, "eth1", []string{RouterServerV4 + "/24", RouterServerV6 + "/64"}})
		},
		func() error { return client.Route("0.0.0.0/0", RouterClientV4) },
		func() error { return client.Route("::/0", RouterClientV6) },
		func() error { return server.Route("0.0.0.0/0", RouterServerV4) },
		func() error { return server.Route("::/0", RouterServerV6) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, nil, nil, err
		}
	}
	return client, router, server, nil
}

// WaitTCP waits until something listens on the address, as seen from inside.
func (ns *Namespace) WaitTCP(address string, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		err := ns.Do(func() error {
			c, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				return err
			}
			return c.Close()
		})
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

var buildOnce sync.Once
var builtBinary, builtError string

// Binary returns the path of the holdfast program: the one that the variable
// HOLDFAST_BIN names (`make test` sets it), else one built now.
func Binary(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("HOLDFAST_BIN"); p != "" {
		return p
	}
	buildOnce.Do(func() {
		sweepBinaries()
		dir, err := os.MkdirTemp("", binaryPrefix+strconv.Itoa(os.Getpid())+"-")
		if err != nil {
			builtError = err.Error()
			return
		}
		builtBinary = filepath.Join(dir, "holdfast")
		cmd := exec.Command("go", "build", "-o", builtBinary, "holdfast/cmd/holdfast")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			builtError = err.Error() + "\n" + string(out)
		}
	})
	if builtError != "" {
		t.Fatalf("build holdfast: %s", builtError)
	}
	return builtBinary
}

// binaryPrefix begins the name of a folder with a built program; the process
// id of its owner follows.
const binaryPrefix = "holdfast-bin-"

// sweepBinaries removes what test processes that are gone have built: a test
// binary has no moment at which it could do so itself.
func sweepBinaries() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), binaryPrefix+"*"))
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.Split(strings.TrimPrefix(filepath.Base(dir), binaryPrefix), "-")[0])
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}
