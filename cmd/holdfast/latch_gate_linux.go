// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"holdfast/latch/gate"
	"holdfast/latch/hold/cgroupskb"
)

func init() {
	registerLatch(latchGate)
	registerLatch(latchStatus)
}

// oneProcessor makes the Go scheduler of this process simple: the gate's work
// is short and serial, and a second processor only adds wake-ups between
// threads. GOMAXPROCS in the environment has the last word.
func oneProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func latchGate(g *globals) *cobra.Command {
	var config, cgroup, statsFile, readyFile string
	c := &cobra.Command{
		Use:   "gate --config FILE [--cgroup PATH]",
		Short: "Gate the processes of a control group until SIGTERM",
		Long: `Holds every TCP connection of the processes in a control group (version 2)
until its receiver is attested. The control group is made if it is missing;
what is in it is gated from the first packet on. When the gate ends while
processes are in the control group, their connections stay shut.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadGate(config)
			if err != nil {
				return err
			}
			if cgroup == "" {
				cgroup = conf.Scope.Cgroup
			}
			if cgroup == "" {
				return usageError(errors.New("which processes? give --cgroup PATH, or scope: {cgroup: PATH} in the configuration"))
			}
			if os.Geteuid() != 0 {
				return unsupportedError(errors.New("latch gate needs root: control groups, eBPF and raw sockets"))
			}
			dir, err := gate.CgroupDir(cgroup)
			if err != nil {
				return unsupportedError(err)
			}
			oneProcessor()
			s, err := gate.Open(conf, dir)
			if err != nil {
				return unsupportedError(err)
			}
			s.Ready(cmd.Context(), 2*time.Second)
			slog.Info("gate is up", "cgroup", dir)
			if readyFile != "" {
				if err := os.WriteFile(readyFile, []byte(dir+"\n"), 0o644); err != nil {
					return errors.Join(err, s.Close())
				}
			}
			<-cmd.Context().Done()
			stats := s.Stats()
			if statsFile != "" {
				err = writeJSON(statsFile, stats)
			}
			return errors.Join(err, s.Close())
		},
	}
	c.Flags().StringVar(&config, "config", "", "configuration file of the gate")
	c.Flags().StringVar(&cgroup, "cgroup", "", "control group, as a path below the cgroup v2 root")
	c.Flags().StringVar(&statsFile, "stats", "", "write the counters to this file as JSON at the end")
	c.Flags().StringVar(&readyFile, "ready", "", "write the control group's folder to this file when the gate is up")
	return c
}

func latchStatus(g *globals) *cobra.Command {
	var repair, open bool
	c := &cobra.Command{
		Use:   "status [--repair [--open]]",
		Short: "List gated control groups; repair what a dead gate left",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if open && !repair {
				return usageError(errors.New("--open goes with --repair"))
			}
			if os.Geteuid() != 0 {
				return unsupportedError(errors.New("latch status needs root to read the pinned links"))
			}
			list, err := cgroupskb.Status()
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
				if list, err = cgroupskb.Status(); err != nil {
					return err
				}
			}
			if g.json {
				if err := printJSON(list); err != nil {
					return err
				}
				return bad
			}
			out := cmd.OutOrStdout()
			if len(list) == 0 {
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
			return bad
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "remove what dead gates left of empty control groups")
	c.Flags().BoolVar(&open, "open", false, "with --repair: also where processes are inside, which then send without a gate")
	return c
}
