// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"net/netip"

	"holdfast/latch/flow"
)

// Kind of an Event.
type Kind uint8

// Kinds.
const (
	Hello  Kind = iota + 1 // a ServerHello left, or would have been attested but is refused
	Closed                 // a connection left the state ESTABLISHED
)

// Event is what the observer tells.
type Event struct {
	Kind   Kind
	Cookie uint64 // of the accepted socket; names the connection on this machine since boot

	// The rest is for Hello.
	CH, Random    [32]byte // SHA-256 of the first ClientHello message; its client random
	BinderHello   [32]byte // binders of the server's role, see package binder
	BinderShare   [32]byte
	Core          [32]byte // binder.MutualCore, on listeners of Options.Mutual
	Group         uint16
	Suite         uint16 // cipher suite
	Resumed       bool
	ServerName    string // as the client asked, on listeners of Options.Mutual
	Local, Remote netip.AddrPort
	Listener      *Listener   // nil when unknown
	Refusal       flow.Reason // if not empty there are no binders
	Detail        string      // what was expected and what came, for Refusal
}
