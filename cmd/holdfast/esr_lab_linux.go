// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"holdfast/test/esr/lab"
)

// esrLab is `holdfast esr lab`.
func esrLab(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "lab",
		Short: "Run seven designs of attested channels against the adversaries and print who read the request",
		Long: `Run seven designs of attested channels against adversaries with every
combination of four powers, for real: sockets, TLS and adversaries are live, the
evidence is SIMULATED. Prints the mapping table with what came out; with --json
also why the client refused in each case.`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := context.WithTimeout(cmd.Context(), 5*time.Minute)
			defer stop()
			r, err := lab.Run(ctx)
			if err != nil {
				return err
			}
			if g.json {
				return printJSON(r)
			}
			return r.Print(cmd.OutOrStdout())
		},
	}
}
