// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"holdfast/latch/binder"
	"holdfast/latch/tlshello"
)

// certificate makes a fresh self-signed one.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server.test"}, DNSNames: []string{"server.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// open opens an observer for addr, or skips where that cannot be.
func open(t testing.TB, o Options) *Observer {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIP[root]: needs root")
	}
	ob, err := Open(o)
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("SKIP[bpf]: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ob.Close() })
	return ob
}

// freePort finds a TCP port that nobody uses now.
func freePort(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// events polls until n Hello events came or five seconds passed.
func events(t testing.TB, ob *Observer, n int) []Event {
	t.Helper()
	var hellos, evs []Event
	end := time.Now().Add(5 * time.Second)
	for len(hellos) < n && time.Now().Before(end) {
		if err := ob.Wait(end, true); err != nil {
			t.Fatal(err)
		}
		evs = ob.Poll(evs[:0], time.Now())
		for _, e := range evs {
			if e.Kind == Hello {
				hellos = append(hellos, e)
			}
		}
	}
	return hellos
}

// identity waits until a listener's identity is known.
func identity(t testing.TB, ob *Observer, l *Listener) (*Identity, error) {
	t.Helper()
	for range 500 {
		ob.Poll(nil, time.Now())
		if id, err := l.Identity(); id != nil || err != nil {
			return id, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the identity was not found out in time")
	return nil, nil
}

// tap records what a client sends and receives: the client's view, from which
// it computes its binder.
type tap struct {
	net.Conn
	mu       sync.Mutex
	out, in  []byte
	cut      int // bytes per write, 0: as they come
	pauseCut time.Duration
}

func (c *tap) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.out = append(c.out, b...)
	c.mu.Unlock()
	if c.cut == 0 {
		return c.Conn.Write(b)
	}
	n := 0
	for len(b) > 0 {
		k, err := c.Conn.Write(b[:min(c.cut, len(b))])
		if n += k; err != nil {
			return n, err
		}
		b = b[k:]
		time.Sleep(c.pauseCut)
	}
	return n, nil
}

func (c *tap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	c.in = append(c.in, b[:n]...)
	c.mu.Unlock()
	return n, err
}

// serverShare is the share that the client received.
func (c *tap) serverShare(t testing.TB) []byte {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int(c.in[3])<<8 | int(c.in[4])
	sh, err := tlshello.ParseServerHello(c.in[5 : 5+n])
	if err != nil {
		t.Fatal(err)
	}
	return sh.Share
}

// seen is the client's own computation.
func (c *tap) seen(t testing.TB) (ch [32]byte, hello, share [32]byte, group uint16) {
	t.Helper()
	var x tlshello.Exchange
	c.mu.Lock()
	defer c.mu.Unlock()
	x.Reset()
	if err := x.Client(c.out); err != nil {
		t.Fatal(err)
	}
	if err := x.Server(c.in); err != nil {
		t.Fatal(err)
	}
	_, sh := x.Hello()
	if sh == nil {
		t.Fatalf("the client's view is not complete: %s", x.Phase())
	}
	tr, _ := x.Transcript()
	return x.ClientHelloDigest(), binder.Compute(binder.Server, binder.Hello, sh.Group, sh.Share, tr),
		binder.Compute(binder.Server, binder.Share, sh.Group, sh.Share, [32]byte{}), sh.Group
}

// handshake connects and completes a handshake; the tap stays open.
func handshake(t testing.TB, addr string, cfg *tls.Config, change func(*tap)) *tap {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(10 * time.Second))
	tc := &tap{Conn: c}
	if change != nil {
		change(tc)
	}
	cfg = cfg.Clone()
	cfg.InsecureSkipVerify, cfg.ServerName = true, "server.test"
	k := tls.Client(tc, cfg)
	if err := k.Handshake(); err != nil {
		t.Fatal(err)
	}
	// A byte each way, so that session tickets are read.
	if _, err := k.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(k, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return tc
}

// serve runs a Go TLS server that echoes one byte per connection.
func serve(t testing.TB, addr string, cfg *tls.Config, mptcp bool) {
	t.Helper()
	var lc net.ListenConfig
	lc.SetMultipathTCP(mptcp)
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.Clone()
	cfg.Certificates = []tls.Certificate{certificate(t)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(10 * time.Second))
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

// same compares an event with the client's view.
func same(t *testing.T, e Event, c *tap, group uint16) {
	t.Helper()
	ch, hello, share, g := c.seen(t)
	if e.Refusal != "" {
		t.Fatalf("refused: %s (%s)", e.Refusal, e.Detail)
	}
	if e.CH != ch || e.BinderHello != hello || e.BinderShare != share || e.Group != g || g != group {
		t.Errorf("the observer saw CH %x, binders %x %x, group %#x; the client %x, %x %x, %#x; wanted group %#x", e.CH[:4], e.BinderHello[:4], e.BinderShare[:4], e.Group, ch[:4], hello[:4], share[:4], g, group)
	}
}

func TestSeesWhatTheClientSees(t *testing.T) {
	addr := freePort(t)
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
	serve(t, addr.String(), &tls.Config{MinVersion: tls.VersionTLS13}, true)
	cache := tls.NewLRUClientSessionCache(8)
	for _, c := range []struct {
		name    string
		cfg     *tls.Config
		change  func(*tap)
		group   uint16
		resumed bool
	}{
		{"x25519", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, nil, 0x1d, false},
		{"hybrid", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}, nil, 0x11ec, false},
		{"client hello in pieces", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}},
			func(c *tap) { c.cut, c.pauseCut = 400, time.Millisecond; c.Conn.(*net.TCPConn).SetNoDelay(true) }, 0x11ec, false},
		{"fresh with ticket", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}, ClientSessionCache: cache}, nil, 0x1d, false},
		{"resumed", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}, ClientSessionCache: cache}, nil, 0x1d, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := handshake(t, addr.String(), c.cfg, c.change)
			ev := events(t, ob, 1)
			if len(ev) != 1 {
				t.Fatalf("%d events, want 1; %+v", len(ev), ob.Stats())
			}
			same(t, ev[0], k, c.group)
			if ev[0].Resumed != c.resumed {
				t.Errorf("resumed: %v, want %v", ev[0].Resumed, c.resumed)
			}
			if ev[0].Local.String() != addr.String() || ev[0].Remote.String() != k.LocalAddr().String() {
				t.Errorf("addresses %s and %s, want %s and %s", ev[0].Local, ev[0].Remote, addr, k.LocalAddr())
			}
		})
	}
	if s := ob.Stats(); s.Lost != 0 || s.Unread != 0 || s.Refused != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestRetry(t *testing.T) {
	addr := freePort(t)
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
	serve(t, addr.String(), &tls.Config{MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.CurveP384}}, false)
	k := handshake(t, addr.String(), &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP384}}, nil)
	ev := events(t, ob, 1)
	if len(ev) != 1 {
		t.Fatalf("%d events, want 1", len(ev))
	}
	same(t, ev[0], k, 0x18)
}

func TestIdentityOfThisProcess(t *testing.T) {
	addr := freePort(t)
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
	serve(t, addr.String(), &tls.Config{}, true)
	handshake(t, addr.String(), &tls.Config{}, nil)
	ev := events(t, ob, 1)
	if len(ev) != 1 || ev[0].Listener == nil {
		t.Fatalf("events %+v", ev)
	}
	id, err := identity(t, ob, ev[0].Listener)
	if err != nil {
		t.Fatal(err)
	}
	checkSelf(t, id)
	if id.Found || id.Inherited {
		t.Errorf("identity %+v, want the creator's own", id)
	}
}

func checkSelf(t *testing.T, id *Identity) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if id.Executable != sum || id.PID != os.Getpid() || id.UID != 0 {
		t.Errorf("identity %+v, want process %d with digest %x", id, os.Getpid(), sum[:4])
	}
}
