// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
)

// fake answers a command with a frame that holds the locality and the command.
type fake struct {
	mu                  sync.Mutex
	inits               int
	permanent, volatile []byte
	hashed              []byte
	size                uint32
}

func (e *fake) Execute(l uint8, c []byte) []byte {
	r := platform.ErrorResponse(0)
	r = append(append(r, l), c...)
	binary.BigEndian.PutUint32(r[2:], uint32(len(r)))
	return r
}
func (e *fake) Init()                           { e.mu.Lock(); e.inits++; e.mu.Unlock() }
func (e *fake) HashStart()                      { e.hashed = nil }
func (e *fake) HashData(d []byte)               { e.hashed = append(e.hashed, d...) }
func (e *fake) HashEnd()                        {}
func (e *fake) PermanentState() ([]byte, error) { return append([]byte(nil), e.permanent...), nil }
func (e *fake) VolatileState() ([]byte, error)  { return []byte("volatile"), nil }
func (e *fake) SetState(p, v []byte) error {
	if p != nil {
		e.permanent = bytes.Clone(p)
	}
	e.volatile = bytes.Clone(v)
	return nil
}
func (e *fake) FixedProperties() (map[uint32]uint32, error) {
	return map[uint32]uint32{0x100: 0x322e3000, 0x102: 185, 0x105: 0x41424344, 0x106: 0x61620000, 0x10b: 7}, nil
}
func (e *fake) SetBufferSize(w uint32) (uint32, uint32, uint32, error) {
	if w != 0 {
		e.size = min(max(w, 2048), 4096)
	}
	return e.size, 2048, 4096, nil
}

type rig struct {
	e             *fake
	data, control string
	down          chan struct{}
}

func start(t *testing.T, unixSockets bool, o Options) *rig {
	t.Helper()
	r := &rig{e: &fake{permanent: []byte("permanent"), size: 4096}, down: make(chan struct{}, 1)}
	o.OnShutdown = func() { r.down <- struct{}{} }
	s, err := NewServer(platform.New(r.e), o)
	if err != nil {
		t.Fatal(err)
	}
	da, ca := "127.0.0.1:0", "127.0.0.1:0"
	if unixSockets {
		dir := t.TempDir()
		da, ca = "unix:"+filepath.Join(dir, "d"), "unix:"+filepath.Join(dir, "c")
	}
	dl, err := listen.Open(da)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := listen.Open(ca)
	if err != nil {
		t.Fatal(err)
	}
	if unixSockets {
		r.data, r.control = da, ca
	} else {
		r.data, r.control = dl.Addr().String(), cl.Addr().String()
	}
	done := make(chan error, 2)
	go func() { done <- s.ServeData(dl) }()
	go func() { done <- s.ServeControl(cl) }()
	t.Cleanup(func() {
		s.Close()
		for range 2 {
			if err := <-done; !errors.Is(err, listen.ErrClosed) {
				t.Errorf("serve: %v", err)
			}
		}
	})
	return r
}

func (r *rig) dial(t *testing.T) (*Client, *Control) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d, err := Dial(ctx, r.data)
	if err != nil {
		t.Fatal(err)
	}
	c, err := DialControl(ctx, r.control)
	if err != nil {
		t.Fatal(err)
	}
	d.conn.SetDeadline(time.Now().Add(20 * time.Second))
	c.conn.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { d.Close(); c.Close() })
	return d, c
}

func frame(n int) []byte {
	b := make([]byte, n)
	copy(b, "\x80\x01")
	binary.BigEndian.PutUint32(b[2:], uint32(n))
	return b
}

// locality sends a command and returns the locality at which it ran.
func locality(t *testing.T, c *Client) uint8 {
	t.Helper()
	cmd := frame(30)
	r, err := c.Send(cmd)
	if err != nil || len(r) != 41 || !bytes.Equal(r[11:], cmd) {
		t.Fatalf("%x %v", r, err)
	}
	return r[10]
}

func wantResult(t *testing.T, err error, result uint32) {
	t.Helper()
	var re *ResultError
	if !errors.As(err, &re) || re.Result != result {
		t.Fatalf("got %v, want result %#x", err, result)
	}
}

