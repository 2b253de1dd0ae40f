// SPDX-License-Identifier: Apache-2.0

//go:build linux

package esr

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// service is a certificate for gate.test and a pool that trusts it.
func service(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"service.test"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// spiedServer answers every request and counts the ClientHellos it reads.
func spiedServer(t *testing.T, cert tls.Certificate) (address string, hellos *atomic.Int64) {
	t.Helper()
	hellos = &atomic.Int64{}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		hellos.Add(1)
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "genuine answer to "+r.URL.Path)
	}), ErrorLog: nil, ReadTimeout: 10 * time.Second}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String(), hellos
}

func startRelay(t *testing.T, o Options) (*Relay, string) {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, l.Addr().String()
}

func get(t *testing.T, address string, pool *x509.CertPool) string {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "service.test"}}
	c := &http.Client{Transport: tr, Timeout: 10 * time.Second}
	resp, err := c.Get("https://" + address + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRelayReadsRequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		decoy  bool
		hellos int64
	}{{"plain", false, 1}, {"with the client's hello as decoy", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			cert, pool := service(t)
			genuine, hellos := spiedServer(t, cert)
			r, address := startRelay(t, Options{Certificate: cert, Genuine: genuine, Decoy: c.decoy})
			if got := get(t, address, pool); got != "genuine answer to /secret" {
				t.Errorf("client got %q", got)
			}
			seen := r.Seen()
			if !bytes.Contains(r.Request(), []byte("GET /secret HTTP/1.1")) || seen.RequestBytes == 0 || seen.Handshakes != 1 || seen.ServerName != "service.test" {
				t.Errorf("adversary read %q, %+v", r.Request(), seen)
			}
			if hellos.Load() != c.hellos {
				t.Errorf("genuine server read %d ClientHellos, want %d", hellos.Load(), c.hellos)
			}
		})
	}
}

func TestWireReadsNothing(t *testing.T) {
	cert, pool := service(t)
	genuine, _ := spiedServer(t, cert)
	r, address := startRelay(t, Options{ForwardHello: true, Genuine: genuine})
	if got := get(t, address, pool); got != "genuine answer to /secret" {
		t.Errorf("client got %q", got)
	}
	if seen := r.Seen(); seen.RequestBytes != 0 || len(r.Request()) != 0 || seen.Connections != 1 {
		t.Errorf("a wire read the request: %+v", seen)
	}
}

func TestClientThatStopsShort(t *testing.T) {
	cert, _ := service(t)
	genuine, _ := spiedServer(t, cert)
	r, address := startRelay(t, Options{Certificate: cert, Genuine: genuine})
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte{22, 3, 1})
	c.Close()
	for i := 0; r.Seen().LastError == "" && i < 500; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if seen := r.Seen(); seen.LastError == "" || seen.Handshakes != 0 || seen.RequestBytes != 0 {
		t.Errorf("after half a record: %+v", seen)
	}
}

// TestCapture is the whole attack on the network: the client dials the
// server's own address, through an honest router and through a hostile one.
func TestCapture(t *testing.T) {
	_, client, router, server := netns.Routed(t)
	host.Need(t, "openssl", "curl")
	dir := t.TempDir()
	if out, err := server.RunCommand(netns.Command{Dir: dir, Args: strings.Fields("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -subj /CN=service.test -addext subjectAltName=DNS:service.test -days 2")}); err != nil {
		t.Fatal(err, out)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, network, any, address, server string }{
		{"IPv4", "tcp4", "0.0.0.0:443", netns.ServerV4, "0.0.0.0:443"},
		{"IPv6", "tcp6", "[::]:443", netns.ServerV6, "[::]:443"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := server.Start(netns.Command{Dir: dir, Args: []string{"openssl", "s_server", "-accept", c.server, "-cert", "cert.pem", "-key", "key.pem", "-www", "-quiet"}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Kill()
			if err := client.WaitTCP(net.JoinHostPort(c.address, "443"), 5*time.Second); err != nil {
				t.Fatal(err, s.Output())
			}
			curl := func() (string, error) {
				return client.Run("curl", "-sS", "--max-time", "10", "--cacert", filepath.Join(dir, "cert.pem"), "--connect-to", "service.test:443:["+c.address+"]:443", "https://service.test/")
			}
			r, err := New(Options{Certificate: cert, Dial: func(_ context.Context, address string) (c net.Conn, err error) {
				err = router.Do(func() (err error) {
					c, err = net.DialTimeout("tcp", address, 5*time.Second)
					return err
				})
				return c, err
			}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var l net.Listener
			var capture *Capture
			err = router.Do(func() (err error) {
				l, err = Listen(ctx, c.network, c.any)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- r.Serve(ctx, l) }()
			if _, err := curl(); err != nil || r.Seen().Connections != 0 {
				t.Errorf("through the honest router: %v, adversary %+v", err, r.Seen())
			}
			if err := router.Do(func() (err error) {
				capture, err = NewCapture("eth0", netip.AddrPortFrom(netip.MustParseAddr(c.address), 443))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			out, err := curl()
			if err != nil || !strings.Contains(out, "s_server") || !strings.Contains(string(r.Request()), "Host: service.test") {
				t.Errorf("through the hostile router: %v %q; adversary %+v read %q", err, out, r.Seen(), r.Request())
			}
			if err := router.Do(capture.Close); err != nil {
				t.Error(err)
			}
			before := r.Seen().Connections
			if _, err := curl(); err != nil || r.Seen().Connections != before {
				t.Errorf("after the capture ended: %v", err)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
