// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"holdfast/test/host"
)

func init() {
	register(func(g *globals) *cobra.Command {
		return &cobra.Command{
			Use: "doctor", Short: "Say what this host can run, and why not", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return doctor(cmd, g.json) },
		}
	})
}

// doctor prints every feature. It ends well whatever it finds: a missing
// feature is an answer, not a failure.
func doctor(cmd *cobra.Command, asJSON bool) error {
	features := host.Probe()
	if asJSON {
		return printJSON(map[string]any{"features": features})
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	missing := 0
	for _, f := range features {
		mark := "yes"
		if !f.Present {
			mark, missing = "no", missing+1
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", mark, f.Name, f.Fact)
		if !f.Present {
			fmt.Fprintf(w, "\t\t  needed for: %s\n", f.Gives)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%d of %d features present.\n", len(features)-missing, len(features))
	return err
}
