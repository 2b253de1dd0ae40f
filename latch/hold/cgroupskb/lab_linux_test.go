// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"holdfast/latch/hold"
)

// A lab is two network namespaces joined by a veth pair, a cgroup for the
// clients, and a hold on it. Nothing of it is visible outside, and all of it
// ends with the test.
type lab struct {
	t              *testing.T
	client, server netns.NsHandle
	cgroup         string
	hold           *Hold
	gate           *testGate
}

const (
	client4, server4 = "10.77.0.1", "10.77.0.2"
	client6, server6 = "fd77::1", "fd77::2"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP[root]: needs root: network namespaces, cgroups and eBPF")
	}
	if _, err := CgroupRoot(); err != nil {
		t.Skipf("SKIP[cgroup2]: %v", err)
	}
}

// in runs fn on a thread that is in the namespace.
func in(t *testing.T, ns netns.NsHandle, fn func() error) {
	t.Helper()
	ch := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		if err := netns.Set(ns); err != nil {
			ch <- err
			return
		}
		ch <- fn()
	}()
	if err := <-ch; err != nil {
		t.Fatal(err)
	}
}

func newNS(t *testing.T) netns.NsHandle {
	t.Helper()
	type result struct {
		ns  netns.NsHandle
		err error
	}
	ch := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.New()
		ch <- result{ns, err}
	}()
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.ns.Close() })
	in(t, r.ns, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	return r.ns
}

// newLab builds the namespaces; decide says what the test's gate does.
func newLab(t *testing.T, o Options, decide decider) *lab {
	t.Helper()
	needRoot(t)
	l := &lab{t: t, client: newNS(t), server: newNS(t)}
	in(t, l.client, func() error {
		v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0", MTU: 1500}, PeerName: "v1", PeerNamespace: netlink.NsFd(l.server)}
		if err := netlink.LinkAdd(v); err != nil {
			return err
		}
		return setup("v0", client4, client6)
	})
	in(t, l.server, func() error { return setup("v1", server4, server6) })
	l.cgroup = newCgroup(t)
	o.Cgroup = l.cgroup
	var err error
	if l.hold, err = Attach(o); err != nil {
		t.Fatal(err)
	}
	l.gate = &testGate{h: l.hold, decide: decide, conns: map[hold.ID]*testConn{}, done: make(chan struct{})}
	go l.gate.run()
	t.Cleanup(func() {
		if l.gate.stop() {
			if err := l.hold.Detach(); err != nil {
				t.Error(err)
			}
		}
	})
	return l
}

func newCgroup(t *testing.T) string {
	t.Helper()
	dir, err := MakeCgroup(fmt.Sprintf("holdfast-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for i := 0; i < 50; i++ { // a process that was just killed leaves it a little later
			if err = os.Remove(dir); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("cgroup: %v", err)
	})
	return dir
}

func setup(dev, a4, a6 string) error {
	l, err := netlink.LinkByName(dev)
	if err != nil {
		return err
	}
	a, _ := netlink.ParseAddr(a4 + "/24")
	b, _ := netlink.ParseAddr(a6 + "/64")
	b.Flags = unix.IFA_F_NODAD
	return errors.Join(netlink.AddrAdd(l, a), netlink.AddrAdd(l, b), netlink.LinkSetUp(l))
}

// command starts a program in the client's namespace and in the cgroup.
func (l *lab) command(name string, args ...string) *exec.Cmd {
	l.t.Helper()
	return l.commandIn(l.client, l.cgroup, name, args...)
}

func (l *lab) commandIn(ns netns.NsHandle, cgroup, name string, args ...string) *exec.Cmd {
	l.t.Helper()
	c := exec.Command(name, args...)
	if cgroup != "" {
		f, err := os.Open(cgroup)
		if err != nil {
			l.t.Fatal(err)
		}
		defer f.Close()
		c.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	in(l.t, ns, c.Start)
	l.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c
}

// helper starts this test binary as a client (see helper_linux_test.go).
func (l *lab) helper(args ...string) *exec.Cmd {
	l.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	return l.command(exe, append([]string{"holdfast-helper"}, args...)...)
}

// wait waits for the program and returns its output and error.
func wait(t *testing.T, c *exec.Cmd, d time.Duration) (string, error) {
	t.Helper()
	ch := make(chan error, 1)
	go func() { ch <- c.Wait() }()
	select {
	case err := <-ch:
		return c.Stdout.(*bytes.Buffer).String(), err
	case <-time.After(d):
		c.Process.Kill()
		<-ch
		t.Fatalf("%v still runs after %v", c.Args, d)
		return "", nil
	}
}

// listen opens a listener in the server's namespace.
func (l *lab) listen(addr string) net.Listener { return l.listenIn(l.server, addr) }

func (l *lab) listenIn(ns netns.NsHandle, addr string) net.Listener {
	l.t.Helper()
	var ln net.Listener
	in(l.t, ns, func() (err error) {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		ln, err = lc.Listen(l.t.Context(), "tcp", addr)
		return err
	})
	l.t.Cleanup(func() { ln.Close() })
	return ln
}

// A segment is a TCP packet seen on the server's interface.
type segment struct {
	at       time.Time
	src, dst netip.AddrPort
	seq, ack uint32
	flags    byte
	payload  []byte
}

// capture records the packets of the server's interface v1.
func (l *lab) capture() (stop func() []segment) {
	l.t.Helper()
	var fd int
	in(l.t, l.server, func() error {
		dev, err := net.InterfaceByName("v1")
		if err != nil {
			return err
		}
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20000})
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: dev.Index})
	})
	var mu sync.Mutex
	var out []segment
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1<<16)
		for {
			n, _, err := unix.Recvfrom(fd, b, 0)
			if err == nil {
				if s, ok := parseSegment(b[:n]); ok {
					s.at = time.Now()
					mu.Lock()
					out = append(out, s)
					mu.Unlock()
				}
				continue
			}
			select {
			case <-quit:
				return
			default:
			}
		}
	}()
	var once sync.Once
	stop = func() []segment {
		once.Do(func() {
			time.Sleep(50 * time.Millisecond)
			close(quit)
			<-done
			unix.Close(fd)
		})
		return out
	}
	l.t.Cleanup(func() { stop() })
	return stop
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func parseSegment(b []byte) (s segment, ok bool) {
	var src, dst netip.Addr
	var t []byte
	switch {
	case len(b) >= 40 && b[0]>>4 == 4 && b[9] == 6:
		src, dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		t = b[int(b[0]&15)*4 : binary.BigEndian.Uint16(b[2:])]
	case len(b) >= 60 && b[0]>>4 == 6 && b[6] == 6:
		src, dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
		t = b[40 : 40+int(binary.BigEndian.Uint16(b[4:]))]
	default:
		return s, false
	}
	s.src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(t))
	s.dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(t[2:]))
	s.seq, s.ack, s.flags = binary.BigEndian.Uint32(t[4:]), binary.BigEndian.Uint32(t[8:]), t[13]
	s.payload = bytes.Clone(t[int(t[12]>>4)*4:])
	return s, true
}

