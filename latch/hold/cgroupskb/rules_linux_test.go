// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"bytes"
	"encoding/hex"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"holdfast/latch/hold"
)

// aServerHello is a record with the head of a ServerHello of n body bytes.
func aServerHello(n int, fill byte) []byte {
	b := bytes.Repeat([]byte{fill}, 9+n)
	copy(b, []byte{0x16, 3, 3, byte((n + 4) >> 8), byte(n + 4), 2, 0, byte(n >> 8), byte(n)})
	return b
}

// fakeServer answers each hello with a record and keeps all that it read.
type fakeServer struct {
	mu     sync.Mutex
	read   []string // per connection, complete when it ended
	answer bool
	ended  chan struct{}
}

// wait waits for the end of a connection.
func (s *fakeServer) wait(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		t.Fatal("no connection came to its end at the server")
	}
}

func (l *lab) fakeServer(addr string, answer bool) *fakeServer {
	ln := l.listen(addr)
	s := &fakeServer{answer: answer, ended: make(chan struct{}, 1000)}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s
}

func (s *fakeServer) serve(c net.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(8 * time.Second))
	var got []byte
	b := make([]byte, 1<<16)
	answered := false
	for {
		n, err := c.Read(b)
		got = append(got, b[:n]...)
		if !answered && s.answer && n > 0 {
			answered = true
			c.Write(aServerHello(100, 1))
		}
		if strings.HasSuffix(string(got), secret) {
			c.Write([]byte("done"))
		}
		if err != nil {
			break
		}
	}
	s.mu.Lock()
	s.read = append(s.read, string(got))
	s.mu.Unlock()
	s.ended <- struct{}{}
}

// leaked fails the test if the secret reached the server.
func (s *fakeServer) leaked(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.read {
		if strings.Contains(r, secret) {
			t.Errorf("the secret reached the server: %q", r)
		}
	}
}

func never(*testConn, time.Time) action { return actNothing }

const at = server4 + ":443"

// Each case is a client that must be reset at once with the reason given, and
// whose secret must not reach the server.
func TestDenied(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		reason hold.Reason
		errno  string // of the application; empty: any error
	}{
		{"plain text", []string{"plain", at, secret}, hold.ReasonNotTLS, "ECONNABORTED"},
		{"early data in the segment of the hello", []string{"raw", at, "200", "one"}, hold.ReasonEarlyBytes, "ECONNABORTED"},
		{"hello too long", []string{"raw", at, "9000"}, hold.ReasonTooLong, "ECONNABORTED"},
		{"fast open", []string{"tfo", at}, hold.ReasonSYNData, ""},
		{"multipath", []string{"mptcp", at}, hold.ReasonMPTCP, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, Options{}, never)
			s := l.fakeServer(at, true)
			stop := l.capture()
			start := time.Now()
			out, err := wait(t, l.helper(c.args...), 12*time.Second)
			if err == nil || time.Since(start) > 6*time.Second {
				t.Errorf("client: %v after %v, expected an error at once: %s", err, time.Since(start), out)
			}
			if c.errno != "" && !strings.Contains(out, c.errno) {
				t.Errorf("client got %q, expected %s", out, c.errno)
			}
			l.gate.sawDenied(t, c.reason)
			for _, seg := range stop() {
				if seg.dst.Port() == 443 && len(seg.payload) > 0 {
					t.Errorf("%d payload bytes left", len(seg.payload))
				}
			}
			s.leaked(t)
		})
	}
}

// Datagrams and raw sockets fail in the system call that sends them.
func TestOtherProtocols(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{Plain: []Plain{{Prefix: netip.MustParsePrefix("10.77.0.2/32"), Port: 53, UDP: true}}}, never)
	for _, c := range []struct {
		args   []string
		reason hold.Reason
	}{
		{[]string{"udp", server4 + ":443"}, hold.ReasonUDP},
		{[]string{"udp", "[" + server6 + "]:53"}, hold.ReasonUDP}, // a resolver that is not listed
		{[]string{"rawip"}, hold.ReasonProtocol},
		{[]string{"ping"}, hold.ReasonProtocol},
	} {
		out, err := wait(t, l.helper(c.args...), 5*time.Second)
		if err == nil || !strings.Contains(out, "EPERM") {
			t.Errorf("%v: %v %q, expected EPERM", c.args, err, out)
		}
		l.gate.sawDenied(t, c.reason)
	}
	var pc net.PacketConn
	in(t, l.server, func() (err error) { pc, err = net.ListenPacket("udp", server4+":53"); return })
	defer pc.Close()
	if out, err := wait(t, l.helper("udp", server4+":53"), 5*time.Second); err != nil {
		t.Errorf("DNS to the listed resolver: %v %q", err, out)
	}
	pc.SetReadDeadline(time.Now().Add(2 * time.Second))
	b := make([]byte, 100)
	if n, _, err := pc.ReadFrom(b); string(b[:n]) != secret {
		t.Errorf("resolver got %q, %v", b[:n], err)
	}
}

