// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/vm"
)

// TestMain lets the tests' program play clients and servers:
//
//	latch.test helper NAME ARGUMENT...
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		f, ok := helpers[os.Args[2]]
		if !ok {
			fmt.Fprintln(os.Stderr, "no helper", os.Args[2])
			os.Exit(2)
		}
		if err := f(os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Helpers use system calls with time-outs, which return EINTR when the runtime
	// interrupts a goroutine.
	os.Setenv("GODEBUG", "asyncpreemptoff=1")
	vm.Main(m)
}

var helpers map[string]func([]string) error

func init() {
	helpers = map[string]func([]string) error{
		"serve": serveHelper, "balanced": balancedHelper, "batch-proxy": batchProxyHelper, "mutual-serve": mutualServeHelper, "mutual-attack": mutualAttackHelper, "get": getHelper, "raw": rawHelper, "udp": udpHelper, "tfo": tfoHelper, "again": againHelper,
		"relay": relayHelper, "plain": plainHelper, "icmp": icmpHelper, "idle": idleHelper, "many": manyHelper, "half": halfHelper, "mapped": mappedHelper, "twice": twiceHelper,
	}
}

// netnsLimit bounds the wait for a helper to listen.
const netnsLimit = 10 * time.Second

const bulk = 64 << 20

// serveHelper ADDRESS CERT KEY [reset] is an HTTPS server: / says hello,
// /down gives 64 MiB, /up counts the body. With reset it answers every request
// with a TCP reset.
func serveHelper(a []string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello by %s\n", r.Proto) })
	mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 1<<20)
		for range bulk / len(b) {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/up", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, n, err)
	})
	s := &http.Server{Addr: a[0], Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if len(a) > 3 && a[3] == "reset" {
		s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			tcp := c.(*tls.Conn).NetConn().(*net.TCPConn)
			tcp.SetLinger(0)
			tcp.Close()
		})
	}
	// A listener without MPTCP, so that the tests say who asks for it.
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(len(a) > 3 && a[3] == "mptcp")
	l, err := lc.Listen(context.Background(), "tcp", a[0])
	if err != nil {
		return err
	}
	return s.ServeTLS(l, a[1], a[2])
}

func clientTLS(server string) *tls.Config {
	return &tls.Config{ServerName: server, InsecureSkipVerify: true} // certificates are not what is tested here
}

// getHelper ADDRESS SERVERNAME PATH COUNT [mptcp|upload|session|splitN] makes
// COUNT requests (splitN: in segments of N bytes) and prints the last answer's first 100 bytes, its size, and
// the number of connections.
func getHelper(a []string) error {
	count, err := strconv.Atoi(a[3])
	if err != nil {
		return err
	}
	mode := ""
	if len(a) > 4 {
		mode = a[4]
	}
	conns := 0
	cfg := clientTLS(a[1])
	d := &net.Dialer{Timeout: 8 * time.Second}
	d.SetMultipathTCP(mode == "mptcp")
	tr := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := d.DialContext(ctx, "tcp", a[0])
		if n, ok := strings.CutPrefix(mode, "split"); ok && err == nil {
			size, _ := strconv.Atoi(n)
			return &splitter{c, size}, nil
		}
		return c, err
	}}
	if mode == "session" { // resume: a new connection for each request
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(4)
		tr.DisableKeepAlives = true
	}
	client := &http.Client{Transport: tr, Timeout: 60 * time.Second}
	var head []byte
	var n int64
	resumed := 0
	for range count {
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			GotConn:          func(i httptrace.GotConnInfo) { conns += map[bool]int{false: 1}[i.Reused] },
			TLSHandshakeDone: func(s tls.ConnectionState, _ error) { resumed += map[bool]int{true: 1}[s.DidResume] },
		})
		method, body := "GET", io.Reader(nil)
		if mode == "upload" {
			method, body = "POST", io.LimitReader(zeros{}, bulk)
		}
		r, err := http.NewRequestWithContext(ctx, method, "https://"+a[1]+a[2], body)
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		head, _ = io.ReadAll(io.LimitReader(resp.Body, 100))
		n, err = io.Copy(io.Discard, resp.Body)
		n += int64(len(head))
		resp.Body.Close()
		if err != nil {
			return err
		}
	}
	fmt.Printf("%s\nproto bytes %d connections %d resumed %d\n", bytes.TrimRight(head, "\x00\n"), n, conns, resumed)
	return nil
}

