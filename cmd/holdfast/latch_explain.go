// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/latch/flow"
)

func init() {
	registerLatch(func(g *globals) *cobra.Command {
		return &cobra.Command{
			Use: "explain [REASON...]", Short: "Say what a reason of refusal means and what to do",
			RunE: func(cmd *cobra.Command, args []string) error {
				list := flow.Reasons()
				if len(args) > 0 {
					list = nil
					for _, a := range args {
						if !flow.Reason(a).Known() {
							return usageError(fmt.Errorf("reason %q is not known; `holdfast latch explain` lists all", a))
						}
						list = append(list, flow.Reason(a))
					}
				}
				if g.json {
					out := map[string]string{}
					for _, r := range list {
						out[string(r)] = r.Text()
					}
					return printJSON(out)
				}
				for _, r := range list {
					fmt.Fprintf(cmd.OutOrStdout(), "%-22s %s\n", r, r.Text())
				}
				return nil
			},
		}
	})
}
