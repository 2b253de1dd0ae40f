// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"holdfast/latch/hold"
)

// tlsServer serves "hello" over TLS and notes when the first request came.
func (l *lab) tlsServer(ns netns.NsHandle, addr string, conf *tls.Config) {
	l.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		l.t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"lab"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		l.t.Fatal(err)
	}
	if conf == nil {
		conf = &tls.Config{}
	}
	conf.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "hello %d", n)
		if r.URL.Path == "/big" {
			io.CopyN(w, zeros{}, 64<<20)
		}
	})}
	ln := l.listenIn(ns, addr)
	go s.Serve(tls.NewListener(ln, conf))
	l.t.Cleanup(func() { s.Close() })
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// onlyHello checks what the server's wire saw of each client connection before
// the given moment: exactly one ClientHello record's bytes and no other payload.
func onlyHello(t *testing.T, segs []segment, until time.Time, port uint16) (after int) {
	t.Helper()
	type key struct{ a, b string }
	sent := map[key]map[uint32]byte{}
	isn := map[key]uint32{}
	for _, s := range segs {
		if s.dst.Port() != port {
			continue
		}
		k := key{s.src.String(), s.dst.String()}
		if s.flags&2 != 0 {
			isn[k] = s.seq + 1
			sent[k] = map[uint32]byte{}
			if len(s.payload) != 0 {
				t.Errorf("payload in a SYN")
			}
			continue
		}
		if s.at.After(until) {
			after += len(s.payload)
			continue
		}
		if s.flags&1 != 0 {
			t.Errorf("FIN before the release")
		}
		for i, b := range s.payload {
			sent[k][s.seq+uint32(i)-isn[k]] = b
		}
	}
	n := 0
	for k, m := range sent {
		if len(m) == 0 {
			continue
		}
		n++
		b := make([]byte, len(m))
		for at, v := range m {
			if int(at) >= len(b) {
				t.Fatalf("%v: byte at offset %d without those before", k, at)
			}
			b[at] = v
		}
		if len(b) < 9 || b[0] != 0x16 || b[5] != 1 || len(b) != 5+int(b[3])<<8+int(b[4]) {
			t.Errorf("%v: %d bytes left before the release, expected exactly one ClientHello: % x...", k, len(b), b[:min(len(b), 12)])
		}
	}
	if n == 0 {
		t.Error("no ClientHello on the wire: the test saw nothing")
	}
	return after
}

// releaseTimes makes a decider that notes when it released.
func noting(d decider) (decider, func() time.Time) {
	var mu sync.Mutex
	var first time.Time
	return func(c *testConn, now time.Time) action {
			a := d(c, now)
			if a == actRelease {
				mu.Lock()
				if first.IsZero() {
					first = now
				}
				mu.Unlock()
			}
			return a
		}, func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return first
		}
}

// TestHoldTimes: until the release exactly the ClientHello is on the server's
// wire, whatever the client and however long the hold; then the session works.
func TestHoldTimes(t *testing.T) {
	clients := map[string]func(l *lab, url string) *exec.Cmd{
		"go":      func(l *lab, url string) *exec.Cmd { return l.helper("get", url) },
		"curl":    func(l *lab, url string) *exec.Cmd { return l.command("curl", "-sk", "--http1.1", url) },
		"openssl": nil,
	}
	for _, d := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		for _, addr := range []string{server4 + ":443", "[" + server6 + "]:443"} {
			for name, start := range clients {
				t.Run(fmt.Sprintf("%v/%s/%s", d, addr, name), func(t *testing.T) {
					t.Parallel()
					decide, when := noting(releaseAfter(d))
					l := newLab(t, Options{}, decide)
					l.tlsServer(l.server, addr, nil)
					stop := l.capture()
					var c *exec.Cmd
					if start == nil {
						c = l.command("sh", "-c", "(printf 'GET / HTTP/1.0\\r\\n\\r\\n'; sleep 2) | timeout 8 openssl s_client -quiet -connect "+addr+" 2>/dev/null")
					} else {
						c = start(l, "https://"+addr+"/")
					}
					out, err := wait(t, c, 15*time.Second)
					if !strings.Contains(out, "hello 0") {
						t.Errorf("no answer: %q %v; gate: %v, counters %v", out, err, l.gate.err, l.counters())
					}
					if onlyHello(t, stop(), when(), 443) == 0 {
						t.Error("nothing after the release: the capture saw too little")
					}
				})
			}
		}
	}
}

