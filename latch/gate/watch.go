// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"net/netip"
	"time"

	"holdfast/latch/flow"
	"holdfast/latch/hold"
)

// Decision is what the gate decided about one connection.
type Decision struct {
	At       time.Time
	Released bool // open; else refused for Reason
	ID       hold.ID
	Service  string // server name, as far as it is known
	Reason   flow.Reason
	Detail   string
	Local    netip.AddrPort
	Remote   netip.AddrPort
	Held     time.Duration // from the first copy to the decision
	// Of released connections.
	Environment   string
	Simulated, PQ bool
}

// Watch has fn told of each decision of the gate that is opened with this
// configuration. fn runs in the packet loop with the gate's lock held: it must
// not wait and must not call the gate.
func (c *Config) Watch(fn func(*Decision)) { c.watch = fn }

// Self is the gate, for those that wrap one.
func (g *Gate) Self() *Gate { return g }

// Link is the state of the connection to one agent.
type Link struct {
	Agent     string `json:"agent"`
	Connected bool   `json:"connected"`
	Error     string `json:"error,omitempty"`
}

// Links tells which agents are connected.
func (g *Gate) Links() []Link {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Link
	for _, l := range g.links {
		if l.retired {
			continue
		}
		s := Link{Agent: l.addr.String(), Connected: l.client != nil}
		if l.lastErr != nil && l.client == nil {
			s.Error = printable(l.lastErr.Error())
		}
		out = append(out, s)
	}
	return out
}

// Names are the server names that have a policy, in order.
func (g *Gate) Names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config.names()
}