// An IPv6 extension header hides the TCP header from a simple reader: refused.
func TestExtensionHeader(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, never)
	l.fakeServer("["+server6+"]:443", true)
	stop := l.capture()
	if out, err := wait(t, l.helper("exthdr"), 8*time.Second); err == nil || strings.Contains(out, "EINVAL") {
		t.Errorf("%v %q: expected a connect that fails", err, out)
	}
	l.gate.sawDenied(t, hold.ReasonProtocol)
	for _, s := range stop() {
		if s.dst.Port() == 443 {
			t.Error("a packet left")
		}
	}
}

// A network namespace whose last gated process has ended is let go.
func TestSweep(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, releaseAfter(0))
	l.tlsServer(l.server, at, nil)
	if out, err := wait(t, l.command("curl", "-sSk", "https://"+at+"/"), 10*time.Second); !strings.Contains(out, "hello 0") {
		t.Fatalf("%q %v", out, err)
	}
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	before := len(l.hold.ns.known)
	if err := l.hold.Sweep(); err != nil {
		t.Fatal(err)
	}
	if before != 2 || len(l.hold.ns.known) != 1 {
		t.Errorf("%d namespaces before, %d after: want 2 and only our own", before, len(l.hold.ns.known))
	}
}

// The plain list: by prefix and port, changed at run time.
func TestPlain(t *testing.T) {
	t.Parallel()
	p := []Plain{{Prefix: netip.MustParsePrefix("10.77.0.0/24"), Port: 80}}
	l := newLab(t, Options{Plain: p}, never)
	s80, s81 := l.fakeServer(server4+":80", false), l.fakeServer(server4+":81", false)
	if out, err := wait(t, l.helper("plain", server4+":80", secret), 5*time.Second); err != nil || out != "done" {
		t.Errorf("listed: %q %v", out, err)
	}
	if out, err := wait(t, l.helper("plain", server4+":81", secret), 5*time.Second); err == nil {
		t.Errorf("other port: %q", out)
	}
	if err := l.hold.SetPlain([]Plain{{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Port: 81}}); err != nil {
		t.Fatal(err)
	}
	if out, err := wait(t, l.helper("plain", server4+":81", secret), 5*time.Second); err != nil || out != "done" {
		t.Errorf("listed now: %q %v", out, err)
	}
	if out, err := wait(t, l.helper("plain", server4+":80", secret), 5*time.Second); err == nil {
		t.Errorf("no longer listed: %q", out)
	}
	_, _ = s80, s81
}

// A server inside the scope cannot answer: its peers are not listed.
func TestAccepted(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, never)
	c := l.helper("serve", client4+":7000")
	var got []byte
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var conn net.Conn
		in(t, l.server, func() error { conn, _ = net.Dial("tcp", client4+":7000"); return nil })
		if conn != nil {
			conn.SetReadDeadline(time.Now().Add(2 * time.Second))
			got, _ = io.ReadAll(conn)
			conn.Close()
			break
		}
	}
	if len(got) > 0 {
		t.Errorf("%q left", got)
	}
	wait(t, c, 8*time.Second)
	l.gate.sawDenied(t, hold.ReasonNotFromSYN)
}

// A hello in two segments is let out; the secret behind it is not.
func TestSplitHello(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"split", "fin"} {
		l := newLab(t, Options{}, releaseAfter(300*time.Millisecond))
		s := l.fakeServer(at, true)
		stop := l.capture()
		out, err := wait(t, l.helper("raw", at, "300", mode), 10*time.Second)
		if err != nil || !strings.Contains(out, "read") {
			t.Errorf("%s: %q %v; counters %v", mode, out, err, l.counters())
		}
		s.wait(t)
		if len(s.read) != 1 || s.read[0] != string(aHello(300))+secret {
			t.Errorf("%s: server read %q", mode, s.read)
		}
		var rel time.Time
		for _, seg := range stop() { // a FIN stays behind the data
			if bytes.Contains(seg.payload, []byte(secret)) {
				rel = seg.at
			}
			if seg.dst.Port() == 443 && seg.flags&1 != 0 && rel.IsZero() {
				t.Errorf("%s: FIN before the secret", mode)
			}
		}
	}
}

