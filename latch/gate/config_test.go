// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"strings"
	"testing"
	"time"

	"holdfast/latch/binder"
)

const goodConfig = `
services:
  shop.example:
    agents: [tcp:192.0.2.1:7443, "unix:/run/agent.sock"]
    trust: trust.yaml
    policy: policy.yaml
  pay.example:
    agents: ["tcp:[2001:db8::1]:7443"]
    trust: trust.yaml
    policy: pay.yaml
    grade: share
plain: [127.0.0.0/8, "10.0.0.1:22", "[2001:db8::/32]:80", "::1"]
resolvers: [127.0.0.53, "192.0.2.53:5353"]
deadline: 3s
scope:
  cgroup: /shop.slice
limits:
  connections: 100
`

func TestParseConfig(t *testing.T) {
	c, err := ParseConfig([]byte(goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Services["shop.example"]
	if len(s.Agents) != 2 || s.Agents[0] != (Address{"tcp", "192.0.2.1:7443"}) || s.Agents[1] != (Address{"unix", "/run/agent.sock"}) || binder.Grade(s.Grade) != binder.Hello {
		t.Errorf("%+v", s)
	}
	if binder.Grade(c.Services["pay.example"].Grade) != binder.Share {
		t.Error("grade")
	}
	var got []string
	for _, d := range append(c.Plain, c.Resolvers...) {
		got = append(got, d.String())
	}
	if w := "127.0.0.0/8 10.0.0.1:22 [2001:db8::/32]:80 ::1 127.0.0.53:53 192.0.2.53:5353"; strings.Join(got, " ") != w {
		t.Errorf("destinations %v, want %s", got, w)
	}
	if c.Deadline != 3*time.Second || c.Limits.Connections != 100 || c.Scope.Cgroup != "/shop.slice" {
		t.Errorf("%+v", c)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	one := "services: {a.example: {agents: ['unix:/a'], trust: t, policy: p}}\n"
	if _, err := ParseConfig([]byte(one)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"plain: []", "services"},
		{one + "colour: red", "colour"},
		{one + "---\n" + one, "more than one"},
		{strings.Replace(one, "trust: t, ", "", 1), "trust"},
		{strings.Replace(one, "'unix:/a'", "", 1), "agents"},
		{strings.Replace(one, "a.example", "A.example", 1), "lower case"},
		{strings.Replace(one, "a.example", "'*.example'", 1), "wildcard"},
		{strings.Replace(one, "a.example", "192.0.2.1", 1), "address"},
		{strings.Replace(one, "unix:/a", "udp:a:1", 1), "tcp:HOST:PORT"},
		{strings.Replace(one, "unix:/a", "tcp:a", 1), "tcp:HOST:PORT"},
		{strings.Replace(one, "policy: p", "policy: p, grade: best", 1), "grade"},
		{one + "plain-tls: ['10.0.0.1/8']", "behind the prefix"},
		{one + "plain: ['10.0.0.1/8']", "behind the prefix"},
		{one + "plain: ['host.example:80']", "destination"},
		{one + "plain: ['10.0.0.1:0']", "destination"},
		{one + "plain: ['[::1]80']", "destination"},
		{one + "plain: ['::ffff:0:0/96']", "IPv4"},
		{one + "resolvers: ['10.0.0.0/8']", "one address"},
		{one + "deadline: 2m", "deadline"},
		{one + "deadline: -1s", "deadline"},
		{one + "limits: {connections: -1}", "connections"},
		{one + "scope: {cgroup: ../x}", "cgroup"},
	} {
		got, err := ParseConfig([]byte(c.text))
		if err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an error that says %q", c.text, err, c.want)
		}
	}
}

// The example of the help texts is good, and shows every key.
func TestExample(t *testing.T) {
	c, err := ParseConfig([]byte(Example))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Services["shop.example"]
	if len(s.Agents) == 0 || s.Trust == "" || s.Policy == "" || s.Grade == 0 || len(c.Plain) == 0 || len(c.PlainTLS) == 0 || len(c.Resolvers) == 0 || c.Deadline == 0 || c.Scope.Cgroup == "" || c.Limits.Connections == 0 {
		t.Errorf("a key is missing: %+v", c)
	}
}

func FuzzDestination(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8:22", "[::1]:443", "::1", "1.2.3.4", "[2001:db8::/32]:1", "fe80::1%eth0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDestination(s)
		if err != nil {
			if d != (Destination{}) {
				t.Errorf("%q: a result beside the error", s)
			}
			return
		}
		again, err := parseDestination(d.String())
		if err != nil || again != d {
			t.Errorf("%q: %v prints as %q, which gives %v, %v", s, d, d, again, err)
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(goodConfig))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConfig(b)
		if (c == nil) != (err != nil) {
			t.Error("result and error, or neither")
		}
		if c != nil && c.check() != nil {
			t.Error("an accepted configuration does not pass its own check")
		}
	})
}
