// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"
)

// benches are the subcommands of bench, each in its own file.
var benches []func(*globals) *cobra.Command

func init() {
	register(func(g *globals) *cobra.Command {
		c := &cobra.Command{Use: "bench", Short: "Measure, beside peers in the same run (bench/METHOD.md says how)"}
		for _, f := range benches {
			c.AddCommand(f(g))
		}
		return c
	})
}
