// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"holdfast/latch/hold/windivert"
)

func init() {
	registerLatch(func(g *globals) *cobra.Command { return latchGateDiverted(g, windivert.System{}) })
}
