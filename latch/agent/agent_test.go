// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
	"holdfast/latch/observe"
	"holdfast/latch/tlshello"
)

// rig is an agent with an observer, a TLS server of this process and a root
// that a gate trusts.
type rig struct {
	agent *Agent
	addr  netip.AddrPort // of the TLS server
	gate  string         // where gates reach the agent
	roots *trust.Roots
}

func freePort(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

func newObserver(t testing.TB, addr netip.AddrPort) *observe.Observer {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIP[root]: needs root")
	}
	ob, err := observe.Open(observe.Options{Listeners: []netip.AddrPort{addr}})
	if errors.Is(err, observe.ErrUnsupported) {
		t.Skipf("SKIP[bpf]: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ob.Close() })
	return ob
}

// processor is a simulated security processor and what trusts it.
func processor(t testing.TB, latency time.Duration) (func(context.Context) (provider.Provider, error), *trust.Roots) {
	t.Helper()
	root, err := simulated.NewRoot("test", evidence.ES256)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := root.Record()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := trust.New(nil, []trust.SimulatedRoot{rec})
	if err != nil {
		t.Fatal(err)
	}
	return func(context.Context) (provider.Provider, error) {
		return simulated.New(root, simulated.Options{Name: "psp", Algorithm: evidence.ES256, Latency: latency})
	}, roots
}

// start runs an agent for addr over src.
func start(t testing.TB, src Source, o Options) (*Agent, string) {
	t.Helper()
	a, err := New(src, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() {
		if err := a.Serve(l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return a, l.Addr().String()
}

func newRig(t testing.TB, latency time.Duration, change func(*Options)) *rig {
	t.Helper()
	r := &rig{addr: freePort(t)}
	ob := newObserver(t, r.addr)
	o := Options{Services: []Service{{Name: "shop", Address: r.addr}}, Version: "1.0"}
	o.Open, r.roots = processor(t, latency)
	if change != nil {
		change(&o)
	}
	r.agent, r.gate = start(t, ob, o)
	serveTLS(t, r.addr.String())
	return r
}

func serveTLS(t testing.TB, addr string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"server.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(20 * time.Second))
				k := tls.Server(c, cfg)
				b := make([]byte, 1)
				if _, err := io.ReadFull(k, b); err == nil {
					k.Write(b)
					io.Copy(io.Discard, k)
				}
			}()
		}
	}()
}

// gate is a client of the agent that remembers what it received.
type gate struct {
	*channel.Client
	v     *verify.Verifier
	es    map[[32]byte]evidence.Endorsement
	mu    sync.Mutex
	wait  map[[32]byte]chan channel.Event
	rep   *channel.Report
	count int // reports
}

func dialGate(t testing.TB, addr string, roots *trust.Roots) *gate {
	t.Helper()
	c, err := channel.Dial(context.Background(), "tcp", addr, channel.Options{Software: "test"})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Client: c, es: map[[32]byte]evidence.Endorsement{}, wait: map[[32]byte]chan channel.Event{}}
	if roots != nil {
		g.v = verify.New(roots)
	}
	done := make(chan struct{})
	t.Cleanup(func() { c.Close(); <-done })
	go func() {
		defer close(done)
		for {
			ev, err := c.Recv(nil)
			if err != nil {
				return
			}
			for _, e := range ev {
				g.event(e)
			}
		}
	}()
	return g
}

func (g *gate) event(e channel.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ch [32]byte
	switch e.Kind {
	case channel.KindEndorsement:
		x := evidence.Endorsement{Type: e.Endorsement.Type, Body: e.Endorsement.Body}
		g.es[x.Hash()] = x
		return
	case channel.KindReport:
		g.rep = e.Report
		g.count++
		return
	case channel.KindSession:
		ch = e.Session.CH
		e.Report = g.rep
		e.Session.Path = append([][32]byte(nil), e.Session.Path...)
		e.Session.Claims = append([]byte(nil), e.Session.Claims...)
	case channel.KindRefused:
		ch = e.Refused.CH
	}
	if c := g.wait[ch]; c != nil {
		c <- e
		delete(g.wait, ch)
	}
}

// announce announces one session; the answer comes on the returned channel.
func (g *gate) announce(a channel.Announcement) <-chan channel.Event {
	c := make(chan channel.Event, 1)
	g.mu.Lock()
	g.wait[a.CH] = c
	g.mu.Unlock()
	g.Announce([]channel.Announcement{a})
	return c
}

func await(t testing.TB, c <-chan channel.Event) channel.Event {
	t.Helper()
	select {
	case e := <-c:
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no answer from the agent")
		return channel.Event{}
	}
}

// check verifies a Session answer as a gate does: report, path, binder.
func (g *gate) check(e channel.Event, b [32]byte) (*binder.Claims, error) {
	if e.Kind != channel.KindSession {
		return nil, fmt.Errorf("refused: %s (%s)", e.Refused.Code, e.Refused.Text)
	}
	leaf := binder.Leaf(b, sha256.Sum256(e.Session.Claims))
	root, err := binder.RootFromPath(leaf, e.Session.Index, e.Report.Size, e.Session.Path)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, err = g.v.Verify(evidence.Report{Type: e.Report.Type, Body: e.Report.Body, Needs: e.Report.Needs},
		func(h [32]byte) (evidence.Endorsement, bool) { x, ok := g.es[h]; return x, ok }, evidence.ReportData(binder.ReportData(root)), time.Now())
	if err != nil {
		return nil, err
	}
	return binder.ParseClaims(e.Session.Claims)
}

// session is one TLS connection whose hello is announced when it leaves.
type tlsSession struct {
	net.Conn
	g        *gate
	grade    binder.Grade
	answer   <-chan channel.Event
	out, in  []byte
	tlsConn  *tls.Conn
	exchange tlshello.Exchange
}

// announcement is what a gate would announce of s, which was not.
func (s *tlsSession) announcement(t testing.TB) channel.Announcement {
	t.Helper()
	n := int(s.out[3])<<8 + int(s.out[4])
	ch, err := tlshello.ParseClientHello(s.out[5 : 5+n])
	if err != nil {
		t.Fatal(err)
	}
	return channel.Announcement{CH: sha256.Sum256(ch.Raw), Random: ch.Random, Grade: uint8(s.grade)}
}

func (s *tlsSession) Write(b []byte) (int, error) {
	if s.out == nil && s.g != nil {
		ch, err := tlshello.ParseClientHello(b[5:])
		if err != nil {
			return 0, err
		}
		s.answer = s.g.announce(channel.Announcement{CH: sha256.Sum256(b[5:]), Random: ch.Random, Grade: uint8(s.grade)})
	}
	s.out = append(s.out, b...)
	return s.Conn.Write(b)
}

func (s *tlsSession) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.in = append(s.in, b[:n]...)
	return n, err
}

