// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/latch/hold"
	"holdfast/latch/tlshello"
)

// judge is a gate that knows the hellos only: it releases when they are
// complete and ok says so, and refuses what is denied.
type judge struct {
	p  *Proxy
	ok func() bool

	mu       sync.Mutex
	seen     map[hold.ID]*seen
	released int
	denied   []hold.Reason
	records  int
	hurry    bool // releases with one record too few examined, first
	retries  int
}

type seen struct {
	x        tlshello.Exchange
	out, in  []byte
	examined uint32
	done     bool
}

func (j *judge) run() {
	for {
		j.p.WantInbound()
		if j.p.Wait(time.Now().Add(5*time.Millisecond)) != nil {
			return
		}
		j.mu.Lock()
		var rel []hold.Verdict
		var ref []hold.ID
		j.p.Drain(func(r *hold.Record) {
			j.records++
			s := j.seen[r.ID]
			if s == nil {
				s = &seen{}
				j.seen[r.ID] = s
			}
			switch r.Kind {
			case hold.Outbound:
				s.out = append(s.out[:r.Seq-r.Base], r.Data...)
				if s.x.Client(s.out) != nil {
					ref = append(ref, r.ID)
				}
			case hold.Inbound:
				s.in = append(s.in[:r.Seq-r.Base], r.Data...)
				if s.examined++; r.Count != s.examined {
					panic("count")
				}
				if s.x.Server(s.in) != nil {
					ref = append(ref, r.ID)
				}
			case hold.Denied:
				j.denied = append(j.denied, r.Reason)
				ref = append(ref, r.ID)
			case hold.Released:
				j.released++
			case hold.Retry:
				j.retries++
				s.done = false
			}
		})
		for id, s := range j.seen {
			if !s.done && s.x.Phase() == tlshello.Complete && j.ok() {
				s.done = true
				v := hold.Verdict{ID: id, End: uint32(s.x.ServerEnd()), Examined: s.examined}
				if j.hurry {
					j.hurry = false
					v.Examined--
				}
				rel = append(rel, v)
			}
		}
		j.p.Release(rel)
		j.p.Refuse(ref)
		j.mu.Unlock()
	}
}

func (j *judge) get() (released, retries, records int, denied []hold.Reason) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.released, j.retries, j.records, append([]hold.Reason(nil), j.denied...)
}

// rig is a proxy with a judge and a way in.
func rig(t *testing.T, o Options, m Mode, ok func() bool) (*judge, string) {
	t.Helper()
	p := New(o)
	j := &judge{p: p, ok: ok, seen: map[hold.ID]*seen{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go p.Serve(l, m)
	go j.run()
	t.Cleanup(func() { p.Shut() })
	return j, l.Addr().String()
}

// service is a TLS server that answers a line with itself; got is what it read.
func service(t *testing.T, curves ...tls.CurveID) (addr string, got func() string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, x, x, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, CurvePreferences: curves})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	var all []byte
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 32<<10)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					mu.Lock()
					all = append(all, b[:min(n, 100)]...)
					mu.Unlock()
					c.Write(b[:n])
				}
			}()
		}
	}()
	return l.Addr().String(), func() string { mu.Lock(); defer mu.Unlock(); return string(all) }
}

// through connects by way of the proxy.
func through(t *testing.T, m Mode, way, to string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", way)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	switch m {
	case Connect:
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
		b := make([]byte, len("HTTP/1.1 200 Connected\r\n\r\n"))
		if _, err := io.ReadFull(c, b); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200") {
			t.Fatalf("%q %v", b, err)
		}
	case SOCKS5:
		a := netip.MustParseAddrPort(to)
		c.Write([]byte{5, 1, 0})
		c.Write(appendSOCKS(nil, Target{a.Addr().String(), a.Port()}))
		b := make([]byte, 12)
		if _, err := io.ReadFull(c, b); err != nil || !bytes.Equal(b[:4], []byte{5, 0, 5, 0}) {
			t.Fatalf("%x %v", b, err)
		}
	}
	return c
}

