// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestServerReset: a server that resets after the ClientHello: the client sees
// it at once, as without a gate.
func TestServerReset(t *testing.T) {
	l := newLab(t)
	l.serve(goPort, l.helperArgs("rude", ":"+goPort)...)
	began := time.Now()
	out, err := l.help("idle", v4(goPort), name)
	if took := time.Since(began); err == nil || !strings.Contains(out, "reset by peer") || took > 3*time.Second {
		t.Errorf("after %v: %v %s", took, err, out)
	}
}

// TestCleartextStarts: protocols that begin in the clear are refused at once,
// with a reason that says so.
func TestCleartextStarts(t *testing.T) {
	l := newLab(t)
	wire := watch(t, l.server)
	l.serve("2525", l.helperArgs("banner", ":2525")...)
	l.serve("5432", l.helperArgs("silent", ":5432")...)
	for _, tc := range []struct{ name, port, hex, reason string }{
		{"SMTP, the server speaks first", "2525", hexOf("EHLO secret.example\r\n"), "cleartext-start"},
		{"Postgres SSLRequest, 8 bytes", "5432", "0000000804d2162f", "not-tls"},
		{"SOCKS5, 3 bytes", "5432", "050100", "not-tls"},
		{"HTTP CONNECT", "5432", hexOf("CONNECT secret.example:443 HTTP/1.1\r\n\r\n"), "not-tls"},
		{"one byte", "5432", "41", "not-tls"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			began := time.Now()
			l.refused(t, wire, l.helperArgs("raw", v4(tc.port), tc.hex), tc.reason)
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("refused after %v only", took)
			}
		})
	}
}

