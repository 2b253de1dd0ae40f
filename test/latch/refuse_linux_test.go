// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestRefusals: what cannot be attested is reset, the log says why, and not a
// byte but ClientHellos arrives at the server's machine.
func TestRefusals(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	l.serveNginx()
	l.serveOpenSSL()
	wire := watch(t, l.server)
	// Data in the first SYN, without waiting for a cookie.
	if err := l.client.Sysctl("net/ipv4/tcp_fastopen", 0x5); err != nil {
		t.Fatal(err)
	}
	curl := l.curl
	sclient := func(port string, args ...string) []string {
		return []string{"sh", "-c", fmt.Sprintf(`(printf 'GET /secret HTTP/1.0\r\n\r\n'; sleep 0.7) | timeout 8 openssl s_client -quiet -connect %s %s`, v4(port), strings.Join(args, " "))}
	}
	l.refusals(t, wire, []refusal{
		{"TLS 1.2 client", "curl", curl("--tls-max", "1.2", "https://"+name+"/"), "tls12"},
		{"no name", "curl", curl("https://" + netns.ServerV4 + "/"), "no-name"},
		{"unlisted name", "curl", curl("https://other.test/"), "no-policy-for-name"},
		{"agent down", "curl", curl("https://orphan.test/"), "no-agent"},
		{"HTTP in the clear", "curl", curl("http://" + netns.ServerV4 + ":443/secret"), "not-tls"},
		{"HTTP on another port", "curl", curl("http://" + netns.ServerV4 + ":7443/secret"), "not-tls"},
		{"bytes", "", l.helperArgs("raw", v4("443"), hex.EncodeToString([]byte("\x00secret bytes"))), "not-tls"},
		{"SSLv2", "", l.helperArgs("raw", v4("443"), "802e0100020015000000100100800200800600400400807000c0"), "not-tls"},
		{"garbled hello", "", l.helperArgs("raw", v4("443"), "1603010010"+"0100000c"+"0303"+strings.Repeat("00", 10)), "malformed"},
		{"fast open", "", l.helperArgs("tfo", v4(goPort)), "tfo not-tls"},
		{"QUIC", "", l.helperArgs("udp", v4("443")), "udp"},
		{"QUIC by IPv6", "", l.helperArgs("udp", "["+netns.ServerV6+"]:443"), "udp"},
		{"bytes by IPv6", "", l.helperArgs("raw", "["+netns.ServerV6+"]:443", hex.EncodeToString([]byte("secret bytes"))), "not-tls"},
		{"bytes by mapped IPv4", "", l.helperArgs("mapped", "tcp", v4("443")), "not-tls"},
		{"QUIC by mapped IPv4", "", l.helperArgs("mapped", "udp", v4("443")), "udp"},
		{"DNS elsewhere", "", l.helperArgs("udp", "10.77.9.9:53"), "udp"},
		{"raw socket", "", l.helperArgs("icmp", netns.ServerV4), "unsupported-protocol"},
	})
	if host.Has("openssl").Present {
		l.sessions(t, wire, sclient)
	}
	t.Run("MPTCP", func(t *testing.T) { l.mptcp(t, wire) })
}

// A refusal is a client that must get no answer.
type refusal struct {
	name, feature string
	args          []string
	reason        string
}

func (l *lab) refusals(t *testing.T, wire *capture, list []refusal) {
	for _, tc := range list {
		t.Run(tc.name, func(t *testing.T) {
			if tc.feature != "" {
				host.Need(t, tc.feature)
			}
			l.refused(t, wire, tc.args, tc.reason)
		})
	}
}

func v4(port string) string { return netns.ServerV4 + ":" + port }
func v6(port string) string { return "[" + netns.ServerV6 + "]:" + port }
func hexOf(s string) string { return hex.EncodeToString([]byte(s)) }
func (l *lab) curl(args ...string) []string {
	list := []string{"curl", "-sSk", "--max-time", "8"}
	for _, port := range []string{nginxPort, opensslPort, goPort} {
		list = append(list, "--resolve", "*:"+port+":"+netns.ServerV4)
	}
	return append(list, args...)
}

// mptcp: SYNs with the option are refused; the kernel falls back to plain TCP
// by itself, and that connection is attested like any other.
func (l *lab) mptcp(t *testing.T, wire *capture) {
	l.forget()
	wire.forget()
	out, err := l.help("get", netns.ServerV4+":"+goPort, name, "/", "1", "mptcp")
	var reasons []string
	for range 3 {
		for _, e := range l.events("refused", "released") {
			reasons = append(reasons, e.Msg+e.Reason)
		}
		if len(reasons) > 1 {
			break
		}
	}
	if len(reasons) == 0 || reasons[0] != "refusedmptcp" {
		t.Errorf("the gate says %q; %v %s", reasons, err, out)
	}
	for _, p := range wire.packets() {
		if p.mptcp && p.dst.Port() == 8443 {
			t.Error("a segment with an MPTCP option has arrived")
		}
	}
	if answered(out) != (len(reasons) > 1 && reasons[len(reasons)-1] == "released") {
		t.Errorf("answered without a release: %q, %s", reasons, out)
	}
}

func (l *lab) helperArgs(args ...string) []string {
	return append([]string{l.helper, "helper"}, args...)
}

// refused runs a client that must get no answer, and looks at log and wire.
func (l *lab) refused(t *testing.T, wire *capture, args []string, reason string) {
	t.Helper()
	l.forget()
	wire.forget()
	out, _ := l.run(args...)
	if answered(out) {
		t.Fatalf("the client got an answer: %s", out)
	}
	e := l.events("refused", "released")
	if len(e) == 0 {
		t.Fatalf("the gate says nothing; the client: %s", out)
	}
	for i, x := range e { // the first reason, and what a fallback of the kernel met
		if x.Msg != "refused" || !strings.HasPrefix(reason, x.Reason) && (i == 0 || !strings.Contains(reason, " "+x.Reason)) {
			t.Errorf("the gate says %+v, want reason %q; the client: %s", x, reason, out)
		}
	}
	wire.noLeak(t)
}

