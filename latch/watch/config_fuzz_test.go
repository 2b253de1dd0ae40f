// SPDX-License-Identifier: Apache-2.0

package watch

import "testing"

// FuzzParseConfig: an error means no configuration, and what is accepted says
// for every service who vouches for it, under bounds that a watcher can keep.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(Example))
	f.Add([]byte("services: {a: {agents: [unix:/x], trust: t, policy: p}}\n"))
	f.Add([]byte("services: {a: {agents: [nats:h:1/p], trust: t, policy: p}}\n---\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConfig(b)
		if (c == nil) != (err != nil) {
			t.Fatalf("%v, %v", c, err)
		}
		if err != nil {
			return
		}
		if len(c.Services) == 0 || c.Deadline <= 0 {
			t.Fatalf("accepted %+v", c)
		}
		for n, s := range c.Services {
			if n == "" || s.Trust == "" || s.Policy == "" || len(s.Agents) == 0 {
				t.Fatalf("accepted the service %q: %+v", n, s)
			}
			for _, a := range s.Agents {
				if a.Addr == "" || a.Network != "tcp" && a.Network != "unix" {
					t.Fatalf("accepted the agent %v", a)
				}
			}
		}
	})
}
