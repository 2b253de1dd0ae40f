// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/internal/hot"
	"holdfast/latch/gate"
)

func init() { registerLatch(latchRun) }

func latchRun(g *globals) *cobra.Command {
	var config, statsFile string
	c := &cobra.Command{
		Use:   "run --config FILE -- COMMAND [ARGUMENT...]",
		Short: "Run one command with its connections gated",
		Long: `Runs COMMAND in a control group of its own in which every TCP connection is
held until its receiver is attested, or refused. It needs root for that; under
sudo the command runs as the user who called sudo. The exit status is the
command's. Should holdfast die, the command's connections stay shut.`,
		Example: "  sudo holdfast latch run --config gate.yaml -- curl https://service.example/",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conf, err := loadGate(config)
			if err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return unsupportedError(errors.New("latch run needs root (it makes a control group and loads eBPF programs): call it with sudo"))
			}
			hot.OneProcessor()
			status, stats, err := gate.RunCommand(cmd.Context(), conf, gate.Command{Args: args})
			if statsFile != "" {
				if e := writeJSON(statsFile, stats); e != nil {
					err = errors.Join(err, e)
				}
			}
			switch {
			case err != nil && status == 127:
				return statusError{127, err}
			case err != nil:
				return unsupportedError(fmt.Errorf("latch run: %w", err))
			case status != 0:
				return statusError{status, nil}
			}
			return nil
		},
	}
	c.Flags().StringVar(&config, "config", "", "configuration file of the gate")
	c.Flags().StringVar(&statsFile, "stats", "", "write the gate's counters to this file as JSON at the end")
	c.Flags().SetInterspersed(false)
	return c
}
