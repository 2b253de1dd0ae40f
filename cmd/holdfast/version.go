// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// version is set by the Makefile from git.
var version = "devel"

func init() {
	register(func(g *globals) *cobra.Command {
		return &cobra.Command{
			Use: "version", Short: "Print the version", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if g.json {
					return printJSON(map[string]string{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "holdfast %s (%s %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
				return err
			},
		}
	})
}
