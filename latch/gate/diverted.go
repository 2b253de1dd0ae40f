// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"fmt"

	"holdfast/latch/hold/windivert"
	"holdfast/latch/ops"
)

// Diverted is a gate on a whole Windows machine, through WinDivert.
type Diverted struct {
	*Gate
	Hold *windivert.Hold
}

var _ Running = (*Diverted)(nil)

// CheckDiverted says whether the configuration is one that a gate on Windows can
// keep: the scope is the machine, its exemptions are ports and UDP, no service is
// mutual.
func (c *Config) CheckDiverted() error {
	s, e := &c.Scope, &c.Scope.Exempt
	switch {
	case s.Kind() != ScopeMachine || len(s.Users) > 0 || s.NetNS != "":
		return fmt.Errorf("scope: got %q, expected machine: true: WinDivert's packets do not say whose they are, so on Windows the whole machine is gated, or with `latch proxy` the programs that use it", s)
	case len(e.Cgroups) > 0 || len(e.Units) > 0 || len(e.Users) > 0:
		return errors.New("scope.exempt: on Windows only ports and udp can be exempted: WinDivert's packets do not say whose they are")
	case c.mutual():
		return errors.New("grade: mutual needs a gate that knows the programs that it gates; use latch gate or latch run on Linux")
	}
	return nil
}

// diverted is what the configuration lets pass, in the hold's words.
func (c *Config) diverted() windivert.Options {
	o := windivert.Options{Accept: c.Scope.Exempt.Ports, Connections: c.Limits.Connections}
	for _, l := range []struct {
		list          []Destination
		tcp, tls, udp bool
	}{{c.Plain, true, false, false}, {c.PlainTLS, true, true, false}, {c.Resolvers, true, false, true}, {c.Scope.Exempt.UDP, false, false, true}} {
		for _, d := range l.list {
			if l.tcp {
				o.Plain = append(o.Plain, windivert.Plain{Prefix: d.Prefix, Port: d.Port, TLS: l.tls})
			}
			if l.udp {
				o.Plain = append(o.Plain, windivert.Plain{Prefix: d.Prefix, Port: d.Port, UDP: true})
			}
		}
	}
	return o
}

// OpenDiverted gates the machine whose packets the handle of
// windivert.OpenHandle diverts. It takes the handle over, also after an error:
// then the handle is closed, and what it has queued waits for the guard's.
func OpenDiverted(c *Config, handle windivert.Handle) (*Diverted, error) {
	err := c.CheckDiverted()
	var s *services
	if err == nil {
		s, err = loadServices(c)
	}
	var h *windivert.Hold
	if err == nil {
		h, err = windivert.Open(handle, c.diverted())
	}
	if err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	c.dial = h.Dial // or the gate would hold itself
	g := newGate(c, s, h, c.dialAgent)
	g.Start()
	return &Diverted{g, h}, nil
}

// Where implements Running.
func (d *Diverted) Where() string { return "the machine" }

// Live implements Running.
func (d *Diverted) Live() (func(ops.Pair) bool, error) {
	there := map[ops.Pair]bool{}
	for _, p := range d.Hold.Live() {
		there[ops.NewPair(p[0], p[1])] = true
	}
	return func(p ops.Pair) bool { return there[p] }, nil
}

// End implements Running. Unless open is set everything is dropped from then on,
// while this process or the guard lives.
func (d *Diverted) End(open bool) error {
	d.Stop()
	if open {
		return d.Hold.Detach()
	}
	return d.Hold.Close()
}