func exchange(c net.Conn, size int) error {
	s := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: "shop.example", CurvePreferences: []tls.CurveID{tls.CurveP256, tls.CurveP384}})
	sent := append([]byte("secret "), bytes.Repeat([]byte{'x'}, size)...)
	go s.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(s, got); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return errors.New("another answer")
	}
	return nil
}

func TestReleased(t *testing.T) {
	for _, m := range []Mode{Connect, SOCKS5} {
		for name, curves := range map[string][]tls.CurveID{"plain hello": {tls.CurveP256}, "retry request": {tls.CurveP384}} {
			t.Run(string(m)+" "+name, func(t *testing.T) {
				j, way := rig(t, Options{}, m, func() bool { return true })
				j.hurry = true
				to, _ := service(t, curves...)
				if err := exchange(through(t, m, way, to), 8<<20); err != nil {
					t.Fatal(err)
				}
				// 8 MiB each way, and only the beginning was copied.
				if released, retries, records, denied := j.get(); released != 1 || retries != 1 || records > 25 || len(denied) > 0 {
					t.Errorf("%d released, %d retries, %d records, denied %v; expected 1, 1, few, none", released, retries, records, denied)
				}
				if l := j.p.Live(); len(l) != 1 || l[0][1].String() != to {
					t.Errorf("live: %v", l)
				}
			})
		}
	}
}

// Until the release nothing behind the hello reaches the server, however long
// that takes; a refusal resets the client.
func TestHeld(t *testing.T) {
	j, way := rig(t, Options{}, Connect, func() bool { return false })
	to, got := service(t, tls.CurveP256)
	c := through(t, Connect, way, to)
	done := make(chan error, 1)
	go func() { done <- exchange(c, 10) }()
	select {
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	j.mu.Lock()
	for id := range j.seen {
		j.p.Refuse([]hold.ID{id})
	}
	j.mu.Unlock()
	if err := <-done; err == nil || got() != "" {
		t.Errorf("%v; the server got %q", err, got())
	}
}

// counting is a server that counts what it gets.
func counting(t *testing.T, greet string) (addr string, got func() []byte) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	var all []byte
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.WriteString(c, greet)
				b := make([]byte, 4096)
				for {
					n, err := c.Read(b)
					mu.Lock()
					all = append(all, b[:n]...)
					mu.Unlock()
					if err != nil {
						return
					}
					c.Write(b[:n])
				}
			}()
		}
	}()
	return l.Addr().String(), func() []byte { mu.Lock(); defer mu.Unlock(); return bytes.Clone(all) }
}

// First bytes that are no single ClientHello never leave.
func TestDenied(t *testing.T) {
	for name, c := range map[string]struct {
		first  []byte
		reason hold.Reason
	}{
		"http":        {[]byte("GET / HTTP/1.1\r\n\r\n"), hold.ReasonNotTLS},
		"application": {[]byte{23, 3, 3, 0, 3, 1, 2, 3}, hold.ReasonNotTLS},
		"ccs first":   {[]byte{20, 3, 3, 0, 1, 1}, hold.ReasonNotTLS},
		"not a hello": {[]byte{22, 3, 3, 0, 4, 2, 0, 0, 0}, hold.ReasonNotTLS},
		"too long":    {[]byte{22, 3, 1, 0x40, 0, 1}, hold.ReasonTooLong},
		"empty":       {[]byte{22, 3, 1, 0, 0, 1}, hold.ReasonNotTLS},
		"sslv2":       {[]byte{0x80, 0x2e, 1, 0, 2}, hold.ReasonNotTLS},
	} {
		t.Run(name, func(t *testing.T) {
			j, way := rig(t, Options{}, SOCKS5, func() bool { return true })
			to, got := counting(t, "")
			x := through(t, SOCKS5, way, to)
			x.Write(c.first)
			if n, err := x.Read(make([]byte, 1)); err == nil {
				t.Errorf("%d bytes came back", n)
			}
			if _, _, _, denied := j.get(); len(denied) != 1 || denied[0] != c.reason || len(got()) > 0 {
				t.Errorf("denied %v, expected %v; the server got %x", denied, c.reason, got())
			}
		})
	}
}

