// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/hot"
	"holdfast/latch/channel"
	"holdfast/latch/door"
	"holdfast/latch/observe"
	"holdfast/latch/rendezvous"
)

// Running is an agent with its observer and its listeners.
type Running struct {
	*Agent
	observer  *observe.Observer
	listeners []net.Listener
	buses     []*rendezvous.Server
	doors     *door.Doors
}

// Open makes an agent from a configuration: it attaches the observer and then
// opens the listeners for gates. version is the agent's, as a claim.
func (c *Config) Open(version string) (r *Running, err error) { return c.OpenWatched(version, nil) }

// OpenWatched is Open with Options.Watch.
func (c *Config) OpenWatched(version string, watch func(*Decision)) (r *Running, err error) {
	o := Options{Version: version, Watch: watch, Gap: c.Reports.Gap, Timeout: c.Reports.Timeout, Park: c.Reports.Park, MaxParked: c.Reports.MaxParked, MaxGroup: c.Reports.MaxGroup, BatchInterval: c.Reports.Batch}
	if o.Services, err = c.services(); err != nil {
		return nil, err
	}
	if o.Channel, err = c.channel(); err != nil {
		return nil, err
	}
	if o.Open, err = c.Provider.opener(); err != nil {
		return nil, err
	}
	r = new(Running)
	defer func() {
		if err != nil {
			r.Close()
			r = nil
		}
	}()
	var addrs, proxied, mutual []netip.AddrPort
	var ports []uint16
	for _, s := range o.Services {
		addrs = append(addrs, s.Address)
		if s.Proxied {
			proxied = append(proxied, s.Address)
		}
		if s.Clients != nil {
			mutual, ports = append(mutual, s.Address), append(ports, s.Address.Port())
		}
	}
	if len(ports) > 0 {
		if r.doors, err = door.Open(door.Options{Cgroup: c.Cgroup, Ports: ports}); err != nil {
			return r, err
		}
		o.Doors = r.doors
	}
	r.observer, err = observe.Open(observe.Options{Listeners: addrs, Proxied: proxied, Mutual: mutual, Cgroup: c.Cgroup, RefuseExisting: c.Existing == "refuse", RingBytes: c.Ring, ShareWindow: c.Shares})
	if err != nil {
		return r, err
	}
	// After the observer: who finds the agent's socket open may start a service.
	for _, s := range c.Channel.Listen {
		l, err := openListener(s)
		if err != nil {
			return r, fmt.Errorf("channel.listen: %w", err)
		}
		r.listeners = append(r.listeners, l)
	}
	if r.Agent, err = New(r.observer, o); err != nil {
		return r, err
	}
	for _, s := range c.Channel.Rendezvous {
		b, err := r.join(s, c.Channel.NATS)
		if err != nil {
			return r, fmt.Errorf("channel.rendezvous: %w", err)
		}
		r.buses = append(r.buses, b)
	}
	return r, nil
}

// join makes the agent answer on a rendezvous. A message system that is down
// is no reason not to start: it is tried for ever.
func (r *Running) join(s string, access rendezvous.NATSAccess) (*rendezvous.Server, error) {
	hot.Cool() // announcements come on goroutines of their own
	address, prefix, err := rendezvous.ParseNATS(s)
	if err != nil {
		return nil, err
	}
	bus, err := rendezvous.NATS(context.Background(), rendezvous.NATSOptions{Address: address, Name: "holdfast agent", Keep: true, Access: access})
	if err != nil {
		return nil, err
	}
	srv, err := rendezvous.NewServer(bus, prefix, r.server.Endorsement, rendezvous.Limits{}, func(g *rendezvous.Gate, batch []channel.Announcement) {
		r.announced(g, batch)
	})
	if err != nil {
		bus.Close()
	}
	return srv, err
}

// openListener opens one channel listener. A unix socket is for its owner and group;
// who may ask is said by allow-users or by the folder's permissions.
func openListener(s string) (net.Listener, error) {
	network, addr, err := ParseListen(s)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		if st, err := os.Lstat(addr); err == nil && st.Mode().Type() == fs.ModeSocket {
			if c, err := net.Dial("unix", addr); err == nil {
				c.Close()
				return nil, fmt.Errorf("%s: another agent answers there", addr)
			}
			os.Remove(addr)
		}
	}
	l, err := net.Listen(network, addr)
	if err == nil && network == "unix" {
		if err := os.Chmod(addr, 0o660); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, err
}

// Stats returns the counters, with those of the doors.
func (r *Running) Stats() Stats {
	s := r.Agent.Stats()
	if r.doors != nil {
		if d, err := r.doors.Stats(); err == nil {
			s.Door = &d
		}
	}
	return s
}

// Addrs are the addresses where gates reach the agent.
func (r *Running) Addrs() []net.Addr {
	var out []net.Addr
	for _, l := range r.listeners {
		out = append(out, l.Addr())
	}
	return out
}

// Run serves gates until ctx ends.
func (r *Running) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.Agent.Run(ctx) })
	for _, l := range r.listeners {
		g.Go(func() error { return r.Agent.Serve(l) })
	}
	return g.Wait()
}

// Close detaches the observer and closes the listeners; after Run.
func (r *Running) Close() error {
	var errs []error
	for _, b := range r.buses {
		errs = append(errs, b.Close())
	}
	for _, l := range r.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if r.doors != nil {
		errs = append(errs, r.doors.Close())
	}
	if r.observer != nil {
		errs = append(errs, r.observer.Close())
	}
	return errors.Join(errs...)
}
