// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"holdfast/latch/binder"
	"holdfast/latch/ops"
	"holdfast/latch/rendezvous"
)

// Config is the gate's configuration file. See ParseConfig for its text form.
type Config struct {
	// Services by server name (SNI); a name that is not listed is refused.
	Services map[string]Service `yaml:"services"`
	// Plain lists destinations of TCP connections that are not gated, unless
	// they begin like TLS (names belong to the adversary, who can lead a client
	// here): ADDRESS[/BITS][:PORT], an IPv6 address with port in brackets.
	Plain []Destination `yaml:"plain"`
	// PlainTLS lists destinations where TLS is not gated either.
	PlainTLS []Destination `yaml:"plain-tls"`
	// Resolvers are the DNS servers that UDP and TCP may reach: ADDRESS[:PORT].
	Resolvers []Destination `yaml:"resolvers"`
	Scope     Scope         `yaml:"scope"`
	// Deadline is the longest time from the ClientHello to the release; after
	// it the connection is reset. Default 5s, at most 1m.
	Deadline time.Duration `yaml:"deadline"`
	Limits   Limits        `yaml:"limits"`
	// NATS says how the gate proves to NATS servers who it is.
	NATS rendezvous.NATSAccess `yaml:"nats"`
	// Proxy is where programs reach `latch proxy`.
	Proxy []ProxyListener `yaml:"proxy"`
	// Operations is what an operator holds of the running gate.
	Operations ops.Config `yaml:"operations"`
	// Client is this machine's own side of mutual sessions.
	Client *ClientConfig `yaml:"client"`

	unit, executable string // claims about the gated programs
	watch            func(*Decision)
	dial             func(ctx context.Context, network, address string) (net.Conn, error) // to agents; nil: as the system does
}

// Service says how sessions of one server name are judged.
type Service struct {
	Agents []Address `yaml:"agents"` // tcp:HOST:PORT or unix:PATH; whichever saw the session answers; nats:HOST:PORT[/PREFIX]: all agents on that rendezvous
	Trust  string    `yaml:"trust"`  // trust file; relative to the configuration file
	// Collateral is the folder of `holdfast attest collateral fetch`; likewise.
	// Evidence of confidential virtual machines needs it, nothing else does.
	Collateral string `yaml:"collateral"`
	Policy     string `yaml:"policy"` // policy file; relative to the configuration file
	Grade      Grade  `yaml:"grade"`  // hello (default), share, or mutual: this machine gives evidence too
}

// Limits bound what the gate keeps.
type Limits struct {
	Connections int `yaml:"connections"` // that wait for a verdict at once; default 16,384
}

const (
	defaultDeadline    = 5 * time.Second
	maxDeadline        = time.Minute
	defaultConnections = 16384
	maxConnections     = 1 << 20
)

// LoadConfig reads and checks the file; its relative paths become paths from
// the working directory.
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
		s.Trust, s.Policy = below(path, s.Trust), below(path, s.Policy)
		if s.Collateral != "" {
			s.Collateral = below(path, s.Collateral)
		}
		c.Services[n] = s
	}
	return c, nil
}

func below(file, p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(filepath.Dir(file), p)
}

// ParseConfig reads the YAML text of a configuration. Unknown keys, a missing
// or malformed value, and a second document are errors.
func ParseConfig(b []byte) (*Config, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	var c Config
	if err := d.Decode(&c); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the configuration is empty; expected at least services:")
		}
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document, expected one")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return &c, nil
}

func (c *Config) check() error {
	if c.Deadline == 0 {
		c.Deadline = defaultDeadline
	}
	if c.Deadline < 0 || c.Deadline > maxDeadline {
		return fmt.Errorf("deadline: got %v, expected more than 0 and at most %v", c.Deadline, maxDeadline)
	}
	if c.Limits.Connections == 0 {
		c.Limits.Connections = defaultConnections
	}
	if c.Limits.Connections < 0 || c.Limits.Connections > maxConnections {
		return fmt.Errorf("limits.connections: got %d, expected 1 to %d", c.Limits.Connections, maxConnections)
	}
	if err := c.Scope.check(); err != nil {
		return err
	}
	if len(c.Services) == 0 {
		return errors.New("services: is missing; every TLS connection would be refused")
	}
	for _, n := range c.names() {
		s := c.Services[n]
		if err := checkName(n); err != nil {
			return fmt.Errorf("services: %w", err)
		}
		if len(s.Agents) == 0 || s.Trust == "" || s.Policy == "" {
			return fmt.Errorf("services.%s: agents, trust and policy are all needed", n)
		}
		if len(s.Agents) > 64 {
			return fmt.Errorf("services.%s: %d agents, expected at most 64", n, len(s.Agents))
		}
		if s.Grade == 0 {
			s.Grade = Grade(binder.Hello)
			c.Services[n] = s
		}
	}
	if c.Client != nil {
		if err := c.Client.check(); err != nil {
			return err
		}
	} else if c.mutual() {
		return errors.New("client: is missing; a service has grade: mutual, for which this machine must give evidence")
	}
	if err := c.Operations.Check(); err != nil {
		return err
	}
	for i := range c.Proxy {
		if err := c.Proxy[i].check(); err != nil {
			return fmt.Errorf("proxy[%d]: %w", i, err)
		}
	}
	for i, r := range c.Resolvers {
		if !r.Prefix.IsSingleIP() {
			return fmt.Errorf("resolvers: got %v, expected one address", r.Prefix)
		}
		if r.Port == 0 {
			c.Resolvers[i].Port = 53
		}
	}
	return nil
}