// TestSmallMSS: a path of 576 bytes, so that each hello is many segments.
func TestSmallMSS(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	for _, ns := range []*netns.Namespace{l.client, l.server} {
		if out, err := ns.Run("ip", "link", "set", "eth0", "mtu", "576"); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	out, err := l.help("get", v4(goPort), name, "/", "2")
	if got := strings.Join(l.decisions(1), ","); err != nil || !answered(out) || got != "released " {
		t.Errorf("the gate says %q: %v %s", got, err, out)
	}
}

// TestKeyUpdate: new traffic keys after the release, asked for by the client,
// are none of the gate's business.
func TestKeyUpdate(t *testing.T) {
	host.Need(t, "openssl")
	l := newLab(t)
	l.serveGo()
	out, err := l.run("sh", "-c", fmt.Sprintf(`(sleep 1; echo K; sleep 0.3; printf 'GET / HTTP/1.0\r\nHost: %[2]s\r\n\r\n'; sleep 0.7) | timeout 9 openssl s_client -connect %[1]s -servername %[2]s`, v4(goPort), name))
	if got := strings.Join(l.decisions(1), ","); !strings.Contains(out, "KEYUPDATE") || !answered(out) || got != "released " {
		t.Errorf("the gate says %q: %v %s", got, err, out)
	}
}

// TestHappyEyeballs: a client races IPv6 and IPv4 and resets the loser before
// it has said a word. The winner is attested; the loser leaves nothing behind.
func TestHappyEyeballs(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	for _, winner := range []string{"v4", "v6"} {
		l.forget()
		out, err := l.help("race", v4(goPort), v6(goPort), name, winner)
		if e := l.events("released", "refused"); err != nil || !answered(out) || len(e) != 1 || e[0].Msg != "released" {
			t.Errorf("%s wins: %v %s; the gate says %+v", winner, err, out, e)
		}
	}
	if s := l.stats(); s.Released != 2 || len(s.Refused) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestResetWhileHeld: the server ends while the request is held: the client
// learns of it at once, and nothing leaves.
func TestResetWhileHeld(t *testing.T) {
	l := newLab(t, slow(4*time.Second))
	s := l.serveGo()
	wire := watch(t, l.server)
	p := l.start(l.client, netns.Command{Args: l.helperArgs("idle", v4(goPort), name), Group: l.gated, Time: 30 * time.Second})
	if err := p.WaitOutput("connected", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	s.Kill() // its end of the connection is closed; what comes later is answered by a reset
	began := time.Now()
	<-p.Done()
	if took := time.Since(began); strings.Contains(p.Output(), "answer true") || took > 3*time.Second {
		t.Errorf("after %v: %v %s", took, p.Wait(), p.Output())
	}
	wire.noLeak(t)
}

// TestContainer: what an engine makes, made by hand: a network namespace on a
// veth pair, address translation on the client's machine, and a control group
// below the gated one. The gate is outside of the container.
func TestContainer(t *testing.T) {
	host.Need(t, "nft")
	l := newLab(t)
	l.serveGo()
	c, err := l.n.Namespace("container")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.client.Forward(); err != nil {
		t.Fatal(err)
	}
	if err := l.n.Join(netns.End{In: c, Device: "eth0", Addresses: []string{"172.30.0.2/24"}}, netns.End{In: l.client, Device: "veth0", Addresses: []string{"172.30.0.1/24"}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Route("0.0.0.0/0", "172.30.0.1"); err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"add table ip nat", "add chain ip nat post { type nat hook postrouting priority 100; }", "add rule ip nat post oifname eth0 masquerade"} {
		if out, err := l.client.Run("nft", rule); err != nil {
			t.Fatalf("%s: %v %s", rule, err, out)
		}
	}
	var nested string
	for _, name := range []string{"gated/engine", "gated/engine/container"} {
		if nested, err = l.n.Group(name); err != nil {
			t.Fatal(err)
		}
	}
	wire := watch(t, l.server)
	run := func(args ...string) (string, error) {
		return c.RunCommand(netns.Command{Args: l.helperArgs(args...), Group: nested, Time: 20 * time.Second})
	}
	out, err := run("get", v4(goPort), name, "/", "3")
	if got := strings.Join(l.decisions(1), ","); err != nil || !answered(out) || got != "released " {
		t.Errorf("the gate says %q: %v %s", got, err, out)
	}
	for src := range wire.streams(t, 8443) {
		if src.Addr().String() != netns.ClientV4 {
			t.Errorf("a connection from %v: the address was not translated", src)
		}
	}
	wire.forget()
	l.forget()
	out, err = run("get", v4(goPort), "other.test", "/", "1")
	if e := l.events("refused"); err == nil || len(e) != 1 || e[0].Reason != "no-policy-for-name" {
		t.Errorf("%v %s; the gate says %+v", err, out, e)
	}
	wire.noLeak(t)
	// A network namespace that the container makes for itself has IPv6, too.
	if out, err := c.RunCommand(netns.Command{Args: []string{"unshare", "-n", "sh", "-c", "ip link set lo up; exec " + strings.Join(l.helperArgs("loop6"), " ")}, Group: nested}); err != nil {
		t.Errorf("IPv6 in a namespace of the container's own: %v %s", err, out)
	}
}

// TestCommandScopeLeavesOthersAlone: scopes of a user: his programs are gated,
// wherever their control group is below the scope's; another user's are not.
func TestUserScope(t *testing.T) {
	l := newLab(t, func(l *lab) { l.extra = ", users: [\"54321\"]" })
	l.serveGo()
	as := func(uid string, server string) (string, error) {
		return l.run(append([]string{"setpriv", "--reuid", uid, "--clear-groups"}, l.helperArgs("get", v4(goPort), server, "/", "1")...)...)
	}
	if out, err := as("54321", name); err != nil || !answered(out) {
		t.Errorf("the gated user: %v %s", err, out)
	}
	if got := strings.Join(l.decisions(1), ","); got != "released " {
		t.Errorf("the gate says %q", got)
	}
	if out, err := as("54321", "other.test"); err == nil || answered(out) {
		t.Errorf("the gated user, a name without policy: %v %s", err, out)
	}
	if out, err := as("54322", "other.test"); err != nil || !answered(out) {
		t.Errorf("another user: %v %s", err, out)
	}
}

// TestNetNSScope: a scope of one network namespace.
func TestNetNSScope(t *testing.T) {
	l := newLab(t, func(l *lab) { l.inNetNS = true })
	l.serveGo()
	if out, err := l.help("get", v4(goPort), name, "/", "1"); err != nil || !answered(out) {
		t.Errorf("%v %s", err, out)
	}
	if out, err := l.help("get", v4(goPort), "other.test", "/", "1"); err == nil || answered(out) {
		t.Errorf("inside, a name without policy: %v %s", err, out)
	}
	if out, err := l.runIn(l.server, l.helperArgs("get", net.JoinHostPort("127.0.0.1", goPort), "other.test", "/", "1")...); err != nil || !answered(out) {
		t.Errorf("in another namespace: %v %s", err, out)
	}
}

// TestTry: a gate that is only tried ends by itself and opens its scope.
func TestTry(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	if err := l.gate.Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, err := l.client.Run(l.bin, "latch", "gate", "--config", l.path("gate.yaml"), "--try", "1500ms")
	if took := time.Since(began); err != nil || took < time.Second || took > 20*time.Second {
		t.Errorf("after %v: %v %s", took, err, out)
	}
	if out, err := l.help("get", v4(goPort), "other.test", "/", "1"); err != nil || !answered(out) {
		t.Errorf("the scope is not open: %v %s", err, out)
	}
}
