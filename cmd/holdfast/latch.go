// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// latchVerbs are the commands below `holdfast latch`; each file adds its own.
var latchVerbs []func(*globals) *cobra.Command

// registerLatch adds a command below `holdfast latch`; called from init.
func registerLatch(f func(*globals) *cobra.Command) { latchVerbs = append(latchVerbs, f) }

func init() {
	register(func(g *globals) *cobra.Command {
		c := &cobra.Command{
			Use:   "latch",
			Short: "Attest the receiver of TLS sessions, and hold traffic until it is verified",
			Args:  cobra.NoArgs,
		}
		for _, f := range latchVerbs {
			c.AddCommand(f(g))
		}
		return c
	})
}
