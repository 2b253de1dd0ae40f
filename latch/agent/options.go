// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"net/netip"
	"time"

	"holdfast/attest/provider"
	"holdfast/latch/appraisal"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/observe"
)

// Source tells what happens on the protected listeners: *observe.Observer.
// Everything but Wake is called from the loop's goroutine.
type Source interface {
	Wait(deadline time.Time, hello bool) error
	Wake()
	Poll(dst []observe.Event, now time.Time) []observe.Event
	Recheck(l *observe.Listener, now time.Time)
	Stats() observe.Stats
}

// Service is a protected listener and what must be true of its owner.
type Service struct {
	Name        string
	Address     netip.AddrPort
	Executables []Executable     // empty: any that is not an interpreter
	Units       []string         // empty: any
	Users       []uint32         // who may have made the listener; empty: root, or anybody in one of Units
	Batch       bool             // its sessions are listed in manifests; gates get no evidence of them
	Proxied     bool             // a PROXY header comes before the client's hello
	Clients     *appraisal.Rules // evidence that clients must give; nil: none
	Config      [32]byte         // digest of the service's configuration, zero when none is named
}

// Options of an Agent. Zero values take the default.
type Options struct {
	Services []Service
	Open     func(ctx context.Context) (provider.Provider, error) // opens the security processor; called again after it failed
	Version  string                                               // of the agent, as a claim
	Channel  channel.ServerOptions                                // Software and Services are set by the agent

	BatchInterval time.Duration // of manifests; default 5 s
	hasBatch      bool

	Doors Doors // of the services with Clients

	// Watch, if not nil, is told of each decision. It runs in the loop with the
	// agent's lock held: it must not wait and must not call the agent.
	Watch func(*Decision)

	Gap       time.Duration // smallest time between the starts of two reports under load, less with fewer than 64 sessions under way; default 20 ms, negative: none
	Timeout   time.Duration // of one report; default 3 s
	Park      time.Duration // how long an announcement waits for its observation and the other way round; default 3 s
	MaxParked int           // announcements, and as many observations; default 16,384
	MaxGroup  int           // leaves of one tree; default 4,096
}

func (o *Options) defaults() {
	for i := range o.Services {
		o.hasBatch = o.hasBatch || o.Services[i].Batch
	}
	if o.Gap == 0 {
		o.Gap = 20 * time.Millisecond
	}
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Park <= 0 {
		o.Park = 3 * time.Second
	}
	if o.MaxParked <= 0 {
		o.MaxParked = 16384
	}
	if o.MaxGroup <= 0 || o.MaxGroup > binder.MaxLeaves {
		o.MaxGroup = 4096
	}
}
