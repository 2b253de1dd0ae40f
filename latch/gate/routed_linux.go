// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"log/slog"

	"holdfast/latch/hold/nfqueue"
)

// Routed is a gate on traffic that this machine routes.
type Routed struct {
	*Gate
	Hold    *nfqueue.Hold
	devices []string
}

// OpenRouted gates what comes from the scope's network devices. Rules first:
// from its return on nothing from there passes unjudged.
func OpenRouted(c *Config) (*Routed, error) {
	s, err := loadServices(c)
	if err != nil {
		return nil, err
	}
	o := nfqueue.Options{Devices: c.Scope.Routed, Connections: c.Limits.Connections}
	for _, p := range plainList(c) {
		o.Plain = append(o.Plain, nfqueue.Plain{Prefix: p.Prefix, Port: p.Port, UDP: p.UDP, TLS: p.TLS})
	}
	h, err := nfqueue.Open(o)
	if err != nil {
		return nil, err
	}
	g := newGate(c, s, h, c.dialAgent)
	g.Start()
	return &Routed{g, h, o.Devices}, nil
}

// Close stops the gate. Unless open is set the rules stay: what comes from the
// devices is dropped until a gate starts there again, or until the rules are
// taken away by `holdfast latch status --repair --open`.
func (r *Routed) Close(open bool) error {
	r.Stop()
	if open {
		return r.Hold.Detach()
	}
	slog.Warn("the rules stay: connections from behind the devices are shut until a gate starts there again, or `holdfast latch status --repair --open` is called")
	return r.Hold.Close()
}
