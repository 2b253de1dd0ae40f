// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Scope says what is gated. Cgroup, Unit, Routed and Machine exclude each other;
// Users and NetNS narrow a cgroup or, alone, stand for all their sockets on this
// machine. `latch run` makes a cgroup of its own instead.
type Scope struct {
	Cgroup  string   `yaml:"cgroup"`  // path below the cgroup v2 root
	Unit    string   `yaml:"unit"`    // systemd unit: NAME.service, NAME.slice, NAME.scope
	Users   []string `yaml:"users"`   // names or numbers: only sockets that these users made
	NetNS   string   `yaml:"netns"`   // name below /run/netns, or path: only sockets of this network namespace
	Machine bool     `yaml:"machine"` // every socket of the machine but what Exempt names
	Exempt  Exempt   `yaml:"exempt"`
	Routed  []string `yaml:"routed"` // network devices whose traffic this machine routes: container bridges, tap devices
}

// Exempt says what of a scope is not gated.
type Exempt struct {
	Cgroups []string      `yaml:"cgroups"` // paths below the cgroup v2 root
	Units   []string      `yaml:"units"`
	Users   []string      `yaml:"users"`
	Ports   []uint16      `yaml:"ports"` // connections that listeners on these local ports accept
	UDP     []Destination `yaml:"udp"`   // destinations of UDP that pass: time servers, DHCP
}

// Kinds of Scope, as logs name them.
const (
	ScopeCgroup  = "cgroup"
	ScopeUnit    = "unit"
	ScopeMachine = "machine"
	ScopeUsers   = "users"
	ScopeNetNS   = "netns"
	ScopeRouted  = "routed"
)

// Kind returns the key that says most; "" if none is set.
func (s *Scope) Kind() string {
	if k := s.kinds(); len(k) > 0 {
		return k[0]
	}
	switch {
	case len(s.Users) > 0:
		return ScopeUsers
	case s.NetNS != "":
		return ScopeNetNS
	}
	return ""
}

func (s *Scope) kinds() (out []string) {
	for _, k := range []struct {
		name string
		set  bool
	}{{ScopeCgroup, s.Cgroup != ""}, {ScopeUnit, s.Unit != ""}, {ScopeMachine, s.Machine}, {ScopeRouted, len(s.Routed) > 0}} {
		if k.set {
			out = append(out, k.name)
		}
	}
	return out
}

// Narrow puts a scope of the command line in the place of the configured one.
// The configured exemptions stay.
func (c *Config) Narrow(s Scope) error {
	if s.Kind() != "" {
		s.Exempt = c.Scope.Exempt
		if err := s.check(); err != nil {
			return err
		}
		c.Scope = s
	}
	if c.Scope.Kind() == "" {
		return errors.New("what is to be gated? Say it with --cgroup, --unit, --user, --netns, --machine, --routed, or scope: in the configuration (holdfast latch gate --help)")
	}
	return nil
}

func (s *Scope) check() error {
	if k := s.kinds(); len(k) > 1 {
		return fmt.Errorf("scope: %s are given, expected one; start a gate for each", strings.Join(k, " and "))
	}
	if len(s.Routed) > 0 && (len(s.Users) > 0 || s.NetNS != "") {
		return errors.New("scope: routed goes with neither users nor netns: routed packets have no socket here")
	}
	for key, list := range map[string][]string{"scope.cgroup": {s.Cgroup}, "scope.exempt.cgroups": s.Exempt.Cgroups} {
		for _, p := range list {
			if p != "" && !filepath.IsLocal(strings.TrimPrefix(p, "/")) {
				return fmt.Errorf("%s: got %q, expected a path below the cgroup root without dots", key, p)
			}
		}
	}
	for key, list := range map[string][]string{"scope.unit": {s.Unit}, "scope.exempt.units": s.Exempt.Units} {
		for _, u := range list {
			if _, err := unitPath(u); u != "" && err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	for _, d := range s.Routed {
		if d == "" || len(d) > 15 || strings.ContainsAny(d, " /*") {
			return fmt.Errorf("scope.routed: got %q, expected the name of a network device", d)
		}
		if d == "lo" {
			return errors.New("scope.routed: lo is the loopback device; name a cgroup to gate programs of this machine")
		}
	}
	return nil
}

// unitPath is where systemd puts a system unit's cgroup when nothing in the
// unit says otherwise (systemd.slice(5), systemd.special(7)).
func unitPath(unit string) (string, error) {
	dot := strings.LastIndexByte(unit, '.')
	if dot <= 0 || strings.ContainsAny(unit, "/ ") {
		return "", fmt.Errorf("unit %q: expected NAME.service, NAME.scope or NAME.slice", unit)
	}
	name, kind := unit[:dot], unit[dot+1:]
	switch kind {
	case "slice":
		return slicePath(name), nil
	case "service", "scope", "socket", "mount":
		if prefix, _, ok := strings.Cut(name, "@"); ok && kind == "service" {
			// Instances of a template have a slice of their own, whose name escapes "-".
			return slicePath("system-"+strings.ReplaceAll(prefix, "-", `\x2d`)) + "/" + unit, nil
		}
		return "/system.slice/" + unit, nil
	}
	return "", fmt.Errorf("unit %q: expected NAME.service, NAME.scope or NAME.slice", unit)
}

// slicePath expands a slice's name: a-b.slice is inside of a.slice.
func slicePath(name string) string {
	if name == "-" {
		return "/"
	}
	out, at := "", ""
	for i, part := range strings.Split(name, "-") {
		if i > 0 {
			at += "-"
		}
		at += part
		out += "/" + at + ".slice"
	}
	return out
}

// String names the scope for people.
func (s *Scope) String() string {
	var out []string
	for _, x := range []struct{ name, value string }{{"cgroup", s.Cgroup}, {"unit", s.Unit}, {"users", strings.Join(s.Users, ", ")}, {"network namespace", s.NetNS}, {"devices", strings.Join(s.Routed, ", ")}} {
		if x.value != "" {
			out = append(out, x.name+" "+x.value)
		}
	}
	if s.Machine {
		out = append(out, "the machine")
	}
	return strings.Join(out, ", ")
}
