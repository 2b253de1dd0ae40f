// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/latch/hold/cgroupskb"
	"holdfast/latch/hold/nfqueue"
)

func init() {
	registerLatch(func(g *globals) *cobra.Command { return latchStatus(g, listScopes) })
}

// listScopes lists what is gated on this machine, and repairs what a dead gate
// left.
func listScopes(cmd *cobra.Command, g *globals, f *statusFlags) error {
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
	if f.repair {
		for _, l := range list {
			if !l.Alive {
				bad = errors.Join(bad, cgroupskb.Reclaim(l, f.open))
			}
		}
		for _, l := range routed {
			if !l.Alive && l.Here {
				bad = errors.Join(bad, nfqueue.Reclaim(l, f.open))
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
}
