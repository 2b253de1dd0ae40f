// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"holdfast/latch/gate"
	"holdfast/latch/hold/windivert"
	"holdfast/test/host"
	"holdfast/test/netns"
)

func init() {
	programs["holdfast-diverted"] = divertedMain
	programs["tls-service"] = serviceMain
}

// divertedMain is holdfast as on Windows, with the driver that the test plays.
func divertedMain() {
	var verbs []func(*globals) *cobra.Command
	for _, f := range latchVerbs {
		if f(&globals{}).Name() != "gate" {
			verbs = append(verbs, f)
		}
	}
	latchVerbs = append(verbs, func(g *globals) *cobra.Command {
		return latchGateDiverted(g, socketDriver{os.Getenv("PLAYED_DRIVER")})
	})
	main()
}

// serviceMain is an HTTPS service on the given addresses that prints each
// request. /big?N answers with N million bytes.
func serviceMain() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		panic(err)
	}
	s := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Printf("request %s\n", r.URL.Path)
			fmt.Fprintf(w, "%s got %d", r.URL.Path, n)
			if r.URL.Path == "/big" {
				w.Write(make([]byte, 1<<20))
			}
		})}
	for _, a := range os.Args[1:] {
		l, err := net.Listen("tcp", a)
		if err != nil {
			panic(err)
		}
		go s.ServeTLS(l, "", "")
	}
	fmt.Println("ready")
	select {}
}

// windows is a played Windows machine with a gate, and a server behind the wire.
type windows struct {
	*testing.T
	dir            string
	client, server *netns.Namespace
	d              *driver
	agent, service *netns.Process
	gate           *netns.Process // the guard
	before         int            // packets that passed before it
}

const divertedGate = `
services:
  shop.example: {agents: ["tcp:` + netns.ServerV4 + `:7443"], trust: trust.yaml, policy: policy.yaml}
scope: {machine: true}
deadline: 30s
operations: {control: DIR/gate.sock}
`

