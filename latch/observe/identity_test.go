// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// The test binary plays other programs when this variable is set.
const roleVariable = "HOLDFAST_OBSERVE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); {
	case role == "":
		os.Exit(m.Run())
	case strings.HasPrefix(role, "pass "): // binds, hands the socket to a program, and waits
		f := strings.Fields(role)
		l, err := net.Listen("tcp", f[1])
		exitOn(err)
		file, err := l.(*net.TCPListener).File()
		exitOn(err)
		c := exec.Command(f[2])
		c.Env = []string{roleVariable + "=inherited " + f[3]}
		c.ExtraFiles = []*os.File{file}
		exitOn(c.Start())
		l.Close()
		if len(f) > 4 && f[4] == "exit" {
			os.Exit(0)
		}
		c.Wait()
		os.Exit(0)
	case strings.HasPrefix(role, "inherited "): // serves TLS on descriptor 3
		l, err := net.FileListener(os.NewFile(3, "listener"))
		exitOn(err)
		pair, err := tls.LoadX509KeyPair(strings.Fields(role)[1], strings.Fields(role)[1])
		exitOn(err)
		exitOn(serveForever(l, pair))
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveForever(l net.Listener, pair tls.Certificate) error {
	time.AfterFunc(20*time.Second, func() { os.Exit(0) })
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			k := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}})
			b := make([]byte, 1)
			if _, err := k.Read(b); err == nil {
				k.Write(b)
				k.Read(b)
			}
		}()
	}
}

// serverAddr is the server's address in a test network with a port that other
// tests, which this observer sees too, are not likely to use.
func serverAddr() string { return fmt.Sprintf("%s:%d", netns.ServerV4, 20000+rand.IntN(20000)) }

// pemFile writes a fresh certificate with its key.
func pemFile(t testing.TB) string {
	t.Helper()
	c := certificate(t)
	var b bytes.Buffer
	pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	k, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	pem.Encode(&b, &pem.Block{Type: "EC PRIVATE KEY", Bytes: k})
	name := filepath.Join(t.TempDir(), "server.pem")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func digestOf(t testing.TB, path string) [32]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}

