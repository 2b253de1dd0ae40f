// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/latch/agent"
	"holdfast/latch/gate"
	"holdfast/latch/hold/cgroupskb"
	"holdfast/test/host"
	"holdfast/test/netns"
)

// The test binary is also the service, the agent and the gate:
// `TEST e2e-helper VERB ...`.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "e2e-helper" {
		status, err := helper(os.Args[2], os.Args[3:])
		if err != nil {
			fmt.Println("error:", err)
			status = max(status, 1)
		}
		os.Exit(status)
	}
	os.Exit(m.Run())
}

func helper(verb string, args []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch verb {
	case "serve": // ADDR: an HTTPS service that prints each request
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return 1, err
		}
		tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"shop.example"}}
		der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
		if err != nil {
			return 1, err
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Printf("request %s %s %d\n", r.Proto, r.URL.Path, n)
			fmt.Fprintf(w, "%s got %d\n", r.URL.Path, n)
			if r.URL.Path == "/big" {
				io.CopyN(w, zeros{}, 64<<20)
			}
		}), TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
		l, err := net.Listen("tcp", args[0])
		if err != nil {
			return 1, err
		}
		fmt.Println("ready")
		go func() { <-ctx.Done(); s.Close() }()
		s.ServeTLS(l, "", "")
		return 0, nil
	case "agent": // CONFIG
		b, err := os.ReadFile(args[0])
		if err != nil {
			return 1, err
		}
		c, err := agent.ParseConfig(b)
		if err != nil {
			return 1, err
		}
		r, err := c.Open("test")
		if err != nil {
			return 1, err
		}
		fmt.Println("ready")
		r.Run(ctx)
		return 0, r.Close()
	case "proxy": // CONFIG STATS
		c, err := gate.LoadConfig(args[0])
		if err != nil {
			return 1, err
		}
		p, err := gate.OpenProxy(c)
		if err != nil {
			return 1, err
		}
		p.Ready(ctx, 5*time.Second)
		fmt.Println("started")
		<-ctx.Done()
		b, _ := json.Marshal(p.Stats())
		if err := os.WriteFile(args[1], b, 0o600); err != nil {
			return 1, err
		}
		return 0, p.Close()
	case "run": // CONFIG STATS COMMAND...
		c, err := gate.LoadConfig(args[0])
		if err != nil {
			return 1, err
		}
		status, stats, err := gate.RunCommand(ctx, c, gate.Command{Args: args[2:], Started: func(g *gate.Scoped) { fmt.Println("started") }})
		b, _ := json.Marshal(stats)
		if e := os.WriteFile(args[1], b, 0o600); err == nil {
			err = e
		}
		return status, err
	}
	return 1, fmt.Errorf("helper %q", verb)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// stage is a service with its agent on one host and a gate's configuration on
// another.
type stage struct {
	t              *testing.T
	client, server *netns.Namespace
	service        *netns.Process
	exe, dir       string
}

