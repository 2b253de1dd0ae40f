// SPDX-License-Identifier: Apache-2.0

// Package chain sets the whole chain up for demo, benchmarks and tests, from
// the holdfast program alone, as an operator would: a software TPM, measured
// launch, an enrolled attestation key, policy and configuration files, an
// agent beside the service, and what a gate needs. Call [Start] after the
// service's files exist and before it runs; then start the service in
// [Chain.ServerGroup], and gate clients with the file [Chain.GateConfig].
package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// Environment is the name under which the machine is enrolled.
const Environment = "demo-server"

// measuredPCR takes the measurements of the launcher. PCRs 8 to 15 are the
// operating system's, and no reset but that of the machine clears them.
const measuredPCR = 14

// Options of a chain.
type Options struct {
	Binary string // the holdfast program
	Dir    string // exists; gets the files. The TPM's part of it is private
	Net    *netns.Net
	Client *netns.Namespace
	Server *netns.Namespace

	ServiceName string // SNI and service name
	Address     string // HOST:PORT of the protected listener
	AgentHost   string // address of the server on which the agent listens
	Executable  string // of the service
	Config      string // file or folder of the service's configuration, "" for none

	AK string // ML-DSA-65 or ECC-P256
	// Simulated replaces the TPM by a simulated processor with this latency.
	Simulated time.Duration
	Log       func(format string, args ...any)

	// Control opens the gate's control socket, Chain.Control.
	Control bool
}

// agentPort is where the agent waits for gates.
const agentPort = "7443"

// Chain is a running chain.
type Chain struct {
	o                Options
	tpm, agent, gate *netns.Process
	machineGroup     string
	agentGroup       string
	serverGroup      string
	clientGroup      string
	measured         []string
}

// Start sets the chain up. What it starts ends with the Net.
func Start(ctx context.Context, o Options) (c *Chain, err error) {
	if o.AK == "" {
		o.AK = "ML-DSA-65"
	}
	c = &Chain{o: o}
	if err := os.MkdirAll(c.path("private"), 0o700); err != nil {
		return nil, err
	}
	// The agent observes the group "machine", in which it must be itself.
	if c.machineGroup, err = o.Net.Group("machine"); err != nil {
		return nil, err
	}
	if c.agentGroup, err = o.Net.Group("machine/agent"); err != nil {
		return nil, err
	}
	if c.serverGroup, err = o.Net.Group("machine/service"); err != nil {
		return nil, err
	}
	if c.clientGroup, err = o.Net.Group("gated"); err != nil {
		return nil, err
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"start the TPM", c.startTPM},
		{"measure what is about to run", c.measure},
		{"enrol the attestation key", c.enroll},
		{"write policy and configuration", c.writeFiles},
		{"start the agent", c.startAgent},
	}
	for _, s := range steps {
		began := time.Now()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.what, err)
		}
		o.Log("%s: %.0f ms", s.what, time.Since(began).Seconds()*1e3)
	}
	return c, nil
}

func (c *Chain) path(name string) string { return filepath.Join(c.o.Dir, name) }

// TPM is how others name the TPM (the --tpm flag). Only root reaches it.
func (c *Chain) TPM() string { return "swtpm:unix:" + c.path("private/tpm.sock") }

// KeyFile is the attestation key's file, encrypted by the TPM.
func (c *Chain) KeyFile() string { return c.path("private/ak") }

// Control is the gate's control socket, "" unless Options.Control was set.
func (c *Chain) Control() string {
	if !c.o.Control {
		return ""
	}
	return c.path("private/gate.sock")
}

// Agent is the agent's address as gates name it.
func (c *Chain) Agent() string { return "tcp:" + c.o.AgentHost + ":" + agentPort }

// GateConfig is the file for `holdfast latch gate` and `latch run`.
func (c *Chain) GateConfig() string { return c.path("gate.yaml") }

// ServerGroup is the control group in which the service must run.
func (c *Chain) ServerGroup() string { return c.serverGroup }

// ClientGroup is the control group that [Chain.StartGate] gates.
func (c *Chain) ClientGroup() string { return c.clientGroup }

// AgentOutput is the agent's log.
func (c *Chain) AgentOutput() string { return c.agent.Output() }

// Logs is what gate and agent printed.
func (c *Chain) Logs() string {
	out := "agent: " + c.agent.Output()
	if c.gate != nil {
		out += "\ngate: " + c.gate.Output()
	}
	return out
}

// run runs the holdfast program on the server's machine.
func (c *Chain) run(args ...string) (string, error) {
	return c.o.Server.Run(append([]string{c.o.Binary}, args...)...)
}

func (c *Chain) startTPM() (err error) {
	if c.o.Simulated > 0 {
		return nil
	}
	c.tpm, err = c.o.Server.Start(netns.Command{Time: 10 * time.Minute,
		Args: []string{c.o.Binary, "tpm", "serve", "--ephemeral", "--startup", "clear", "--swtpm", "unix:" + c.path("private/tpm.sock")}})
	if err != nil {
		return err
	}
	return waitFor(c.tpm, c.path("private/tpm.sock"))
}

// waitFor waits for a file or socket that says that a program is ready.
func waitFor(p *netns.Process, file string) error {
	for range 2000 {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("it ended: %w", p.Wait())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s is not there after 10 s: %s", file, p.Output())
}

// cgroupPath is a group's name below the cgroup v2 root.
func cgroupPath(dir string) (string, error) {
	root, err := host.CgroupRoot()
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(dir, root)
	if !ok {
		return "", fmt.Errorf("group %s is not below %s", dir, root)
	}
	return rest, nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (c *Chain) startAgent() (err error) {
	c.agent, err = c.o.Server.Start(netns.Command{Args: []string{c.o.Binary, "latch", "agent", "--config", c.path("agent.yaml")}, Group: c.agentGroup, Time: 10 * time.Minute})
	if err != nil {
		return err
	}
	_, address, _ := strings.Cut(c.Agent(), ":")
	if err := c.o.Server.WaitTCP(address, 20*time.Second); err != nil {
		return fmt.Errorf("the agent does not listen: %w\n%s", err, c.agent.Output())
	}
	return nil
}

// StartGate starts a gate on ClientGroup, for clients that run in there. It
// logs warnings only: a line for each release would be measured too.
func (c *Chain) StartGate() (err error) {
	ready := c.path("gate.ready")
	c.gate, err = c.o.Client.Start(netns.Command{Args: []string{c.o.Binary, "--log-level", "warn", "latch", "gate", "--config", c.GateConfig(), "--ready", ready}, Time: 10 * time.Minute})
	if err != nil {
		return err
	}
	return waitFor(c.gate, ready)
}

// Processes names the chain's own processes.
func (c *Chain) Processes() map[string]int {
	out := map[string]int{}
	for name, p := range map[string]*netns.Process{"reporter": c.tpm, "agent": c.agent, "gate": c.gate} {
		if p != nil {
			out[name] = p.Pid()
		}
	}
	return out
}

// Stop ends gate, agent and TPM in this order and reports what did not end well.
func (c *Chain) Stop() error {
	var err error
	for _, p := range []*netns.Process{c.gate, c.agent, c.tpm} {
		if p != nil {
			err = errors.Join(err, p.Stop())
		}
	}
	return err
}
