// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// gates is the number of gates, each with its client process.
const gates = 4

// deadline is the gates' own.
const deadline = 5 * time.Second

// window is a time in which a program was dead: from its end, seen, to the
// start of the next one.
type window struct{ From, To time.Time }

// part is a program that may be killed and started again.
type part struct {
	name  string
	start func() (*netns.Process, error)

	mu   sync.Mutex
	p    *netns.Process
	dead []window
	// killing: it is down because we want it to be.
	killing bool
}

func (x *part) begin() error {
	p, err := x.start()
	if err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	x.mu.Lock()
	x.p, x.killing = p, false
	x.mu.Unlock()
	return nil
}

// watch says what ended by itself, which must not happen, and starts it again
// as a service manager would, until ctx ends.
func (x *part) watch(ctx context.Context, died func(string)) {
	for {
		x.mu.Lock()
		p, killing := x.p, x.killing
		x.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-p.Done():
			if killing {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			x.mu.Lock()
			killing = x.killing
			x.mu.Unlock()
			if killing || ctx.Err() != nil {
				continue
			}
			out := p.Output()
			died(fmt.Sprintf("%s ended by itself: %s", x.name, out[max(0, len(out)-300):]))
			from := time.Now()
			time.Sleep(200 * time.Millisecond)
			x.mu.Lock()
			x.dead = append(x.dead, window{from, time.Now()})
			x.mu.Unlock()
			if err := x.begin(); err != nil {
				died(err.Error())
				return
			}
		}
	}
}

// kill ends the program at once and starts it again after a pause.
func (x *part) kill(pause time.Duration) error {
	x.mu.Lock()
	p := x.p
	x.killing = true
	x.mu.Unlock()
	p.Kill()
	<-p.Done()
	from := time.Now()
	time.Sleep(pause)
	x.mu.Lock()
	x.dead = append(x.dead, window{from, time.Now()})
	x.mu.Unlock()
	return x.begin()
}

func (x *part) windows() []window {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]window(nil), x.dead...)
}

// rss is the program's resident memory in KiB, 0 if it is not there.
func (x *part) rss() int64 {
	x.mu.Lock()
	p := x.p
	x.mu.Unlock()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Pid()))
	var size, resident int64
	if err != nil {
		return 0
	}
	fmt.Sscan(string(b), &size, &resident)
	return resident * int64(os.Getpagesize()) / 1024
}

// stage is everything that runs.
type stage struct {
	bin, exe, dir string
	life          time.Duration // of every process
	net           *netns.Net
	client, thief *netns.Namespace
	server        [2]*netns.Namespace
	tpms          [2]*part
	agents        [2]*part
	gates         [gates]*part
	servers       [2]*netns.Process
	adversary     *netns.Process
	clients       [gates]*lines
	scope         [gates]string // control groups of the clients
}

// Addresses: wire i joins hosts 10.78.i.1 and 10.78.i.2.
func address(wire, end int) string { return fmt.Sprintf("10.78.%d.%d", wire, end) }

// source is the address of client k.
func source(k int) string { return address(1, 10+k) }

// serverName of server i, also its service.
func serverName(i int) string { return "soak-" + string(rune('a'+i)) + ".test" }

// build starts everything but the clients.
func (s *stage) build() error {
	steps := []struct {
		what string
		do   func() error
	}{{"hosts", s.hosts}, {"TPMs and keys", s.keys}, {"configuration", s.config}, {"agents", s.startAgents}, {"servers", s.startServers},
		{"adversary", s.startAdversary}, {"gates", s.startGates}}
	for _, x := range steps {
		if err := x.do(); err != nil {
			return fmt.Errorf("%s: %w", x.what, err)
		}
	}
	return nil
}

