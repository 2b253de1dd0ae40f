// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"holdfast/latch/channel"
	"holdfast/latch/rendezvous"
)

// peer is a gate that announced something, however it is reached: a connection
// of the channel, or a gate on a rendezvous. The methods do not block; an error
// means that the gate is gone.
type peer interface {
	Deliver(r *channel.Report, sessions []channel.Session) error
	Refuse(refused []channel.Refused) error
}

// silent says whether a gate is told only what this agent knows, not what it
// has not seen: on a rendezvous every agent hears of every session.
func silent(p peer) bool {
	_, yes := p.(*rendezvous.Gate)
	return yes
}
