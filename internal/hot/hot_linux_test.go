// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newPoll(t *testing.T) *Poll {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// pair is a connected pair, one end of it detached.
func pair(t *testing.T, network string) (*Conn, net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Detach(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); b.Close() })
	return c, b
}

func TestPollReady(t *testing.T) {
	for _, hot := range []bool{false, true} {
		p := newPoll(t)
		c, peer := pair(t, "tcp")
		if err := p.Add(c.FD(), 7); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Wait(nil, time.Millisecond, hot); err != nil || len(got) != 0 {
			t.Fatalf("nothing happened: %v, %v", got, err)
		}
		peer.Write([]byte("x"))
		for range 2 { // level-triggered
			if got, err := p.Wait(nil, time.Second, hot); err != nil || !slices.Equal(got, []int32{7}) {
				t.Fatalf("%v, %v, want [7]", got, err)
			}
		}
		var b [8]byte
		if n, err := c.TryRead(b[:]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := c.TryRead(b[:]); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		peer.Close()
		if got, _ := p.Wait(nil, time.Second, hot); !slices.Equal(got, []int32{7}) {
			t.Fatalf("%v at the end of the stream, want [7]", got)
		}
		if _, err := c.TryRead(b[:]); err != io.EOF {
			t.Fatal(err)
		}
		if err := p.Remove(c.FD()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPollOnceAndNested(t *testing.T) {
	inner, outer := newPoll(t), newPoll(t)
	c, peer := pair(t, "unix")
	if err := inner.Add(c.FD(), 3); err != nil {
		t.Fatal(err)
	}
	if err := outer.AddOnce(inner.FD(), 4); err != nil {
		t.Fatal(err)
	}
	peer.Write([]byte("x"))
	if got, _ := outer.Wait(nil, 5*time.Millisecond, true); len(got) != 0 {
		t.Fatalf("%v without Arm", got)
	}
	outer.Arm(inner.FD(), 4)
	if got, _ := outer.Wait(nil, time.Second, true); !slices.Equal(got, []int32{4}) {
		t.Fatalf("%v, want [4]", got)
	}
	if got, _ := outer.Wait(nil, 5*time.Millisecond, true); len(got) != 0 {
		t.Fatalf("%v again", got)
	}
	if got, _ := inner.Wait(nil, 0, true); !slices.Equal(got, []int32{3}) {
		t.Fatalf("%v, want [3]", got)
	}
	outer.Arm(inner.FD(), 4)
	outer.Disarm(inner.FD(), 4)
	if got, _ := outer.Wait(nil, 5*time.Millisecond, false); len(got) != 0 {
		t.Fatalf("%v after Disarm", got)
	}
}

// No wake-up is lost, however often it is called and whenever.
func TestWake(t *testing.T) {
	for _, hot := range []bool{false, true} {
		p := newPoll(t)
		var mu sync.Mutex
		want, seen := 0, 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := 1; i <= 2000; i++ {
				mu.Lock()
				want = i
				mu.Unlock()
				p.Wake()
				if i%64 == 0 {
					time.Sleep(50 * time.Microsecond)
				}
			}
		}()
		start := time.Now()
		for seen < 2000 {
			if _, err := p.Wait(nil, 5*time.Second, hot); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			seen = want
			mu.Unlock()
		}
		<-done
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("%v: a wake-up was lost", d)
		}
		p.Wait(nil, 0, hot) // what the last Wake left
		if start := time.Now(); true {
			p.Wait(nil, 20*time.Millisecond, hot)
			if d := time.Since(start); d < 15*time.Millisecond {
				t.Errorf("woke after %v for nothing", d)
			}
		}
	}
}

func TestOldKernel(t *testing.T) {
	noPwait2.Store(true)
	defer noPwait2.Store(false)
	TestPollReady(t)
	TestWake(t)
}

func TestClosedPoll(t *testing.T) {
	p := newPoll(t)
	p.Close()
	p.Wake()
	if err := p.Add(0, 1); err == nil {
		t.Error("Add on a closed set")
	}
}

func TestConn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		c, peer := pair(t, network)
		if c.LocalAddr() == nil || c.RemoteAddr().Network() != network {
			t.Error(c.RemoteAddr())
		}
		// More than the socket's buffers take: Write waits for the reader.
		const n = 8 << 20
		errs := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, n))
			errs <- err
		}()
		if _, err := io.CopyN(io.Discard, peer, n); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v, want a deadline", err)
		}
		c.SetReadDeadline(time.Time{})
		closed := make(chan error)
		go func() {
			time.Sleep(10 * time.Millisecond)
			closed <- c.Close()
		}()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("Read came back without an error from a closed connection")
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := c.TryRead(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := c.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := unix.FcntlInt(uintptr(c.FD()), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("the descriptor is still open: %v", err)
		}
	}
}

func TestDetachRefuses(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	if _, err := Detach(a); err == nil {
		t.Error("a pipe has no descriptor")
	}
}

// TestCoolSleep: a cool Sleep takes its time, and other goroutines get the only
// processor during it.
func TestCoolSleep(t *testing.T) {
	defer cool.Store(cool.Swap(true))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const d = 50 * time.Millisecond
	for range 100 { // a busy machine may need more than one
		var ran atomic.Bool
		start := time.Now()
		go ran.Store(true)
		Sleep(d)
		if got := time.Since(start); got < d {
			t.Fatalf("slept %v, want %v", got, d)
		}
		if ran.Load() {
			return
		}
	}
	t.Error("nothing else ran during a hundred sleeps")
}
