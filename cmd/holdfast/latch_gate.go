// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/hot"
	"holdfast/latch/gate"
)

// gateFlags are what the command line of `latch gate` says.
type gateFlags struct {
	config, stats, ready string
	scope                gate.Scope
	openAtEnd, check     bool
	try                  time.Duration
}

// gatePlatform is what `latch gate` can do on a system.
type gatePlatform struct {
	note string                                                          // for the help text
	can  func(*gate.Config) error                                        // says why a configuration cannot be kept; nil: all can
	run  func(cmd *cobra.Command, f *gateFlags, conf *gate.Config) error // until the end
}

func latchGate(g *globals, p gatePlatform) *cobra.Command {
	f := &gateFlags{}
	c := &cobra.Command{
		Use:   "gate --config FILE [SCOPE]",
		Short: "Gate a control group, unit, user, network namespace, machine or router until SIGTERM",
		Long: `Holds every TCP connection of a scope until its receiver is attested. The scope
stands in the configuration (scope:) or is given by one of these:

  --cgroup PATH     processes in a control group (version 2), made if it is missing
  --unit NAME       a systemd unit or slice; also when it is started again
  --user NAME       sockets that a user makes, wherever his processes are
  --netns NAME      sockets of a network namespace (name below /run/netns, or path)
  --machine         every socket of this machine, except what scope: exempt: in the
                    configuration names: control groups, units, users, UDP
                    destinations, and local ports whose accepted connections pass
  --routed DEVICE   what this machine routes for those behind a network device:
                    containers behind a bridge, a virtual machine behind a tap

What is in the scope is gated from the first packet on. When the gate ends while
the scope may have clients, their connections stay shut; --open-at-end opens the
scope when the gate ends in order (not when it is killed), and
` + "`holdfast latch status --repair --open`" + ` opens what a dead gate left. --try 2m ends
the gate and opens the scope after two minutes, whatever else has happened: use it
first with --machine from a remote shell, for connections that were there before
the gate stay shut unless they are exempted (port 22). SIGHUP has it read
services, agents, trust and policy files again (see latch reload).` + p.note,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := f.load(p)
			if err != nil {
				return err
			}
			if f.check {
				return checked(cmd, g, f.config, conf)
			}
			return p.run(cmd, f, conf)
		},
	}
	c.Flags().BoolVar(&f.check, "check", false, "read the configuration and what it names, say whether it is right, and end")
	c.Flags().StringVar(&f.config, "config", "", "configuration file of the gate")
	c.Flags().StringVar(&f.scope.Cgroup, "cgroup", "", "control group, as a path below the cgroup v2 root")
	c.Flags().StringSliceVar(&f.scope.Routed, "routed", nil, "network devices whose traffic this machine routes")
	c.Flags().StringVar(&f.scope.Unit, "unit", "", "systemd unit or slice")
	c.Flags().StringSliceVar(&f.scope.Users, "user", nil, "users, by name or number")
	c.Flags().StringVar(&f.scope.NetNS, "netns", "", "network namespace, by name or path")
	c.Flags().BoolVar(&f.scope.Machine, "machine", false, "every socket of this machine but the exempted")
	c.Flags().DurationVar(&f.try, "try", 0, "end after this time and open the scope")
	c.Flags().BoolVar(&f.openAtEnd, "open-at-end", false, "open the scope when the gate ends in order")
	c.Flags().StringVar(&f.stats, "stats", "", "write the counters to this file as JSON at the end")
	c.Flags().StringVar(&f.ready, "ready", "", "write what is gated to this file when the gate is up")
	return c
}

// load reads the configuration, narrowed to the scope that the flags give.
func (f *gateFlags) load(p gatePlatform) (*gate.Config, error) {
	conf, err := loadGate(f.config)
	if err != nil {
		return nil, err
	}
	if err = conf.Narrow(f.scope); err == nil && p.can != nil {
		err = p.can(conf)
	}
	if err == nil && f.try < 0 {
		err = errors.New("--try: expected a time above 0")
	}
	if err != nil {
		return nil, usageError(err)
	}
	return conf, nil
}

// serve opens the gate and what operators hold of it, tells up when it is
// there, and ends it in order with the command's context or the time of --try.
func (f *gateFlags) serve(cmd *cobra.Command, conf *gate.Config, open func(*gate.Config) (gate.Running, error), up func() error) error {
	hot.OneProcessor()
	o, err := newOperations(f.config, conf)
	if err != nil {
		return refusedError(err)
	}
	conf.Watch(o.decided)
	s, err := open(conf)
	if err != nil {
		return unsupportedError(errors.Join(err, o.close()))
	}
	reload := func(c *gate.Config) error {
		if err := c.Narrow(f.scope); err != nil { // the same flags
			return err
		}
		return s.Reload(c)
	}
	if err := o.serve(cmd.Context(), conf.Operations, s.Self(), s.Where(), reload, s.Live); err != nil {
		return refusedError(errors.Join(err, s.End(f.openAtEnd), o.close()))
	}
	s.Ready(cmd.Context(), 2*time.Second)
	slog.Info("gate is up", "scope", s.Where())
	if err = up(); err == nil && f.ready != "" {
		err = os.WriteFile(f.ready, []byte(s.Where()+"\n"), 0o644)
	}
	if err != nil {
		return errors.Join(err, s.End(f.openAtEnd), o.close())
	}
	var over <-chan time.Time
	if f.try > 0 {
		over = time.After(f.try)
	}
	select {
	case <-cmd.Context().Done():
	case <-over:
		slog.Warn("the time of --try is over: the scope is opened")
	}
	stats := s.Stats()
	if f.stats != "" {
		err = writeJSON(f.stats, stats)
	}
	return errors.Join(err, s.End(f.openAtEnd || f.try > 0), o.close())
}
