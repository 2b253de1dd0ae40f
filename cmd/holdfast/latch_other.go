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
	registerLatch(latchStatusOther)
}

// latchStatusOther asks a running gate; there are no control groups to list.
func latchStatusOther(g *globals) *cobra.Command {
	var control, config string
	var sessions int
	c := &cobra.Command{
		Use:   "status --control PATH | --config FILE",
		Short: "Show a gate's sessions and counters",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := controlOf(control, config)
			if err != nil {
				return err
			}
			if path == "" {
				return usageError(errors.New("--control PATH or --config FILE is needed"))
			}
			return askStatus(cmd, g, path, sessions)
		},
	}
	c.Flags().StringVar(&control, "control", "", "control socket of a running gate")
	c.Flags().StringVar(&config, "config", "", "configuration file that names the control socket")
	c.Flags().IntVar(&sessions, "sessions", 20, "live sessions to list, the latest")
	return c
}