// TestNeverReleased: nothing but the hello leaves, the application that waits
// is reset when the gate refuses, and a hold without a verdict stays one.
func TestNeverReleased(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, func(c *testConn, now time.Time) action {
		if _, ok := c.record(); ok && now.Sub(c.at) > 1500*time.Millisecond {
			return actRefuse
		}
		return actNothing
	})
	l.tlsServer(l.server, server4+":443", nil)
	stop := l.capture()
	start := time.Now()
	out, err := wait(t, l.command("curl", "-sSk", "https://"+server4+"/"), 10*time.Second)
	if err == nil || time.Since(start) < time.Second || time.Since(start) > 8*time.Second {
		t.Errorf("curl: %v after %v, expected an error about 1.5 s after the server's answer: %s", err, time.Since(start), out)
	}
	segs := stop()
	onlyHello(t, segs, time.Now(), 443)
	rst := false
	for _, s := range segs {
		rst = rst || s.dst.Port() == 443 && s.flags&4 != 0
	}
	if !rst {
		t.Error("the server got no RST")
	}
}

// TestRetry: a HelloRetryRequest lets exactly one more hello out (Go sends the
// change_cipher_spec in a segment of its own, OpenSSL in the same one).
func TestRetry(t *testing.T) {
	for name, start := range map[string]func(l *lab) *exec.Cmd{
		"go": func(l *lab) *exec.Cmd { return l.helper("get", "https://"+server4+"/", "p256first") },
		"openssl": func(l *lab) *exec.Cmd {
			return l.command("curl", "-sSk", "--curves", "P-256:P-384", "https://"+server4+"/")
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Release only when a second hello was seen and the server's real answer to it.
			l := newLab(t, Options{}, func(c *testConn, now time.Time) action {
				r, ok := c.record()
				if !ok || !bytes.Contains(c.hello[100:], []byte{0x16, 3, 3}) {
					return actNothing
				}
				n := 0
				for n < len(c.got) && c.got[n] {
					n++
				}
				if n <= len(r)+6+5 {
					return actNothing
				}
				return actRelease
			})
			l.tlsServer(l.server, server4+":443", &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}})
			out, err := wait(t, start(l), 10*time.Second)
			if !strings.Contains(out, "hello 0") {
				t.Errorf("%q %v; gate %v; counters %v", out, err, l.gate.err, l.counters())
			}
			if c := l.counters(); c["second-hello"] != 1 {
				t.Errorf("counters %v: expected one second hello", c)
			}
		})
	}
}

// TestLoopback: client and server in one namespace, IPv4 and IPv6.
func TestLoopback(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:443", "[::1]:443"} {
		t.Run(addr, func(t *testing.T) {
			l := newLab(t, Options{}, releaseAfter(50*time.Millisecond))
			l.tlsServer(l.client, addr, nil)
			out, err := wait(t, l.command("curl", "-sSk", "https://"+addr+"/"), 10*time.Second)
			if !strings.Contains(out, "hello 0") {
				t.Errorf("%q %v; gate %v; counters %v", out, err, l.gate.err, l.counters())
			}
		})
	}
}

// TestBulk: 64 MB down after the release, and no packet of it in user space.
func TestBulk(t *testing.T) {
	l := newLab(t, Options{}, releaseAfter(0))
	l.tlsServer(l.server, server4+":443", nil)
	out, err := wait(t, l.command("sh", "-c", "curl -sSk https://"+server4+"/big | wc -c; head -c 67108864 /dev/zero | curl -sSk -T - https://"+server4+"/up"), 30*time.Second)
	if !strings.HasPrefix(out, fmt.Sprint(len("hello 0")+64<<20)) || !strings.Contains(out, "hello 67108864") {
		t.Errorf("%q %v", out, err)
	}
	if c := l.counters(); c["inbound"] > 20 || c["released"] != 2 {
		t.Errorf("counters %v: expected 2 releases and few copies", c)
	}
}

// TestWithoutNetNSCookie: kernels before 6.15 do not tell the namespace.
func TestWithoutNetNSCookie(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{noNetNSCookie: true}, releaseAfter(0))
	l.tlsServer(l.server, server4+":443", nil)
	out, err := wait(t, l.command("curl", "-sSk", "https://"+server4+"/"), 10*time.Second)
	if !strings.Contains(out, "hello 0") {
		t.Errorf("%q %v; gate %v", out, err, l.gate.err)
	}
}

// TestTwoNamespaces: one cgroup, clients in two network namespaces.
func TestTwoNamespaces(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, releaseAfter(10*time.Millisecond))
	other := newNS(t)
	l.tlsServer(l.server, server4+":443", nil)
	l.tlsServer(other, "127.0.0.1:443", nil)
	a := l.command("curl", "-sSk", "https://"+server4+"/")
	b := l.commandIn(other, l.cgroup, "curl", "-sSk", "https://127.0.0.1/")
	for _, c := range []*exec.Cmd{a, b} {
		if out, err := wait(t, c, 10*time.Second); !strings.Contains(out, "hello 0") {
			t.Errorf("%v: %q %v; gate %v", c.Args, out, err, l.gate.err)
		}
	}
}

var _ net.Listener
var _ hold.Hold
