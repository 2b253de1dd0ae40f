// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/latch/door"
)

func init() {
	registerLatch(func(g *globals) *cobra.Command {
		var remove bool
		c := &cobra.Command{
			Use:   "door [--remove]",
			Short: "List the doors that keep unverified clients from services; remove what dead agents left",
			Long: `The agent of a service that wants evidence of its clients (clients: in its
configuration) guards the service's port: nothing but TLS hellos gets in before
the client is verified. When the agent ends or dies its door stays shut.
--remove takes away the doors whose agents are gone: anybody reaches those
services then.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if os.Geteuid() != 0 {
					return unsupportedError(errors.New("latch door needs root to read the pinned links"))
				}
				list, err := door.List()
				if err != nil {
					return err
				}
				var bad error
				if remove {
					for _, d := range list {
						if !d.Alive {
							bad = errors.Join(bad, door.Remove(d))
						}
					}
					if list, err = door.List(); err != nil {
						return err
					}
				}
				if g.json {
					return errors.Join(bad, printJSON(list))
				}
				for _, d := range list {
					what := "guarded by an agent"
					if !d.Alive {
						what = "SHUT: its agent is gone; start it again, or open the door with --remove"
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", d.Cgroup, what)
				}
				if len(list) == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "no door is there")
				}
				return bad
			},
		}
		c.Flags().BoolVar(&remove, "remove", false, "remove the doors whose agents are gone")
		return c
	})
}
