// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"sort"

	"github.com/spf13/cobra"

	"holdfast/latch/gate"
)

func init() { registerLatch(latchCheck) }

// loadGate reads a gate's configuration and everything that it names.
func loadGate(path string) (*gate.Config, error) {
	if path == "" {
		return nil, usageError(errors.New("--config FILE is needed"))
	}
	c, err := gate.LoadConfig(path)
	if err != nil {
		return nil, usageError(err)
	}
	if err := c.Check(); err != nil {
		return nil, usageError(err)
	}
	return c, nil
}

// checked says that a configuration is right.
func checked(cmd *cobra.Command, g *globals, file string, c *gate.Config) error {
	var names []string
	for n := range c.Services {
		names = append(names, n)
	}
	sort.Strings(names)
	if g.json {
		return printJSON(map[string]any{"ok": true, "services": names})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: good; %d services\n", file, len(names))
	return err
}

func latchCheck(g *globals) *cobra.Command {
	var config string
	c := &cobra.Command{
		Use: "check --config FILE", Short: "Check a gate's configuration, trust and policy files", Args: cobra.NoArgs,
		Long: "Reads the configuration of a gate and every file that it names, and says what is\nwrong. A configuration with every key:\n\n" + gate.Example,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadGate(config)
			if err != nil {
				return err
			}
			return checked(cmd, g, config, conf)
		},
	}
	c.Flags().StringVar(&config, "config", "", "configuration file of the gate")
	return c
}
