// SPDX-License-Identifier: Apache-2.0

package tlshello

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The transcripts in testdata were recorded by this test on loopback:
//
//	go test ./latch/tlshello -run TestRecord -record
//
// Names end with who was client and server. Each line is one read from one
// direction: "c" or "s" and the bytes in hexadecimal.
var record = flag.Bool("record", false, "record the transcripts in testdata again (needs openssl)")

type chunk struct {
	client bool
	data   []byte
}

// tap forwards one connection to addr and records it.
type tap struct {
	net.Listener
	mu     sync.Mutex
	chunks []chunk
	done   sync.WaitGroup
}

func newTap(t *testing.T, addr string) *tap {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{Listener: l}
	p.done.Add(2)
	go func() {
		c, err := l.Accept()
		if err != nil {
			p.done.Add(-2)
			return
		}
		s, err := net.Dial("tcp", addr)
		if err != nil {
			c.Close()
			p.done.Add(-2)
			return
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		s.SetDeadline(time.Now().Add(10 * time.Second))
		pump := func(to, from net.Conn, client bool) {
			defer p.done.Done()
			b := make([]byte, 1<<16)
			for {
				n, err := from.Read(b)
				if n > 0 {
					p.mu.Lock()
					p.chunks = append(p.chunks, chunk{client, bytes.Clone(b[:n])})
					p.mu.Unlock()
					to.Write(b[:n])
				}
				if err != nil {
					to.(*net.TCPConn).CloseWrite()
					return
				}
			}
		}
		go pump(s, c, true)
		go pump(c, s, false)
	}()
	t.Cleanup(func() { l.Close() })
	return p
}

func (p *tap) save(t *testing.T, name string) {
	p.Close() // nobody who has not come will come
	p.done.Wait()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", name)
	for _, c := range p.chunks {
		who := "s"
		if c.client {
			who = "c"
		}
		fmt.Fprintf(&b, "%s %x\n", who, c.data)
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".txt"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d chunks", name, len(p.chunks))
}

func certificate(t testing.TB) (tls.Certificate, []byte, []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "service.test"}, DNSNames: []string{"service.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	kd, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kd})
}

// goServer echoes on each connection; it returns its address.
func goServer(t *testing.T, cfg *tls.Config) string {
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
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
				io.CopyN(c, c, 6)
			}()
		}
	}()
	return l.Addr().String()
}

func goClient(t *testing.T, addr string, cfg *tls.Config) {
	c, err := tls.Dial("tcp", addr, cfg)
	if err != nil {
		t.Logf("client: %v", err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(c, "hello\n")
	io.ReadFull(c, make([]byte, 6))
}

func openssl(t *testing.T, stdin string, args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "openssl", args...)
	cmd.Stdin = &slow{bytes.NewBufferString(stdin), false}
	out, err := cmd.CombinedOutput()
	t.Logf("openssl %v: %v (%d bytes)", args, err, len(out))
}

// slow gives the text and ends a little later, so that s_client waits for
// session tickets.
type slow struct {
	b    *bytes.Buffer
	once bool
}

func (s *slow) Read(p []byte) (int, error) {
	if s.b.Len() > 0 {
		return s.b.Read(p)
	}
	if !s.once {
		s.once = true
		time.Sleep(400 * time.Millisecond)
	}
	return 0, io.EOF
}

func opensslServer(t *testing.T, dir string, args ...string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command("openssl", append([]string{"s_server", "-accept", port, "-cert", dir + "/cert.pem", "-key", dir + "/key.pem", "-quiet"}, args...)...)
	if _, err := cmd.StdinPipe(); err != nil { // stays open: end of file would end the server
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for i := 0; i < 100; i++ {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return addr
}

func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("SKIP[flag]: only with -record: rewrites testdata")
	}
	cert, cp, kp := certificate(t)
	dir := t.TempDir()
	os.WriteFile(dir+"/cert.pem", cp, 0o600)
	os.WriteFile(dir+"/key.pem", kp, 0o600)
	srv := func(g ...tls.CurveID) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert}, CurvePreferences: g}
	}
	cli := func(g ...tls.CurveID) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, ServerName: "service.test", CurvePreferences: g, NextProtos: []string{"h2", "http/1.1"}}
	}
	goTo := func(name string, c, s *tls.Config) {
		s.NextProtos = c.NextProtos
		p := newTap(t, goServer(t, s))
		goClient(t, p.Addr().String(), c)
		p.save(t, name)
	}
	goTo("x25519-go-go", cli(tls.X25519), srv())
	goTo("x25519mlkem768-go-go", cli(), srv())
	goTo("p256-go-go", cli(tls.CurveP256), srv())
	goTo("retry-p384-go-go", cli(tls.X25519, tls.CurveP384), srv(tls.CurveP384))
	old := srv()
	old.MaxVersion = tls.VersionTLS12
	goTo("tls12server-go-go", cli(), old)
	oldc := cli(tls.X25519)
	oldc.MaxVersion = tls.VersionTLS12
	goTo("tls12client-go-go", oldc, srv())

	resume := cli(tls.X25519MLKEM768)
	resume.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	addr := goServer(t, srv())
	resume.NextProtos = nil
	for _, name := range []string{"", "resumed-go-go"} {
		p := newTap(t, addr)
		goClient(t, p.Addr().String(), resume)
		if name != "" {
			p.save(t, name)
		}
	}
	// OpenSSL on either side.
	sclient := func(name, addr string, args ...string) {
		p := newTap(t, addr)
		openssl(t, "hello\n", append([]string{"s_client", "-connect", p.Addr().String(), "-servername", "service.test"}, args...)...)
		p.save(t, name)
	}
	sclient("x25519-openssl-go", goServer(t, srv()), "-alpn", "http/1.1")
	sclient("retry-p256-openssl-go", goServer(t, srv(tls.CurveP256)))
	p := newTap(t, opensslServer(t, dir, "-tls1_3"))
	goClient(t, p.Addr().String(), cli())
	p.save(t, "x25519-go-openssl")
	p = newTap(t, opensslServer(t, dir, "-tls1_3", "-groups", "P-521"))
	goClient(t, p.Addr().String(), cli(tls.X25519MLKEM768, tls.X25519, tls.CurveP521))
	p.save(t, "retry-p521-go-openssl")

	early := opensslServer(t, dir, "-tls1_3", "-early_data")
	openssl(t, "hello\n", "s_client", "-connect", early, "-servername", "service.test", "-sess_out", dir+"/sess")
	sclient("resumed-openssl-openssl", early, "-sess_in", dir+"/sess")
	openssl(t, "hello\n", "s_client", "-connect", early, "-servername", "service.test", "-sess_out", dir+"/sess")
	os.WriteFile(dir+"/early", []byte("early request"), 0o600)
	sclient("earlydata-openssl-openssl", early, "-sess_in", dir+"/sess", "-early_data", dir+"/early")

	noshare := opensslServer(t, dir, "-tls1_3", "-allow_no_dhe_kex", "-groups", "X25519")
	// Without a common group the server can only resume without a share.
	openssl(t, "hello\n", "s_client", "-connect", noshare, "-servername", "service.test", "-allow_no_dhe_kex", "-sess_out", dir+"/sess2")
	sclient("pskwithoutshare-openssl-openssl", noshare, "-allow_no_dhe_kex", "-sess_in", dir+"/sess2", "-groups", "P-384")
}
