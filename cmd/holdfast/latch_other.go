// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func init() {
	for _, v := range []string{"run", "gate", "status"} {
		registerLatch(func(*globals) *cobra.Command {
			return &cobra.Command{Use: v, Short: "(Linux only)", DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
				return unsupportedError(errors.New("holding local sockets needs Linux with eBPF on control groups"))
			}}
		})
	}
}
