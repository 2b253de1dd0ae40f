// SPDX-License-Identifier: Apache-2.0

package mssim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
)

// echo answers each command with its locality and bytes, and counts resets.
type echo struct {
	mu    sync.Mutex
	inits int
}

func (e *echo) Execute(l uint8, c []byte) []byte { return append([]byte{l}, c...) }
func (e *echo) Init()                            { e.mu.Lock(); e.inits++; e.mu.Unlock() }
func (e *echo) resets() int                      { e.mu.Lock(); defer e.mu.Unlock(); return e.inits }

func start(t *testing.T, o Options) (*echo, string) {
	t.Helper()
	e := &echo{}
	s, err := NewServer(platform.New(e), o)
	if err != nil {
		t.Fatal(err)
	}
	c, p, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(c, p) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, listen.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return e, c.Addr().String()
}

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return c
}

func TestClientAndServer(t *testing.T) {
	e, addr := start(t, Options{MaxLocality: 2})
	c, err := Dial(ctx(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if e.resets() != 0 {
		t.Fatal("POWER_ON reset a TPM that was on")
	}
	for _, n := range []int{10, 100, 9000} {
		cmd := bytes.Repeat([]byte{7}, n)
		r, err := c.Send(cmd)
		if err != nil || !bytes.Equal(r, append([]byte{0}, cmd...)) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	c.SetLocality(2)
	if r, err := c.Send([]byte("x")); err != nil || string(r) != "\x02x" {
		t.Fatal(r, err)
	}
	for _, l := range []uint8{3, 4, 32, 255} {
		c.SetLocality(l)
		r, err := c.Send([]byte("x"))
		if err != nil || !bytes.Equal(r, platform.ErrorResponse(platform.RCLocality)) {
			t.Fatalf("locality %d: %x %v", l, r, err)
		}
	}
	if err := PowerCycle(ctx(t), addr); err != nil || e.resets() != 1 {
		t.Fatal(err, e.resets())
	}
	c.SetLocality(0)
	if _, err := c.Send([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if err := Signal(ctx(t), addr, signalPowerOff); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send([]byte("y")); err == nil || !strings.Contains(err.Error(), "no power") {
		t.Fatal(err)
	}
	if _, err := NewServer(nil, Options{MaxLocality: 3}); err == nil {
		t.Fatal("locality 3 over TCP was allowed")
	}
}

func raw(t *testing.T, addr string, up int) net.Conn {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	var p int
	fmt.Sscan(port, &p)
	c, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(p+up)))
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(10 * time.Second))
	t.Cleanup(func() { c.Close() })
	return c
}

func exchange(t *testing.T, c net.Conn, send string, want string) {
	t.Helper()
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("sent %x: got %x (%v), want %x", send, got, err, want)
	}
}

// TestRequests types requests and answers as the protocol's header names them.
func TestRequests(t *testing.T) {
	_, addr := start(t, Options{})
	c := raw(t, addr, 0)
	exchange(t, c, "\x00\x00\x00\x0f\x00\x00\x00\x01", "\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x00\x00")
	exchange(t, c, "\x00\x00\x00\x10\x00\x00\x00\x05", "\x00\x00\x00\x00")
	exchange(t, c, "\x00\x00\x00\x08\x00\x00\x00\x00\x0d\x80\x01\x00\x00\x00\x0c\x00\x00\x01\x44\x00\x00z",
		"\x00\x00\x00\x0e\x00\x80\x01\x00\x00\x00\x0c\x00\x00\x01\x44\x00\x00z\x00\x00\x00\x00")
	// In pieces, and two at once.
	for _, b := range []string{"\x00\x00", "\x00\x08\x00\x00", "\x00\x00\x02", "a"} {
		io.WriteString(c, b)
		time.Sleep(5 * time.Millisecond)
	}
	exchange(t, c, "b\x00\x00\x00\x08\x00\x00\x00\x00\x01c", "\x00\x00\x00\x03\x00ab\x00\x00\x00\x00\x00\x00\x00\x02\x00c\x00\x00\x00\x00")
	p := raw(t, addr, 1)
	for _, code := range []byte{1, 3, 4, 9, 10, 11, 12, 13, 14, 17, 18} {
		exchange(t, p, "\x00\x00\x00"+string(code), "\x00\x00\x00\x00")
	}
	exchange(t, p, "\x00\x00\x00\x19", "\x00\x00\x00\x10\x0d\x00\x00\x00\x00\x00\x01\x44\x0e\x00\x00\x00\x0c\x00\x00\x01\x00\x00\x00\x00")
	exchange(t, p, "\x00\x00\x00\x1a\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00")
	for up, bads := range [][]string{
		{"\x00\x00\x00\x63", "\x00\x00\x00\x05", "\x00\x00\x00\x06\xff\xff\xff\xff", "\x00\x00\x00\x01"},
		{"\x00\x00\x00\x63", "\x00\x00\x00\x08", "\x00\x00\x00\x1e", "\x00\x00\x00\x23"},
	} {
		for _, bad := range bads {
			c := raw(t, addr, up)
			exchange(t, c, bad, "\x00\x00\x00\x01")
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Fatalf("%x: the connection goes on", bad)
			}
		}
	}
	for _, end := range []string{"\x00\x00\x00\x14", "\x00\x00\x00\x15", "\x00\x00\x00\x0f\x00\x00\x00\x00"} {
		c := raw(t, addr, 0)
		io.WriteString(c, end)
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("%x: %d %v", end, n, err)
		}
	}
	c = raw(t, addr, 0)
	exchange(t, c, "\x00\x00\x00\x08\x00\xff\xff\xff\xff", "\x00\x00\x00\x0a\x80\x01\x00\x00\x00\x0a\x00\x00\x01\x42\x00\x00\x00\x00")
}

