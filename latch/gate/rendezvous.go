// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"

	"holdfast/internal/hot"
	"holdfast/latch/channel"
	"holdfast/latch/rendezvous"
)

// dialRendezvous joins a message system. It ends when the connection is lost,
// so that the link's loop makes it anew and what waits is announced again.
func (c *Config) dialRendezvous(ctx context.Context, a Address, have []channel.Hash) (agentClient, error) {
	hot.Cool() // its messages come on goroutines of their own
	address, prefix, err := rendezvous.ParseAddress(a.Addr)
	if err != nil {
		return nil, err
	}
	bus, err := rendezvous.NATS(ctx, rendezvous.NATSOptions{Address: address, Name: "holdfast gate", Access: c.NATS, Dial: c.dial})
	if err != nil {
		return nil, err
	}
	client, err := rendezvous.Dial(bus, prefix, have)
	if err != nil {
		bus.Close()
		return nil, err
	}
	return client, nil
}

// open are the agents' bits behind which anybody may answer.
func (s *services) open() (mask uint64) {
	for i, a := range s.agents {
		if a.Network == "nats" {
			mask |= 1 << i
		}
	}
	return mask
}