func newWindows(t *testing.T) *windows {
	host.Need(t, "root", "netns", "cgroup2", "tun")
	w := &windows{T: t, dir: t.TempDir()}
	n := netns.Test(t)
	var tuns [2]*os.File
	for i, h := range []struct {
		ns        **netns.Namespace
		name      string
		addresses []string
	}{{&w.client, "client", []string{netns.ClientV4 + "/16", netns.ClientV6 + "/32"}}, {&w.server, "server", []string{netns.ServerV4 + "/16", netns.ServerV6 + "/32"}}} {
		ns, err := n.Namespace(h.name)
		if err != nil {
			t.Fatal(err)
		}
		*h.ns = ns
		fd, err := ns.TUN("eth0", h.addresses...)
		if err != nil {
			t.Fatal(err)
		}
		tuns[i] = os.NewFile(uintptr(fd), h.name)
		t.Cleanup(func() { tuns[i].Close() })
	}
	var err error
	if w.d, err = newDriver(tuns[0], tuns[1], w.dir+"/driver.sock"); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for p := range programs {
		if err := os.Symlink(exe, filepath.Join(w.dir, p)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	w.write("agent.yaml", `
listeners:
  - {address: "`+netns.ServerV4+`:443", service: shop, executables: ["`+exe+`"]}
  - {address: "[`+netns.ServerV6+`]:443", service: shop, executables: ["`+exe+`"]}
channel: {listen: ["tcp:`+netns.ServerV4+`:7443"]}
reports: {park: 500ms}
provider: {simulated: {name: lab, algorithm: ES256, latency: 2ms, trust: "`+w.dir+`/trust.yaml"}}
`)
	w.write("policy.yaml", fmt.Sprintf(`
simulated: allow
class: machine
measurements: none
environments: [SIMULATED/lab/lab]
signatures: [ES256]
groups: [x25519, X25519MLKEM768]
claims: {services: [shop], executables: ["%x"]}
`, sha256.Sum256(b)))
	w.write("trust.yaml", "version: 1\nattestation-keys: []\n")
	w.write("gate.yaml", strings.ReplaceAll(divertedGate, "DIR", w.dir))
	w.agent = w.start(w.server, "the agent answers gates", "holdfast", "latch", "agent", "--config", w.dir+"/agent.yaml")
	w.service = w.start(w.server, "ready", "tls-service", netns.ServerV4+":443", "["+netns.ServerV6+"]:443", netns.ServerV4+":444")
	return w
}

func (w *windows) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

func (w *windows) start(ns *netns.Namespace, ready string, args ...string) *netns.Process {
	w.Helper()
	args[0] = filepath.Join(w.dir, args[0])
	p, err := ns.Start(netns.Command{Args: args, Env: append(os.Environ(), "PLAYED_DRIVER="+w.dir+"/driver.sock"), Time: 5 * time.Minute})
	if err == nil {
		err = p.WaitOutput(ready, time.Minute)
	}
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// up starts guard and gate.
func (w *windows) up() {
	w.Helper()
	_, _, _, w.before, _ = w.d.counts()
	w.gate = w.start(w.client, "gate is up", "holdfast-diverted", "latch", "gate", "--config", w.dir+"/gate.yaml", "--open-at-end", "--stats", w.dir+"/stats.json")
	w.eventually("the agent's connection", func() bool { s := w.status(); return len(s.Agents) == 1 && s.Agents[0].Connected })
}

func (w *windows) status() (s gateStatus) {
	out, err := w.client.Run(filepath.Join(w.dir, "holdfast-diverted"), "latch", "status", "--control", w.dir+"/gate.sock", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	if err != nil {
		w.Log(err)
	}
	return s
}

func (w *windows) eventually(what string, is func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s did not come; the gate said:\n%s", what, w.gate.Output())
		}
	}
}

// session is a TLS client's connection.
type session struct {
	*tls.Conn
	r *bufio.Reader
}

// dial connects and shakes hands. The deadline of all that follows is a minute.
func (w *windows) dial(address, name string) (*session, error) {
	var c net.Conn
	err := w.client.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", address, time.Minute)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	w.Cleanup(func() { c.Close() })
	t := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	return &session{t, bufio.NewReader(t)}, nil
}

// get asks for a path and returns the answer's body.
func (s *session) get(path, body string) (string, error) {
	r, err := http.NewRequest("PUT", "https://shop.example"+path, strings.NewReader(body))
	if err == nil {
		err = r.Write(s.Conn)
	}
	if err != nil {
		return "", err
	}
	a, err := http.ReadResponse(s.r, r)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(a.Body)
	return string(b), err
}

// once is one request on a connection of its own.
func (w *windows) once(address, name, path string) (string, error) {
	s, err := w.dial(address, name)
	if err != nil {
		return "", err
	}
	defer s.Close()
	return s.get(path, "")
}

// good is a request that must be answered.
func (w *windows) good(path string) {
	w.Helper()
	if out, err := w.once(netns.ServerV4+":443", "shop.example", path); err != nil || out != path+" got 0" {
		w.Fatalf("%s: %q, %v; the gate said:\n%s", path, out, err, w.gate.Output())
	}
}

// refused is a request that must end in a reset, and never arrive.
func (w *windows) refused(address, name, path string) {
	w.Helper()
	out, err := w.once(address, name, path)
	if !errors.Is(err, syscall.ECONNRESET) {
		w.Errorf("%s: %q, %v; expected a reset", path, out, err)
	}
	w.never(path)
}

func (w *windows) never(path string) {
	w.Helper()
	if strings.Contains(w.service.Output(), "request "+path+"\n") {
		w.Errorf("the request %s reached the service", path)
	}
}

// TestDivertedGate: guard, gate, a real TLS client and server, and real packets
// through a played WinDivert: what is released and refused, that a dead gate
// leaves the machine shut, and that the end in order opens it.
func TestDivertedGate(t *testing.T) {
	w := newWindows(t)
	w.up()
	if want := fmt.Sprintf("%d %d 0 %s", windivert.LayerNetwork, -30000, windivert.Filter); w.d.opened != want {
		t.Errorf("opened with %q, expected %q", w.d.opened, want)
	}

	// Good, over both families, with a megabyte each way behind the release.
	kept, err := w.dial(netns.ServerV4+":443", "shop.example")
	if err != nil {
		t.Fatalf("%v; the gate said:\n%s", err, w.gate.Output())
	}
	if out, err := kept.get("/first", ""); err != nil || out != "/first got 0" {
		t.Fatalf("%q, %v", out, err)
	}
	if out, err := kept.get("/big", strings.Repeat("x", 1<<20)); err != nil || len(out) != len("/big got 1048576")+1<<20 {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	if out, err := w.once("["+netns.ServerV6+"]:443", "shop.example", "/six"); err != nil || out != "/six got 0" {
		t.Fatalf("%q, %v; the gate said:\n%s", out, err, w.gate.Output())
	}

	// Refused: by name, by what the agent did not see, and UDP, which is dropped.
	w.refused(netns.ServerV4+":443", "other.example", "/other")
	w.refused(netns.ServerV4+":444", "shop.example", "/unseen")
	err = w.client.Do(func() error {
		c, err := net.Dial("udp", netns.ServerV4+":9")
		if err == nil {
			_, err = c.Write([]byte("secret"))
			c.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.good("/behind")
	if _, diverted, injected, passed, udp := w.d.counts(); udp != 0 || passed != w.before || diverted == 0 || injected == 0 {
		t.Errorf("%d UDP packets left, %d packets passed without a judge, %d were diverted, %d injected", udp, passed, diverted, injected)
	}
	s := w.status()
	if s.Counters.Released != 3 || s.Counters.Refused["no-policy-for-name"] != 1 || s.Counters.Refused["not-observed"] != 1 ||
		len(s.Live) != 1 || s.Live[0].Remote.String() != netns.ServerV4+":443" || s.Live[0].HeldMicros == 0 || !s.Live[0].Simulated || len(s.Refused) < 2 {
		t.Errorf("status: %+v", s)
	}

	// The gate is killed while one session is open and one is held.
	w.agent.Signal(syscall.SIGSTOP)
	announced := s.Counters.Announced
	held := make(chan error, 1)
	go func() {
		_, err := w.once(netns.ServerV4+":443", "shop.example", "/held")
		held <- err
	}()
	w.eventually("the held session", func() bool { s = w.status(); return s.Counters.Announced > announced })
	if s.PID == 0 || s.PID == w.gate.Pid() || syscall.Kill(s.PID, syscall.SIGKILL) != nil {
		t.Fatalf("the gate is process %d, the guard %d; expected two", s.PID, w.gate.Pid())
	}
	if _, err := kept.get("/late", ""); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an open session of the dead gate: %v; expected a reset by the next one", err)
	}
	w.never("/late")
	w.agent.Signal(syscall.SIGCONT)
	w.eventually("the next gate", func() bool { n := w.status(); return n.PID != 0 && n.PID != s.PID && n.Agents[0].Connected })
	w.good("/again")
	if err := <-held; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a session that a dead gate held: %v, expected a reset", err)
	}
	w.never("/held")

	// No agent.
	w.agent.Kill()
	w.eventually("the agent's end", func() bool { return !w.status().Agents[0].Connected })
	w.refused(netns.ServerV4+":443", "shop.example", "/alone")
	if open, _, _, passed, _ := w.d.counts(); !open || passed != w.before {
		t.Errorf("%d packets passed without a judge, open: %v", passed, open)
	}

	// The end in order.
	w.gate.Signal(syscall.SIGTERM)
	if err := w.gate.Wait(); err != nil {
		t.Error(err)
	}
	w.good("/ended")
	if open, _, _, passed, _ := w.d.counts(); open || passed == w.before {
		t.Errorf("after the end: open: %v, %d packets passed", open, passed)
	}
	var stats gate.Stats
	b, err := os.ReadFile(w.dir + "/stats.json")
	if err == nil {
		err = json.Unmarshal(b, &stats)
	}
	if err != nil || stats.Released != 1 || stats.Refused["no-agent"] != 1 {
		t.Errorf("%v %s", err, b)
	}
}

// TestDivertedGuard: what only the guard can be wrong about.
func TestDivertedGuard(t *testing.T) {
	w := newWindows(t)
	run := func(args ...string) (string, error) {
		return w.client.RunCommand(netns.Command{Args: append([]string{w.dir + "/holdfast-diverted", "latch", "gate"}, args...), Env: append(os.Environ(), "PLAYED_DRIVER="+w.dir+"/driver.sock")})
	}
	// Wrong use diverts nothing.
	w.write("cgroup.yaml", strings.Replace(strings.ReplaceAll(divertedGate, "DIR", w.dir), "machine: true", "cgroup: /a", 1))
	w.write("nofile.yaml", strings.Replace(strings.ReplaceAll(divertedGate, "DIR", w.dir), "operations: {", "operations: {audit: {file: "+w.dir+"/none/audit}, ", 1))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"exit status 2", []string{"--config", w.dir + "/cgroup.yaml", "--open-at-end"}},
		{"expected machine: true", []string{"--config", w.dir + "/cgroup.yaml", "--check"}},
		{"say --open-at-end, or --try TIME", []string{"--config", w.dir + "/gate.yaml"}},
		{"above 0", []string{"--config", w.dir + "/gate.yaml", "--try", "-1s"}},
	} {
		if _, err := run(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if out, err := run("--config", w.dir+"/gate.yaml", "--check"); err != nil || !strings.Contains(out, "good") || w.d.opened != "" {
		t.Errorf("%s %v, opened %q", out, err, w.d.opened)
	}
	// A gate that never comes up is an error, not a machine that is shut for ever.
	if _, err := run("--config", w.dir+"/nofile.yaml", "--open-at-end"); err == nil || !strings.Contains(err.Error(), "ended before it was up") || !strings.Contains(err.Error(), "none/audit") {
		t.Error(err)
	}
	w.good("/before")
	// --try ends by itself.
	if out, err := run("--config", w.dir+"/gate.yaml", "--try", "1s"); err != nil {
		t.Errorf("%v %s", err, out)
	}
	if open, _, _, _, _ := w.d.counts(); open || w.d.opened == "" {
		t.Errorf("open after --try: %v, opened %q", open, w.d.opened)
	}

	// The guard alone is killed: the gate goes on. Then the gate too: the driver
	// lets everything pass, which LIMITATIONS.md says.
	w.up()
	gatePID := w.status().PID
	if err := syscall.Kill(w.gate.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("the gate's word about its guard", func() bool { return strings.Contains(w.gate.Output(), "guard has died") })
	w.good("/guardless")
	w.refused(netns.ServerV4+":443", "other.example", "/still")
	if _, _, _, passed, _ := w.d.counts(); passed != w.before {
		t.Errorf("%d packets passed without a judge while the guard was dead", passed-w.before)
	}
	syscall.Kill(gatePID, syscall.SIGKILL)
	w.eventually("the end of the filter", func() bool { open, _, _, _, _ := w.d.counts(); return !open })
	if out, err := w.once(netns.ServerV4+":443", "other.example", "/open"); err != nil || out != "/open got 0" {
		t.Errorf("%q %v", out, err)
	}
	if _, _, _, after, _ := w.d.counts(); after == w.before {
		t.Error("no packet passed an unguarded machine; is the limitation gone?")
	}
}
