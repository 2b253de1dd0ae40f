// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// globals are the flags that every command has.
type globals struct {
	json      bool
	logLevel  string
	logFormat string
}

var verbs []func(*globals) *cobra.Command

// register adds a verb to the command line; called from init in the verb's
// own file, so that rooms do not edit each other's files.
func register(f func(*globals) *cobra.Command) { verbs = append(verbs, f) }

func newRoot() *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:           "holdfast",
		Short:         "Release data only to a TLS session whose receiving key is held by software you approved",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return g.setupLog(cmd.ErrOrStderr())
		},
	}
	root.PersistentFlags().BoolVar(&g.json, "json", false, "print the result as JSON")
	root.PersistentFlags().StringVar(&g.logLevel, "log-level", "info", "debug, info, warn or error")
	root.PersistentFlags().StringVar(&g.logFormat, "log-format", "text", "text or json")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	for _, f := range verbs {
		root.AddCommand(f(g))
	}
	return root
}

func (g *globals) setupLog(w io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(g.logLevel)); err != nil {
		return usageError(fmt.Errorf("--log-level: got %q, expected debug, info, warn or error", g.logLevel))
	}
	o := &slog.HandlerOptions{Level: level}
	switch strings.ToLower(g.logFormat) {
	case "text":
		slog.SetDefault(slog.New(slog.NewTextHandler(w, o)))
	case "json":
		slog.SetDefault(slog.New(slog.NewJSONHandler(w, o)))
	default:
		return usageError(fmt.Errorf("--log-format: got %q, expected text or json", g.logFormat))
	}
	return nil
}

// printJSON writes v, indented, to standard output.
func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
