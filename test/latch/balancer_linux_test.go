// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// cluster is a client's machine, a load balancer and three backends, each
// with a real nginx and an agent; a gate is on the client's machine.
//
//	client 10.88.0.1 ── 10.88.0.2 balancer 10.88.i.1 ── 10.88.i.2 backend i
type cluster struct {
	t                *testing.T
	n                *netns.Net
	client, balancer *netns.Namespace
	backends         []*backend
	dir, bin, helper string
	gated            string
	nats             *netns.Process
	haproxy, gate    *netns.Process
}

type backend struct {
	i       int
	ns      *netns.Namespace
	group   string // of the agent's own machine; the service is below
	service string
	nginx   *netns.Process
	agent   *netns.Process
}

const (
	balancerIP = "10.88.0.2"
	natsPort   = "4222"
)

// The balancer's ports, and the backends' that they lead to.
var fronts = []struct{ name, port, to, option string }{
	{"plain", "443", "8443", ""},
	{"v1", "444", "8444", " send-proxy"},
	{"v2", "445", "8444", " send-proxy-v2"},
}

func (b *backend) ip() string { return fmt.Sprintf("10.88.%d.2", b.i) }

// newCluster starts everything but the gate.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	host.Need(t, "root", "netns", "cgroup2", "bpf", "cgroup-bpf", "nginx", "haproxy", "nats-server")
	c := &cluster{t: t, n: netns.Test(t), dir: t.TempDir(), bin: netns.Binary(t)}
	l := &lab{t: t, dir: c.dir}
	l.certificate()
	var err error
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c.helper, err = os.Executable()
	must(err)
	c.client, err = c.n.Namespace("client")
	must(err)
	c.balancer, err = c.n.Namespace("balancer")
	must(err)
	must(c.balancer.Forward())
	must(c.n.Join(netns.End{In: c.client, Device: "eth0", Addresses: []string{"10.88.0.1/24"}}, netns.End{In: c.balancer, Device: "eth0", Addresses: []string{balancerIP + "/24"}}))
	must(c.client.Route("0.0.0.0/0", balancerIP))
	c.gated, err = c.n.Group("gated")
	must(err)
	l.helper = c.helper
	out, err := c.client.RunCommand(netns.Command{Args: []string{c.bin, "attest", "simulated-root", "--name", "cluster", "--algorithm", "ES256",
		"--root", c.path("root.yaml"), "--trust", c.path("trust.yaml")}})
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for i := 1; i <= 3; i++ {
		b := &backend{i: i}
		b.ns, err = c.n.Namespace("backend")
		must(err)
		must(c.n.Join(netns.End{In: c.balancer, Device: "eth" + strconv.Itoa(i), Addresses: []string{fmt.Sprintf("10.88.%d.1/24", i)}},
			netns.End{In: b.ns, Device: "eth0", Addresses: []string{b.ip() + "/24"}}))
		must(b.ns.Route("0.0.0.0/0", fmt.Sprintf("10.88.%d.1", i)))
		b.group, err = c.n.Group("machine" + strconv.Itoa(i))
		must(err)
		b.service, err = c.n.Group(fmt.Sprintf("machine%d/service", i))
		must(err)
		for _, ns := range []*netns.Namespace{b.ns, c.balancer} {
			must(ns.Sysctl("net/core/somaxconn", 4096))
		}
		c.backends = append(c.backends, b)
	}
	c.startNATS()
	nginx, err := host.LookPath("nginx")
	must(err)
	nginx, err = filepath.EvalSymlinks(nginx)
	must(err)
	for _, b := range c.backends {
		c.write(fmt.Sprintf("agent%d.yaml", b.i), fmt.Sprintf(`listeners:
  - {address: "0.0.0.0:8443", service: shop, executables: [%[1]q]}
  - {address: "0.0.0.0:8444", service: shop, executables: [%[1]q], proxy-protocol: true}
channel:
  listen: ["tcp:%[2]s:7443"]
  rendezvous: ["nats:%[3]s:%[4]s/lab"]
  limits: {per-second: 100000, burst: 100000}
cgroup: %[5]q
provider:
  simulated: {name: b%[6]d, algorithm: ES256, latency: 1ms, root: %[7]q}
`, nginx, b.ip(), balancerIP, natsPort, b.group, b.i, c.path("root.yaml")))
		c.startAgent(b)
		c.startNginx(b, nginx)
	}
	digest := c.sha256(nginx)
	c.write("policy.yaml", "version: 1\nenvironments: [SIMULATED/cluster/b1, SIMULATED/cluster/b2, SIMULATED/cluster/b3]\nsignatures: [ES256]\nsimulated: allow\nclass: machine\n"+
		"groups: [X25519MLKEM768, x25519, secp256r1]\nclaims:\n  services: [shop]\n  executables: ["+digest+"]\n")
	c.startBalancer()
	t.Cleanup(func() {
		if t.Failed() {
			for _, b := range c.backends {
				t.Logf("agent %d: %s", b.i, tail(b.agent.Output(), 4000))
			}
			t.Logf("balancer: %s\nNATS: %s", tail(c.haproxy.Output(), 2000), tail(c.nats.Output(), 2000))
			if c.gate != nil {
				t.Logf("gate: %s", tail(c.gate.Output(), 6000))
			}
		}
	})
	return c
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (c *cluster) path(file string) string { return filepath.Join(c.dir, file) }

