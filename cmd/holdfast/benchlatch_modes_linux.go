// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdfast/bench/latch"
	"holdfast/bench/latch/baseline"
	"holdfast/latch/hold/cgroupskb"
	"holdfast/test/netns"
)

// modeChain is the latch in another mode around the benchmark's server: mutual
// (both machines attest), or batch (a watcher in the place of the gate). The
// security processors are SIMULATED.
type modeChain struct {
	server, client string // control groups
	agent, gate    *netns.Process
}

func (c *modeChain) ServerGroup() string { return c.server }
func (c *modeChain) ClientGroup() string { return c.client }
func (c *modeChain) Control() string     { return "" }
func (c *modeChain) Logs() string        { return c.agent.Output() + c.gate.Output() }
func (c *modeChain) Processes() map[string]int {
	return map[string]int{"agent": c.agent.Pid(), "gate": c.gate.Pid()}
}

// startMode writes the files of a mode and starts agent and gate or watcher.
func startMode(ctx context.Context, mode, self, dir string, latency time.Duration, n *netns.Net, client, server *netns.Namespace, address string) (latch.Chain, error) {
	c := new(modeChain)
	var machine, agentGroup string
	var err error
	for _, g := range []struct {
		name string
		dir  *string
	}{{"gated", &c.client}, {"machine", &machine}, {"machine/service", &c.server}, {"machine/agent", &agentGroup}} {
		if *g.dir, err = n.Group(g.name); err != nil {
			return nil, err
		}
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	root, err := cgroupskb.CgroupRoot()
	if err != nil {
		return nil, err
	}
	exe, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	path := func(f string) string { return filepath.Join(dir, f) }
	for _, who := range []string{"machine", "client"} {
		if out, err := client.RunCommand(netns.Command{Args: []string{self, "attest", "simulated-root", "--name", who, "--algorithm", "ES256", "--root", path(who + ".root"), "--trust", path(who + ".yaml")}}); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
	}
	unit := strings.TrimPrefix(c.client, root)
	policy := func(env, service, more string) string {
		return fmt.Sprintf("version: 1\nenvironments: [SIMULATED/%s/x]\nsignatures: [ES256]\nsimulated: allow\nclass: machine\nmeasurements: none\ngroups: [X25519MLKEM768, x25519]\nclaims: {services: [%s], %s}\n", env, service, more)
	}
	option, gateMore, grade := "batch: true", "", "hello"
	if mode == "mutual" {
		option = fmt.Sprintf("clients: {trust: %q, policy: %q}", path("client.yaml"), path("clients-policy.yaml"))
		gateMore = fmt.Sprintf("client:\n  name: bench\n  provider: {simulated: {name: x, algorithm: ES256, latency: %v, root: %q}}\n", latency, path("client.root"))
		grade = "mutual"
	}
	conf := fmt.Sprintf("services:\n  %s:\n    agents: [\"tcp:%s:7443\"]\n    trust: machine.yaml\n    policy: policy.yaml\n", baseline.ServiceName, host)
	if mode == "mutual" {
		conf += "    grade: " + grade + "\n" + gateMore
	}
	conf += fmt.Sprintf("scope: {cgroup: %q}\n", unit)
	for f, text := range map[string]string{
		"agent.yaml": fmt.Sprintf("listeners:\n  - {address: %q, service: bench, executables: [%q], %s}\nchannel:\n  listen: [\"tcp:%s:7443\"]\n  limits: {per-second: 100000, burst: 100000}\ncgroup: %q\nprovider:\n  simulated: {name: x, algorithm: ES256, latency: %v, root: %q}\n",
			address, self, option, host, machine, latency, path("machine.root")),
		"policy.yaml":         policy("machine", "bench", fmt.Sprintf("executables: [%x]", sha256.Sum256(exe))),
		"clients-policy.yaml": policy("client", "bench", fmt.Sprintf("units: [%q]", unit)),
		"mode.yaml":           conf,
	} {
		if err := os.WriteFile(path(f), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if c.agent, err = server.Start(netns.Command{Args: []string{self, "latch", "agent", "--config", path("agent.yaml")}, Group: agentGroup, Time: 10 * time.Minute}); err != nil {
		return nil, err
	}
	if err := server.WaitTCP(host+":7443", 10*time.Second); err != nil {
		return nil, fmt.Errorf("the agent: %w: %s", err, c.agent.Output())
	}
	verb := "watch"
	if mode == "mutual" {
		verb = "gate"
	}
	if c.gate, err = client.Start(netns.Command{Args: []string{self, "--log-level", "warn", "latch", verb, "--config", path("mode.yaml"), "--ready", path("ready")}, Time: 10 * time.Minute}); err != nil {
		return nil, err
	}
	for range 1000 {
		if _, err := os.Stat(path("ready")); err == nil {
			return c, ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, fmt.Errorf("latch %s is not up: %s", verb, c.gate.Output())
}

// seedLatency is the report time of the seed's hardware, for modes whose
// processor is simulated.
const seedLatency = 3369 * time.Microsecond