// clientIn makes a TLS connection from inside a namespace and returns its view.
func clientIn(t testing.TB, ns *netns.Namespace, addr string) *tap {
	t.Helper()
	var k *tap
	err := ns.Do(func() error {
		c, err := net.DialTimeout("tcp", addr, 3*time.Second)
		if err != nil {
			return err
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		k = &tap{Conn: c}
		t.Cleanup(func() { c.Close() })
		return tls.Client(k, &tls.Config{InsecureSkipVerify: true, ServerName: "server.test", MinVersion: tls.VersionTLS13}).Handshake()
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// one returns the only Hello event and the identity of its listener.
func one(t testing.TB, ob *Observer) (Event, *Identity) {
	t.Helper()
	ev := events(t, ob, 1)
	if len(ev) != 1 || ev[0].Listener == nil {
		t.Fatalf("events %+v, stats %+v", ev, ob.Stats())
	}
	id, err := identity(t, ob, ev[0].Listener)
	if err != nil {
		t.Fatal(err)
	}
	return ev[0], id
}

func nginxConf(t testing.TB, addr, pem string, daemon string) string {
	t.Helper()
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	conf := fmt.Sprintf(`daemon %s;
master_process on;
worker_processes 2;
user nobody nogroup;
pid %[2]s/pid;
error_log %[2]s/error.log;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path %[2]s/b; proxy_temp_path %[2]s/p; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
  server {
    listen %[3]s ssl;
    ssl_certificate %[4]s;
    ssl_certificate_key %[4]s;
    ssl_protocols TLSv1.3;
    location / { return 200 "ok\n"; }
  }
}
`, daemon, dir, addr, pem)
	name := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(name, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestNginx: the master makes the listener, workers of another user accept;
// with and without daemon, where the process that binds ends at once; and when
// it was there before the observer.
func TestNginx(t *testing.T) {
	nginx, err := host.LookPath("nginx")
	if err != nil {
		t.Skipf("SKIP[nginx]: %v", err)
	}
	for _, c := range []struct {
		name, daemon  string
		before, found bool
	}{
		{"in the foreground", "off", false, false},
		{"as a daemon", "on", false, false},
		{"before the observer", "off", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, client, server := netns.Pair(t)
			addr := netip.MustParseAddrPort(serverAddr())
			start := func() {
				p, err := server.Start(netns.Command{Args: []string{nginx, "-c", nginxConf(t, addr.String(), pemFile(t), c.daemon), "-e", "stderr"}})
				if err != nil {
					t.Fatal(err)
				}
				if err := server.WaitTCP(addr.String(), 5*time.Second); err != nil {
					t.Fatalf("%v\n%s", err, p.Output())
				}
			}
			if c.before {
				start()
			}
			ob := open(t, Options{Listeners: []netip.AddrPort{addr}})
			if !c.before {
				start()
			}
			k := clientIn(t, client, addr.String())
			e, id := one(t, ob)
			same(t, e, k, e.Group)
			if id.Executable != digestOf(t, nginx) || id.UID != 0 {
				t.Errorf("identity %+v, want nginx (%x) started by root", id, digestOf(t, nginx))
			}
			if id.Found != c.found {
				t.Errorf("found: %v, want %v", id.Found, c.found)
			}
			var ns string
			server.Do(func() (err error) { ns, err = os.Readlink("/proc/thread-self/ns/net"); return err })
			if id.NetNS != ns {
				t.Errorf("network namespace %q, want the server's, %q", id.NetNS, ns)
			}
			if !strings.HasPrefix(id.Cgroup, "/") || id.Unit == "" {
				t.Errorf("cgroup %q, unit %q", id.Cgroup, id.Unit)
			}
			// The identity still holds a second later.
			ob.Recheck(e.Listener, time.Now().Add(2*recheckEvery))
			if again, err := identity(t, ob, e.Listener); err != nil || again.Executable != id.Executable {
				t.Errorf("looked at again: %+v, %v", again, err)
			}
		})
	}
}

func TestOpenSSLServer(t *testing.T) {
	openssl, err := host.LookPath("openssl")
	if err != nil {
		t.Skipf("SKIP[openssl]: %v", err)
	}
	_, client, server := netns.Pair(t)
	for _, addr := range []string{serverAddr(), fmt.Sprintf("[%s]:%d", netns.ServerV6, 20000+rand.IntN(20000))} {
		ob := open(t, Options{Listeners: []netip.AddrPort{netip.MustParseAddrPort(addr)}})
		p, err := server.Start(netns.Command{Args: []string{openssl, "s_server", "-accept", addr, "-cert", pemFile(t), "-tls1_3", "-groups", "P-384:X25519", "-www", "-quiet"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.WaitTCP(addr, 5*time.Second); err != nil {
			t.Fatalf("%v\n%s", err, p.Output())
		}
		k := clientIn(t, client, addr)
		e, id := one(t, ob)
		same(t, e, k, e.Group)
		if id.Executable != digestOf(t, openssl) {
			t.Errorf("identity %+v, want openssl", id)
		}
	}
}

// TestPassedSocket: the identity is the creator's, also when another program
// serves; when the creator is gone before it was looked at, the programs that
// hold the socket must be one.
func TestPassedSocket(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Another program: the same code with a byte behind it, so another digest.
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, append(b, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	_, client, server := netns.Pair(t)
	addr := serverAddr()
	ob := open(t, Options{Listeners: []netip.AddrPort{netip.MustParseAddrPort(addr)}})
	p, err := server.Start(netns.Command{Args: []string{self}, Env: []string{roleVariable + "=pass " + addr + " " + other + " " + pemFile(t)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.WaitTCP(addr, 5*time.Second); err != nil {
		t.Fatalf("%v\n%s", err, p.Output())
	}
	k := clientIn(t, client, addr)
	e, id := one(t, ob)
	same(t, e, k, e.Group)
	if id.Executable != digestOf(t, self) || id.PID != p.Pid() {
		t.Errorf("identity %+v, want the creator %d (%x)", id, p.Pid(), digestOf(t, self))
	}
	// The creator ends; a second later the one program that holds the socket is
	// what the listener belongs to.
	p.Signal(syscall.SIGKILL)
	<-p.Done()
	ob.Recheck(e.Listener, time.Now().Add(2*recheckEvery))
	if id, err = identity(t, ob, e.Listener); err != nil || id.Executable != digestOf(t, other) || !id.Inherited {
		t.Errorf("identity %+v, %v; want the program that holds the socket (%x)", id, err, digestOf(t, other))
	}
}

// TestExistingRefused: with RefuseExisting nothing is known of a listener that
// was there before.
func TestExistingRefused(t *testing.T) {
	_, client, server := netns.Pair(t)
	addr := serverAddr()
	var l net.Listener
	if err := server.Do(func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	serveListener(t, l, &tls.Config{})
	ob := open(t, Options{Listeners: []netip.AddrPort{netip.MustParseAddrPort(addr)}, RefuseExisting: true})
	clientIn(t, client, addr)
	time.Sleep(50 * time.Millisecond)
	if ev := ob.Poll(nil, time.Now()); len(ev) != 0 {
		t.Errorf("events %+v from a listener that must not be observed", ev)
	}
}

// TestRouted: a ServerHello that only passes through the machine is not seen.
// The server's listener is there before the observer and left alone, so that
// only the router's part could show.
func TestRouted(t *testing.T) {
	_, client, _, server := netns.Routed(t)
	addr := serverAddr()
	var l net.Listener
	if err := server.Do(func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	serveListener(t, l, &tls.Config{})
	ob := open(t, Options{Listeners: []netip.AddrPort{netip.MustParseAddrPort(addr)}, RefuseExisting: true})
	clientIn(t, client, addr)
	time.Sleep(50 * time.Millisecond)
	if ev := ob.Poll(nil, time.Now()); len(ev) != 0 {
		t.Errorf("events %+v for a routed connection", ev)
	}
	if n := ob.Stats().Foreign; n == 0 {
		t.Error("the client's side did not see the hello either: the test shows nothing")
	}
}

func mustRoot(t testing.TB) string {
	t.Helper()
	r, err := cgroupRoot()
	if err != nil {
		t.Skipf("SKIP[cgroup2]: %v", err)
	}
	return r
}

// TestReusedPID: a process that started after the socket was bound is not its
// creator, whatever its number.
func TestReusedPID(t *testing.T) {
	g := registry{root: mustRoot(t), all: map[uint64]*Listener{}, notify: func() {}}
	c := exec.Command("sleep", "5")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Signal(syscall.SIGKILL); c.Wait() }()
	p, err := openProcess(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	path, err := p.cgroup()
	if err != nil {
		t.Fatal(err)
	}
	id, err := cgroupID(g.root, path)
	if err != nil {
		t.Fatal(err)
	}
	l := g.add(owner{listener: 1 << 60, boundNS: p.startNS - 1, tgid: uint32(p.pid), cgroup: id}, netip.AddrPort{}, false)
	p.close()
	g.wg.Wait()
	if got, err := l.Identity(); err == nil {
		t.Errorf("identity %+v of a process that started later", got)
	}
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	l = g.add(owner{listener: 1<<60 + 1, boundNS: uint64(now.Nano()), tgid: uint32(c.Process.Pid), cgroup: id}, netip.AddrPort{}, false)
	g.wg.Wait()
	if got, err := l.Identity(); err != nil || got.PID != c.Process.Pid {
		t.Errorf("identity %+v, %v of a process that was there", got, err)
	}
	l = g.add(owner{listener: 1<<60 + 2, boundNS: uint64(now.Nano()), tgid: uint32(c.Process.Pid), cgroup: id + 1}, netip.AddrPort{}, false)
	g.wg.Wait()
	if got, err := l.Identity(); err == nil {
		t.Errorf("identity %+v of a process in another cgroup", got)
	}
}

func TestUnitOf(t *testing.T) {
	for path, want := range map[string]string{
		"/system.slice/nginx.service": "nginx.service", "/system.slice/docker-0af.scope/x": "docker-0af.scope",
		"/": "/", "/web/a": "/web/a", "/user.slice/user-0.slice/session-3.scope": "session-3.scope", "/system.slice": "/system.slice",
		"/system.slice/system-getty.slice/getty@tty1.service": "getty@tty1.service",
		// Names that others than the system's manager chose.
		"/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service": "user@1000.service",
		"/system.slice/nginx.service/other.service":                             "nginx.service",
		"/machine.slice/machine-a.scope/payload/system.slice/nginx.service":     "machine-a.scope",
		"/docker/0af/nginx.service":                                             "/docker/0af/nginx.service",
		"/docker/0af/system.slice/nginx.service":                                "/docker/0af/system.slice/nginx.service",
	} {
		if got := unitOf(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		p, a string
		want bool
	}{
		{"0.0.0.0:443", "10.0.0.1:443", true}, {"0.0.0.0:443", "[fd77::1]:443", false}, {"[::]:443", "10.0.0.1:443", true},
		{"[::]:443", "[fd77::1]:443", true}, {"10.0.0.1:443", "10.0.0.1:443", true}, {"10.0.0.1:443", "10.0.0.2:443", false},
		{"10.0.0.1:443", "10.0.0.1:444", false}, {"10.0.0.1:443", "[::ffff:10.0.0.1]:443", true},
	} {
		if got := Match(netip.MustParseAddrPort(c.p), netip.MustParseAddrPort(c.a)); got != c.want {
			t.Errorf("%s covers %s: %v", c.p, c.a, got)
		}
	}
}

// TestProcessUID: also of a process that made itself undumpable, whose folder
// in /proc belongs to root.
func TestProcessUID(t *testing.T) {
	c := exec.Command("/bin/sleep", "5")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := c.Start(); err != nil {
		t.Skipf("SKIP[root]: %v", err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	for pid, want := range map[int]uint32{c.Process.Pid: 65534, os.Getpid(): uint32(os.Getuid())} {
		p, err := openProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.uid(); err != nil || got != want {
			t.Errorf("uid %d, %v, want %d", got, err, want)
		}
		p.close()
	}
}
