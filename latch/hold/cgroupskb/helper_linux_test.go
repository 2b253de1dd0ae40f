// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is also the gated client: `TEST holdfast-helper VERB ...`.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "holdfast-helper" {
		if err := helper(os.Args[2], os.Args[3:]); err != nil {
			fmt.Println("error:", err)
			var errno syscall.Errno
			if errors.As(err, &errno) {
				fmt.Println("errno:", unix.ErrnoName(errno))
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Helpers use system calls with time-outs, which return EINTR when the runtime
	// interrupts a goroutine.
	os.Setenv("GODEBUG", "asyncpreemptoff=1")
	os.Exit(m.Run())
}

// aHello returns a record with the head of a ClientHello and n bytes of body.
func aHello(n int) []byte {
	b := make([]byte, 9+n)
	b[0], b[1], b[2], b[3], b[4] = 0x16, 3, 1, byte((n+4)>>8), byte(n+4)
	b[5], b[6], b[7], b[8] = 1, 0, byte(n>>8), byte(n)
	b[9], b[10] = 3, 3
	for i := 11; i < len(b); i++ {
		b[i] = byte(i)
	}
	return b
}

// secret is what must not leave.
const secret = "SECRET-REQUEST-BYTES"

func dial(addr string) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

func helper(verb string, args []string) error {
	switch verb {
	case "get": // GET over TLS: URL [groups]
		conf := &tls.Config{InsecureSkipVerify: true}
		if len(args) > 1 && args[1] == "p256first" { // makes a P-384 server ask for a retry
			conf.CurvePreferences = []tls.CurveID{tls.CurveP256, tls.CurveP384}
		}
		c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: conf}}
		r, err := c.Get(args[0])
		if err != nil {
			return err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		fmt.Print(string(b))
		return err
	case "raw": // connect, hello, secret; then read until the end: ADDR HELLOLEN [pause-ms | fin | one | split]
		c, err := dial(args[0])
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(args[1])
		h := aHello(n)
		mode := strings.Join(args[2:], " ")
		switch mode {
		case "one":
			_, err = c.Write(append(h, secret...))
		case "split":
			if _, err = c.Write(h[:5]); err == nil {
				time.Sleep(50 * time.Millisecond)
				_, err = c.Write(h[5:])
			}
		default:
			_, err = c.Write(h)
		}
		if err != nil {
			return err
		}
		if mode != "one" {
			if _, err := c.Write([]byte(secret)); err != nil {
				return err
			}
		}
		if mode == "fin" {
			c.CloseWrite()
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		b, err := io.ReadAll(c)
		fmt.Printf("read %d\n", len(b))
		return err
	case "leave": // ADDR: hello and secret, then end: the kernel goes on sending what is queued
		c, err := dial(args[0])
		if err != nil {
			return err
		}
		c.Write(aHello(200))
		c.Write([]byte(secret))
		return nil
	case "leave-full": // ADDR: fill the socket's queue, print how many bytes that took, end
		c, err := dial(args[0])
		if err != nil {
			return err
		}
		n := 0
		for b := make([]byte, 1<<16); ; {
			c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			m, err := c.Write(b)
			if n += m; err != nil {
				break
			}
		}
		fmt.Print(n)
		return nil
	case "hello-only": // ADDR: hello, FIN, read
		c, err := dial(args[0])
		if err != nil {
			return err
		}
		c.Write(aHello(200))
		c.CloseWrite()
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err = io.ReadAll(c)
		return err
	case "plain": // ADDR TEXT: connect, write, read
		c, err := dial(args[0])
		if err != nil {
			return err
		}
		if _, err := c.Write([]byte(args[1])); err != nil {
			return err
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		b := make([]byte, 100)
		n, err := c.Read(b)
		fmt.Printf("%s", b[:n])
		return err
	case "late": // ADDR: read what the server says first, then hello and secret; an error is a reset
		c, err := dial(args[0])
		if err != nil {
			return err
		}
		c.SetDeadline(time.Now().Add(3 * time.Second))
		b := make([]byte, 100)
		if _, err := c.Read(b); err != nil {
			fmt.Print("nothing came first")
			return nil
		}
		if _, err := c.Write(append(aHello(300), secret...)); err != nil {
			return err
		}
		_, err = c.Read(b)
		return err
	case "udp": // ADDR
		c, err := net.Dial("udp", args[0])
		if err != nil {
			return err
		}
		_, err = c.Write([]byte(secret))
		return err
	case "rawip": // a raw TCP segment by hand
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		tcp := make([]byte, 20)
		tcp[3], tcp[12], tcp[13] = 99, 5<<4, 16 // an ACK to port 99
		return unix.Sendto(fd, tcp, 0, &unix.SockaddrInet4{Addr: [4]byte{10, 77, 0, 2}})
	case "ping":
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}, 0, &unix.SockaddrInet4{Addr: [4]byte{10, 77, 0, 2}})
	case "second": // ADDR HEX...: hello, read the answer, then write each part, with a pause between
		c, err := dial(args[0])
		if err != nil {
			return err
		}
		c.Write(aHello(200))
		c.SetReadDeadline(time.Now().Add(1500 * time.Millisecond))
		if args[1] != "at-once" {
			if _, err := io.ReadFull(c, make([]byte, 109)); err != nil {
				return err
			}
		}
		for _, a := range args[2:] {
			b, err := hex.DecodeString(a)
			if err != nil {
				return err
			}
			if _, err := c.Write(b); err != nil {
				return err
			}
			time.Sleep(30 * time.Millisecond)
		}
		c.SetReadDeadline(time.Now().Add(1500 * time.Millisecond))
		_, err = io.ReadAll(c)
		c.SetLinger(0)
		return err
	case "mapped": // hello and secret over ::ffff:10.77.0.2
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
		if err := unix.Connect(fd, &unix.SockaddrInet6{Port: 443, Addr: [16]byte(net.ParseIP(server4).To16())}); err != nil {
			return err
		}
		// A reset may come before the second write, which then has the error.
		for _, p := range [][]byte{aHello(200), []byte(secret)} {
			if _, err := unix.Write(fd, p); err != nil {
				return err
			}
		}
		b := make([]byte, 1000)
		for got := 0; !strings.Contains(string(b[:got]), "done"); {
			n, err := unix.Read(fd, b[got:])
			if err == nil && n == 0 {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
			got += n
		}
		return nil
	case "exthdr": // connect over IPv6 with a destination option in each packet
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if err := unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, "\x00\x00\x01\x04\x00\x00\x00\x00"); err != nil {
			return err
		}
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 3})
		return unix.Connect(fd, &unix.SockaddrInet6{Port: 443, Addr: [16]byte(net.ParseIP("fd77::2"))})
	case "mptcp", "tfo": // ADDR
		proto := 0
		if verb == "mptcp" {
			proto = unix.IPPROTO_MPTCP
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, proto)
		if err != nil {
			return err
		}
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 8})
		to := sockaddr(args[0])
		if verb == "mptcp" {
			return unix.Connect(fd, to)
		}
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_NO_COOKIE, 1)
		if err := unix.Sendto(fd, append(aHello(100), secret...), unix.MSG_FASTOPEN, to); err != nil {
			return err
		}
		_, err = unix.Read(fd, make([]byte, 10))
		return err
	case "reconnect": // ADDR ADDR2: release on the first, AF_UNSPEC, then the second with the same descriptor
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
		for i, a := range args[:2] {
			if err := unix.Connect(fd, sockaddr(a)); err != nil {
				return fmt.Errorf("connect %d: %w", i+1, err)
			}
			if i == 0 {
				unix.Write(fd, aHello(200))
			}
			if _, err := unix.Write(fd, []byte(secret)); err != nil {
				return err
			}
			if i == 1 {
				_, err := unix.Read(fd, make([]byte, 10))
				return err
			}
			b := make([]byte, 1000)
			for got := 0; !strings.Contains(string(b[:got]), "done"); {
				n, err := unix.Read(fd, b[got:])
				if err != nil || n == 0 {
					return fmt.Errorf("first: %d bytes, %w", n, err)
				}
				got += n
			}
			if err := disconnect(fd); err != nil {
				return fmt.Errorf("disconnect: %w", err)
			}
		}
		return nil
	case "port": // ADDR PORT: from a given source port, hello and secret, reset when asked by a byte on standard input
		port, _ := strconv.Atoi(args[1])
		d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{Port: port}, Control: func(_, _ string, rc syscall.RawConn) error {
			return rc.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		}}
		d.SetMultipathTCP(false)
		c, err := d.Dial("tcp", args[0])
		if err != nil {
			return err
		}
		c.Write(aHello(200))
		c.Write([]byte(secret))
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = io.ReadAll(c)
		return err
	case "many": // ADDR N PARALLEL: connections that send hello and secret and read one answer
		n, _ := strconv.Atoi(args[1])
		par, _ := strconv.Atoi(args[2])
		var wg sync.WaitGroup
		work := make(chan int)
		for i := 0; i < par; i++ {
			wg.Go(func() {
				for range work {
					c, err := dial(args[0])
					if err != nil {
						continue
					}
					c.Write(aHello(200))
					c.Write([]byte(secret))
					c.SetReadDeadline(time.Now().Add(3 * time.Second))
					io.Copy(io.Discard, c)
					c.SetLinger(0)
					c.Close()
				}
			})
		}
		for i := 0; i < n; i++ {
			work <- i
		}
		close(work)
		wg.Wait()
		return nil
	case "serve": // ADDR: accept and write: a server inside the scope
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		l, err := lc.Listen(context.Background(), "tcp", args[0])
		if err != nil {
			return err
		}
		fmt.Println("ready")
		c, err := l.Accept()
		if err != nil {
			return err
		}
		c.Write([]byte(secret))
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = io.ReadAll(c)
		return err
	}
	return fmt.Errorf("helper %q", verb)
}

func sockaddr(a string) unix.Sockaddr {
	h, p, _ := net.SplitHostPort(a)
	port, _ := strconv.Atoi(p)
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte(net.ParseIP(h).To4())}
}
