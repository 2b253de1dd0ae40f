// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// name is the server name of every genuine service here.
const name = "service.test"

// Ports of the servers, each with a service of its own at the agent.
const (
	nginxPort   = "443"
	opensslPort = "4433"
	goPort      = "8443"
	lightyPort  = "4434"
	javaPort    = "4435"
)

// lab is a client's and a server's machine, an agent on the server's and a
// gate on the client's.
type lab struct {
	t              testing.TB
	n              *netns.Net
	client, server *netns.Namespace
	router         *netns.Namespace // between them, with the gate; nil: the gate is on the client's machine
	scope          string           // of the gate's configuration: "" or routed
	extra          string           // further keys of the scope
	inNetNS        bool             // the scope is narrowed to the client's network namespace
	dir, bin       string
	helper         string // this test's program, which plays clients and servers
	gated, service string // control groups
	agentGroup     string
	servicePath    string // the service's, below the root
	latency        time.Duration
	reports        string // of the agent's configuration
	agent, gate    *netns.Process
	edit           func(file, text string) string // of configuration files before they are written
	seen           int                            // bytes of the gate's log that were read
}

type option func(*lab)

// routed puts the gate on a router between client and server.
func routed(l *lab) { l.scope = "routed" }

// slow makes each report take this long, which the agent accepts.
func slow(d time.Duration) option {
	return func(l *lab) { l.latency, l.reports = d, "reports: {timeout: 1m}\n" }
}

// newLab starts agent and gate. Servers are started by the tests.
func newLab(t testing.TB, opts ...option) *lab {
	t.Helper()
	host.Need(t, "root", "netns", "cgroup2", "bpf", "cgroup-bpf")
	l := &lab{t: t, dir: t.TempDir(), bin: netns.Binary(t), latency: time.Millisecond}
	for _, o := range opts {
		o(l)
	}
	if l.scope == "routed" {
		host.Need(t, "nfqueue")
		l.n, l.client, l.router, l.server = netns.Routed(t)
	} else {
		l.n, l.client, l.server = netns.Pair(t)
	}
	var err error
	if l.helper, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	var machine, agent string
	for _, g := range []struct {
		name string
		dir  *string
	}{{"gated", &l.gated}, {"machine", &machine}, {"machine/service", &l.service}, {"machine/agent", &agent}} {
		if *g.dir, err = l.n.Group(g.name); err != nil {
			t.Fatal(err)
		}
	}
	l.certificate()
	root, err := host.CgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	l.servicePath = strings.TrimPrefix(l.service, root)
	l.write("agent.yaml", fmt.Sprintf(`listeners:
%s
channel:
  listen: ["tcp:0.0.0.0:7443"]
  limits: {per-second: 100000, burst: 100000}
cgroup: %q
provider:
  simulated: {name: lab, algorithm: ES256, latency: %v, trust: %q}
%s`, l.listeners(), machine, l.latency, l.path("trust.yaml"), l.reports))
	l.write("policy.yaml", "version: 1\nenvironments: [SIMULATED/lab/lab]\nsignatures: [ES256]\nsimulated: allow\nclass: machine\n"+
		"groups: [X25519MLKEM768, x25519, secp256r1, secp384r1]\nclaims:\n  services: [nginx, openssl, go, lighttpd, java]\n  executables: ["+strings.Join(l.digests(), ", ")+"]\n")
	l.write("gate.yaml", fmt.Sprintf(`services:
  %s:
    agents: ["tcp:%s:7443"]
    trust: trust.yaml
    policy: policy.yaml
  orphan.test:
    agents: ["tcp:%s:7999"]
    trust: trust.yaml
    policy: policy.yaml
plain: ["%s:8080"]
resolvers: ["%s"]
deadline: 5s
scope: %s
`, name, netns.ServerV4, netns.ServerV4, netns.ServerV4, netns.ServerV4, l.scopeYAML(root)))

	l.agentGroup = agent
	l.startAgent()
	l.startGate()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("agent: %s", l.agent.Output())
			t.Logf("gate: %s", l.gate.Output())
		}
	})
	return l
}

