// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/latch/flow"
	"holdfast/latch/tlshello"
)

// relay passes bytes both ways between clients of addr and to, unread: an
// approved process that is a proxy. cut > 0 sends to the proxy in pieces.
func relay(t testing.TB, addr, to string) {
	t.Helper()
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
				b, err := net.DialTimeout("tcp", to, 3*time.Second)
				if err != nil {
					return
				}
				defer b.Close()
				go io.Copy(b, c)
				io.Copy(c, b)
			}()
		}
	}()
}

// pieces is a listener whose connections write the first limit bytes in
// segments of size bytes.
type pieces struct {
	net.Listener
	size, limit int
}

type pieceConn struct {
	net.Conn
	p    *pieces
	sent int
}

func (p *pieces) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.(*net.TCPConn).SetNoDelay(true)
	return &pieceConn{Conn: c, p: p}, nil
}

func (c *pieceConn) Write(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k := len(b) - n
		if c.sent < c.p.limit {
			k = min(k, c.p.size)
			time.Sleep(200 * time.Microsecond)
		}
		m, err := c.Conn.Write(b[n : n+k])
		n, c.sent = n+m, c.sent+m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func serveListener(t testing.TB, l net.Listener, cfg *tls.Config) {
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

// TestForeignHello: an approved process that passes on somebody else's
// ServerHello is refused, in whatever pieces it came in.
func TestForeignHello(t *testing.T) {
	for _, c := range []struct {
		name   string
		size   int
		server *tls.Config
		client *tls.Config
	}{
		{"one segment", 0, &tls.Config{}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}},
		{"hybrid", 0, &tls.Config{}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}},
		{"segments of one byte", 1, &tls.Config{}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}},
		{"segments of 40 bytes", 40, &tls.Config{}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}},
		{"hybrid in segments of 500 bytes", 500, &tls.Config{}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}},
		{"after a retry", 0, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP256}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := freePort(t)
			ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			backend := l.Addr().String()
			if c.size > 0 {
				l = &pieces{l, c.size, 1300}
			}
			serveListener(t, l, c.server)
			relay(t, addr.String(), backend)
			handshake(t, addr.String(), c.client, nil)
			ev := events(t, ob, 1)
			if len(ev) != 1 || ev[0].Refusal != flow.ForeignHello {
				t.Fatalf("events %+v, want one with %s", ev, flow.ForeignHello)
			}
			if ev[0].BinderHello != [32]byte{} || ev[0].BinderShare != [32]byte{} {
				t.Error("a refused event carries binders")
			}
		})
	}
}

// TestForeignHelloBehindExtensionHeaders: IPv6 packets with destination options
// are TCP for the receiver, so the watch must read them too.
func TestForeignHelloBehindExtensionHeaders(t *testing.T) {
	addr := freePort(t)
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, "\x00\x00\x01\x04\x00\x00\x00\x00")
		})
		return err
	}}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(t.Context(), "tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("SKIP[ipv6]: %v", err)
	}
	serveListener(t, l, &tls.Config{})
	relay(t, addr.String(), l.Addr().String())
	handshake(t, addr.String(), &tls.Config{}, nil)
	ev := events(t, ob, 1)
	if len(ev) != 1 || ev[0].Refusal != flow.ForeignHello {
		t.Fatalf("events %+v, want one with %s", ev, flow.ForeignHello)
	}
}

// TestOwnClientIsNotForeign: a client on this machine receives what the
// protected server sent; the next session must not suffer from it.
func TestOwnClientIsNotForeign(t *testing.T) {
	addr := freePort(t)
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
	serve(t, addr.String(), &tls.Config{}, false)
	var taps []*tap
	for range 5 {
		taps = append(taps, handshake(t, addr.String(), &tls.Config{}, nil))
	}
	for _, e := range events(t, ob, 5) {
		if e.Refusal != "" {
			t.Errorf("%s: %s", e.Refusal, e.Detail)
		}
	}
	ob.Poll(nil, time.Now())
	for _, k := range taps { // other programs of the machine may have entered theirs
		if ob.conns.foreign.known.has(k.serverShare(t)) {
			t.Error("the share that a local client received counts as foreign")
		}
	}
}

// fakeServer answers each ClientHello with a well-formed ServerHello over the
// given X25519 share, preceded by what before says, and closes.
func fakeServer(t testing.TB, addr string, share []byte, change func(record []byte) []byte) {
	t.Helper()
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
				c.SetDeadline(time.Now().Add(5 * time.Second))
				h := make([]byte, 5)
				if _, err := io.ReadFull(c, h); err != nil {
					return
				}
				msg := make([]byte, binary.BigEndian.Uint16(h[3:]))
				if _, err := io.ReadFull(c, msg); err != nil {
					return
				}
				ch, err := tlshello.ParseClientHello(msg)
				if err != nil {
					return
				}
				c.Write(change(serverHello(ch, share)))
				io.Copy(io.Discard, c)
			}()
		}
	}()
}

// serverHello builds a record with a ServerHello for ch.
func serverHello(ch *tlshello.ClientHello, share []byte) []byte {
	var b []byte
	b = append(b, 3, 3)
	random := make([]byte, 32)
	rand.Read(random)
	b = append(b, random...)
	b = append(append(b, byte(len(ch.SessionID))), ch.SessionID...)
	b = append(b, 0x13, 0x01, 0)
	ext := []byte{0, 43, 0, 2, 3, 4, 0, 51}
	ext = binary.BigEndian.AppendUint16(ext, uint16(4+len(share)))
	ext = append(ext, 0, 0x1d)
	ext = append(binary.BigEndian.AppendUint16(ext, uint16(len(share))), share...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(ext))), ext...)
	msg := append([]byte{2, 0, byte(len(b) >> 8), byte(len(b))}, b...)
	return append([]byte{0x16, 3, 3, byte(len(msg) >> 8), byte(len(msg))}, msg...)
}