// TestStalledClients: clients that stall in the middle of a request, or never
// begin one, do not keep others from working, and the former are let go.
func TestStalledClients(t *testing.T) {
	_, addr := start(t, Options{Limits: listen.Limits{Connections: 50, Request: 300 * time.Millisecond, Response: 300 * time.Millisecond}})
	good, err := Dial(ctx(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	if _, err := good.Send([]byte("a")); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 200; i++ {
		c := raw(t, addr, i%2)
		if i%3 > 0 {
			io.WriteString(c, "\x00\x00\x00\x08\x00\x00\x00\x01\x00half"[:1+i%10])
		}
	}
	begin := time.Now()
	if _, err := good.Send([]byte("b")); err != nil {
		t.Fatal(err)
	}
	late, err := Dial(ctx(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if _, err := late.Send([]byte("c")); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Fatalf("took %v", d)
	}
	// The last one to stall within a request is closed in time.
	last := raw(t, addr, 0)
	io.WriteString(last, "\x00\x00\x00\x08\x00")
	last.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, errTimeout(err)) {
		t.Fatalf("a half request was not given up: %v", err)
	}
	// One that does not read its answers ends, too, and blocks nobody.
	deaf := raw(t, addr, 0)
	req := binary.BigEndian.AppendUint32([]byte("\x00\x00\x00\x08\x00"), 60000)
	req = append(req, make([]byte, 60000)...)
	for i := 0; i < 500; i++ {
		if _, err := deaf.Write(req); err != nil {
			break
		}
		if i == 499 {
			t.Fatal("30 MB of answers that nobody reads were taken")
		}
	}
	if _, err := good.Send([]byte("d")); err != nil {
		t.Fatal(err)
	}
}

// errTimeout returns err if it is a timeout of the test's own deadline.
func errTimeout(err error) error {
	var n net.Error
	if errors.As(err, &n) && n.Timeout() {
		return err
	}
	return io.ErrNoProgress
}

func TestManyClients(t *testing.T) {
	_, addr := start(t, Options{})
	var wg sync.WaitGroup
	for i := 0; i < 32; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := Dial(ctx(t), addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for j := 0; j < 50; j++ {
				cmd := fmt.Sprintf("client %d command %d", i, j)
				if r, err := c.Send([]byte(cmd)); err != nil || string(r) != "\x00"+cmd {
					t.Errorf("%q %v", r, err)
					return
				}
			}
		}()
	}
	wg.Wait()
}

// TestTwoWrites: a client that sends a command in two writes, with Nagle's
// algorithm on as C programs have it, must not wait for delayed
// acknowledgements (40 ms each on Linux).
func TestTwoWrites(t *testing.T) {
	_, addr := start(t, Options{})
	c := raw(t, addr, 0)
	c.(*net.TCPConn).SetNoDelay(false)
	begin := time.Now()
	const rounds = 50
	for i := 0; i < rounds; i++ {
		io.WriteString(c, "\x00\x00\x00\x08\x00\x00\x00\x00\x02")
		exchange(t, c, "hi", "\x00\x00\x00\x03\x00hi\x00\x00\x00\x00")
	}
	if d := time.Since(begin); d > rounds*20*time.Millisecond {
		t.Fatalf("%v for %d commands: acknowledgements are delayed", d, rounds)
	}
}
