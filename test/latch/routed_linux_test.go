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

// TestRoutedClients: clients on another machine, behind a router with a gate.
func TestRoutedClients(t *testing.T) {
	l := newLab(t, routed)
	l.serveGo()
	servers := map[string]string{"go": goPort}
	if host.Has("nginx").Present {
		l.serveNginx()
		servers["nginx"] = nginxPort
	}
	for _, c := range clients {
		for server, port := range servers {
			for family, addr := range map[string]string{"v4": netns.ServerV4, "v6": netns.ServerV6} {
				if family == "v6" && server != "go" {
					continue
				}
				t.Run(c.name+"-"+server+"-"+family, func(t *testing.T) {
					if c.feature != "" {
						host.Need(t, c.feature)
					}
					l.forget()
					out, err := l.client.RunCommand(netns.Command{Args: c.args(l, addr, port)})
					if !answered(out) {
						t.Fatalf("%v\n%s", err, out)
					}
					if e := l.events("released", "refused"); len(e) != 1 || e[0].Msg != "released" {
						t.Errorf("the gate says %+v", e)
					}
				})
			}
		}
	}
}

// TestRoutedBulk: after the release no packet of a routed connection comes to
// user space.
func TestRoutedBulk(t *testing.T) {
	l := newLab(t, routed)
	l.serveGo()
	for _, way := range []string{"down", "up"} {
		args := []string{"get", net.JoinHostPort(netns.ServerV4, goPort), name, "/" + way, "1"}
		want := fmt.Sprintf("bytes %d ", bulk)
		if way == "up" {
			args, want = append(args, "upload"), fmt.Sprintf("%d <nil>", bulk)
		}
		before := l.queued()
		out, err := l.client.Run(l.helperArgs(args...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", way, err, out)
		}
		if n := l.queued() - before; n > 40 {
			t.Errorf("%s: %d packets in user space for 64 MiB", way, n)
		} else {
			t.Logf("%s: %d packets in user space for 64 MiB", way, n)
		}
	}
}

// queued is the number of packets that the router's kernel has ever queued: the
// last packet id of the queue (proc file of nfnetlink_queue, field 8).
func (l *lab) queued() (n uint64) {
	l.t.Helper()
	out, err := l.router.Run("sh", "-c", "cat /proc/self/net/netfilter/nfnetlink_queue")
	f := strings.Fields(out)
	if err != nil || len(f) < 9 {
		l.t.Fatalf("queue of the router: %v %q", err, out)
	}
	fmt.Sscan(f[7], &n)
	return n
}

// TestRoutedRefusals: what may not leave the router does not, whatever the
// client tries. The router's own wire shows it.
func TestRoutedRefusals(t *testing.T) {
	l := newLab(t, routed)
	l.serveGo()
	wire := watch(t, l.server)
	if err := l.client.Sysctl("net/ipv4/tcp_fastopen", 0x5); err != nil {
		t.Fatal(err)
	}
	l.refusals(t, wire, []refusal{
		{"TLS 1.2 client", "curl", l.curl("--tls-max", "1.2", "https://"+name+":"+goPort+"/"), "tls12"},
		{"unlisted name", "curl", l.curl("https://other.test:" + goPort + "/"), "no-policy-for-name"},
		{"agent down", "curl", l.curl("https://orphan.test:" + goPort + "/"), "no-agent"},
		{"bytes", "", l.helperArgs("raw", v4(goPort), hexOf("secret bytes of length")), "not-tls"},
		{"few bytes", "", l.helperArgs("raw", v4(goPort), hexOf("secret")), "not-tls"},
		{"bytes by IPv6", "", l.helperArgs("raw", v6(goPort), hexOf("secret bytes")), "not-tls"},
		{"fast open", "", l.helperArgs("tfo", v4(goPort)), "tfo not-tls"},
		{"QUIC", "", l.helperArgs("udp", v4("443")), "udp"},
		{"DNS elsewhere", "", l.helperArgs("udp", "10.77.1.3:53"), "udp"},
		{"ping", "", l.helperArgs("icmp", netns.ServerV4), "unsupported-protocol"},
	})
	t.Run("MPTCP", func(t *testing.T) { l.mptcp(t, wire) })
}

// TestRoutedRulesFlushed: another program flushes the ruleset while sessions
// are held and while new ones come. Nothing leaves that was not released: the
// guard, which only its owner can take away, drops; and the gate puts its
// rules back, so that sessions work again. Also without the guard's owner flag
// (kernels before 5.12) the rules come back.
func TestRoutedRulesFlushed(t *testing.T) {
	host.Need(t, "nft")
	l := newLab(t, routed, slow(800*time.Millisecond))
	l.serveGo()
	wire := watch(t, l.server)
	held := l.start(l.client, netns.Command{Args: l.helperArgs("idle", v4(goPort), name), Time: 30 * time.Second})
	if err := held.WaitOutput("connected", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	// A storm of flushes, with a client that tries to send in the clear.
	raw := l.start(l.client, netns.Command{Args: l.helperArgs("raw", v4(goPort), hexOf("secret bytes of a client")), Time: 30 * time.Second})
	for range 20 {
		if out, err := l.router.Run("nft", "flush", "ruleset"); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	<-raw.Done()
	<-held.Done()
	if !strings.Contains(held.Output(), "answer true") {
		t.Errorf("the held session: %v %s", held.Wait(), held.Output())
	}
	l.forget()
	out, err := l.client.Run(l.helperArgs("get", v4(goPort), name, "/", "1")...)
	if err != nil || !answered(out) {
		t.Errorf("after the flush: %v %s", err, out)
	}
	for _, p := range wire.packets() {
		if strings.Contains(string(p.payload), "secret") {
			t.Errorf("a secret arrived: %q", p.payload)
		}
	}
	if n := strings.Count(l.gate.Output(), "they were put back"); n == 0 {
		t.Error("the gate did not notice the flush")
	} else {
		t.Logf("20 flushes, put back %d times", n)
	}
	if out, err := l.router.Run("nft", "delete", "table", "inet", "holdfast_routed_guard"); err == nil {
		t.Errorf("another program could delete the guard: %s", out)
	}
	if out, err := l.router.Run("nft", "add", "table", "inet", "holdfast_routed", "{ flags dormant; }"); err != nil {
		t.Errorf("%v %s", err, out)
	}
	if out, err := l.client.Run(l.helperArgs("get", v4(goPort), name, "/", "1")...); err != nil || !answered(out) {
		t.Errorf("after the table was put to sleep: %v %s", err, out)
	}
}

// TestRoutedGateKilled: a gate that dies leaves the door shut: for what is held
// and for what comes. What was open goes on. The next gate takes over.
func TestRoutedGateKilled(t *testing.T) {
	l := newLab(t, routed, slow(500*time.Millisecond))
	l.serveGo()
	open := l.start(l.client, netns.Command{Args: l.helperArgs("twice", v4(goPort), name, l.path("go-on")), Time: 40 * time.Second})
	if err := open.WaitOutput("answer 1 true", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	wire := watch(t, l.server)
	held := l.start(l.client, netns.Command{Args: l.helperArgs("idle", v4(goPort), name), Time: 30 * time.Second})
	if err := held.WaitOutput("connected", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	l.gate.Kill()
	<-l.gate.Done()
	time.Sleep(800 * time.Millisecond) // the report is long ready
	if out, err := l.client.RunCommand(netns.Command{Args: l.helperArgs("get", v4(goPort), name, "/", "1"), Time: 2 * time.Second}); err == nil || answered(out) {
		t.Errorf("without a gate: %v %s", err, out)
	}
	wire.noLeak(t)
	if out, err := l.router.Run(l.bin, "latch", "status"); err != nil || !strings.Contains(out, "SHUT") {
		t.Errorf("status: %v %s", err, out)
	}
	l.write("go-on", "")
	if <-open.Done(); open.Wait() != nil || !strings.Contains(open.Output(), "answer 2 true") {
		t.Errorf("the open connection: %v %s", open.Wait(), open.Output())
	}
	l.startGate()
	if out, err := l.client.Run(l.helperArgs("get", v4(goPort), name, "/", "1")...); err != nil || !answered(out) {
		t.Errorf("with a new gate: %v %s", err, out)
	}
	// An orderly end leaves it shut too; the operator opens it.
	if err := l.gate.Stop(); err != nil {
		t.Errorf("%v %s", err, l.gate.Output())
	}
	if out, err := l.client.RunCommand(netns.Command{Args: l.helperArgs("get", v4(goPort), name, "/", "1"), Time: 2 * time.Second}); err == nil || answered(out) {
		t.Errorf("after the end: %v %s", err, out)
	}
	if out, err := l.router.Run(l.bin, "latch", "status", "--repair"); err == nil {
		t.Errorf("repaired without --open: %s", out)
	}
	// The status is that of the whole machine: what others left in other namespaces stays.
	out, err := l.router.Run(l.bin, "latch", "status", "--repair", "--open")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "devices eth0 ") && !strings.Contains(line, "in network namespace") {
			t.Errorf("repair: %v %s", err, out)
		}
	}
	if out, err := l.client.Run(l.helperArgs("get", v4(goPort), "other.test", "/", "1")...); err != nil || !answered(out) {
		t.Errorf("opened by the operator: %v %s", err, out)
	}
}

// TestRoutedConntrackFlushed: without its mark an open connection is shut.
func TestRoutedConntrackFlushed(t *testing.T) {
	host.Need(t, "conntrack")
	l := newLab(t, routed)
	l.serveGo()
	p := l.start(l.client, netns.Command{Args: l.helperArgs("twice", v4(goPort), name, l.path("go-on")), Time: 40 * time.Second})
	if err := p.WaitOutput("answer 1 true", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond) // beyond the moment for packets that were under way
	if out, err := l.router.Run("conntrack", "-F"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	l.forget()
	l.write("go-on", "")
	<-p.Done()
	e := l.events("refused")
	if strings.Contains(p.Output(), "answer 2") || len(e) != 1 || e[0].Reason != "not-gated" {
		t.Errorf("the gate says %+v; %s", e, p.Output())
	}
	if out, err := l.client.Run(l.helperArgs("get", v4(goPort), name, "/", "1")...); err != nil || !answered(out) {
		t.Errorf("a new connection: %v %s", err, out)
	}
}

// TestRoutedPortReuse: the mark of a connection that the server has reset does
// not open the next one of the same ports.
func TestRoutedPortReuse(t *testing.T) {
	l := newLab(t, routed)
	l.serveGo("reset")
	out, err := l.client.Run(l.helperArgs("again", v4(goPort), name, "other.test", "40002")...)
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if got := strings.Join(l.decisions(2), ","); got != "released ,refused no-policy-for-name" {
		t.Errorf("the gate says %q; %s", got, out)
	}
}

// TestRoutedNAT: a container network: the router translates addresses, the
// client's as it leaves and the server's published one.
func TestRoutedNAT(t *testing.T) {
	host.Need(t, "nft")
	l := newLab(t, routed)
	l.serveGo()
	for _, rule := range []string{
		"add table ip nat", "add chain ip nat post { type nat hook postrouting priority 100; }", "add chain ip nat pre { type nat hook prerouting priority -100; }",
		"add rule ip nat post oifname eth1 masquerade", "add rule ip nat pre ip daddr 192.0.2.9 tcp dport 443 dnat to " + v4(goPort),
	} {
		if out, err := l.router.Run(append([]string{"nft"}, rule)...); err != nil {
			t.Skipf("SKIP[nft]: %s: %v %s", rule, err, out)
		}
	}
	wire := watch(t, l.server)
	for _, to := range []string{v4(goPort), "192.0.2.9:443"} {
		l.forget()
		out, err := l.client.Run(l.helperArgs("get", to, name, "/", "1")...)
		if e := l.events("released", "refused"); err != nil || !answered(out) || len(e) != 1 || e[0].Msg != "released" {
			t.Errorf("%s: %v %s; the gate says %+v", to, err, out, e)
		}
	}
	for src := range wire.streams(t, 8443) {
		if src.Addr().String() != netns.RouterServerV4 {
			t.Errorf("a connection from %v: the address was not translated", src)
		}
	}
	// A refusal tells the client through both translations, and the server where
	// its address was not translated.
	for _, to := range []string{v4(goPort), "192.0.2.9:443"} {
		l.forget()
		began := time.Now()
		out, err := l.client.RunCommand(netns.Command{Args: l.helperArgs("get", to, "other.test", "/", "1"), Time: 10 * time.Second})
		if e := l.events("refused"); err == nil || len(e) != 1 || time.Since(began) > 3*time.Second {
			t.Errorf("%s after %v: %v %s; the gate says %+v", to, time.Since(began), err, out, e)
		}
		reset := false
		for range 10 {
			for _, p := range wire.packets() {
				reset = reset || p.flags&4 != 0 && p.dst.Port() == 8443
			}
		}
		if !reset {
			t.Error("the server was not told")
		}
	}
}

// TestRoutedSessions: many at once, a retry request, small segments, half-close.
func TestRoutedSessions(t *testing.T) {
	l := newLab(t, routed, slow(20*time.Millisecond))
	l.serveGo()
	const n = 60
	out, err := l.client.Run(l.helperArgs("many", v4(goPort), name, fmt.Sprint(n))...)
	if err != nil || !strings.Contains(out, fmt.Sprintf("good %d of %d", n, n)) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"get", v4(goPort), name, "/", "1", "split100"}, {"get", v6(goPort), name, "/", "1", "split7"}, {"half", v4(goPort), name}} {
		if out, err := l.client.Run(l.helperArgs(args...)...); err != nil || !answered(out) {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
	if host.Has("openssl").Present {
		s := l.serveOpenSSL("-groups", "P-384")
		defer s.Kill()
		l.forget()
		out, err := l.client.Run("sh", "-c", fmt.Sprintf(`(printf 'GET / HTTP/1.0\r\n\r\n'; sleep 0.7) | timeout 8 openssl s_client -quiet -connect %s -servername %s -groups X25519:P-384`, v4(opensslPort), name))
		if e := l.events("released", "refused"); !answered(out) || len(e) != 1 || e[0].Msg != "released" {
			t.Errorf("retry: %v, the gate says %+v; %s", err, e, out)
		}
	}
}

// decisions waits for n decisions of the gate and returns them as "what reason".
func (l *lab) decisions(n int) (out []string) {
	for len(out) < n {
		e := l.events("released", "refused")
		if len(e) == 0 {
			break
		}
		for _, x := range e {
			out = append(out, x.Msg+" "+x.Reason)
		}
	}
	return out
}
