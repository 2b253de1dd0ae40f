// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// Addresses of client and server inside tunnels.
const (
	tunnelClient = "10.88.0.1"
	tunnelServer = "10.88.0.2"
)

// TestPaths: below IP there may be a VLAN, an overlay network or a VPN. The hold
// sees the program's own packets above all of them.
func TestPaths(t *testing.T) {
	for _, path := range []struct {
		name, feature string
		lay           func(t *testing.T, l *lab)
	}{
		{"VLAN", "vlan", func(t *testing.T, l *lab) {
			l.link(t, l.client, tunnelClient, "link", "eth0", "type", "vlan", "id", "5")
			l.link(t, l.server, tunnelServer, "link", "eth0", "type", "vlan", "id", "5")
		}},
		{"VXLAN", "vxlan", func(t *testing.T, l *lab) {
			l.link(t, l.client, tunnelClient, "type", "vxlan", "id", "5", "dstport", "4789", "local", netns.ClientV4, "remote", netns.ServerV4)
			l.link(t, l.server, tunnelServer, "type", "vxlan", "id", "5", "dstport", "4789", "local", netns.ServerV4, "remote", netns.ClientV4)
		}},
		{"VPN", "tun", func(t *testing.T, l *lab) {
			l.vpn(t, l.server, tunnelServer, netns.ServerV4, netns.ClientV4)
			l.vpn(t, l.client, tunnelClient, netns.ClientV4, netns.ServerV4)
		}},
	} {
		t.Run(path.name, func(t *testing.T) {
			host.Need(t, path.feature)
			l := newLab(t)
			l.serveGo()
			path.lay(t, l)
			wire := watch(t, l.server)
			addr := tunnelServer + ":" + goPort
			out, err := l.help("get", addr, name, "/", "2")
			if got := strings.Join(l.decisions(1), ","); err != nil || !answered(out) || got != "released " {
				t.Fatalf("the gate says %q: %v %s", got, err, out)
			}
			through := false
			for src := range wire.streams(t, 8443) {
				through = through || src.Addr().String() == tunnelClient
			}
			if !through {
				t.Error("the session did not take the tunnel")
			}
			wire.forget()
			l.forget()
			out, err = l.help("get", addr, "other.test", "/", "1")
			if got := strings.Join(l.decisions(1), ","); err == nil || answered(out) || got != "refused no-policy-for-name" {
				t.Errorf("a name without policy: the gate says %q: %v %s", got, err, out)
			}
			for src, b := range wire.streams(t, 8443) {
				if err := onlyHellos(b); err != nil {
					t.Errorf("%v has sent %v", src, err)
				}
			}
		})
	}
}

// link makes a device called tunnel with an address.
func (l *lab) link(t *testing.T, ns *netns.Namespace, addr string, how ...string) {
	t.Helper()
	add := []string{"ip", "link", "add"}
	if how[0] == "link" {
		add = append(add, how[:2]...)
		how = how[2:]
	}
	for _, args := range [][]string{append(append(add, "name", "tunnel"), how...), {"ip", "addr", "add", addr + "/24", "dev", "tunnel"}, {"ip", "link", "set", "tunnel", "up"}} {
		if out, err := ns.Run(args...); err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
	}
}

// vpn starts a program that carries the packets of a TUN device in datagrams.
// It is not in the gated group, as a VPN's daemon is not.
func (l *lab) vpn(t *testing.T, ns *netns.Namespace, addr, here, there string) {
	t.Helper()
	p := l.start(ns, netns.Command{Args: l.helperArgs("vpn", here+":5555", there+":5555", addr+"/24"), Time: 5 * time.Minute})
	if err := p.WaitOutput("up", netnsLimit); err != nil {
		t.Fatalf("%v %s", err, p.Output())
	}
}

// TestKeepalive: segments that only ask whether the other end is there pass in
// both directions: the client's while it waits for a ServerHello, the server's
// while the client's Finished is held.
func TestKeepalive(t *testing.T) {
	l := newLab(t, slow(2*time.Second), patient)
	l.serve(goPort, l.helperArgs("late", ":"+goPort, l.path("cert.pem"), l.path("key.pem"), "2s")...)
	toServer, toClient := watch(t, l.server), watch(t, l.client)
	out, err := l.help("alive", v4(goPort), name)
	if got := strings.Join(l.decisions(1), ","); err != nil || !answered(out) || got != "released " {
		t.Fatalf("the gate says %q: %v %s", got, err, out)
	}
	for _, way := range []struct {
		name     string
		c        *capture
		from, to uint16 // ports; 0 is any
	}{{"client", toServer, 0, 8443}, {"server", toClient, 8443, 0}} {
		if n := way.c.probes(way.from, way.to); n == 0 {
			t.Errorf("no keepalive of the %s arrived", way.name)
		}
	}
}

// TestZeroWindow: a server that reads late makes the client stop: within its
// ClientHello, and in the middle of what was released. Nothing is lost, and
// nothing of the request leaves while the session is not attested.
func TestZeroWindow(t *testing.T) {
	l := newLab(t, patient)
	l.serve(goPort, l.helperArgs("narrow", ":"+goPort, l.path("cert.pem"), l.path("key.pem"), "1s")...)
	toClient := watch(t, l.client)
	out, err := l.help("pour", v4(goPort), name)
	if got := strings.Join(l.decisions(1), ","); err != nil || !strings.Contains(out, "all of it arrived") || got != "released " {
		t.Fatalf("the gate says %q: %v %s", got, err, out)
	}
	shut := 0
	for _, p := range toClient.packets() {
		if p.src.Port() == 8443 && p.flags&2 == 0 && p.window == 0 {
			shut++
		}
	}
	if shut == 0 {
		t.Error("the server never shut its window, so the test shows nothing")
	}
}

// patient gives sessions half a minute.
func patient(l *lab) {
	l.edit = func(file, text string) string {
		if file == "gate.yaml" {
			return strings.Replace(text, "deadline: 5s", "deadline: 30s", 1)
		}
		return text
	}
}

// probes counts keepalives: no payload, one before the next byte.
func (c *capture) probes(from, to uint16) (n int) {
	next := map[string]uint32{}
	for _, p := range c.packets() {
		if from != 0 && p.src.Port() != from || to != 0 && p.dst.Port() != to {
			continue
		}
		k := p.src.String() + p.dst.String()
		if want, ok := next[k]; ok && len(p.payload) == 0 && p.flags&7 == 0 && p.seq == want-1 {
			n++
		}
		end := p.seq + uint32(len(p.payload))
		if p.flags&3 != 0 {
			end++
		}
		if old, ok := next[k]; !ok || int32(end-old) > 0 {
			next[k] = end
		}
	}
	return n
}

// TestEncryptedClientHello: a client that uses real Encrypted ClientHello (RFC
// 9849) with a server that takes it: with a gate it is refused and told apart,
// since the name in the clear would choose the policy.
func TestEncryptedClientHello(t *testing.T) {
	l := newLab(t)
	l.serve(goPort, l.helperArgs("ech-serve", ":"+goPort, l.path("cert.pem"), l.path("key.pem"), l.path("ech"))...)
	wire := watch(t, l.server)
	get := l.helperArgs("ech-get", v4(goPort), "other.test", l.path("ech"))
	if out, err := l.client.Run(get...); err != nil || !strings.Contains(out, "hello to other.test, encrypted") {
		t.Fatalf("without a gate it does not work, so the test shows nothing: %v %s", err, out)
	}
	l.refused(t, wire, get, "ech")
}