func newStage(t *testing.T, withAgent bool) *stage {
	t.Helper()
	host.Need(t, "root", "netns", "cgroup2")
	_, c, s := netns.Pair(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	st := &stage{t: t, client: c, server: s, exe: exe, dir: t.TempDir()}
	start := func(args ...string) *netns.Process {
		p, err := s.Start(netns.Command{Args: append([]string{exe, "e2e-helper"}, args...)})
		if err == nil {
			err = p.WaitOutput("ready", 15*time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	st.write("agent.yaml", `
listeners: [{address: "`+netns.ServerV4+`:443", service: shop, executables: ["`+exe+`"]}]
channel: {listen: ["tcp:`+netns.ServerV4+`:7443"]}
provider: {simulated: {name: lab, algorithm: ES256, latency: 2ms, trust: "`+st.dir+`/trust.yaml"}}
`)
	st.write("policy.yaml", `
simulated: allow
class: machine
measurements: none
environments: [SIMULATED/lab/lab]
signatures: [ES256]
groups: [x25519, X25519MLKEM768, secp256r1]
claims: {services: [shop], executables: ["`+hex.EncodeToString(sum[:])+`"]}
`)
	st.write("trust.yaml", "version: 1\nattestation-keys: []\n")
	st.write("gate.yaml", `
services:
  shop.example: {agents: ["tcp:`+netns.ServerV4+`:7443"], trust: trust.yaml, policy: policy.yaml}
deadline: 20s
`)
	if withAgent {
		start("agent", st.dir+"/agent.yaml") // first: it sees the listener being made
	}
	st.service = start("serve", netns.ServerV4+":443")
	return st
}

func (s *stage) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a command behind the gate and returns its output.
func (s *stage) run(command ...string) (out string, stats gate.Stats, err error) {
	s.t.Helper()
	out, err = s.client.Run(append([]string{s.exe, "e2e-helper", "run", s.dir + "/gate.yaml", s.dir + "/stats.json"}, command...)...)
	b, e := os.ReadFile(s.dir + "/stats.json")
	if e != nil {
		s.t.Fatalf("%v: %s", e, out)
	}
	if e := json.Unmarshal(b, &stats); e != nil {
		s.t.Fatal(e)
	}
	return out, stats, err
}

const resolve = "shop.example:443:" + netns.ServerV4

// The whole chain on one command: HTTP/2 with a reused connection, 64 MB each
// way after the release, and nothing of it in user space.
func TestRunReleases(t *testing.T) {
	s := newStage(t, true)
	out, stats, err := s.run("curl", "-sSk", "--http2", "--resolve", resolve, "https://shop.example/one", "https://shop.example/two")
	if err != nil || !strings.Contains(out, "/one got 0") || !strings.Contains(out, "/two got 0") || stats.Released != 1 {
		t.Errorf("%v\n%s\n%+v", err, out, stats)
	}
	out, stats, err = s.run("sh", "-c", "curl -sSk --resolve "+resolve+" https://shop.example/big | wc -c; head -c 67108864 /dev/zero | curl -sSk --resolve "+resolve+" -T - https://shop.example/up")
	if err != nil || !strings.Contains(out, fmt.Sprint(64<<20+len("/big got 0\n"))) || !strings.Contains(out, "/up got 67108864") {
		t.Errorf("%v\n%s\n%+v", err, out, stats)
	}
	if stats.Released != 2 || stats.Records > 40 {
		t.Errorf("%d records in user space for two transfers of 64 MB, %d released", stats.Records, stats.Released)
	}
}

// Cut hellos: an MTU of 600 puts the hybrid hello in several segments.
func TestSmallSegments(t *testing.T) {
	s := newStage(t, true)
	for _, h := range []*netns.Namespace{s.client, s.server} {
		if _, err := h.Run("ip", "link", "set", "eth0", "mtu", "600"); err != nil {
			t.Fatal(err)
		}
	}
	out, stats, err := s.run("curl", "-sSk", "--resolve", resolve, "https://shop.example/cut")
	if err != nil || !strings.Contains(out, "/cut got 0") || stats.Released != 1 {
		t.Errorf("%v\n%s\n%+v", err, out, stats)
	}
}

// Each refusal reaches the application as an error at once, and the log with
// its reason; the exit status is the command's.
func TestRunRefuses(t *testing.T) {
	s := newStage(t, true)
	for _, c := range []struct {
		reason string
		args   []string
	}{
		{"no-policy-for-name", []string{"curl", "-sSk", "--resolve", "other.example:443:" + netns.ServerV4, "https://other.example/"}},
		{"no-name", []string{"curl", "-sSk", "https://" + netns.ServerV4 + "/"}},
		{"tls12", []string{"curl", "-sSk", "--tls-max", "1.2", "--resolve", resolve, "https://shop.example/"}},
		{"not-tls", []string{"curl", "-sS", "http://" + netns.ServerV4 + ":443/"}},
	} {
		start := time.Now()
		out, stats, err := s.run(c.args...)
		if err == nil || stats.Refused[c.reason] != 1 || stats.Released != 0 || !strings.Contains(out, "reason="+c.reason) {
			t.Errorf("%s: %v\n%s\n%+v", c.reason, err, out, stats)
		}
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("%s: took %v, the application should not have to wait for a deadline", c.reason, d)
		}
	}
	if strings.Contains(s.service.Output(), "request") {
		t.Errorf("a request reached the service: %s", s.service.Output())
	}
	if _, _, err := s.run("sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("exit status: %v", err)
	}
	if _, _, err := s.run("sh", "-c", "kill -9 $$"); err == nil || !strings.Contains(err.Error(), "exit status 137") {
		t.Errorf("exit status of a killed command: %v", err)
	}
}

// The gate is killed in mid-hold: nothing leaves, then or later, and status
// shows what is left.
func TestGateKilled(t *testing.T) {
	s := newStage(t, false) // no agent, so the hold lasts
	s.write("gate.yaml", strings.Replace(readFile(t, s.dir+"/gate.yaml"), "deadline: 20s", "deadline: 50s", 1))
	p, err := s.client.Start(netns.Command{Args: []string{s.exe, "e2e-helper", "run", s.dir + "/gate.yaml", s.dir + "/stats.json",
		"curl", "-sSk", "-m", "3", "--resolve", resolve, "https://shop.example/held"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitOutput("started", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(400 * time.Millisecond)
	var mine *cgroupskb.Leftover
	list, err := cgroupskb.Status()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].PID == p.Pid() {
			mine = &list[i]
		}
	}
	if mine == nil || !mine.Alive || !mine.Attached || !mine.Populated {
		t.Fatalf("status does not show the living gate %d: %+v", p.Pid(), list)
	}
	if err := unix.Kill(p.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if busy, err := cgroupskb.Populated(mine.Cgroup); err != nil || !busy {
			break
		}
	}
	if strings.Contains(s.service.Output(), "request") {
		t.Errorf("a request left: %s", s.service.Output())
	}
	list, err = cgroupskb.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if l.Name != mine.Name {
			continue
		}
		if l.Alive || !l.Attached || l.Populated {
			t.Errorf("status %+v: want a dead gate, the links in place, no process", l)
		}
		if err := cgroupskb.Reclaim(l, false); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(mine.Cgroup); !os.IsNotExist(err) {
		t.Errorf("the cgroup is still there: %v", err)
	}
}

func readFile(t *testing.T, p string) string {
	t.Helper()
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
