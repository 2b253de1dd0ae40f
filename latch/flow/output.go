// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"net/netip"
	"time"

	"holdfast/latch/binder"
)

// Output is what the gate must do after a [Table.Flush]. Act on it, then call
// Reset before the next method of the table.
type Output struct {
	Announce []Announce
	Attest   []Attest
	Release  []Release
	Refuse   []Refusal
	// Drop are connections that ended with an alert and whose deadline has
	// passed: they are reset like refused ones, so that the adapter forgets them
	// and nothing that is queued in them can leave later. There is nothing to tell.
	Drop []ID
	// WantInbound says that evidence waits for a ServerHello, so the next
	// inbound copy should wake the gate.
	WantInbound bool
}

// Announce tells agents that a ClientHello has left.
type Announce struct {
	ID     ID
	Agents uint64   // bit i: agent i is to be told
	CH     [32]byte // SHA-256 of the first ClientHello message with its 4-byte header
	Random [32]byte // its random
	Grade  binder.Grade
}

// Attest is a leaf that this machine must have attested, for the server of a
// mutual session.
type Attest struct {
	CH     [32]byte // as announced
	Leaf   [32]byte // of binder.MutualClient and Service.Claims
	Agents uint64   // bit i: agent i is to get the evidence
}

// Release opens a connection.
type Release struct {
	ID       ID
	End      uint32        // sequence number behind the ServerHello's record
	Examined uint32        // inbound segments examined
	Held     time.Duration // since the first copy
	Agent    int           // whose evidence it was
	Report   uint64
	Tries    int // releases of this connection before this one
}

// Refusal resets a connection.
type Refusal struct {
	ID            ID
	Reason        Reason
	Detail        string // what was expected and what came; may be empty
	Service       string // name that the client asked for, as far as it is known
	Local, Remote netip.AddrPort
	Held          time.Duration
}
