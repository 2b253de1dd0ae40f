// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Running is a gate on a scope of any kind.
type Running interface {
	Ready(ctx context.Context, d time.Duration)
	Stats() Stats
	// Where names what is gated, for people.
	Where() string
	// End stops the gate. What was not released stays shut, and so does the
	// scope while it may have clients, unless open is set.
	End(open bool) error
}

// OpenScope gates what the configuration's scope names.
func OpenScope(c *Config) (Running, error) {
	switch c.Scope.Kind() {
	case ScopeRouted:
		return OpenRouted(c)
	case ScopeCgroup:
		dir, err := CgroupDir(c.Scope.Cgroup)
		if err != nil {
			return nil, err
		}
		return Open(c, dir)
	}
	return nil, errors.New("no scope: the configuration does not say what is to be gated")
}

// Where implements Running.
func (r *Routed) Where() string { return "devices " + strings.Join(r.devices, ", ") }

// End implements Running.
func (r *Routed) End(open bool) error { return r.Close(open) }

// Where implements Running.
func (s *Scoped) Where() string { return s.dir }

// End implements Running.
func (s *Scoped) End(open bool) error {
	if open {
		return s.closeOpen()
	}
	return s.Close()
}
