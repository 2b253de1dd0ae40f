// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"holdfast/latch/gate"
)

func init() {
	registerLatch(func(g *globals) *cobra.Command {
		return latchGate(g, gatePlatform{run: func(cmd *cobra.Command, f *gateFlags, conf *gate.Config) error {
			if os.Geteuid() != 0 {
				return unsupportedError(errors.New("latch gate needs root: control groups, eBPF, netfilter and raw sockets"))
			}
			return f.serve(cmd, conf, gate.OpenScope, func() error { return nil })
		}})
	})
}
