// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// statusFlags are what the command line of `latch status` says.
type statusFlags struct {
	control, config string
	sessions        int
	repair, open    bool
}

// latchStatus asks a running program, or has list tell what is gated on this
// machine; list is nil where nothing outlives a gate.
func latchStatus(g *globals, list func(*cobra.Command, *globals, *statusFlags) error) *cobra.Command {
	f := &statusFlags{}
	c := &cobra.Command{
		Use:   "status [--control PATH | --config FILE | --repair [--open]]",
		Short: "Show a gate's or agent's sessions and counters, or list gated control groups",
		Long: `With --control or --config, asks the running gate or agent: its agents, counters,
live sessions with the time that they were held, and the latest refusals.
Without, lists the control groups that are gated (on Linux); --repair removes what
a dead gate left there.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.open && !f.repair {
				return usageError(errors.New("--open goes with --repair"))
			}
			path, err := controlOf(f.control, f.config)
			switch {
			case err != nil:
				return err
			case path != "":
				return askStatus(cmd, g, path, f.sessions)
			case list == nil:
				return usageError(errors.New("--control PATH or --config FILE is needed: control groups are there on Linux only"))
			}
			return list(cmd, g, f)
		},
	}
	c.Flags().StringVar(&f.control, "control", "", "control socket of a running gate or agent")
	c.Flags().StringVar(&f.config, "config", "", "configuration file that names the control socket")
	c.Flags().IntVar(&f.sessions, "sessions", 20, "live sessions to list, the latest")
	c.Flags().BoolVar(&f.repair, "repair", false, "remove what dead gates left of empty control groups")
	c.Flags().BoolVar(&f.open, "open", false, "with --repair: also where processes are inside, which then send without a gate")
	return c
}
