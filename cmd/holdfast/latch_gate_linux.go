// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/hot"
	"holdfast/latch/gate"
	"holdfast/latch/hold/cgroupskb"
	"holdfast/latch/hold/nfqueue"
	"holdfast/latch/ops"
)

func init() {
	registerLatch(latchGate)
	registerLatch(latchStatus)
}

func latchGate(g *globals) *cobra.Command {
	var config, statsFile, readyFile string
	var scope gate.Scope
	var openAtEnd, check bool
	var try time.Duration
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
services, agents, trust and policy files again (see latch reload).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadGate(config)
			if err != nil {
				return err
			}
			narrowed := conf.Narrow(scope)
			if narrowed == nil && check {
				return checked(cmd, g, config, conf)
			}
			if narrowed != nil {
				return usageError(narrowed)
			}
			if try < 0 {
				return usageError(errors.New("--try: expected a time above 0"))
			}
			if os.Geteuid() != 0 {
				return unsupportedError(errors.New("latch gate needs root: control groups, eBPF, netfilter and raw sockets"))
			}
			hot.OneProcessor()
			o, err := newOperations(config, conf)
			if err != nil {
				return refusedError(err)
			}
			conf.Watch(o.decided)
			s, err := gate.OpenScope(conf)
			if err != nil {
				return unsupportedError(errors.Join(err, o.close()))
			}
			reload := func(c *gate.Config) error {
				if err := c.Narrow(scope); err != nil { // the same flags
					return err
				}
				return s.Reload(c)
			}
			err = o.serve(cmd.Context(), conf.Operations, s.Self(), s.Where(), reload, func() (func(ops.Pair) bool, error) {
				scoped, ok := s.(*gate.Scoped)
				if !ok {
					return nil, errors.New("this machine does not keep the connections that it routes")
				}
				there, err := ops.Established(scoped.Dir())
				return func(p ops.Pair) bool { return there[p] }, err
			})
			if err != nil {
				return refusedError(errors.Join(err, s.End(openAtEnd), o.close()))
			}
			s.Ready(cmd.Context(), 2*time.Second)
			slog.Info("gate is up", "scope", s.Where())
			if readyFile != "" {
				if err := os.WriteFile(readyFile, []byte(s.Where()+"\n"), 0o644); err != nil {
					return errors.Join(err, s.End(openAtEnd), o.close())
				}
			}
			var over <-chan time.Time
			if try > 0 {
				over = time.After(try)
			}
			select {
			case <-cmd.Context().Done():
			case <-over:
				slog.Warn("the time of --try is over: the scope is opened")
			}
			openAtEnd = openAtEnd || try > 0
			stats := s.Stats()
			if statsFile != "" {
				err = writeJSON(statsFile, stats)
			}
			return errors.Join(err, s.End(openAtEnd), o.close())
		},
	}
	c.Flags().BoolVar(&check, "check", false, "read the configuration and what it names, say whether it is right, and end")
	c.Flags().StringVar(&config, "config", "", "configuration file of the gate")
	c.Flags().StringVar(&scope.Cgroup, "cgroup", "", "control group, as a path below the cgroup v2 root")
	c.Flags().StringSliceVar(&scope.Routed, "routed", nil, "network devices whose traffic this machine routes")
	c.Flags().StringVar(&scope.Unit, "unit", "", "systemd unit or slice")
	c.Flags().StringSliceVar(&scope.Users, "user", nil, "users, by name or number")
	c.Flags().StringVar(&scope.NetNS, "netns", "", "network namespace, by name or path")
	c.Flags().BoolVar(&scope.Machine, "machine", false, "every socket of this machine but the exempted")
	c.Flags().DurationVar(&try, "try", 0, "end after this time and open the scope")
	c.Flags().BoolVar(&openAtEnd, "open-at-end", false, "open the scope when the gate ends in order")
	c.Flags().StringVar(&statsFile, "stats", "", "write the counters to this file as JSON at the end")
	c.Flags().StringVar(&readyFile, "ready", "", "write what is gated to this file when the gate is up")
	return c
}

func latchStatus(g *globals) *cobra.Command {
	var repair, open bool
	var control, config string
	var sessions int
	c := &cobra.Command{
		Use:   "status [--control PATH | --config FILE | --repair [--open]]",
		Short: "Show a gate's or agent's sessions and counters, or list gated control groups",
		Long: `With --control or --config, asks the running gate or agent: its agents, counters,
live sessions with the time that they were held, and the latest refusals.
Without, lists the control groups that are gated; --repair removes what a dead
gate left there.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if open && !repair {
				return usageError(errors.New("--open goes with --repair"))
			}
			if path, err := controlOf(control, config); err != nil || path != "" {
				if err != nil {
					return err
				}
				return askStatus(cmd, g, path, sessions)
			}
			if os.Geteuid() != 0 {
				return unsupportedError(errors.New("latch status needs root to read the pinned links"))
			}
			list, err := cgroupskb.Status()
			if err != nil {
				return err
			}
			routed, err := nfqueue.Status()
			if err != nil {
				return err
			}
			var bad error
			if repair {
				for _, l := range list {
					if !l.Alive {
						bad = errors.Join(bad, cgroupskb.Reclaim(l, open))
					}
				}
				for _, l := range routed {
					if !l.Alive && l.Here {
						bad = errors.Join(bad, nfqueue.Reclaim(l, open))
					}
				}
				if list, err = cgroupskb.Status(); err != nil {
					return err
				}
				if routed, err = nfqueue.Status(); err != nil {
					return err
				}
			}
			if g.json {
				all := []any{}
				for _, l := range list {
					all = append(all, l)
				}
				for _, l := range routed {
					all = append(all, l)
				}
				if err := printJSON(all); err != nil {
					return err
				}
				return bad
			}
			out := cmd.OutOrStdout()
			if len(list)+len(routed) == 0 {
				fmt.Fprintln(out, "nothing is gated")
			}
			for _, l := range list {
				what := "gated by process " + fmt.Sprint(l.PID)
				switch {
				case l.Alive:
				case l.Attached && l.Populated:
					what = "SHUT: its gate is dead, and processes are inside; start `holdfast latch gate` there, or end them and use --repair"
				default:
					what = "left over; remove with --repair"
				}
				fmt.Fprintf(out, "%s  since %s  %s\n", l.Cgroup, l.Since.Format(time.RFC3339), what)
			}
			for _, l := range routed {
				what := "gated by process " + fmt.Sprint(l.PID)
				if !l.Alive {
					what = "SHUT: its gate is dead; start `holdfast latch gate` for it, or use --repair --open"
				}
				if !l.Here {
					what += fmt.Sprintf(" (in network namespace %d: repair it there)", l.NetNS)
				}
				fmt.Fprintf(out, "devices %s  since %s  %s\n", strings.Join(l.Devices, ", "), l.Since.Format(time.RFC3339), what)
			}
			return bad
		},
	}
	c.Flags().StringVar(&control, "control", "", "control socket of a running gate or agent")
	c.Flags().StringVar(&config, "config", "", "configuration file that names the control socket")
	c.Flags().IntVar(&sessions, "sessions", 20, "live sessions to list, the latest")
	c.Flags().BoolVar(&repair, "repair", false, "remove what dead gates left of empty control groups")
	c.Flags().BoolVar(&open, "open", false, "with --repair: also where processes are inside, which then send without a gate")
	return c
}
