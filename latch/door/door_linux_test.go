// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestMain lets the tests' program play the server: door.test serve ADDRESS
// prints the cookie of each accepted socket and what it reads.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, serve(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func serve(address string) error {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		raw.Control(func(fd uintptr) {
			v, err := unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
			fmt.Println("cookie", v, err)
		})
		go func() {
			b := make([]byte, 1<<16)
			for {
				n, err := c.Read(b)
				if err != nil {
					return
				}
				fmt.Printf("read %q\n", b[:n])
			}
		}()
	}
}

const port = 9555

func record(typ byte, body string) []byte {
	return append([]byte{typ, 3, 3, byte(len(body) >> 8), byte(len(body))}, body...)
}

type lab struct {
	t        *testing.T
	ns       *netns.Namespace
	server   *netns.Process
	group    string
	accepted int
}

// dial connects and returns the cookie of the server's socket.
func (l *lab) dial() (c *net.TCPConn, cookie uint64) {
	l.t.Helper()
	err := l.ns.Do(func() error {
		k, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			c = k.(*net.TCPConn)
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.accepted++
	for range 500 {
		if f := strings.Split(l.server.Output(), "cookie "); len(f) > l.accepted {
			cookie, err = strconv.ParseUint(strings.Fields(f[l.accepted])[0], 10, 64)
			if err != nil {
				l.t.Fatal(err)
			}
			return c, cookie
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.t.Fatalf("not accepted: %s", l.server.Output())
	return nil, 0
}

func (l *lab) reads(text string, want bool) {
	l.t.Helper()
	limit := 400 * time.Millisecond
	if want {
		limit = 5 * time.Second
	}
	if err := l.server.WaitOutput(text, limit); (err == nil) != want {
		l.t.Errorf("the server read %q: %v, expected %v\n%s", text, err == nil, want, l.server.Output())
	}
}

func TestDoor(t *testing.T) {
	host.Need(t, "root", "netns", "cgroup2", "bpf", "cgroup-bpf")
	n := netns.Test(t)
	l := &lab{t: t}
	var err error
	if l.ns, err = n.Namespace("host"); err != nil {
		t.Fatal(err)
	}
	if l.group, err = n.Group("service"); err != nil {
		t.Fatal(err)
	}
	d, err := Open(Options{Cgroup: l.group, Ports: []uint16{port}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		list, err := List()
		if err != nil {
			t.Error(err)
		}
		for _, g := range list {
			if g.Cgroup == l.group {
				if err := Remove(g); err != nil {
					t.Error(err)
				}
			}
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if l.server, err = l.ns.Start(netns.Command{Args: []string{self, "serve", "127.0.0.1:" + strconv.Itoa(port)}, Group: l.group, Time: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := l.ns.WaitTCP("127.0.0.1:"+strconv.Itoa(port), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	l.accepted++ // WaitTCP's

	// Hellos and change_cipher_spec get in, in one segment or cut, a request does not; after the release it does.
	c, cookie := l.dial()
	c.Write(append(record(22, "first hello"), record(20, "\x01")...))
	l.reads("first hello", true)
	second := record(22, strings.Repeat("second hello ", 10))
	c.Write(second[:40])
	time.Sleep(20 * time.Millisecond)
	c.Write(second[40:])
	l.reads("second hello", true)
	c.Write(record(23, "a request"))
	l.reads("a request", false)
	if err := d.Release([]uint64{cookie}); err != nil {
		t.Fatal(err)
	}
	l.reads("a request", true)
	c.Write(record(23, "another one"))
	l.reads("another one", true)
	c.Close()

	// A request in the hello's segment, and a fifth record, do not.
	c, _ = l.dial()
	c.Write(append(record(22, "joined hello"), record(23, "joined request")...))
	l.reads("joined request", false)
	c.Close()
	c, _ = l.dial()
	for i := range 5 {
		c.Write(record(22, fmt.Sprintf("record %d", i)))
		time.Sleep(20 * time.Millisecond)
	}
	l.reads("record 3", true)
	l.reads("record 4", false)
	c.Close()

	// A copy with a wrong checksum says that the first record is long; TCP drops
	// it, and takes a short record with a request behind it if the door believes it.
	c, _ = l.dial()
	if err := l.ns.Do(func() error { return decoy(c, record(22, strings.Repeat("x", 16000))[:200]) }); err != nil {
		t.Fatal(err)
	}
	c.Write(record(22, "short hello"))
	time.Sleep(50 * time.Millisecond)
	c.Write(record(23, "request behind a decoy"))
	l.reads("request behind a decoy", false)
	s, err := d.Stats()
	if err != nil || s.Contradicting == 0 {
		t.Errorf("%+v %v, expected the contradiction to be seen", s, err)
	}
	c.SetLinger(0)
	c.Close()

	// The agent ends: the door stays, and the next agent takes it over with what is open.
	c, cookie = l.dial()
	c.Write(record(22, "hello before"))
	l.reads("hello before", true)
	if _, err := Open(Options{Cgroup: l.group, Ports: []uint16{port}}); err == nil {
		t.Error("two agents hold one door")
	}
	d.Close()
	c.Write(record(23, "request while no agent is there"))
	l.reads("request while no agent is there", false)
	if d, err = Open(Options{Cgroup: l.group, Ports: []uint16{port}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Release([]uint64{cookie}); err != nil {
		t.Fatal(err)
	}
	l.reads("request while no agent is there", true)
	c.Close()
}

// decoy sends a segment of the connection's next bytes with a wrong checksum.
func decoy(c *net.TCPConn, payload []byte) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var seq, ack int
	var all error
	raw.Control(func(fd uintptr) {
		f := int(fd)
		all = errors.Join(unix.SetsockoptInt(f, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1), unix.SetsockoptInt(f, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, 2))
		seq, err = unix.GetsockoptInt(f, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		all = errors.Join(all, err, unix.SetsockoptInt(f, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, 1))
		ack, err = unix.GetsockoptInt(f, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		all = errors.Join(all, err, unix.SetsockoptInt(f, unix.IPPROTO_TCP, unix.TCP_REPAIR, -1)) // without a window probe
	})
	if all != nil {
		return all
	}
	local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
	b := binary.BigEndian.AppendUint16(nil, uint16(local.Port))
	b = binary.BigEndian.AppendUint16(b, uint16(remote.Port))
	b = binary.BigEndian.AppendUint32(b, uint32(seq))
	b = binary.BigEndian.AppendUint32(b, uint32(ack))
	b = append(b, 5<<4, 0x18, 0x10, 0, 0xba, 0xad, 0, 0)
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.Sendto(s, append(b, payload...), 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
}

// TestObject builds the eBPF object anew and compares.
func TestObject(t *testing.T) {
	for _, p := range []string{"clang-14", "llvm-strip-14"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIP[clang-14]: %v", err)
		}
	}
	src, err := os.ReadFile("generate.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bpf"), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open("bpf/door.bpf.c")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "bpf/door.bpf.c"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(src), "\n") {
		line, ok := strings.CutPrefix(l, "//go:generate ")
		if !ok {
			continue
		}
		f := strings.Fields(strings.ReplaceAll(line, "$PWD", dir))
		cmd := exec.Command(f[0], f[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "bpf/door.bpf.o"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, object) {
		t.Errorf("the committed object is not what the source gives: run go generate ./latch/door")
	}
}
