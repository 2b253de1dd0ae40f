// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"holdfast/latch/flow"
)

// Reload puts another configuration in the place of the current one: services
// with their agents, trust and policy files. It reads and checks all of it
// first; after an error the old one stays in force whole. From its return on no
// session is judged by the old one, those included that were announced under
// it. What is open stays open, what waits goes on waiting: the door is never
// open, nor shut, in between.
//
// Scope, deadline, limits, access to NATS servers and new agents behind them,
// and operations need a new start, and so do plain destinations except for a
// Scoped gate; Reload says so.
func (g *Gate) Reload(c *Config) error { return g.reload(c, nil) }

// reload is Reload; plain, unless nil, changes the plain destinations.
func (g *Gate) reload(c *Config, plain func(*Config) error) error {
	g.mu.Lock()
	old := g.config
	var known []Address
	for _, l := range g.links {
		known = append(known, l.addr)
	}
	g.mu.Unlock()
	same := plain != nil || reflect.DeepEqual(c.Plain, old.Plain) && reflect.DeepEqual(c.PlainTLS, old.PlainTLS) && reflect.DeepEqual(c.Resolvers, old.Resolvers)
	if !same || !reflect.DeepEqual(c.Scope, old.Scope) || c.Deadline != old.Deadline || c.Limits != old.Limits || !reflect.DeepEqual(c.NATS, old.NATS) || !slices.Equal(c.Proxy, old.Proxy) || c.Operations != old.Operations {
		return errors.New("scope, plain destinations of this kind of gate, deadline, limits, nats, proxy and operations do not change by a reload: start the gate anew")
	}
	if !reflect.DeepEqual(c.Client, old.Client) || c.mutual() != old.mutual() {
		return errors.New("client, and the first or last service with grade mutual, do not change by a reload: start the gate anew")
	}
	c.unit, c.executable = old.unit, old.executable
	s, err := loadServices(c, known...)
	if err != nil {
		return err
	}
	for _, a := range s.agents[len(known):] {
		if a.Network == "nats" {
			return fmt.Errorf("agent %s: a new message system needs a new start of the gate", a)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errors.New("the gate has ended")
	}
	if g.config != old {
		return errors.New("the configuration was changed by somebody else meanwhile; try again")
	}
	if plain != nil {
		if err := plain(c); err != nil {
			return err
		}
	}
	g.drain()
	now := time.Now()
	g.services, g.config = s, c
	var used uint64
	for _, sv := range s.byName {
		used |= sv.flow.Agents
	}
	for i, a := range s.agents {
		wanted := used&(1<<i) != 0
		switch {
		case i == len(g.links):
			g.links = append(g.links, &link{g: g, i: i, addr: a, tried: make(chan struct{})})
			g.startLink(g.links[i])
		case !wanted && !g.links[i].retired:
			l := g.links[i]
			l.retired, l.client = true, nil
			l.cancel()
			g.table.AgentLost(now, i, flow.AgentLost, "the agent left the configuration")
			slog.Info("agent left the configuration", "agent", a.String())
		case wanted && g.links[i].retired:
			g.links[i] = &link{g: g, i: i, addr: a, tried: make(chan struct{})}
			g.startLink(g.links[i])
		}
	}
	g.act()
	return nil
}

// startLink starts the loop of a link; called with the lock held, after Start.
func (g *Gate) startLink(l *link) {
	ctx, cancel := context.WithCancel(g.ctx)
	l.cancel = cancel
	g.wg.Go(func() { l.run(ctx) })
}
