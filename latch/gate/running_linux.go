// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"holdfast/latch/hold/cgroupskb"
	"holdfast/latch/ops"
)

// OpenScope gates what the configuration's scope names.
func OpenScope(c *Config) (Running, error) {
	s := &c.Scope
	kind := s.Kind()
	if kind == "" {
		return nil, errors.New("no scope: the configuration does not say what is to be gated")
	}
	if kind == ScopeRouted {
		return OpenRouted(c)
	}
	root, err := cgroupskb.CgroupRoot()
	if err != nil {
		return nil, err
	}
	dir := root
	switch kind {
	case ScopeCgroup:
		dir, err = CgroupDir(s.Cgroup)
	case ScopeUnit:
		var p string
		if p, err = findUnit(s.Unit); err == nil {
			dir, err = CgroupDir(p)
		}
	}
	if err != nil {
		return nil, err
	}
	n, err := s.narrow(root)
	if err != nil {
		return nil, err
	}
	if dir == root {
		own, err := ownGroup(root)
		if err != nil {
			return nil, err
		}
		n.ExemptGroups = append(n.ExemptGroups, own)
	}
	g, err := openNarrow(c, dir, n)
	if err != nil {
		return nil, err
	}
	g.what = s.String()
	return g, nil
}

// narrow resolves names to what the hold takes.
func (s *Scope) narrow(root string) (n cgroupskb.Narrow, err error) {
	if n.Users, err = userIDs(s.Users); err != nil {
		return n, fmt.Errorf("scope.users: %w", err)
	}
	if n.ExemptUsers, err = userIDs(s.Exempt.Users); err != nil {
		return n, fmt.Errorf("scope.exempt.users: %w", err)
	}
	if n.NetNS = s.NetNS; n.NetNS != "" && !strings.Contains(n.NetNS, "/") {
		n.NetNS = "/run/netns/" + n.NetNS
	}
	n.ExemptPorts = s.Exempt.Ports
	groups := append([]string(nil), s.Exempt.Cgroups...)
	for _, u := range s.Exempt.Units {
		p, err := findUnit(u)
		if err != nil {
			return n, fmt.Errorf("scope.exempt.units: %w", err)
		}
		groups = append(groups, p)
	}
	for _, g := range groups {
		n.ExemptGroups = append(n.ExemptGroups, filepath.Join(root, g))
	}
	return n, nil
}

func userIDs(names []string) (out []uint32, err error) {
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			u, err := user.Lookup(name)
			if err != nil {
				return nil, err
			}
			if id, err = strconv.ParseUint(u.Uid, 10, 32); err != nil {
				return nil, err
			}
		}
		out = append(out, uint32(id))
	}
	return out, nil
}

// findUnit asks the running systemd where a unit's cgroup is, and falls back to
// where it puts one that says nothing about it.
func findUnit(unit string) (string, error) {
	p, err := unitPath(unit)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return p, nil
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--value", "-p", "ControlGroup", "-p", "Slice", "--", unit).Output()
	if err != nil {
		return p, nil
	}
	for _, l := range strings.Fields(string(out)) {
		switch {
		case strings.HasPrefix(l, "/") && l != "/":
			return l, nil // it runs
		case strings.HasSuffix(l, ".slice") && !strings.HasSuffix(unit, ".slice"):
			return slicePath(strings.TrimSuffix(l, ".slice")) + "/" + unit, nil
		}
	}
	return p, nil
}

// ownGroup is a cgroup that has this process and nobody else, to be exempted: a
// gate does not hold itself. As a systemd service it has one; otherwise one is made.
func ownGroup(root string) (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for _, l := range strings.Split(string(b), "\n") {
		if p, ok := strings.CutPrefix(l, "0::"); ok && strings.HasSuffix(p, ".service") && os.Getenv("INVOCATION_ID") != "" {
			return filepath.Join(root, p), nil
		}
	}
	old, _ := filepath.Glob(filepath.Join(root, "holdfast", "gate-*"))
	for _, d := range old {
		os.Remove(d) // fails, as it should, while a gate is inside
	}
	dir, err := cgroupskb.MakeCgroup(fmt.Sprintf("holdfast/gate-%d", os.Getpid()))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return "", fmt.Errorf("move the gate to a cgroup of its own: %w", err)
	}
	return dir, nil
}

// Live implements Running.
func (r *Routed) Live() (func(ops.Pair) bool, error) {
	return nil, errors.New("this machine does not keep the connections that it routes")
}

// Live implements Running.
func (s *Scoped) Live() (func(ops.Pair) bool, error) {
	there, err := ops.Established(s.dir)
	return func(p ops.Pair) bool { return there[p] }, err
}

// Where implements Running.
func (r *Routed) Where() string { return "devices " + strings.Join(r.devices, ", ") }

// End implements Running.
func (r *Routed) End(open bool) error { return r.Close(open) }

// Where implements Running.
func (s *Scoped) Where() string {
	if s.what != "" {
		return s.what
	}
	return s.dir
}

// End implements Running.
func (s *Scoped) End(open bool) error {
	if open {
		return s.closeOpen()
	}
	return s.Close()
}