// After an answer of the server one more hello may leave, with one
// change_cipher_spec before it, and nothing else, however it is cut.
func TestSecondHelloOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, never)
	s := l.fakeServer(at, true)
	ccs, hello := "\x14\x03\x03\x00\x01\x01", string(aHello(150))
	first := string(aHello(200))
	long := string(aHello(8190)) // with its header more than may leave
	for _, c := range []struct {
		name, when string
		parts      []string
		left       string // behind the first hello
	}{
		{"ccs, hello", "", []string{ccs, hello, secret}, ccs + hello},
		{"ccs and hello in one", "", []string{ccs + hello, secret}, ccs + hello},
		{"hello without ccs", "", []string{hello, secret}, hello},
		{"ccs and secret", "", []string{ccs + secret}, ""},
		{"ccs, secret", "", []string{ccs, secret}, ccs},
		{"hello and secret", "", []string{hello + secret}, ""},
		{"two ccs", "", []string{ccs, ccs + hello}, ccs},
		{"third hello", "", []string{hello, hello, secret}, hello},
		{"ccs behind the second hello", "", []string{hello, ccs, secret}, hello},
		{"application data", "", []string{"\x17\x03\x03\x00\x14" + secret}, ""},
		{"alert", "", []string{"\x15\x03\x03\x00\x02\x02\x28", secret}, ""},
		{"before the answer", "at-once", []string{hello}, "*"},
		{"too long", "", []string{long}, ""},
		{"second hello in two parts", "", []string{hello[:50], hello[50:], secret}, hello},
	} {
		args := []string{"second", at, "answered"}
		if c.when != "" {
			args[2] = c.when
		}
		for _, p := range c.parts {
			args = append(args, hex.EncodeToString([]byte(p)))
		}
		wait(t, l.helper(args...), 10*time.Second)
		s.wait(t)
		got, ok := strings.CutPrefix(s.read[len(s.read)-1], first)
		switch {
		case !ok:
			t.Errorf("%s: the first hello did not arrive whole", c.name)
		case c.left == "*": // the answer may win the race; then the hello is the second one
			if got != "" && got != hello {
				t.Errorf("%s: %q left", c.name, got)
			}
		case got != c.left:
			t.Errorf("%s: %q left behind the first hello, want %q", c.name, got, c.left)
		}
	}
}

// Disconnect and connect again on one descriptor: the release of the first
// connection is worth nothing for the second. [c]
func TestReconnect(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, func(c *testConn, now time.Time) action {
		if c.remote.Port() != 443 {
			return actNothing
		}
		return releaseAfter(0)(c, now)
	})
	first, second := l.fakeServer(at, true), l.fakeServer(server4+":444", true)
	out, err := wait(t, l.helper("reconnect", at, server4+":444"), 12*time.Second)
	if err == nil || strings.Contains(out, "first:") || strings.Contains(out, "connect 1") || strings.Contains(out, "connect 2") {
		t.Errorf("%q %v: expected an error on the second connection only", out, err)
	}
	first.wait(t)
	second.wait(t)
	if !strings.Contains(first.read[0], secret) {
		t.Error("the first connection was not released: the test proves nothing")
	}
	second.leaked(t)
	l.gate.sawDenied(t, hold.ReasonNotTLS)
}

// RST from the server, then the same source port again: a decision of its own.
func TestPortReuse(t *testing.T) {
	t.Parallel()
	n := 0
	l := newLab(t, Options{}, func(c *testConn, now time.Time) action {
		if _, ok := c.record(); ok && n == 0 {
			n++
			return actRelease
		}
		return actNothing
	})
	ln := l.listen(at)
	results := make(chan string, 2)
	go func() {
		for i := 0; i < 2; i++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 1000)
			k, _ := c.Read(b)
			c.Write(aServerHello(100, 1))
			c.SetReadDeadline(time.Now().Add(time.Second))
			m, _ := c.Read(b[k:])
			results <- string(b[k : k+m])
			c.(*net.TCPConn).SetLinger(0)
			c.Close() // RST
		}
	}()
	for i, want := range []string{secret, ""} {
		wait(t, l.helper("port", at, "33333"), 8*time.Second)
		if got := <-results; got != want {
			t.Errorf("connection %d from port 33333: server read %q behind the hello, want %q", i+1, got, want)
		}
	}
}

