// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"holdfast/latch/ops"
)

func init() { registerLatch(latchReload) }

// controlOf returns the control socket that is given, or that the
// configuration file of either role names.
func controlOf(control, config string) (string, error) {
	if control != "" {
		return control, nil
	}
	if config == "" {
		return "", nil
	}
	b, err := os.ReadFile(config)
	if err != nil {
		return "", usageError(err)
	}
	var c struct {
		Operations ops.Config `yaml:"operations"`
	}
	if err := yaml.Unmarshal(b, &c); err != nil {
		return "", usageError(fmt.Errorf("%s: %w", config, err))
	}
	if c.Operations.Control == "" {
		return "", usageError(fmt.Errorf("%s: it has no operations: {control: PATH}", config))
	}
	return c.Operations.Control, nil
}

func latchReload(g *globals) *cobra.Command {
	var control, config string
	c := &cobra.Command{
		Use:   "reload --control PATH | --config FILE",
		Short: "Have a running gate or agent read its configuration and keys again",
		Long: `Does what SIGHUP does and tells what came of it. A gate reads services, agents,
trust and policy files again; all of it takes force at once, or, after any
error, nothing. An agent opens its security processor and key files again. Both
open their audit logs again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := controlOf(control, config)
			if err != nil {
				return err
			}
			if path == "" {
				return usageError(errors.New("--control PATH or --config FILE is needed"))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			if _, err := ops.Call(ctx, path, "POST", "/reload"); err != nil {
				return refusedError(err)
			}
			if g.json {
				return printJSON(map[string]any{"reloaded": true})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "reloaded")
			return err
		},
	}
	c.Flags().StringVar(&control, "control", "", "control socket of the gate or agent")
	c.Flags().StringVar(&config, "config", "", "configuration file that names the control socket")
	return c
}

// askStatus asks a running program and prints its answer.
func askStatus(cmd *cobra.Command, g *globals, path string, sessions int) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
	defer cancel()
	b, err := ops.Call(ctx, path, "GET", "/status")
	if err != nil {
		return refusedError(err)
	}
	var any map[string]any
	if err := json.Unmarshal(b, &any); err != nil {
		return refusedError(err)
	}
	_, isGate := any["live"]
	if g.json || !isGate {
		return printJSON(any)
	}
	var s gateStatus
	if err := json.Unmarshal(b, &s); err != nil {
		return refusedError(err)
	}
	s.print(cmd.OutOrStdout(), sessions)
	return nil
}
