// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"holdfast/bench/plot"
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

// writeChart draws a chart into a file.
func writeChart(path string, c *plot.Chart) error {
	b, err := c.SVG()
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
