// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	"holdfast/bench/stat"
)

// ServiceName is the name in the certificate of the benchmark's server.
const ServiceName = "bench.holdfast.test"

// requestSize is the size of a request, and of a reply unless asked otherwise.
// The first 8 bytes of a request are the wanted size of the reply, big-endian.
const requestSize = 1024

// groups are the key exchanges that can be asked for by name.
var groups = map[string][]tls.CurveID{
	"x25519":         {tls.X25519},
	"x25519mlkem768": {tls.X25519MLKEM768, tls.X25519},
}

// Serve is the server under load: Go's crypto/tls, TLS 1.3 only, an ECDSA P-256
// certificate, one goroutine a connection. It writes its certificate to
// certFile, prints READY to w and serves until ctx ends.
func Serve(ctx context.Context, address, certFile string, w io.Writer) error {
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	if err := os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o644); err != nil {
		return err
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // the latch refuses MPTCP; plain runs without it too
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	config := &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519},
	}
	fmt.Fprintln(w, "READY")
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go serveOne(c, config)
	}
}

func serveOne(c net.Conn, config *tls.Config) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(60 * time.Second))
	conn := tls.Server(c, config)
	var request [requestSize]byte
	if _, err := io.ReadFull(conn, request[:]); err != nil {
		return
	}
	reply := make([]byte, 64<<10)
	for left := binary.BigEndian.Uint64(request[:]); left > 0; {
		n := min(left, uint64(len(reply)))
		if _, err := conn.Write(reply[:n]); err != nil {
			return
		}
		left -= n
	}
	_, _ = conn.Read(request[:1]) // the client closes first
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: ServiceName}, DNSNames: []string{ServiceName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// LoadOptions choose a sample.
type LoadOptions struct {
	Address     string
	CertFile    string
	Group       string // a key of groups
	Concurrency int
	Time        time.Duration
}

// Sample is what one run of the load generator measured.
type Sample struct {
	Connections int     `json:"connections"` // that got their reply
	Errors      int     `json:"errors"`
	FirstError  string  `json:"first_error,omitempty"`
	Rate        float64 `json:"rate"` // connections per second
	P50         float64 `json:"p50_ms"`
	P95         float64 `json:"p95_ms"`
	CPU         float64 `json:"cpu_us"` // of the client, per connection
}

// Load opens connections as fast as it can, Concurrency at a time: each is a
// fresh full handshake whose certificate is verified, a request and a reply of
// 1 KiB, then a close.
func Load(ctx context.Context, o LoadOptions) (Sample, error) {
	curves, ok := groups[o.Group]
	if !ok {
		return Sample{}, fmt.Errorf("group %q, expected x25519 or x25519mlkem768", o.Group)
	}
	chain, err := os.ReadFile(o.CertFile)
	if err != nil {
		return Sample{}, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(chain) {
		return Sample{}, fmt.Errorf("%s holds no certificate", o.CertFile)
	}
	config := &tls.Config{RootCAs: pool, ServerName: ServiceName, MinVersion: tls.VersionTLS13, CurvePreferences: curves}
	var mu sync.Mutex
	var all []float64
	var s Sample
	cpu, err := stat.CPU(os.Getpid())
	if err != nil {
		return s, err
	}
	start := time.Now()
	ctx, stop := context.WithDeadline(ctx, start.Add(o.Time))
	defer stop()
	var workers sync.WaitGroup
	for range o.Concurrency {
		workers.Go(func() {
			var times []float64
			failed, first := 0, error(nil)
			for ctx.Err() == nil {
				began := time.Now()
				if err := exchange(o.Address, config); err != nil {
					if failed++; first == nil {
						first = err
					}
					time.Sleep(time.Millisecond) // a refused client must not spin
					continue
				}
				times = append(times, time.Since(began).Seconds()*1e3)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			s.Errors += failed
			if first != nil && s.FirstError == "" {
				s.FirstError = first.Error()
			}
		})
	}
	workers.Wait()
	seconds := time.Since(start).Seconds()
	after, err := stat.CPU(os.Getpid())
	s.Connections = len(all)
	s.Rate = float64(len(all)) / seconds
	s.P50, s.P95 = stat.Median(all), stat.Quantile(all, 0.95)
	if len(all) > 0 {
		s.CPU = float64((after - cpu).Microseconds()) / float64(len(all))
	}
	return s, err
}

func exchange(address string, config *tls.Config) error {
	d := net.Dialer{Timeout: 10 * time.Second}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	conn := tls.Client(c, config)
	var request [requestSize]byte
	binary.BigEndian.PutUint64(request[:], requestSize)
	if _, err := conn.Write(request[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, request[:]); err != nil {
		return err
	}
	return conn.Close()
}