func (c *cluster) write(file, text string) {
	c.t.Helper()
	if err := os.WriteFile(c.path(file), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) sha256(file string) string {
	c.t.Helper()
	out, err := c.client.Run("sha256sum", file)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.Fields(out)[0]
}

func (c *cluster) start(ns *netns.Namespace, cmd netns.Command) *netns.Process {
	c.t.Helper()
	if cmd.Time == 0 {
		cmd.Time = 5 * time.Minute
	}
	cmd.Keep = 64 << 20 // a line for each session is counted
	p, err := ns.Start(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c *cluster) wait(ns *netns.Namespace, p *netns.Process, address string) {
	c.t.Helper()
	if err := ns.WaitTCP(address, 20*time.Second); err != nil {
		c.t.Fatalf("nothing listens at %s: %v\n%s", address, err, p.Output())
	}
}

func (c *cluster) startNATS() {
	c.t.Helper()
	program, err := host.LookPath("nats-server")
	if err != nil {
		c.t.Fatal(err)
	}
	c.nats = c.start(c.balancer, netns.Command{Args: []string{program, "-a", "0.0.0.0", "-p", natsPort}})
	c.wait(c.balancer, c.nats, "127.0.0.1:"+natsPort)
}

func (c *cluster) startAgent(b *backend) {
	c.t.Helper()
	b.agent = c.start(b.ns, netns.Command{Args: []string{c.bin, "--log-format", "json", "latch", "agent", "--config", c.path(fmt.Sprintf("agent%d.yaml", b.i))}, Group: b.group})
	c.wait(b.ns, b.agent, b.ip()+":7443")
}

func (c *cluster) startNginx(b *backend, program string) {
	c.t.Helper()
	dir := c.path(fmt.Sprintf("nginx%d", b.i))
	if err := os.Mkdir(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	c.write(fmt.Sprintf("nginx%d.conf", b.i), fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log stderr crit; user root;
events { worker_connections 8192; }
http {
  access_log %[1]s/access.log; keepalive_timeout 0;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  ssl_certificate %[2]s; ssl_certificate_key %[3]s; ssl_protocols TLSv1.3;
  server { listen 8443 ssl backlog=4096; return 200 "hello from b%[4]d\n"; }
  server { listen 8444 ssl proxy_protocol backlog=4096; return 200 "hello from b%[4]d for $proxy_protocol_addr\n"; }
}
`, dir, c.path("cert.pem"), c.path("key.pem"), b.i))
	b.nginx = c.start(b.ns, netns.Command{Args: []string{program, "-e", "stderr", "-c", c.path(fmt.Sprintf("nginx%d.conf", b.i))}, Group: b.service})
	c.wait(b.ns, b.nginx, "127.0.0.1:8443")
}

func (c *cluster) startBalancer() {
	c.t.Helper()
	conf := "global\n  maxconn 4000\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
	for _, f := range fronts {
		conf += fmt.Sprintf("frontend %s\n  bind %s:%s\n  default_backend %[1]s\nbackend %[1]s\n  balance roundrobin\n", f.name, balancerIP, f.port)
		for _, b := range c.backends {
			conf += fmt.Sprintf("  server b%d %s:%s%s\n", b.i, b.ip(), f.to, f.option)
		}
	}
	c.write("haproxy.cfg", conf)
	program, err := host.LookPath("haproxy")
	if err != nil {
		c.t.Fatal(err)
	}
	c.haproxy = c.start(c.balancer, netns.Command{Args: []string{program, "-db", "-f", c.path("haproxy.cfg")}})
	c.wait(c.balancer, c.haproxy, balancerIP+":443")
}

// startGate starts a gate that finds evidence at these addresses.
func (c *cluster) startGate(agents ...string) {
	c.t.Helper()
	root, err := host.CgroupRoot()
	if err != nil {
		c.t.Fatal(err)
	}
	os.Remove(c.path("gate.ready"))
	c.write("gate.yaml", fmt.Sprintf("services:\n  %s:\n    agents: [%s]\n    trust: trust.yaml\n    policy: policy.yaml\ndeadline: 4s\nscope: {cgroup: %q}\n",
		name, strings.Join(agents, ", "), strings.TrimPrefix(c.gated, root)))
	c.gate = c.start(c.client, netns.Command{Args: []string{c.bin, "--log-format", "json", "latch", "gate", "--config", c.path("gate.yaml"), "--ready", c.path("gate.ready")}})
	for range 4000 {
		if _, err := os.Stat(c.path("gate.ready")); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Fatalf("the gate is not up\n%s", c.gate.Output())
}

func (c *cluster) stopGate() {
	c.t.Helper()
	if err := c.gate.Stop(); err != nil {
		c.t.Fatalf("gate: %v", err)
	}
}

// list are the agents' addresses.
func (c *cluster) list() (out []string) {
	for _, b := range c.backends {
		out = append(out, fmt.Sprintf(`"tcp:%s:7443"`, b.ip()))
	}
	return out
}

const onNATS = `"nats:` + balancerIP + ":" + natsPort + `/lab"`

// A reply is the client's port of a session, which may be used again, and the
// backend that answered it; "" for a failed one.
type reply struct {
	port uint16
	who  string
}

// load opens count sessions through one front, 32 at a time.
func (c *cluster) load(port string, count int) []reply {
	c.t.Helper()
	p := c.loadStart(port, count)
	if err := p.Wait(); err != nil {
		c.t.Fatalf("%v %s", err, tail(p.Output(), 2000))
	}
	return c.loadResult(p)
}

func (c *cluster) loadStart(port string, count int) *netns.Process {
	c.t.Helper()
	return c.start(c.client, netns.Command{Args: []string{c.helper, "helper", "balanced", balancerIP + ":" + port, name, strconv.Itoa(count), "32"}, Group: c.gated})
}

var answered3 = regexp.MustCompile(`^hello from (b[123])( for 10\.88\.0\.1)?$`)

func (c *cluster) loadResult(p *netns.Process) (out []reply) {
	c.t.Helper()
	failed := 0
	for _, line := range strings.Split(strings.TrimSpace(p.Output()), "\n") {
		at, text, ok := strings.Cut(line, " ")
		n, err := strconv.ParseUint(at, 10, 16)
		if !ok || err != nil {
			c.t.Fatalf("line %q", line)
		}
		if m := answered3.FindStringSubmatch(text); m != nil {
			out = append(out, reply{uint16(n), m[1]})
		} else {
			out = append(out, reply{uint16(n), ""})
			if failed++; failed <= 3 {
				c.t.Logf("%s: %s", at, text)
			}
		}
	}
	return out
}

// released is what the gate's log says of released connections: how many, and
// the environments by the client's port, which may be used again.
func (c *cluster) released() (n int, out map[uint16][]string) {
	c.t.Helper()
	out = map[uint16][]string{}
	for _, line := range strings.Split(c.gate.Output(), "\n") {
		var e struct{ Msg, Local, Environment string }
		if json.Unmarshal([]byte(line), &e) != nil || e.Msg != "released" {
			continue
		}
		a, err := netip.ParseAddrPort(e.Local)
		if err != nil {
			c.t.Fatal(err)
		}
		out[a.Port()] = append(out[a.Port()], strings.TrimPrefix(e.Environment, "SIMULATED/cluster/"))
		n++
	}
	return n, out
}

// requests is how many requests the backends' logs have.
func (c *cluster) requests() (n int) {
	c.t.Helper()
	for _, b := range c.backends {
		raw, err := os.ReadFile(c.path(fmt.Sprintf("nginx%d/access.log", b.i)))
		if err != nil {
			c.t.Fatal(err)
		}
		n += strings.Count(string(raw), "GET / ")
	}
	return n
}

// check demands that every answered session was released on evidence of the
// backend that answered, and that no request reached a backend unreleased. It
// returns the number of good ones.
func (c *cluster) check(got []reply) (good int) {
	c.t.Helper()
	seen := map[string]int{}
	var n int
	var rel map[uint16][]string
	for range 100 { // the last lines of the log are under way
		if n, rel = c.released(); n >= len(got) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, a := range got {
		if a.who == "" {
			continue
		}
		good++
		seen[a.who]++
		i := slices.Index(rel[a.port], a.who)
		if i < 0 {
			c.t.Errorf("a session from port %d was answered by %s; what else was released there is on evidence of %q", a.port, a.who, rel[a.port])
			continue
		}
		rel[a.port] = slices.Delete(rel[a.port], i, i+1) // a release for each
	}
	if len(seen) != 3 {
		c.t.Errorf("sessions by backend: %v, expected all three", seen)
	}
	if r := c.requests(); r > n {
		c.t.Errorf("%d requests reached the backends, %d connections were released", r, n)
	}
	return good
}

func (c *cluster) forgetRequests() {
	for _, b := range c.backends {
		os.Truncate(c.path(fmt.Sprintf("nginx%d/access.log", b.i)), 0)
	}
}

func sessions() int {
	if os.Getenv("HOLDFAST_TEST_FULL") != "" {
		return 4000
	}
	return 400
}

// TestLoadBalancer: sessions go through HAProxy to three backends. The gate
// finds the evidence of each at the agent that saw it, from a list of agents
// and through NATS, without and with a PROXY header of each version.
func TestLoadBalancer(t *testing.T) {
	c := newCluster(t)
	for _, way := range []struct {
		name   string
		agents []string
	}{{"list", c.list()}, {"nats", []string{onNATS}}} {
		for _, f := range fronts {
			t.Run(way.name+"/"+f.name, func(t *testing.T) {
				c := *c
				c.t = t
				c.forgetRequests()
				c.startGate(way.agents...)
				start := time.Now()
				got := c.load(f.port, sessions())
				took := time.Since(start)
				if good := c.check(got); good != sessions() {
					t.Errorf("%d of %d sessions were answered", good, sessions())
				}
				t.Logf("%d sessions in %v, none crossed", len(got), took.Round(time.Millisecond))
				c.stopGate()
			})
		}
	}
}

// TestRendezvousKilled: while sessions come, an agent and then the NATS server
// are killed and started again. Nothing is released on no or on another's
// evidence; afterwards every session is answered again.
func TestRendezvousKilled(t *testing.T) {
	c := newCluster(t)
	for _, way := range []struct {
		name   string
		agents []string
	}{{"list", c.list()}, {"nats", []string{onNATS}}} {
		t.Run(way.name, func(t *testing.T) {
			c.t = t
			c.forgetRequests()
			c.startGate(way.agents...)
			p := c.loadStart("443", 3*sessions())
			time.Sleep(150 * time.Millisecond)
			b := c.backends[1]
			b.agent.Signal(unix.SIGKILL)
			<-b.agent.Done()
			time.Sleep(300 * time.Millisecond)
			c.startAgent(b)
			if way.name == "nats" {
				time.Sleep(300 * time.Millisecond)
				c.nats.Signal(unix.SIGKILL)
				<-c.nats.Done()
				time.Sleep(300 * time.Millisecond)
				c.startNATS()
			}
			if err := p.Wait(); err != nil {
				t.Fatalf("%v %s", err, tail(p.Output(), 2000))
			}
			got := c.loadResult(p)
			good := c.check(got)
			t.Logf("%d of %d sessions were answered while things were killed; the others were refused", good, len(got))
			if good == len(got) {
				t.Log("the kills hit no session in flight")
			}
			// The service recovers by itself.
			deadline := time.Now().Add(15 * time.Second)
			for {
				got := c.load("443", 60)
				again := 0
				for _, a := range got {
					if a.who != "" {
						again++
					}
				}
				if again == 60 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("after the restart %d of 60 sessions were answered", again)
				}
				time.Sleep(200 * time.Millisecond)
			}
			c.stopGate()
		})
	}
}