// splitter sends the beginning of a connection in small segments.
type splitter struct {
	net.Conn
	size int
}

func (s *splitter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = s.Conn.Write(p[n:min(n+s.size, len(p))])
		n += k
		time.Sleep(500 * time.Microsecond)
	}
	return n, err
}

// manyHelper ADDRESS NAME COUNT opens COUNT sessions at once, a request on
// each.
func manyHelper(a []string) error {
	count, err := strconv.Atoi(a[2])
	if err != nil {
		return err
	}
	results := make(chan error, count)
	for range count {
		go func() { results <- oneSession(a[0], a[1]) }()
	}
	good := 0
	for range count {
		if err := <-results; err != nil {
			fmt.Println(err)
		} else {
			good++
		}
	}
	fmt.Printf("good %d of %d\n", good, count)
	return nil
}

func oneSession(addr, server string) error {
	d := net.Dialer{Timeout: 10 * time.Second}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	t := tls.Client(c, clientTLS(server))
	if _, err := fmt.Fprintf(t, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", server); err != nil {
		return err
	}
	b, err := io.ReadAll(t)
	if err == nil && !strings.Contains(string(b), "hello") {
		err = errors.New("no answer")
	}
	return err
}

// halfHelper ADDRESS NAME sends a request and the end of its stream at once,
// then reads the answer.
func halfHelper(a []string) error {
	d := net.Dialer{Timeout: 10 * time.Second}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", a[0])
	if err != nil {
		return err
	}
	c.SetDeadline(time.Now().Add(15 * time.Second))
	t := tls.Client(c, clientTLS(a[1]))
	if _, err := fmt.Fprintf(t, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", a[1]); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	fmt.Println("closed for writing")
	b, err := io.ReadAll(t)
	fmt.Printf("%s\n", b)
	return err
}

// twiceHelper ADDRESS NAME FILE makes a request, waits until FILE is there,
// and makes another on the same connection.
func twiceHelper(a []string) error {
	cfg := clientTLS(a[1])
	d := net.Dialer{Timeout: 10 * time.Second}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", a[0])
	if err != nil {
		return err
	}
	c.SetDeadline(time.Now().Add(30 * time.Second))
	t := tls.Client(c, cfg)
	for i := range 2 {
		if _, err := fmt.Fprintf(t, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", a[1]); err != nil {
			return err
		}
		n, err := t.Read(make([]byte, 4096))
		if err != nil {
			return err
		}
		fmt.Println("answer", i+1, n > 0)
		for i == 0 {
			if _, err := os.Stat(a[2]); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// rawHelper ADDRESS HEX sends bytes and prints how the connection ends.
func rawHelper(a []string) error {
	b, err := hex.DecodeString(a[1])
	if err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp", a[0], 3*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(8 * time.Second))
	if _, err := c.Write(b); err != nil {
		return err
	}
	n, err := c.Read(make([]byte, 100))
	fmt.Println("got", n)
	return err
}

// plainHelper ADDRESS answers HTTP without TLS.
func plainHelper(a []string) error {
	return http.ListenAndServe(a[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "plain hello") }))
}

// udpHelper ADDRESS sends one datagram.
func udpHelper(a []string) error {
	c, err := net.Dial("udp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("\xc0\x00\x00\x00\x01 like a QUIC Initial"))
	return err
}

// icmpHelper ADDRESS sends an echo request from a raw socket.
func icmpHelper(a []string) error {
	c, err := net.Dial("ip4:icmp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0})
	return err
}

// mappedHelper tcp|udp ADDRESS sends bytes to an IPv4 address from an IPv6
// socket (RFC 4291, section 2.5.5.2).
func mappedHelper(a []string) error {
	ap, err := net.ResolveTCPAddr("tcp4", a[1])
	if err != nil {
		return err
	}
	kind := map[string]int{"tcp": unix.SOCK_STREAM, "udp": unix.SOCK_DGRAM}[a[0]]
	fd, err := unix.Socket(unix.AF_INET6, kind, 0)
	if err != nil {
		return err
	}
	sa := &unix.SockaddrInet6{Port: ap.Port}
	copy(sa.Addr[:], ap.IP.To16())
	if err := unix.Connect(fd, sa); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("mapped secret bytes")); err != nil {
		return err
	}
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 4})
	_, err = unix.Read(fd, make([]byte, 10))
	return err
}

// tfoHelper ADDRESS sends data in a SYN (TCP Fast Open).
func tfoHelper(a []string) error {
	ap, err := net.ResolveTCPAddr("tcp4", a[0])
	if err != nil {
		return err
	}
	for range 2 { // the first obtains a cookie where the server gives one
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		sa := &unix.SockaddrInet4{Port: ap.Port}
		copy(sa.Addr[:], ap.IP.To4())
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 4})
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 4})
		err = unix.Sendto(fd, []byte("GET /secret-in-syn HTTP/1.0\r\n\r\n"), unix.MSG_FASTOPEN, sa)
		if err == nil {
			_, _, err = unix.Recvfrom(fd, make([]byte, 10), 0)
		}
		unix.Close(fd)
		if err == nil {
			return errors.New("an answer came")
		}
		fmt.Println("fast open:", err)
	}
	return nil
}