func (s *tlsSession) binder(t testing.TB) [32]byte {
	t.Helper()
	s.exchange.Reset()
	if err := s.exchange.Client(s.out); err != nil {
		t.Fatal(err)
	}
	if err := s.exchange.Server(s.in); err != nil {
		t.Fatal(err)
	}
	_, sh := s.exchange.Hello()
	tr, ok := s.exchange.Transcript()
	if !ok {
		t.Fatal("the hellos are not complete")
	}
	return binder.Compute(binder.Server, s.grade, sh.Group, sh.Share, tr)
}

// connect makes a TLS connection that is announced to g (nil: not at all).
func connect(t testing.TB, addr string, g *gate, grade binder.Grade) *tlsSession {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { c.Close() })
	s := &tlsSession{Conn: c, g: g, grade: grade}
	s.tlsConn = tls.Client(s, &tls.Config{InsecureSkipVerify: true, ServerName: "server.test", MinVersion: tls.VersionTLS13})
	if err := s.tlsConn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAttestsASession(t *testing.T) {
	r := newRig(t, 0, nil)
	g := dialGate(t, r.gate, r.roots)
	self, _ := os.ReadFile("/proc/self/exe")
	for _, grade := range []binder.Grade{binder.Hello, binder.Share} {
		s := connect(t, r.addr.String(), g, grade)
		claims, err := g.check(await(t, s.answer), s.binder(t))
		if err != nil {
			t.Fatalf("grade %v: %v", grade, err)
		}
		want := binder.Claims{Service: "shop", Listener: "tcp " + r.addr.String(), NetNS: claims.NetNS, Executable: fmt.Sprintf("%x", sha256.Sum256(self)),
			Unit: claims.Unit, AgentVersion: "1.0", Class: "machine"}
		if *claims != want || claims.Unit == "" || claims.NetNS == "" {
			t.Errorf("claims %+v, want %+v", *claims, want)
		}
	}
	if st := r.agent.Stats(); st.Attested != 2 || st.Reports != 2 || len(st.Refused) != 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestGroups: sessions that come while a report is made share the next one.
func TestGroups(t *testing.T) {
	r := newRig(t, 60*time.Millisecond, nil)
	gates := []*gate{dialGate(t, r.gate, r.roots), dialGate(t, r.gate, r.roots)}
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			g := gates[i%2]
			s := connect(t, r.addr.String(), g, binder.Hello)
			select {
			case e := <-s.answer:
				if _, err := g.check(e, s.binder(t)); err != nil {
					t.Errorf("session %d: %v", i, err)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("session %d: no answer", i)
			}
		})
	}
	wg.Wait()
	st := r.agent.Stats()
	if st.Attested != n || st.Reports > n/3 || st.LargestGroup < 5 {
		t.Errorf("%d sessions in %d reports, largest group %d", st.Attested, st.Reports, st.LargestGroup)
	}
}