func (l *lab) startAgent() {
	l.t.Helper()
	l.agent = l.start(l.server, netns.Command{Args: []string{l.bin, "--json", "latch", "agent", "--config", l.path("agent.yaml")}, Group: l.agentGroup, Time: 5 * time.Minute})
	if err := l.server.WaitTCP("127.0.0.1:7443", time.Minute); err != nil {
		l.t.Fatalf("the agent does not listen: %v\n%s", err, l.agent.Output())
	}
}

func (l *lab) scopeYAML(root string) string {
	if l.scope == "routed" {
		return "{routed: [eth0]}"
	}
	if l.scope == "machine" {
		return "{machine: true" + l.extra + "}"
	}
	if l.inNetNS {
		l.extra = fmt.Sprintf(", netns: %q", l.client.Path())
	}
	return fmt.Sprintf("{cgroup: %q%s}", strings.TrimPrefix(l.gated, root), l.extra)
}

// gateHost is the machine that the gate runs on.
func (l *lab) gateHost() *netns.Namespace {
	if l.router != nil {
		return l.router
	}
	return l.client
}

func (l *lab) startGate() {
	l.t.Helper()
	os.Remove(l.path("gate.ready"))
	l.seen = 0
	l.gate = l.start(l.gateHost(), netns.Command{Args: []string{l.bin, "--log-format", "json", "latch", "gate", "--config", l.path("gate.yaml"),
		"--ready", l.path("gate.ready"), "--stats", l.path("stats.json")}, Time: 5 * time.Minute})
	l.waitFile(l.gate, "gate.ready")
}

// stats stops the gate and returns its counters.
func (l *lab) stats() (s struct {
	Released, Announced, Records uint64
	Refused                      map[string]uint64
}) {
	l.t.Helper()
	if err := l.gate.Stop(); err != nil {
		l.t.Fatalf("gate: %v\n%s", err, l.gate.Output())
	}
	b, err := os.ReadFile(l.path("stats.json"))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

func (l *lab) path(file string) string { return filepath.Join(l.dir, file) }

func (l *lab) write(file, text string) {
	l.t.Helper()
	if l.edit != nil {
		text = l.edit(file, text)
	}
	if err := os.WriteFile(l.path(file), []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) start(ns *netns.Namespace, c netns.Command) *netns.Process {
	l.t.Helper()
	p, err := ns.Start(c)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *lab) waitFile(p *netns.Process, file string) {
	l.t.Helper()
	for range 12000 {
		if _, err := os.Stat(l.path(file)); err == nil {
			return
		}
		select {
		case <-p.Done():
			l.t.Fatalf("it ended: %v\n%s", p.Wait(), p.Output())
		case <-time.After(5 * time.Millisecond):
		}
	}
	l.t.Fatalf("%s is not there after a minute\n%s", file, p.Output())
}

// listeners are the agent's: every server on every address.
func (l *lab) listeners() string {
	var b strings.Builder
	for _, s := range l.services() {
		for _, host := range []string{"0.0.0.0", "::"} {
			units := ""
			if s.name == "java" { // an interpreter needs a unit or control group
				units = fmt.Sprintf(", units: [%q]", l.servicePath)
			}
			fmt.Fprintf(&b, "  - {address: %q, service: %s, executables: [%q]%s}\n", net.JoinHostPort(host, s.port), s.name, s.program, units)
		}
	}
	return b.String()
}

type service struct{ name, port, program string }

func (l *lab) services() (list []service) {
	list = append(list, service{"go", goPort, l.helper})
	for _, s := range []service{{"nginx", nginxPort, "nginx"}, {"openssl", opensslPort, "openssl"}, {"lighttpd", lightyPort, "lighttpd"}, {"java", javaPort, "java"}} {
		if p, err := host.LookPath(s.program); err == nil {
			if p, err = filepath.EvalSymlinks(p); err != nil {
				l.t.Fatal(err)
			}
			list = append(list, service{s.name, s.port, p})
		}
	}
	return list
}

func (l *lab) digests() (list []string) {
	for _, s := range l.services() {
		b, err := os.ReadFile(s.program)
		if err != nil {
			l.t.Fatal(err)
		}
		h := sha256.Sum256(b)
		list = append(list, hex.EncodeToString(h[:]))
	}
	return list
}

// certificate writes a self-made root that is the server's certificate too.
func (l *lab) certificate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		l.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "other.test", "orphan.test"},
		IPAddresses: []net.IP{net.ParseIP(netns.ServerV4), net.ParseIP(netns.ServerV6)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		l.t.Fatal(err)
	}
	kd, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		l.t.Fatal(err)
	}
	l.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	l.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kd})))
}

