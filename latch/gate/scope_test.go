// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"strings"
	"testing"
)

// Paths that systemd 252 gives to these units, with no Slice= in them.
func TestUnitPath(t *testing.T) {
	for unit, want := range map[string]string{
		"shop.service": "/system.slice/shop.service", "user.slice": "/user.slice", "user-1000.slice": "/user.slice/user-1000.slice",
		"a-b-c.slice": "/a.slice/a-b.slice/a-b-c.slice", "getty@tty1.service": "/system.slice/system-getty.slice/getty@tty1.service",
		"systemd-fsck@dev-sda.service": `/system.slice/system-systemd\x2dfsck.slice/systemd-fsck@dev-sda.service`, "-.slice": "/",
	} {
		if got, err := unitPath(unit); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", unit, got, err, want)
		}
	}
	for _, unit := range []string{"", "shop", ".service", "a/b.service", "shop.timer"} {
		if got, err := unitPath(unit); err == nil {
			t.Errorf("%q: %s", unit, got)
		}
	}
}

func TestScopeRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{cgroup: /a, machine: true}":    "cgroup and machine",
		"{cgroup: ../x}":                 "without dots",
		"{unit: shop}":                   "NAME.service",
		"{routed: [eth0], users: [a]}":   "neither users nor netns",
		"{routed: [lo]}":                 "loopback",
		"{exempt: {cgroups: [/../x]}}":   "scope.exempt.cgroups",
		"{machine: true, everything: 1}": "everything",
	} {
		_, err := ParseConfig([]byte("services: {a.test: {agents: [\"unix:/a\"], trust: t, policy: p}}\nscope: " + text + "\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestNarrow(t *testing.T) {
	c := &Config{Scope: Scope{Cgroup: "/a", Exempt: Exempt{Ports: []uint16{22}}}}
	if err := c.Narrow(Scope{}); err != nil || c.Scope.Cgroup != "/a" {
		t.Errorf("%v %+v", err, c.Scope)
	}
	if err := c.Narrow(Scope{Machine: true}); err != nil || c.Scope.Kind() != ScopeMachine || len(c.Scope.Exempt.Ports) != 1 {
		t.Errorf("%v %+v", err, c.Scope)
	}
	if err := (&Config{}).Narrow(Scope{}); err == nil {
		t.Error("no scope at all was accepted")
	}
}