// attempt starts a handshake whose outcome does not matter.
func attempt(t testing.TB, addr string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	tls.Client(c, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}, MinVersion: tls.VersionTLS13}).Handshake()
}

func TestShareReused(t *testing.T) {
	addr := freePort(t)
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
	share := make([]byte, 32)
	rand.Read(share)
	fakeServer(t, addr.String(), share, func(b []byte) []byte { return b })
	attempt(t, addr.String())
	attempt(t, addr.String())
	ev := events(t, ob, 2)
	if len(ev) != 2 || ev[0].Refusal != "" || ev[1].Refusal != flow.ShareReused {
		t.Fatalf("events %+v, want one accepted and one with %s", ev, flow.ShareReused)
	}
}

func TestServerBreaksRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		want   flow.Reason
	}{
		{"more behind the hello in its record", func(b []byte) []byte {
			b = append(b, 11, 0, 0, 0)
			binary.BigEndian.PutUint16(b[3:], uint16(len(b)-5))
			return b
		}, flow.RecordBoundary},
		{"no share", func(b []byte) []byte {
			b = b[:len(b)-40] // the key_share extension
			n := len(b)
			binary.BigEndian.PutUint16(b[3:], uint16(n-5))
			binary.BigEndian.PutUint16(b[7:], uint16(n-9))
			binary.BigEndian.PutUint16(b[len(b)-8:], 6)
			return b
		}, flow.PSKWithoutShare},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := freePort(t)
			ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
			share := make([]byte, 32)
			rand.Read(share)
			fakeServer(t, addr.String(), share, c.change)
			attempt(t, addr.String())
			ev := events(t, ob, 1)
			if len(ev) != 1 || ev[0].Refusal != c.want {
				t.Fatalf("events %+v, want one with %s", ev, c.want)
			}
		})
	}
}

// TestOtherAddress: the port is protected on one address only.
func TestOtherAddress(t *testing.T) {
	addr := freePort(t)
	other := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), addr.Port())
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
	serve(t, other.String(), &tls.Config{}, false)
	handshake(t, other.String(), &tls.Config{}, nil)
	ev := events(t, ob, 1)
	if len(ev) != 1 || ev[0].Refusal != flow.NotProtected {
		t.Fatalf("events %+v, want one with %s", ev, flow.NotProtected)
	}
}

// TestRingFull: copies that found no room make sessions refused, never wrong,
// and the observer recovers when the window has passed.
func TestRingFull(t *testing.T) {
	addr := freePort(t)
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}, RingBytes: 1 << 16})
	serve(t, addr.String(), &tls.Config{}, false)
	const n = 60
	for range n {
		handshake(t, addr.String(), &tls.Config{}, nil)
	}
	now := time.Now()
	ev := ob.Poll(nil, now)
	good, bad := 0, 0
	for _, e := range ev {
		switch {
		case e.Kind != Hello:
		case e.Refusal == "":
			good++
		default:
			bad++
		}
	}
	st := ob.Stats()
	if st.Lost == 0 || st.WatchLost == 0 || good == n {
		t.Fatalf("the ring did not overflow: %d sessions, %+v", good, st)
	}
	handshake(t, addr.String(), &tls.Config{}, nil)
	ev = events(t, ob, 1)
	if len(ev) != 1 || ev[0].Refusal != flow.AgentLostCopy {
		t.Fatalf("after the loss of foreign copies: %+v, want %s", ev, flow.AgentLostCopy)
	}
	handshake(t, addr.String(), &tls.Config{}, nil)
	time.Sleep(20 * time.Millisecond)
	ev = ob.Poll(nil, time.Now().Add(foreignWindow+time.Second))
	if len(ev) == 0 || ev[0].Refusal != "" {
		t.Errorf("after the window: %+v, want an accepted session", ev)
	}
}

func TestClosedIsTold(t *testing.T) {
	addr := freePort(t)
	ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
	serve(t, addr.String(), &tls.Config{}, true)
	k := handshake(t, addr.String(), &tls.Config{}, nil)
	ev := events(t, ob, 1)
	if len(ev) != 1 {
		t.Fatalf("events %+v", ev)
	}
	for _, e := range ob.Poll(nil, time.Now()) {
		if e.Kind == Closed {
			t.Fatal("closed before it was")
		}
	}
	k.Conn.(*net.TCPConn).SetLinger(0) // a reset
	k.Conn.Close()
	for range 100 {
		for _, e := range ob.Poll(nil, time.Now()) {
			if e.Kind == Closed && e.Cookie == ev[0].Cookie {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("nobody told that the socket is gone")
}

// TestPassive: nothing is delayed while nobody reads the ring.
func TestPassive(t *testing.T) {
	addr := freePort(t)
	serve(t, addr.String(), &tls.Config{}, false)
	measure := func() time.Duration {
		best := time.Hour
		for range 30 {
			start := time.Now()
			handshake(t, addr.String(), &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, nil)
			best = min(best, time.Since(start))
		}
		return best
	}
	without := measure()
	open(t, Options{Listeners: []netip.AddrPort{addr}})
	if with := measure(); with > 2*without+time.Millisecond {
		t.Errorf("a handshake took %v with the observer, %v without", with, without)
	}
}
