// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"holdfast/latch/appraisal"
	"holdfast/latch/channel"
	"holdfast/latch/ops"
	"holdfast/latch/rendezvous"
)

// Config is the agent's configuration file.
type Config struct {
	Listeners []ListenerConfig `yaml:"listeners"`
	// Existing says what happens to listeners that are there when the agent
	// starts: identify (default) or refuse.
	Existing string         `yaml:"existing"`
	Channel  ChannelConfig  `yaml:"channel"`
	Provider ProviderConfig `yaml:"provider"`
	Reports  ReportsConfig  `yaml:"reports"`
	Cgroup   string         `yaml:"cgroup"` // folder to observe; default the cgroup v2 root
	Ring     int            `yaml:"ring-bytes"`
	Shares   int            `yaml:"share-window"`
	// Operations is what an operator holds of the running agent.
	Operations ops.Config `yaml:"operations"`
}

// ListenerConfig is one protected listener.
type ListenerConfig struct {
	Address     string   `yaml:"address"` // IP:PORT; 0.0.0.0 and [::] stand for every address
	Service     string   `yaml:"service"`
	Executables []string `yaml:"executables"` // absolute path or sha256:HEX
	Units       []string `yaml:"units"`       // systemd unit or cgroup path
	Users       []uint32 `yaml:"users"`       // user ids that may make the listener; default: root, or anybody in one of units
	// ProxyProtocol says that a load balancer writes a PROXY header (version 1 or
	// 2) before each connection.
	ProxyProtocol bool           `yaml:"proxy-protocol"`
	Batch         bool           `yaml:"batch"`   // list its sessions in manifests, for watchers, instead of answering gates
	Clients       *ClientsConfig `yaml:"clients"` // evidence that clients must give (mutual sessions); default: none
	Config        string         `yaml:"config"`  // file or folder whose digest is claimed, read when the agent starts
}

// ClientsConfig says which clients a service answers.
type ClientsConfig struct {
	Trust  string `yaml:"trust"`  // trust file
	Policy string `yaml:"policy"` // policy file
	// Collateral is the folder of `holdfast attest collateral fetch`; clients on
	// SEV-SNP and TDX machines need it unless the policy says collateral: optional.
	Collateral string `yaml:"collateral"`
}

// ChannelConfig says where gates reach the agent.
type ChannelConfig struct {
	Listen     []string `yaml:"listen"`      // tcp:HOST:PORT or unix:PATH
	Allow      []string `yaml:"allow"`       // address prefixes of gates; empty: everybody
	AllowUsers []uint32 `yaml:"allow-users"` // user ids, for unix sockets
	// Rendezvous are message systems on which gates call all agents:
	// nats:HOST:PORT or nats:HOST:PORT/PREFIX.
	Rendezvous []string              `yaml:"rendezvous"`
	NATS       rendezvous.NATSAccess `yaml:"nats"`
	Limits     LimitsConfig          `yaml:"limits"`
}

// LimitsConfig bounds what one gate may ask; see channel.Limits.
type LimitsConfig struct {
	Clients     int `yaml:"clients"`
	PerSecond   int `yaml:"per-second"`
	Burst       int `yaml:"burst"`
	Outstanding int `yaml:"outstanding"`
	QueueBytes  int `yaml:"queue-bytes"`
}

// ReportsConfig tunes group commit; see Options.
type ReportsConfig struct {
	Gap       time.Duration `yaml:"gap"`
	Timeout   time.Duration `yaml:"timeout"`
	Park      time.Duration `yaml:"park"`
	MaxParked int           `yaml:"max-parked"`
	MaxGroup  int           `yaml:"max-group"`
	Batch     time.Duration `yaml:"batch-interval"` // of batch services
}

// ParseConfig reads a configuration. Unknown keys are errors.
func ParseConfig(b []byte) (*Config, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	c := new(Config)
	if err := d.Decode(c); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty; listeners, channel and provider are needed")
		}
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("agent configuration: more than one YAML document")
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	return c, nil
}

func (c *Config) check() error {
	switch c.Existing {
	case "", "identify", "refuse":
	default:
		return fmt.Errorf("existing: %q, expected identify or refuse", c.Existing)
	}
	if len(c.Listeners) == 0 {
		return errors.New("listeners: none; list what the agent vouches for, such as {address: 0.0.0.0:443, service: shop}")
	}
	if len(c.Channel.Listen)+len(c.Channel.Rendezvous) == 0 {
		return errors.New("channel.listen: none; say where gates reach the agent, such as tcp:0.0.0.0:7443")
	}
	for _, r := range c.Channel.Rendezvous {
		if _, _, err := rendezvous.ParseNATS(r); err != nil {
			return fmt.Errorf("channel.rendezvous: %w", err)
		}
	}
	if err := c.Operations.Check(); err != nil {
		return err
	}
	if _, err := c.services(); err != nil {
		return err
	}
	if _, err := c.channel(); err != nil {
		return err
	}
	for _, l := range c.Channel.Listen {
		if _, _, err := ParseListen(l); err != nil {
			return fmt.Errorf("channel.listen: %w", err)
		}
	}
	r := c.Reports
	if r.Timeout < 0 || r.Park < 0 || r.MaxGroup < 0 || r.MaxParked < 0 || r.Park > time.Minute || r.Timeout > time.Minute || r.Gap > time.Second || r.Batch < 0 || r.Batch > time.Hour {
		return errors.New("reports: expected gap up to 1s, park and timeout up to 1m, and no negative counts")
	}
	return c.Provider.check()
}