// noLeak: nothing has arrived but TCP control segments, ClientHellos, and the
// gate's own traffic with the agent.
func (c *capture) noLeak(t *testing.T) {
	t.Helper()
	for src, b := range c.streams(t, 443, 4433, 8443) {
		if err := onlyHellos(b); err != nil {
			t.Errorf("%v has sent %v", src, err)
		}
	}
	for _, p := range c.packets() {
		switch {
		case strings.Contains(string(p.payload), "secret"):
			t.Errorf("a secret arrived: %q", p.payload)
		case p.proto == unix.IPPROTO_UDP, p.proto == unix.IPPROTO_ICMP:
			t.Errorf("a datagram arrived: protocol %d, %v to %v", p.proto, p.src, p.dst)
		case p.proto == unix.IPPROTO_TCP && p.flags&2 != 0 && len(p.payload) > 0:
			t.Errorf("a SYN with %d bytes arrived", len(p.payload))
		}
	}
}

// sessions are refusals that need an earlier session.
func (l *lab) sessions(t *testing.T, wire *capture, sclient func(string, ...string) []string) {
	ticket := func(t *testing.T, port string, flags ...string) string {
		t.Helper()
		file := l.path("ticket-" + port)
		os.Remove(file)
		// Outside of the gate: how the ticket came is not the point.
		out, err := l.client.RunCommand(netns.Command{Args: sclient(port, append(flags, "-servername", name, "-sess_out", file)...)})
		if st, e := os.Stat(file); e != nil || st.Size() == 0 {
			t.Fatalf("no ticket: %v %v %s", err, e, out)
		}
		return file
	}
	t.Run("early data", func(t *testing.T) {
		l.write("early.txt", "GET /secret-early HTTP/1.0\r\n\r\n")
		l.refused(t, wire, sclient(nginxPort, "-servername", name, "-sess_in", ticket(t, nginxPort), "-early_data", l.path("early.txt")), "early-data")
	})
	t.Run("resumption with a share", func(t *testing.T) {
		l.refused(t, wire, sclient(nginxPort, "-servername", name, "-sess_in", ticket(t, nginxPort)), "resumption")
	})
}

// TestServerRefusals: what the server chooses can be wrong too.
func TestServerRefusals(t *testing.T) {
	host.Need(t, "openssl")
	l := newLab(t)
	wire := watch(t, l.server)
	sclient := func(args ...string) []string {
		return []string{"sh", "-c", fmt.Sprintf(`(printf 'GET /secret HTTP/1.0\r\n\r\n'; sleep 0.7) | timeout 8 openssl s_client -quiet -connect %s:%s -servername %s %s`,
			netns.ServerV4, opensslPort, name, strings.Join(args, " "))}
	}
	for _, tc := range []struct {
		name   string
		server []string
		ticket []string // flags of the client that fetches a ticket first
		client []string
		reason string
	}{
		{"server speaks TLS 1.2 only", []string{"-tls1_2"}, nil, nil, "tls12"},
		{"group that the policy lacks", []string{"-groups", "P-521"}, nil, []string{"-groups", "P-521"}, "policy"},
		{"PSK without share", []string{"-allow_no_dhe_kex", "-groups", "X25519"}, []string{"-allow_no_dhe_kex"}, []string{"-allow_no_dhe_kex", "-groups", "P-384"}, "psk-without-share"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := l.serveOpenSSL(tc.server...)
			defer s.Kill()
			args := tc.client
			if tc.ticket != nil {
				file := l.path("ticket")
				out, err := l.client.RunCommand(netns.Command{Args: sclient(append(tc.ticket, "-sess_out", file)...)})
				if _, e := os.Stat(file); e != nil {
					t.Fatalf("no ticket: %v %s", err, out)
				}
				args = append(args, "-sess_in", file)
			}
			l.refused(t, wire, sclient(args...), tc.reason)
		})
	}
	t.Run("retry is understood", func(t *testing.T) {
		s := l.serveOpenSSL("-groups", "P-384")
		defer s.Kill()
		l.forget()
		out, err := l.run(sclient("-groups", "X25519:P-384")...)
		if e := l.events("released", "refused"); !answered(out) || len(e) != 1 || e[0].Msg != "released" {
			t.Errorf("%v, %+v\n%s", err, e, out)
		}
	})
}

// TestPlainDestinations: what is listed passes without attestation, and only
// that.
func TestPlainDestinations(t *testing.T) {
	l := newLab(t)
	for _, port := range []string{"8080", "8081"} {
		l.serve(port, l.helperArgs("plain", ":"+port)...)
	}
	get := func(port string) string {
		host.Need(t, "curl")
		out, _ := l.run("curl", "-sS", "--max-time", "5", "http://"+netns.ServerV4+":"+port+"/secret")
		return out
	}
	if out := get("8080"); !strings.Contains(out, "plain hello") {
		t.Errorf("listed destination: %s", out)
	}
	l.forget()
	if out := get("8081"); strings.Contains(out, "plain hello") {
		t.Errorf("unlisted destination: %s", out)
	}
	if e := l.events("refused"); len(e) != 1 || e[0].Reason != "not-tls" {
		t.Errorf("the gate says %+v", e)
	}
	// The listed resolver may be asked, by UDP.
	if out, err := l.help("udp", netns.ServerV4+":53"); err != nil {
		t.Errorf("the listed resolver: %v %s", err, out)
	}
}
