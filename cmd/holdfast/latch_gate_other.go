// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func init() {
	registerLatch(func(*globals) *cobra.Command {
		return &cobra.Command{Use: "gate", Short: "(Linux only)", DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
			return unsupportedError(errors.New("gating what does not ask for it needs Linux with eBPF on control groups; use latch proxy here"))
		}}
	})
}