func (s *stage) hosts() (err error) {
	for name, ns := range map[string]**netns.Namespace{"client": &s.client, "a": &s.server[0], "b": &s.server[1], "thief": &s.thief} {
		if *ns, err = s.net.Namespace(name); err != nil {
			return err
		}
	}
	var sources []string
	for k := range gates {
		sources = append(sources, source(k)+"/24")
	}
	for _, w := range [][2]netns.End{
		{{In: s.client, Device: "eth1", Addresses: append([]string{address(1, 1) + "/24"}, sources...)}, {In: s.server[0], Device: "eth1", Addresses: []string{address(1, 2) + "/24"}}},
		{{In: s.client, Device: "eth2", Addresses: []string{address(2, 1) + "/24"}}, {In: s.server[1], Device: "eth2", Addresses: []string{address(2, 2) + "/24"}}},
		{{In: s.client, Device: "eth3", Addresses: []string{address(3, 1) + "/24"}}, {In: s.thief, Device: "eth3", Addresses: []string{address(3, 2) + "/24"}}},
		{{In: s.thief, Device: "eth4", Addresses: []string{address(4, 1) + "/24"}}, {In: s.server[0], Device: "eth4", Addresses: []string{address(4, 2) + "/24"}}},
		{{In: s.thief, Device: "eth5", Addresses: []string{address(5, 1) + "/24"}}, {In: s.server[1], Device: "eth5", Addresses: []string{address(5, 2) + "/24"}}},
	} {
		if err := s.net.Join(w[0], w[1]); err != nil {
			return err
		}
	}
	// Clients come from addresses of wire 1 wherever they go.
	for _, r := range []struct {
		ns  *netns.Namespace
		via string
	}{{s.server[1], address(2, 1)}, {s.thief, address(3, 1)}} {
		if err := r.ns.Route(address(1, 0)+"/24", r.via); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// run starts one of our programs.
func (s *stage) run(ns *netns.Namespace, group string, args ...string) (*netns.Process, error) {
	return ns.Start(netns.Command{Args: args, Group: group, Time: s.life})
}

func (s *stage) keys() error {
	for i := range s.tpms {
		dir := s.path("tpm-" + serverName(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		sock := dir + "/sock"
		s.tpms[i] = &part{name: "tpm " + serverName(i), start: func() (*netns.Process, error) {
			return s.run(s.server[i], "", s.bin, "tpm", "serve", "--ephemeral", "--startup", "clear", "--swtpm", "unix:"+sock)
		}}
		if err := s.tpms[i].begin(); err != nil {
			return err
		}
		if err := waitFile(s.tpms[i].p, sock); err != nil {
			return err
		}
		if out, err := s.server[i].Run(s.bin, "attest", "enroll", "--tpm", "swtpm:unix:"+sock, "--name", serverName(i), "--key", dir+"/ak", "--secret", dir+"/secret", "--trust", s.path("trust.yaml")); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

func waitFile(p *netns.Process, file string) error {
	for range 6000 {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("it ended: %w", p.Wait())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s is not there after 30 s: %s", file, p.Output())
}

func (s *stage) config() error {
	b, err := os.ReadFile(s.exe)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	services := "services:\n"
	for i := range s.server {
		group, err := s.net.Group("machine-" + serverName(i))
		if err != nil {
			return err
		}
		dir := s.path("tpm-" + serverName(i))
		if err := s.write("agent-"+serverName(i)+".yaml", fmt.Sprintf(`listeners: [{address: "0.0.0.0:443", service: %s, executables: ["%s"]}]
channel: {listen: ["tcp:0.0.0.0:7443"]}
cgroup: %q
provider: {tpm: {address: "swtpm:unix:%s/sock", key: %s/ak, secret: %s/secret, pcrs: ["sha256:14"]}}
`, serverName(i), s.exe, group, dir, dir, dir)); err != nil {
			return err
		}
		if err := s.write("policy-"+serverName(i)+".yaml", fmt.Sprintf(`environments: [%s]
signatures: [ML-DSA-65]
groups: [X25519MLKEM768, x25519]
class: machine
measurements: none
claims: {services: [%s], executables: ["%s"]}
`, serverName(i), serverName(i), hex.EncodeToString(sum[:]))); err != nil {
			return err
		}
		services += fmt.Sprintf("  %s: {agents: [\"tcp:%s:7443\"], trust: trust.yaml, policy: policy-%s.yaml}\n", serverName(i), address(1+i, 2), serverName(i))
	}
	for k := range s.gates {
		if err := s.write(fmt.Sprintf("gate-%d.yaml", k), fmt.Sprintf("%sdeadline: %v\noperations: {control: %s, audit: {file: %s}}\n", services, deadline, s.control(k), s.audit(k))); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) control(k int) string { return s.path(fmt.Sprintf("gate-%d.sock", k)) }
func (s *stage) audit(k int) string   { return s.path(fmt.Sprintf("audit-%d", k)) }

func (s *stage) write(name, text string) error {
	return os.WriteFile(s.path(name), []byte(text), 0o644)
}

func (s *stage) startAgents() error {
	for i := range s.agents {
		group, err := s.net.Group("machine-" + serverName(i))
		if err != nil {
			return err
		}
		s.agents[i] = &part{name: "agent " + serverName(i), start: func() (*netns.Process, error) {
			return s.run(s.server[i], group, s.bin, "--log-level", "warn", "latch", "agent", "--config", s.path("agent-"+serverName(i)+".yaml"))
		}}
		if err := s.agents[i].begin(); err != nil {
			return err
		}
		if err := s.server[i].WaitTCP("127.0.0.1:7443", 30*time.Second); err != nil {
			return fmt.Errorf("%w: %s", err, s.agents[i].p.Output())
		}
	}
	return nil
}

func (s *stage) startServers() error {
	for i := range s.servers {
		group, err := s.net.Group("machine-" + serverName(i))
		if err != nil {
			return err
		}
		if s.servers[i], err = s.run(s.server[i], group, s.exe, "soak-helper", "server", "0.0.0.0:443", s.path("cert.json"), s.path("served-"+serverName(i))); err != nil {
			return err
		}
		if err := s.servers[i].WaitOutput("ready", 30*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) startAdversary() (err error) {
	if s.adversary, err = s.run(s.thief, "", s.exe, "soak-helper", "adversary", s.path("cert.json"), address(4, 2)+":443", address(4, 2)+":7443", address(5, 2)+":7443"); err != nil {
		return err
	}
	return s.adversary.WaitOutput("ready", 30*time.Second)
}

func (s *stage) startGates() error {
	root, err := host.CgroupRoot()
	if err != nil {
		return err
	}
	for k := range s.gates {
		if s.scope[k], err = s.net.Group(fmt.Sprintf("gated-%d", k)); err != nil {
			return err
		}
		ready := s.path(fmt.Sprintf("ready-%d", k))
		s.gates[k] = &part{name: fmt.Sprintf("gate %d", k), start: func() (*netns.Process, error) {
			os.Remove(ready)
			return s.run(s.client, "", s.bin, "--log-level", "warn", "latch", "gate", "--config", s.path(fmt.Sprintf("gate-%d.yaml", k)), "--cgroup", strings.TrimPrefix(s.scope[k], root), "--ready", ready)
		}}
		if err := s.gates[k].begin(); err != nil {
			return err
		}
		if err := waitFile(s.gates[k].p, ready); err != nil {
			return err
		}
	}
	return nil
}

// startClient starts client k inside its gated group.
func (s *stage) startClient(k int, p plan) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	s.clients[k] = &lines{}
	s.clients[k].p, err = s.client.Start(netns.Command{Args: []string{s.exe, "soak-helper", "client", string(b)}, Group: s.scope[k], Time: s.life, Stdout: s.clients[k], Stderr: os.Stderr})
	return err
}

// lines takes a client's reports in.
type lines struct {
	p    *netns.Process
	mu   sync.Mutex
	rest []byte
	last counters
	slow []slow
	most int64 // slowest attempt since it was asked for
	fail string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		var x slow
		var c counters
		switch {
		case json.Unmarshal(line, &x) == nil && x.Kind != "":
			l.slow = append(l.slow, x)
		case json.Unmarshal(line, &c) == nil && c.Tried != nil:
			l.last = c
			l.most = max(l.most, c.SlowMs)
			if c.LastFail != "" {
				l.fail = c.LastFail
			}
		}
		l.rest = append(l.rest[:0], rest...)
	}
}

// now returns the latest counters, and the slowest attempt since the last call.
func (l *lines) now() (c counters, slowest int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slowest, l.most = l.most, 0
	return l.last, slowest
}