func (c *Config) names() []string {
	var out []string
	for n := range c.Services {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// checkName accepts a DNS name as it stands in SNI: lower case, no final dot.
func checkName(n string) error {
	if n == "" || len(n) > 253 || n != strings.ToLower(n) || strings.HasSuffix(n, ".") || strings.ContainsAny(n, " /:*_") || net.ParseIP(n) != nil {
		return fmt.Errorf("name %q: expected the server name as clients send it: lower case, no wildcard, no address, no final dot", n)
	}
	return nil
}

// Address is where an agent listens.
type Address struct{ Network, Addr string }

func (a Address) String() string { return a.Network + ":" + a.Addr }

// UnmarshalYAML reads tcp:HOST:PORT, unix:PATH or nats:HOST:PORT[/PREFIX].
func (a *Address) UnmarshalYAML(n *yaml.Node) error {
	var s string
	if err := n.Decode(&s); err != nil {
		return err
	}
	network, addr, _ := strings.Cut(s, ":")
	switch network {
	case "tcp":
		h, p, err := net.SplitHostPort(addr)
		if port, err2 := strconv.ParseUint(p, 10, 16); err != nil || err2 != nil || port == 0 || h == "" {
			return fmt.Errorf("line %d: agent %q: expected tcp:HOST:PORT", n.Line, s)
		}
	case "unix":
		if addr == "" {
			return fmt.Errorf("line %d: agent %q: expected unix:PATH", n.Line, s)
		}
	case "nats":
		if _, _, err := rendezvous.ParseAddress(addr); err != nil {
			return fmt.Errorf("line %d: agent %q: %w", n.Line, s, err)
		}
	default:
		return fmt.Errorf("line %d: agent %q: expected tcp:HOST:PORT, unix:PATH or nats:HOST:PORT/PREFIX", n.Line, s)
	}
	*a = Address{network, addr}
	return nil
}

// Grade is a binder grade in the configuration.
type Grade binder.Grade

// UnmarshalYAML reads hello, share or mutual.
func (g *Grade) UnmarshalYAML(n *yaml.Node) error {
	var s string
	if err := n.Decode(&s); err != nil {
		return err
	}
	b, ok := binder.ParseGrade(s)
	if !ok {
		return fmt.Errorf("line %d: grade %q: expected hello, share or mutual", n.Line, s)
	}
	*g = Grade(b)
	return nil
}

// Destination is a prefix and a port (0: any).
type Destination struct {
	Prefix netip.Prefix
	Port   uint16
}

// UnmarshalYAML reads ADDRESS[/BITS][:PORT]; an IPv6 address with a port
// stands in brackets: [2001:db8::/32]:443.
func (d *Destination) UnmarshalYAML(n *yaml.Node) error {
	var s string
	if err := n.Decode(&s); err != nil {
		return err
	}
	got, err := parseDestination(s)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*d = got
	return nil
}

func parseDestination(s string) (d Destination, err error) {
	bad := fmt.Errorf("destination %q: expected ADDRESS[/BITS][:PORT], with IPv6 and a port in brackets: [ADDRESS/BITS]:PORT", s)
	host, port := s, ""
	if inner, ok := strings.CutPrefix(s, "["); ok {
		var rest string
		if host, rest, ok = strings.Cut(inner, "]"); !ok {
			return d, bad
		}
		if rest != "" {
			if port, ok = strings.CutPrefix(rest, ":"); !ok || port == "" {
				return d, bad
			}
		}
	} else if strings.Count(s, ":") == 1 {
		if host, port, _ = strings.Cut(s, ":"); port == "" {
			return d, bad
		}
	}
	if port != "" {
		p, err := strconv.ParseUint(port, 10, 16)
		if err != nil || p == 0 {
			return d, bad
		}
		d.Port = uint16(p)
	}
	if strings.Contains(host, "/") {
		if d.Prefix, err = netip.ParsePrefix(host); err != nil {
			return Destination{}, bad
		}
		if d.Prefix != d.Prefix.Masked() {
			return Destination{}, fmt.Errorf("destination %q: bits are set behind the prefix; expected %v", s, d.Prefix.Masked())
		}
	} else {
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" {
			return Destination{}, bad
		}
		d.Prefix = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
	}
	if d.Prefix.Addr().Is4In6() {
		return Destination{}, fmt.Errorf("destination %q: write IPv4 prefixes as IPv4", s)
	}
	return d, nil
}

// String is the inverse of parsing.
func (d Destination) String() string {
	s := d.Prefix.String()
	if d.Prefix.IsSingleIP() {
		s = d.Prefix.Addr().String()
	}
	if d.Port == 0 {
		return s
	}
	if d.Prefix.Addr().Is6() {
		s = "[" + s + "]"
	}
	return s + ":" + strconv.Itoa(int(d.Port))
}