func (c *Config) services() ([]Service, error) {
	var out []Service
	seen := map[netip.AddrPort]bool{}
	for i, l := range c.Listeners {
		where := fmt.Sprintf("listeners[%d]", i)
		a, err := netip.ParseAddrPort(l.Address)
		if err != nil || a.Port() == 0 || a.Addr().Zone() != "" {
			return nil, fmt.Errorf("%s: address %q, expected IP:PORT such as 0.0.0.0:443", where, l.Address)
		}
		if seen[a] {
			return nil, fmt.Errorf("%s: address %s is listed twice", where, a)
		}
		seen[a] = true
		if l.Service == "" || len(l.Service) > channel.MaxName {
			return nil, fmt.Errorf("%s: service: expected a name of 1 to %d bytes", where, channel.MaxName)
		}
		s := Service{Name: l.Service, Address: a, Units: l.Units, Users: l.Users, Proxied: l.ProxyProtocol, Batch: l.Batch}
		for _, x := range l.Executables {
			e, err := ParseExecutable(x)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			if e.Path != "" && interpreter(e.Path) && len(l.Units) == 0 {
				return nil, fmt.Errorf("%s: %s is an interpreter, which is no identity by itself: add units", where, e.Path)
			}
			s.Executables = append(s.Executables, e)
		}
		for _, u := range l.Units {
			if u == "" || len(u) > channel.MaxName {
				return nil, fmt.Errorf("%s: units: a name of %d bytes, expected 1 to %d", where, len(u), channel.MaxName)
			}
		}
		if l.Config != "" {
			if s.Config, err = digestTree(l.Config); err != nil {
				return nil, fmt.Errorf("%s: config: %w", where, err)
			}
		}
		if l.Clients != nil && l.Batch {
			return nil, fmt.Errorf("%s: clients does not go with batch: nobody waits for a verdict there", where)
		}
		if l.Clients != nil {
			if l.ProxyProtocol {
				return nil, fmt.Errorf("%s: clients does not go with proxy-protocol: the door cannot read the header", where)
			}
			if s.Clients, err = appraisal.Load(l.Clients.Trust, l.Clients.Policy, l.Clients.Collateral); err != nil {
				return nil, fmt.Errorf("%s: clients: %w", where, err)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

func (c *Config) channel() (channel.ServerOptions, error) {
	l := c.Channel.Limits
	o := channel.ServerOptions{AllowUIDs: c.Channel.AllowUsers,
		Limits: channel.Limits{Clients: l.Clients, PerSecond: l.PerSecond, Burst: l.Burst, Outstanding: l.Outstanding, Queue: l.QueueBytes}}
	if l.Clients < 0 || l.PerSecond < 0 || l.Burst < 0 || l.Outstanding < 0 || l.QueueBytes < 0 {
		return o, errors.New("channel.limits: negative")
	}
	for _, a := range c.Channel.Allow {
		p, err := netip.ParsePrefix(a)
		if err != nil {
			return o, fmt.Errorf("channel.allow: %q, expected a prefix such as 10.0.0.0/8", a)
		}
		o.Allow = append(o.Allow, p)
	}
	return o, nil
}

// ParseListen splits tcp:HOST:PORT or unix:PATH into network and address.
func ParseListen(s string) (network, addr string, err error) {
	network, addr, _ = strings.Cut(s, ":")
	switch {
	case network == "tcp":
		if _, err := netip.ParseAddrPort(addr); err != nil {
			return "", "", fmt.Errorf("%q: expected tcp:IP:PORT", s)
		}
	case network == "unix" && filepath.IsAbs(addr) && len(addr) < 108:
	default:
		return "", "", fmt.Errorf("%q: expected tcp:IP:PORT or unix:/absolute/path of at most 107 bytes", s)
	}
	return network, addr, nil
}

// digestTree is the digest of a service's configuration: SHA-256 of the file,
// or, for a folder, of the lines "HEX  NAME\n" of all files below it in order of
// their names (what sha256sum prints for them).
func digestTree(path string) ([32]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return [32]byte{}, err
	}
	if !st.IsDir() {
		return digestFile(path)
	}
	h := sha256.New()
	n := 0
	err = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if n++; n > 10000 {
			return errors.New("more than 10,000 files")
		}
		s, err := digestFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%x  %s\n", s, rel)
		return nil
	})
	var out [32]byte
	h.Sum(out[:0])
	return out, err
}

func digestFile(path string) (out [32]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return out, err
	}
	h.Sum(out[:0])
	return out, nil
}