func TestChannels(t *testing.T) {
	for _, u := range []bool{true, false} {
		t.Run(map[bool]string{true: "unix", false: "tcp"}[u], func(t *testing.T) {
			r := start(t, u, Options{MaxLocality: 1})
			d, c := r.dial(t)
			if l := locality(t, d); l != 0 {
				t.Fatal(l)
			}
			if r, err := d.Send(frame(9000)); err != nil || len(r) != 9011 {
				t.Fatal(err)
			}
			if err := c.SetLocality(1); err != nil || locality(t, d) != 1 {
				t.Fatal(err)
			}
			for _, l := range []uint8{2, 3, 4, 200} {
				wantResult(t, c.SetLocality(l), resultBadLocality)
			}
			if locality(t, d) != 1 {
				t.Fatal("a refused locality took effect")
			}
			wantResult(t, c.Hash([]byte("x")), resultBadLocality)
			wantResult(t, c.SetState(platform.Permanent, []byte("q")), resultBadOrdinal) // runs
			if p, err := c.State(platform.Permanent); err != nil || string(p) != "permanent" {
				t.Fatal(p, err)
			}
			if p, err := c.State(platform.Volatile); err != nil || string(p) != "volatile" {
				t.Fatal(p, err)
			}
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
			if r, err := d.Send(frame(10)); err != nil || !bytes.Equal(r, platform.ErrorResponse(platform.RCFailure)) {
				t.Fatal(r, err)
			}
			big := bytes.Repeat([]byte("blob"), 100000)
			if err := c.SetState(platform.Permanent, big); err != nil {
				t.Fatal(err)
			}
			if p, err := c.State(platform.Permanent); err != nil || !bytes.Equal(p, big) {
				t.Fatal(len(p), err)
			}
			if err := c.SetState(platform.Volatile, []byte("vol")); err != nil {
				t.Fatal(err)
			}
			if now, least, most, err := c.SetBufferSize(3000); err != nil || now != 3000 || least != 2048 || most != 4096 {
				t.Fatal(now, least, most, err)
			}
			if err := c.Init(true); err != nil || r.e.inits != 1 || string(r.e.volatile) != "vol" {
				t.Fatal(err, r.e.inits)
			}
			if now, _, _, err := c.SetBufferSize(0); err != nil || now != 3000 {
				t.Fatal(now, err)
			}
			// The answer of a refused SET_BUFFERSIZE has the full length.
			conn, err := connect(context.Background(), r.control)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			typed(t, conn, "\x00\x00\x00\x11\x00\x00\x10\x00", "\x00\x00\x00\x0a"+"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
			if err := c.Shutdown(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-r.down:
			case <-time.After(5 * time.Second):
				t.Fatal("OnShutdown was not called")
			}
		})
	}
}

func typed(t *testing.T, c net.Conn, send, want string) {
	t.Helper()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("sent %x: got %x (%v), want %x", send, got, err, want)
	}
}

// TestTyped sends requests as QEMU and tpm2-tss do, byte by byte.
func TestTyped(t *testing.T) {
	r := start(t, true, Options{MaxLocality: 2})
	c, err := connect(context.Background(), r.control)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	typed(t, c, "\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x01\x7f\xff")
	typed(t, c, "\x00\x00\x00\x02\x00\x00\x00\x00", "\x00\x00\x00\x00")
	typed(t, c, "\x00\x00\x00\x05\x01", "\x00\x00\x00\x00")             // tpm2-tss
	typed(t, c, "\x00\x00\x00\x05\x02\x00\x00\x00", "\x00\x00\x00\x00") // QEMU, with padding
	typed(t, c, "\x00\x00\x00\x04", "\x00\x00\x00\x00\x00\x00\x00\x00")
	typed(t, c, "\x00\x00\x00\x0b\x00\x00\x00\x00", "\x00\x00\x00\x3d")
	typed(t, c, "\x00\x00\x00\x09", "\x00\x00\x00\x00")
	typed(t, c, "\x00\x00\x00\x0f", "\x00\x00\x00\x00\x00\x00\x00\x00")
	typed(t, c, "\x00\x00\x00\x13\x00\x00\x00\x05", "\x00\x00\x00\x00")
	typed(t, c, "\x00\x00\x00\x10", "\x00\x00\x00\x03") // no descriptor with it
	typed(t, c, "\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x04nent")
	typed(t, c, "\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x0a", "\x00\x00\x00\x03"+strings.Repeat("\x00", 12))
	const info = `{"TPMSpecification":{"family":"2.0","level":0,"revision":185},"TPMAttributes":{"manufacturer":"id:41424344","version":"id:00000007","model":"ab"}}` + "\x00"
	typed(t, c, "\x00\x00\x00\x12\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00",
		"\x00\x00\x00\x00\x00\x00\x00"+string([]byte{byte(len(info))})+"\x00\x00\x00"+string([]byte{byte(len(info))})+info)
	typed(t, c, "\x00\x00\x00\x63", "\x00\x00\x00\x0a")
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatal("the connection goes on after an unknown request")
	}
}