// A testGate stands for the gate: it examines nothing but the first record,
// and does what the test tells it.
type testGate struct {
	h      *Hold
	decide decider
	mu     sync.Mutex
	conns  map[hold.ID]*testConn
	denied []hold.Reason
	retry  int
	opened int
	done   chan struct{}
	ended  bool
	err    error
}

// testConn is what the gate knows of a connection.
type testConn struct {
	id       hold.ID
	remote   netip.AddrPort
	hello    []byte // outbound stream
	first    uint32
	base     uint32
	in       []byte // inbound stream from base, as copies came (first wins)
	got      []bool
	clash    bool // two copies differ
	examined uint32
	at       time.Time // of the first record of the server
	sent     bool
	open     bool
}

// record returns the first TLS record of the server once it is whole.
func (c *testConn) record() ([]byte, bool) {
	n := 0
	for n < len(c.got) && c.got[n] {
		n++
	}
	if n < 5 {
		return nil, false
	}
	end := 5 + int(c.in[3])<<8 + int(c.in[4])
	if n < end {
		return nil, false
	}
	return c.in[:end], true
}

type action int

const (
	actNothing action = iota
	actRelease
	actRefuse
)

// decider is called whenever something changed and once per millisecond.
type decider func(c *testConn, now time.Time) action

func releaseAfter(d time.Duration) decider {
	return func(c *testConn, now time.Time) action {
		if _, ok := c.record(); ok && now.Sub(c.at) >= d {
			return actRelease
		}
		return actNothing
	}
}

func (g *testGate) run() {
	defer close(g.done)
	for {
		g.h.WantInbound()
		if err := g.h.Wait(time.Now().Add(time.Millisecond)); err != nil {
			return
		}
		if !g.turn() {
			return
		}
	}
}

func (g *testGate) turn() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return false
	}
	g.err = errors.Join(g.err, g.h.Drain(g.record))
	var rel []hold.Verdict
	var ref []hold.ID
	now := time.Now()
	for _, c := range g.conns {
		if c.sent || c.open {
			continue
		}
		switch g.decide(c, now) {
		case actRelease:
			r, _ := c.record()
			rel = append(rel, hold.Verdict{ID: c.id, End: c.base + uint32(len(r)), Examined: c.examined})
			c.sent = true
		case actRefuse:
			ref = append(ref, c.id)
			c.sent = true
		}
	}
	g.err = errors.Join(g.err, g.h.Release(rel), g.h.Refuse(ref), g.h.Drain(g.record))
	return true
}

func (g *testGate) record(r *hold.Record) {
	c := g.conns[r.ID]
	if c == nil {
		c = &testConn{id: r.ID, remote: r.Remote}
		g.conns[r.ID] = c
	}
	switch r.Kind {
	case hold.Outbound:
		if len(c.hello) == 0 {
			c.first = r.Base
		}
		at := int(r.Seq - c.first)
		c.hello = append(c.hello[:at], r.Data...)
	case hold.Inbound:
		c.base = r.Base
		c.examined++
		if c.at.IsZero() {
			c.at = r.At
		}
		at := int(r.Seq - r.Base)
		for len(c.got) < at+len(r.Data) {
			c.got, c.in = append(c.got, false), append(c.in, 0)
		}
		for i, b := range r.Data {
			if c.got[at+i] && c.in[at+i] != b {
				c.clash = true
			}
			c.in[at+i], c.got[at+i] = b, true
		}
	case hold.Denied:
		g.denied = append(g.denied, r.Reason)
		g.err = errors.Join(g.err, g.h.Refuse([]hold.ID{r.ID}))
	case hold.Released:
		c.open = true
		g.opened++
	case hold.Retry:
		g.retry++
		c.sent = false
	}
}

// stop ends the loop; false if it was stopped before.
func (g *testGate) stop() bool {
	g.mu.Lock()
	was := g.ended
	g.ended = true
	g.mu.Unlock()
	<-g.done
	return !was
}

func (g *testGate) sawDenied(t *testing.T, want hold.Reason) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		g.mu.Lock()
		for _, r := range g.denied {
			if r == want {
				g.mu.Unlock()
				return
			}
		}
		g.mu.Unlock()
	}
	t.Errorf("the gate was not told %q; it was told %v", want, g.denied)
}

func (l *lab) counters() map[string]uint64 {
	l.t.Helper()
	c, err := l.hold.Counters()
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func testdata(name string) string { return filepath.Join("testdata", name) }
