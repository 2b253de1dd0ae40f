// SPDX-License-Identifier: Apache-2.0

// Package watch is the client's side of batch mode: it records the TLS
// sessions of a control group's programs, holds nothing, and confirms from the
// agents' manifests that each session's receiver was attested. What stays
// unconfirmed is an alarm, and if the configuration says so the connection is
// ended. Call [LoadConfig], then [Open].
//
// It detects, it does not prevent: when a session is found to be false, its
// request has been read already.
package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"holdfast/latch/gate"
)

// Config is the watcher's configuration file.
type Config struct {
	// Services by server name (SNI); a session with another name is an alarm.
	Services map[string]Service `yaml:"services"`
	// Plain lists destinations that are not watched.
	Plain []gate.Destination `yaml:"plain"`
	Scope struct {
		Cgroup string `yaml:"cgroup"` // path below the cgroup v2 root
	} `yaml:"scope"`
	// Deadline is how long after a session began a manifest must list it:
	// twice the agents' interval and a second is right. Default 11s.
	Deadline time.Duration `yaml:"deadline"`
	// Action on an alarm: alarm (default) writes to the log; kill also ends the
	// connection, if it is still there.
	Action string `yaml:"action"`
}

// Service says who vouches for sessions of one server name.
type Service struct {
	Agents []gate.Address `yaml:"agents"` // tcp:HOST:PORT or unix:PATH
	Trust  string         `yaml:"trust"`  // trust file; relative to the configuration file
	Policy string         `yaml:"policy"` // policy file; relative to the configuration file
	// Collateral is the folder of `holdfast attest collateral fetch`, or empty; likewise.
	Collateral string `yaml:"collateral"`
}

// Example is a configuration with every key. A test parses it.
const Example = `services:
  shop.example:
    agents: [tcp:192.0.2.10:7443, tcp:192.0.2.11:7443]
    trust: trust.yaml
    policy: policy.yaml
    collateral: /var/lib/holdfast/collateral   # for SEV-SNP and TDX
plain: [127.0.0.0/8]
scope: {cgroup: /system.slice/shop.service}
deadline: 11s                       # twice the agents' interval and a second
action: alarm                       # or kill
`

// LoadConfig reads and checks the file.
func LoadConfig(path string) (*Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := ParseConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for n, s := range c.Services {
		for _, p := range []*string{&s.Trust, &s.Policy, &s.Collateral} {
			if *p != "" && !filepath.IsAbs(*p) {
				*p = filepath.Join(filepath.Dir(path), *p)
			}
		}
		c.Services[n] = s
	}
	return c, nil
}

// ParseConfig reads the YAML text. Unknown keys are errors.
func ParseConfig(b []byte) (*Config, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	c := new(Config)
	if err := d.Decode(c); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the configuration is empty; expected at least services:")
		}
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document, expected one")
	}
	if c.Deadline == 0 {
		c.Deadline = 11 * time.Second
	}
	switch {
	case len(c.Services) == 0:
		return nil, errors.New("services: is missing; every session would be an alarm")
	case c.Deadline < 0 || c.Deadline > time.Hour:
		return nil, fmt.Errorf("deadline: got %v, expected more than 0 and at most 1h", c.Deadline)
	case c.Action != "" && c.Action != "alarm" && c.Action != "kill":
		return nil, fmt.Errorf("action: got %q, expected alarm or kill", c.Action)
	}
	for n, s := range c.Services {
		if n == "" || n != strings.ToLower(n) || strings.HasSuffix(n, ".") {
			return nil, fmt.Errorf("services: name %q: expected the server name as clients send it, in lower case", n)
		}
		if len(s.Agents) == 0 || s.Trust == "" || s.Policy == "" {
			return nil, fmt.Errorf("services.%s: agents, trust and policy are all needed", n)
		}
		for _, a := range s.Agents {
			if a.Network == "nats" {
				return nil, fmt.Errorf("services.%s: agent %s: manifests come over a connection to the agent, not over a rendezvous", n, a)
			}
		}
	}
	return c, nil
}