// TestPassedDescriptor: QEMU's way. The pair has its own locality, up to 4.
func TestPassedDescriptor(t *testing.T) {
	r := start(t, true, Options{})
	shared, other := r.dial(t)
	conn, err := connect(context.Background(), r.control)
	if err != nil {
		t.Fatal(err)
	}
	k := &Control{conn: conn}
	defer k.Close()
	wantResult(t, k.SetLocality(1), resultBadLocality)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte("\x00\x00\x00\x10"), unix.UnixRights(pair[1]), nil); err != nil {
		t.Fatal(err)
	}
	unix.Close(pair[1])
	typed(t, conn, "", "\x00\x00\x00\x00")
	f := os.NewFile(uintptr(pair[0]), "mine")
	nc, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	own := NewClient(nc, "passed")
	defer own.Close()
	for l := range uint8(5) {
		if err := k.SetLocality(l); err != nil {
			t.Fatal(err)
		}
		if got := locality(t, own); got != l {
			t.Fatalf("locality %d, want %d", got, l)
		}
	}
	wantResult(t, k.SetLocality(5), resultBadLocality)
	if got := locality(t, shared); got != 0 {
		t.Fatalf("the passed pair changed the locality of others to %d", got)
	}
	wantResult(t, other.SetLocality(4), resultBadLocality)
	data := bytes.Repeat([]byte("firmware"), 10000)
	if err := k.Hash(data); err != nil || !bytes.Equal(r.e.hashed, data) {
		t.Fatal(err, len(r.e.hashed))
	}
	typed(t, conn, "\x00\x00\x00\x04", "\x00\x00\x00\x00\x01\x00\x00\x00")
	typed(t, conn, "\x00\x00\x00\x0b\x03\x00\x00\x00", "\x00\x00\x00\x00")
	typed(t, conn, "\x00\x00\x00\x04", "\x00\x00\x00\x00\x00\x00\x00\x00")
	// The kernel's command in the data stream.
	resp, err := own.Send([]byte("\x80\x01\x00\x00\x00\x0b\x20\x00\x10\x00\x03"))
	if err != nil || !bytes.Equal(resp, platform.ErrorResponse(0)) || locality(t, own) != 3 {
		t.Fatal(resp, err)
	}
	resp, err = shared.Send([]byte("\x80\x01\x00\x00\x00\x0b\x20\x00\x10\x00\x03"))
	if err != nil || len(resp) != 22 || locality(t, shared) != 0 {
		t.Fatal("the kernel's command raised the locality of a listener's client")
	}
	// A descriptor that is not a socket.
	conn2, _ := connect(context.Background(), r.control)
	defer conn2.Close()
	null, _ := os.Open(os.DevNull)
	defer null.Close()
	conn2.(*net.UnixConn).WriteMsgUnix([]byte("\x00\x00\x00\x10"), unix.UnixRights(int(null.Fd())), nil)
	typed(t, conn2, "", "\x00\x00\x00\x03")
}

func TestBadFrames(t *testing.T) {
	r := start(t, true, Options{})
	good, _ := r.dial(t)
	for _, bad := range []string{
		"\x80\x01\x00\x00\x00\x09\x00\x00\x00\x00",
		"\x80\x01\x00\x00\x00\x00\x00\x00\x00\x00",
		"\x80\x01\xff\xff\xff\xff\x00\x00\x00\x00",
		"\x80\x01\x00\x01\x00\x01\x00\x00\x00\x00",
	} {
		c, err := connect(context.Background(), r.data)
		if err != nil {
			t.Fatal(err)
		}
		typed(t, c, bad, "\x80\x01\x00\x00\x00\x0a\x00\x00\x01\x42")
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatal("the stream goes on out of step")
		}
		c.Close()
		locality(t, good)
	}
	if _, err := good.Send([]byte("\x80\x01\x00\x00\x00\xff\x00\x00\x00\x00")); err == nil {
		t.Fatal("the client sent a frame whose header lies")
	}
	locality(t, good)
	c, _ := connect(context.Background(), r.control)
	defer c.Close()
	typed(t, c, "\x00\x00\x00\x0d\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff", "\x00\x00\x00\x03")
}

// FuzzChannels feeds a data or control channel any bytes: no panic, no hang,
// and another client goes on working.
func FuzzChannels(f *testing.F) {
	f.Add(true, []byte("\x00\x00\x00\x01\x00\x00\x00\x05\x01\x00\x00\x00"))
	f.Add(false, frame(20))
	f.Add(true, []byte("\x00\x00\x00\x0d\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02ab"))
	f.Fuzz(func(t *testing.T, ctl bool, in []byte) {
		s, err := NewServer(platform.New(&fake{}), Options{Limits: listen.Limits{Request: time.Second, Response: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		a, b := net.Pipe()
		done := make(chan struct{})
		s.conns.Handle(b, func(c *listen.Conn) {
			defer close(done)
			if ctl {
				s.runControl(c)
			} else {
				s.runData(c, &s.shared)
			}
		})
		go io.Copy(io.Discard, a)
		a.Write(in)
		a.Close()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("the handler hangs")
		}
		s.Close()
	})
}