// Kicks with a wrong cookie, nonce, count, end or mark open nothing. [d]
func TestWrongKick(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, never)
	s := l.fakeServer(at, true)
	c := l.helper("raw", at, "200")
	var id hold.ID
	var tc testConn
	for end := time.Now().Add(3 * time.Second); id == (hold.ID{}) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		l.gate.mu.Lock()
		for i, x := range l.gate.conns {
			if _, ok := x.record(); ok {
				id, tc = i, *x
			}
		}
		l.gate.mu.Unlock()
	}
	if id == (hold.ID{}) {
		t.Fatal("no connection")
	}
	l.gate.stop()
	t.Cleanup(func() { l.hold.Detach() })
	h := l.hold
	p := h.peers[id]
	rec, _ := tc.record()
	good := kick{id: id, local: p.local, remote: p.remote, seq: p.end, ack: p.ack, window: p.window, end: tc.base + uint32(len(rec)), examined: tc.examined}
	ns, err := h.ns.find(p.netns, id, p.local, p.remote)
	if err != nil {
		t.Fatal(err)
	}
	send := func(k kick) {
		t.Helper()
		if err := ns.kick4.add(&k, 0); err != nil {
			t.Fatal(err)
		}
		if err := ns.kick4.flush(); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(*kick){
		"cookie":      func(k *kick) { k.id.Cookie ^= 1 },
		"nonce":       func(k *kick) { k.id.Nonce ^= 1 << 63 },
		"nonce zero":  func(k *kick) { k.id.Nonce = 0 },
		"count low":   func(k *kick) { k.examined-- },
		"count high":  func(k *kick) { k.examined++ },
		"not taken":   func(k *kick) { k.end = tc.base + 4000 },
		"end at base": func(k *kick) { k.end = tc.base },
		"end far":     func(k *kick) { k.end = tc.base + 5000 },
	} {
		before := l.counters()
		k := good
		change(&k)
		send(k)
		time.Sleep(20 * time.Millisecond)
		after := l.counters()
		if after["released"] != 0 {
			t.Fatalf("%s: opened", name)
		}
		if n := after["wrong-kick"] + after["unexamined"] + after["not-taken"] - before["wrong-kick"] - before["unexamined"] - before["not-taken"]; n != 1 {
			t.Errorf("%s: %d refusals counted, want 1", name, n)
		}
	}
	// Right in all but the mark: an ordinary segment to the program.
	unmarked, err := enterAndOpen("/proc/"+itoa(c.Process.Pid)+"/ns/net", h.objs.mark^1)
	if err != nil {
		t.Fatal(err)
	}
	defer unmarked.close()
	k := good
	if err := unmarked.kick4.add(&k, 0); err != nil {
		t.Fatal(err)
	}
	unmarked.kick4.flush()
	time.Sleep(20 * time.Millisecond)
	if l.counters()["released"] != 0 {
		t.Fatal("opened without the mark")
	}
	s.leaked(t)
	send(good) // and the right one does open
	wait(t, c, 10*time.Second)
	if l.counters()["released"] != 1 {
		t.Error("the right kick did not open: the test proves nothing")
	}
}

func itoa(n int) string { return string(appendInt(nil, n)) }

