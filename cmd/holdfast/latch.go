// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sort"

	"github.com/spf13/cobra"

	"holdfast/latch/gate"
)

var latchVerbs []func(*globals) *cobra.Command

// registerLatch adds a verb below `holdfast latch`; called from init in the
// verb's own file.
func registerLatch(f func(*globals) *cobra.Command) { latchVerbs = append(latchVerbs, f) }

func init() {
	gate.SetVersion(version)
	register(func(g *globals) *cobra.Command {
		c := &cobra.Command{
			Use:   "latch",
			Short: "Hold TLS sessions until their receiver is attested",
			Long: `The latch attests the receiver of each TLS 1.3 session and holds the client's
traffic until that is verified. The agent runs beside the service and proves
its sessions; the gate runs beside the client and releases or refuses them.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		}
		var sub []*cobra.Command
		for _, f := range latchVerbs {
			sub = append(sub, f(g))
		}
		sort.Slice(sub, func(i, j int) bool { return sub[i].Name() < sub[j].Name() })
		c.AddCommand(sub...)
		return c
	})
}