// againHelper ADDRESS NAME1 NAME2 LOCALPORT makes two sessions from the same
// local port; the server resets the first.
func againHelper(a []string) error {
	port, err := strconv.Atoi(a[3])
	if err != nil {
		return err
	}
	for _, server := range a[1:3] {
		d := net.Dialer{Timeout: 4 * time.Second, LocalAddr: &net.TCPAddr{Port: port}, Control: func(_, _ string, rc syscall.RawConn) error {
			return rc.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		}}
		d.SetMultipathTCP(false)
		c, err := d.Dial("tcp", a[0])
		if err != nil {
			fmt.Println(server, "dial:", err)
			continue
		}
		c.SetDeadline(time.Now().Add(8 * time.Second))
		t := tls.Client(c, clientTLS(server))
		_, err = fmt.Fprintf(t, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", server)
		if err == nil {
			_, err = t.Read(make([]byte, 10))
		}
		fmt.Println(server, "ended:", err)
		c.Close()
	}
	return nil
}

// idleHelper ADDRESS NAME opens a session and writes; it says what happened.
func idleHelper(a []string) error {
	c, err := net.DialTimeout("tcp", a[0], 3*time.Second)
	if err != nil {
		return err
	}
	c.SetDeadline(time.Now().Add(15 * time.Second))
	t := tls.Client(c, clientTLS(a[1]))
	fmt.Println("connected")
	if err := t.Handshake(); err != nil {
		return err
	}
	fmt.Println("handshake done")
	if _, err := fmt.Fprintf(t, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", a[1]); err != nil {
		return err
	}
	b, err := io.ReadAll(t)
	if err != nil {
		return err
	}
	fmt.Println("answer", strings.Contains(string(b), "hello"))
	return nil
}

// relayHelper LISTEN TARGET MODE forwards one connection after the other and
// attacks in the server's first flight, as MODE says:
//
//	urgent   each of the first bytes goes as TCP urgent data, which the
//	         client's kernel takes out of the stream
//	split    one byte a segment, honest otherwise
func relayHelper(a []string) error {
	l, err := net.Listen("tcp", a[0])
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go relayOne(c.(*net.TCPConn), a[1], a[2])
	}
}

func relayOne(c *net.TCPConn, target, mode string) {
	defer c.Close()
	u, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	s := u.(*net.TCPConn)
	defer s.Close()
	go func() { io.Copy(s, c); s.CloseWrite() }()
	b := make([]byte, 1<<16)
	n, err := s.Read(b)
	if err != nil {
		return
	}
	c.SetNoDelay(true)
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	hello := min(5+int(b[3])<<8+int(b[4]), n) // the first record
	for i := range hello {
		flags := 0
		if mode == "urgent" {
			flags = unix.MSG_OOB
		}
		raw.Write(func(fd uintptr) bool { unix.Sendto(int(fd), b[i:i+1], flags, nil); return true })
		time.Sleep(100 * time.Microsecond)
	}
	if mode == "urgent" {
		time.Sleep(2 * time.Second) // time for a release; a forged hello would follow
	}
	if n > hello {
		c.Write(b[hello:n])
	}
	io.Copy(c, s)
}
