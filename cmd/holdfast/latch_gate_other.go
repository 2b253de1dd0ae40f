// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !windows

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"holdfast/latch/gate"
)

func init() {
	registerLatch(func(g *globals) *cobra.Command {
		return latchGate(g, gatePlatform{run: func(*cobra.Command, *gateFlags, *gate.Config) error {
			return unsupportedError(errors.New("gating what does not ask for it needs Linux with eBPF on control groups, or Windows with WinDivert; use latch proxy here (--check works)"))
		}})
	})
}