// run runs a client on the client's machine behind the gate.
func (l *lab) run(args ...string) (string, error) { return l.runIn(l.client, args...) }

func (l *lab) runIn(ns *netns.Namespace, args ...string) (string, error) {
	return ns.RunCommand(netns.Command{Args: args, Group: l.gated, Time: 20 * time.Second})
}

// help runs a client that this test's program plays.
func (l *lab) help(args ...string) (string, error) {
	return l.run(append([]string{l.helper, "helper"}, args...)...)
}

// serve starts a server in the protected group of the server's machine.
func (l *lab) serve(port string, args ...string) *netns.Process {
	l.t.Helper()
	p := l.start(l.server, netns.Command{Args: args, Group: l.service, Time: 5 * time.Minute, Dir: l.dir})
	if err := l.server.WaitTCP("127.0.0.1:"+port, time.Minute); err != nil {
		l.t.Fatalf("%v does not listen: %v\n%s", args, err, p.Output())
	}
	return p
}

func (l *lab) serveGo(flags ...string) *netns.Process {
	l.t.Helper()
	return l.serve(goPort, append([]string{l.helper, "helper", "serve", ":" + goPort, l.path("cert.pem"), l.path("key.pem")}, flags...)...)
}

func (l *lab) serveNginx() *netns.Process {
	l.t.Helper()
	host.Need(l.t, "nginx")
	l.write("nginx.conf", fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log stderr warn; user root;
events { worker_connections 256; }
http {
  access_log off; client_max_body_size 100m;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server { listen %[2]s ssl; listen [::]:%[2]s ssl;
    ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem; ssl_protocols TLSv1.2 TLSv1.3; ssl_early_data on;
    location / { return 200 "hello from nginx\n"; } }
}
`, l.dir, nginxPort))
	p, err := host.LookPath("nginx")
	if err != nil {
		l.t.Fatal(err)
	}
	return l.serve(nginxPort, p, "-e", "stderr", "-c", l.path("nginx.conf"))
}

func (l *lab) serveLighttpd() *netns.Process {
	l.t.Helper()
	host.Need(l.t, "lighttpd")
	l.write("index.html", "hello from lighttpd\n")
	l.write("lighttpd.conf", fmt.Sprintf(`server.modules = ("mod_openssl")
server.document-root = "%[1]s"
server.port = %[2]s
index-file.names = ("index.html")
server.errorlog = "/dev/stderr"
ssl.engine = "enable"
ssl.pemfile = "%[1]s/cert.pem"
ssl.privkey = "%[1]s/key.pem"
$SERVER["socket"] == "[::]:%[2]s" { ssl.engine = "enable" }
`, l.dir, lightyPort))
	p, err := host.LookPath("lighttpd")
	if err != nil {
		l.t.Fatal(err)
	}
	return l.serve(lightyPort, p, "-D", "-f", l.path("lighttpd.conf"))
}

func (l *lab) serveOpenSSL(flags ...string) *netns.Process {
	l.t.Helper()
	host.Need(l.t, "openssl")
	return l.serve(opensslPort, append([]string{"openssl", "s_server", "-accept", opensslPort, "-cert", l.path("cert.pem"), "-key", l.path("key.pem"), "-www", "-quiet"}, flags...)...)
}

// event is a line of the gate's log.
type event struct{ Msg, Reason, Service, Detail, ID, Remote string }

// events returns what the gate has logged since the last call; it waits a
// little for the first event with one of the messages.
func (l *lab) events(msgs ...string) (list []event) {
	for range 200 {
		out := l.gate.Output()
		for _, line := range strings.Split(out[l.seen:max(l.seen, strings.LastIndexByte(out, '\n')+1)], "\n") {
			l.seen = min(len(out), l.seen+len(line)+1)
			var e event
			if json.Unmarshal([]byte(line), &e) == nil {
				for _, m := range msgs {
					if e.Msg == m {
						list = append(list, e)
					}
				}
			}
		}
		l.seen = strings.LastIndexByte(out, '\n') + 1
		if len(list) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return list
}

// forget drops what the gate has logged until now.
func (l *lab) forget() { l.seen = strings.LastIndexByte(l.gate.Output(), '\n') + 1 }
