// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func init() {
	for v, why := range map[string]error{
		"run":   errors.New("holding the sockets of one command needs Linux with eBPF on control groups; use latch proxy here"),
		"agent": errors.New("the agent observes its services with eBPF and runs beside them on Linux only"),
	} {
		registerLatch(func(*globals) *cobra.Command {
			return &cobra.Command{Use: v, Short: "(Linux only)", DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error { return unsupportedError(why) }}
		})
	}
	registerLatch(func(g *globals) *cobra.Command { return latchStatus(g, nil) })
}
