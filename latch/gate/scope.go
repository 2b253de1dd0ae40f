// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Scope says what is gated: one of its keys, and Exempt. `latch run` makes a
// cgroup of its own instead.
type Scope struct {
	Cgroup string   `yaml:"cgroup"` // path below the cgroup v2 root
	Routed []string `yaml:"routed"` // network devices whose traffic this machine routes: container bridges, tap devices
}

// Kinds of Scope, as the configuration and the command line name them.
const (
	ScopeCgroup = "cgroup"
	ScopeRouted = "routed"
)

// Kind returns which key is set; "" if none is.
func (s *Scope) Kind() string {
	if k := s.kinds(); len(k) > 0 {
		return k[0]
	}
	return ""
}

func (s *Scope) kinds() (out []string) {
	if s.Cgroup != "" {
		out = append(out, ScopeCgroup)
	}
	if len(s.Routed) > 0 {
		out = append(out, ScopeRouted)
	}
	return out
}

// Narrow puts a scope of the command line in the place of the configured one.
func (c *Config) Narrow(s Scope) error {
	if s.Kind() != "" {
		if err := s.check(); err != nil {
			return err
		}
		c.Scope = s
	}
	if c.Scope.Kind() == "" {
		return errors.New("what is to be gated? Say it with --cgroup, --routed, or scope: in the configuration (holdfast latch gate --help)")
	}
	return nil
}

func (s *Scope) check() error {
	if k := s.kinds(); len(k) > 1 {
		return fmt.Errorf("scope: %s are given, expected one; start a gate for each", strings.Join(k, " and "))
	}
	if s.Cgroup != "" && !filepath.IsLocal(strings.TrimPrefix(s.Cgroup, "/")) {
		return fmt.Errorf("scope.cgroup: got %q, expected a path below the cgroup root without dots", s.Cgroup)
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