func appendInt(b []byte, n int) []byte {
	if n >= 10 {
		b = appendInt(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// A full ring poisons: nothing is ever released, and later segments tell. [b]
func TestLostCopy(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{ringIn: 4096}, releaseAfter(0))
	l.gate.stop() // nobody reads: the ring fills up
	t.Cleanup(func() { l.hold.Detach() })
	s := l.fakeServer(at, true)
	wait(t, l.helper("many", at, "30", "30"), 20*time.Second)
	c := l.counters()
	if c["lost-copy"] == 0 {
		t.Errorf("counters %v: no copy was lost, the test proves nothing", c)
	}
	s.leaked(t)
	seen := map[hold.Reason]int{}
	if err := l.hold.Drain(func(r *hold.Record) {
		if r.Kind == hold.Denied {
			seen[r.Reason]++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if seen[hold.ReasonLostCopy] == 0 {
		t.Error("the gate is not told of a poisoned connection")
	}
}

// Another program on the same cgroup, attached before or after ours, that
// lets all through: ours still holds; when it refuses, nothing passes. [g]
func TestBesideAnother(t *testing.T) {
	t.Parallel()
	for _, pass := range []int32{1, 0} {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.CGroupSKB, License: "MIT", AttachType: ebpf.AttachCGroupInetEgress,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, pass), asm.Return()}})
		if err != nil {
			t.Skipf("SKIP[bpf]: %v", err)
		}
		defer p.Close()
		d := 200 * time.Millisecond
		decide, when := noting(releaseAfter(d))
		l := newLab(t, Options{}, decide)
		lk, err := link.AttachCgroup(link.CgroupOptions{Path: l.cgroup, Attach: ebpf.AttachCGroupInetEgress, Program: p})
		if err != nil {
			t.Fatal(err)
		}
		defer lk.Close()
		l.tlsServer(l.server, at, nil)
		stop := l.capture()
		out, err := wait(t, l.command("curl", "-sSk", "-m", "3", "https://"+at+"/"), 10*time.Second)
		if ok := strings.Contains(out, "hello 0"); ok != (pass == 1) {
			t.Errorf("other program returns %d: %q %v", pass, out, err)
		}
		if pass == 1 {
			onlyHello(t, stop(), when(), 443)
		}
	}
}

// The gate dies in mid-hold: the door stays shut, and a new gate takes over
// what was released. [e]
func TestDeadGate(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, never)
	s := l.fakeServer(at, true)
	c := l.helper("raw", at, "200")
	time.Sleep(300 * time.Millisecond)
	l.gate.stop()
	l.hold.Close() // what the kernel does when a process dies: every descriptor is closed
	c2 := l.helper("raw", at, "200")
	st, err := Status()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, x := range st {
		if x.Cgroup == l.cgroup {
			found = true
			if x.Alive || !x.Attached || !x.Populated {
				t.Errorf("status %+v: want dead, attached, populated", x)
			}
			if err := Reclaim(x, false); err == nil {
				t.Error("a populated cgroup was given up without being told to")
			}
		}
	}
	if !found {
		t.Error("status does not list it")
	}
	h, err := Attach(Options{Cgroup: l.cgroup}) // the successor
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(Options{Cgroup: l.cgroup}); err == nil {
		t.Error("two gates on one cgroup")
	}
	wait(t, c, 12*time.Second)
	wait(t, c2, 12*time.Second)
	s.leaked(t)
	h.Close()
	for _, x := range mustStatus(t) {
		if x.Cgroup == l.cgroup {
			if err := Reclaim(x, false); err != nil {
				t.Error(err)
			}
		}
	}
	for _, x := range mustStatus(t) {
		if x.Cgroup == l.cgroup {
			t.Error("still listed after the repair")
		}
	}
	os.MkdirAll(l.cgroup, 0o755) // for the lab's clean-up
}

// What a dead gate left of a cgroup that is gone goes at the next start.
func TestSweepGone(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir, err := MakeCgroup("holdfast-test-gone-" + itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Attach(Options{Cgroup: dir})
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	newLab(t, Options{}, never)
	// The kernel takes the programs off a removed cgroup in its own time; until
	// then the sweep leaves the pins alone.
	var left []Leftover
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		sweepGone()
		left = nil
		for _, x := range mustStatus(t) {
			if x.Cgroup == dir {
				left = append(left, x)
			}
		}
		if left == nil {
			return
		}
	}
	t.Errorf("still there: %+v", left)
}

// IPv4 over an IPv6 socket, as Java and others use: held and released.
func TestMapped(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, releaseAfter(200*time.Millisecond))
	s := l.fakeServer(at, true)
	if out, err := wait(t, l.helper("mapped"), 10*time.Second); err != nil {
		t.Errorf("%q %v; counters %v", out, err, l.counters())
	}
	s.wait(t)
	if len(s.read) != 1 || s.read[0] != string(aHello(200))+secret {
		t.Errorf("server read %q", s.read)
	}
	l2 := newLab(t, Options{}, func(c *testConn, now time.Time) action {
		if _, ok := c.record(); ok {
			return actRefuse
		}
		return actNothing
	})
	s2 := l2.fakeServer(at, true)
	if out, err := wait(t, l2.helper("mapped"), 10*time.Second); err == nil || !strings.Contains(out, "ECONNABORTED") {
		t.Errorf("refused: %q %v", out, err)
	}
	s2.leaked(t)
}

func mustStatus(t *testing.T) []Leftover {
	t.Helper()
	s, err := Status()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A connection that a dead gate had released goes on under its successor.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, releaseAfter(0))
	l.tlsServer(l.server, at, nil)
	c := l.command("curl", "-sSk", "--limit-rate", "20M", "-o", "/dev/null", "-w", "%{size_download}", "https://"+at+"/big")
	for end := time.Now().Add(5 * time.Second); l.counters()["released"] == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	l.gate.stop()
	l.hold.Close()
	h, err := Attach(Options{Cgroup: l.cgroup})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Detach()
	if out, err := wait(t, c, 20*time.Second); err != nil || !strings.Contains(out, "67108871") {
		t.Errorf("%q %v", out, err)
	}
}