// A listed destination passes, but not what begins like TLS, unless it is
// listed for that too.
func TestPlain(t *testing.T) {
	for _, c := range []struct {
		kind   Pass
		greet  string
		first  string
		passes bool
		reason hold.Reason
	}{
		{Plain, "", "hello", true, 0},
		{Plain, "220 ready\n", "EHLO", true, 0},
		{Plain, "", "\x16\x03\x01\x00\x05\x02abcd", false, hold.ReasonNotTLS},
		{Plain, "220 ready\n", "\x16\x03\x01\x00\x05\x01abcd", false, hold.ReasonServerFirst},
		{PlainTLS, "", "\x16\x03\x01\x00\x05\x01abcd", true, 0},
		{Gated, "", "hello", false, hold.ReasonNotTLS},
	} {
		t.Run(fmt.Sprintf("%v %q %q", c.kind, c.greet, c.first), func(t *testing.T) {
			j, way := rig(t, Options{Destination: func(netip.AddrPort) Pass { return c.kind }}, Connect, func() bool { return true })
			to, got := counting(t, c.greet)
			x := through(t, Connect, way, to)
			b := make([]byte, len(c.greet)+len(c.first))
			if _, err := io.ReadFull(x, b[:len(c.greet)]); err != nil {
				t.Fatal(err)
			}
			x.Write([]byte(c.first))
			_, err := io.ReadFull(x, b[len(c.greet):])
			_, _, _, denied := j.get()
			if c.passes {
				if err != nil || string(b) != c.greet+c.first || len(denied) > 0 {
					t.Errorf("%q %v, denied %v", b, err, denied)
				}
				return
			}
			if err == nil || len(got()) > 0 || len(denied) != 1 || denied[0] != c.reason {
				t.Errorf("err %v, the server got %q, denied %v, expected %v", err, got(), denied, c.reason)
			}
		})
	}
}

// What cannot be reached or is not spoken is said in the client's own language.
func TestAnswers(t *testing.T) {
	fail := Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }}
	for _, c := range []struct {
		mode     Mode
		in, want string
	}{
		{Connect, "CONNECT 192.0.2.1:443 HTTP/1.1\r\n\r\n", "HTTP/1.1 502 Bad Gateway"},
		{Connect, "GET http://x/ HTTP/1.1\r\n\r\n", "HTTP/1.1 403 Forbidden"},
		{SOCKS5, "\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb", "\x05\x00\x05\x05"},
		{SOCKS5, "\x05\x01\x00\x05\x03\x00\x01\xc0\x00\x02\x01\x01\xbb", "\x05\x00\x05\x07"}, // UDP
		{SOCKS5, "\x05\x01\x02", "\x05\xff"},                                                 // password only
		{SOCKS5, "\x04\x01", "\x05\xff"},                                                     // SOCKS4
	} {
		_, way := rig(t, fail, c.mode, func() bool { return true })
		x, err := net.Dial("tcp", way)
		if err != nil {
			t.Fatal(err)
		}
		x.SetDeadline(time.Now().Add(5 * time.Second))
		x.Write([]byte(c.in))
		b := make([]byte, len(c.want))
		if _, err := io.ReadFull(x, b); err != nil || string(b) != c.want {
			t.Errorf("%q: got %q, %v, expected %q", c.in, b, err, c.want)
		}
		x.Close()
	}
}

// No more connections than allowed; the rest is reset at once. Close ends what
// is held and leaves what is open.
func TestLimitsAndClose(t *testing.T) {
	j, way := rig(t, Options{Connections: 2}, Connect, func() bool { return true })
	to, _ := service(t, tls.CurveP256)
	first := through(t, Connect, way, to)
	if err := exchange(first, 10); err != nil {
		t.Fatal(err)
	}
	held := through(t, Connect, way, to)
	third, err := net.Dial("tcp", way)
	if err == nil {
		third.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprintf(third, "CONNECT %s HTTP/1.1\r\n\r\n", to)
		if n, err := third.Read(make([]byte, 1)); err == nil {
			t.Errorf("the third connection got %d bytes", n)
		}
		third.Close()
	}
	j.p.Close()
	if _, err := held.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the held connection: %v, expected a reset", err)
	}
	if n := len(j.p.Live()); n != 1 {
		t.Errorf("%d open connections after Close, expected 1", n)
	}
}