// TestNeverWithoutBothSides: an announcement alone and an observation alone
// get no evidence, and evidence of one session fits no other.
func TestNeverWithoutBothSides(t *testing.T) {
	r := newRig(t, 0, func(o *Options) { o.Park = 200 * time.Millisecond })
	g := dialGate(t, r.gate, r.roots)
	e := await(t, g.announce(channel.Announcement{CH: [32]byte{1}, Random: [32]byte{2}, Grade: 1}))
	if e.Kind != channel.KindRefused || e.Refused.Code != string(flow.NotObserved) {
		t.Errorf("an announced session that nobody saw: %+v", e)
	}
	connect(t, r.addr.String(), nil, binder.Hello) // not announced
	s := connect(t, r.addr.String(), g, binder.Hello)
	answer := await(t, s.answer)
	if _, err := g.check(answer, s.binder(t)); err != nil {
		t.Fatal(err)
	}
	other := connect(t, r.addr.String(), nil, binder.Hello)
	if _, err := g.check(answer, other.binder(t)); err == nil {
		t.Error("evidence of one session was accepted for another")
	}
	if st := r.agent.Stats(); st.Attested != 1 {
		t.Errorf("%d sessions attested, want only the one that was announced", st.Attested)
	}
	// An announcement that comes after Park finds nothing.
	time.Sleep(500 * time.Millisecond)
	e = await(t, g.announce(other.announcement(t)))
	if e.Kind != channel.KindRefused || e.Refused.Code != string(flow.NotObserved) {
		t.Errorf("a session announced too late: %+v", e)
	}
}

// TestLateAnnouncement: the observation waits for the announcement too.
func TestLateAnnouncement(t *testing.T) {
	r := newRig(t, 0, nil)
	g := dialGate(t, r.gate, r.roots)
	s := connect(t, r.addr.String(), nil, binder.Hello)
	time.Sleep(100 * time.Millisecond)
	e := await(t, g.announce(s.announcement(t)))
	if _, err := g.check(e, s.binder(t)); err != nil {
		t.Error(err)
	}
}

func TestExecutableNotListed(t *testing.T) {
	r := newRig(t, 0, func(o *Options) { o.Services[0].Executables = []Executable{{Path: "/bin/true"}} })
	g := dialGate(t, r.gate, r.roots)
	s := connect(t, r.addr.String(), g, binder.Hello)
	if e := await(t, s.answer); e.Kind != channel.KindRefused || e.Refused.Code != string(flow.UnknownIdentity) {
		t.Errorf("%+v", e)
	}
}

// TestSocketGone: the client leaves while the report is made.
func TestSocketGone(t *testing.T) {
	r := newRig(t, 300*time.Millisecond, nil)
	g := dialGate(t, r.gate, r.roots)
	s := connect(t, r.addr.String(), g, binder.Hello)
	s.Conn.(*net.TCPConn).SetLinger(0)
	s.Conn.Close()
	if e := await(t, s.answer); e.Kind != channel.KindRefused || e.Refused.Code != string(flow.SocketGone) {
		t.Errorf("%+v", e)
	}
}
