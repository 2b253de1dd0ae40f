// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"reflect"
	"strings"
	"testing"

	"holdfast/latch/hold/windivert"
)

// What WinDivert cannot tell apart is refused with a reason, before anything is
// diverted.
func TestDivertedRefused(t *testing.T) {
	const services = "services: {a.test: {agents: [\"unix:/a\"], trust: t, policy: p}}\n"
	for text, want := range map[string]string{
		"":                                   "expected machine: true",
		"scope: {cgroup: /a}":                "expected machine: true",
		"scope: {unit: a.service}":           "expected machine: true",
		"scope: {users: [a]}":                "expected machine: true",
		"scope: {routed: [eth1]}":            "expected machine: true",
		"scope: {machine: true, users: [a]}": "expected machine: true",
		"scope: {machine: true, netns: a}":   "expected machine: true",
		"scope: {machine: true, exempt: {cgroups: [/a]}}":      "only ports and udp",
		"scope: {machine: true, exempt: {units: [a.service]}}": "only ports and udp",
		"scope: {machine: true, exempt: {users: [a]}}":         "only ports and udp",
	} {
		c, err := ParseConfig([]byte(services + text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CheckDiverted(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	c, err := ParseConfig([]byte(strings.Replace(services, "policy: p", "policy: p, grade: mutual", 1) +
		"client: {name: a, provider: {simulated: {name: a}}}\nscope: {machine: true}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckDiverted(); err == nil || !strings.Contains(err.Error(), "mutual") {
		t.Errorf("mutual: %v", err)
	}
}

// What passes is the same list as on Linux (plainList).
func TestDivertedPlain(t *testing.T) {
	c, err := ParseConfig([]byte(`
services: {a.test: {agents: ["unix:/a"], trust: t, policy: p}}
plain: ["192.0.2.1:80"]
plain-tls: ["192.0.2.2:443"]
resolvers: [192.0.2.3]
scope: {machine: true, exempt: {ports: [3389], udp: ["192.0.2.4:123"]}}
limits: {connections: 7}
`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckDiverted(); err != nil {
		t.Error(err)
	}
	p := func(s string) windivert.Plain {
		d, err := parseDestination(s)
		if err != nil {
			t.Fatal(err)
		}
		return windivert.Plain{Prefix: d.Prefix, Port: d.Port}
	}
	plain, tls, tcp, udp, ntp := p("192.0.2.1:80"), p("192.0.2.2:443"), p("192.0.2.3:53"), p("192.0.2.3:53"), p("192.0.2.4:123")
	tls.TLS, udp.UDP, ntp.UDP = true, true, true
	want := windivert.Options{Plain: []windivert.Plain{plain, tls, tcp, udp, ntp}, Accept: []uint16{3389}, Connections: 7}
	if got := c.diverted(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
