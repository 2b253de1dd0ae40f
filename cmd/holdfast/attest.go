// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/explain"
)

// attestVerbs are the commands below `holdfast attest`; each file adds its own.
var attestVerbs []func(*globals) *cobra.Command

func init() {
	register(func(g *globals) *cobra.Command {
		c := &cobra.Command{
			Use:   "attest",
			Short: "Make, show and appraise attestation evidence; enrol attestation keys",
			Long: `Make, show and appraise attestation evidence; enrol attestation keys.

An Attester measures programs before it starts them (measure), is enrolled
once (enroll), and then makes evidence (quote). A Verifier holds the trust
file that enroll wrote, and says whether evidence is genuine and whether a
policy accepts it (verify). show explains a file without judging it.`,
			Args: cobra.NoArgs,
		}
		for _, f := range attestVerbs {
			c.AddCommand(f(g))
		}
		return c
	})
	attestVerbs = append(attestVerbs, newAttestShow)
}

func newAttestShow(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE",
		Short: "Explain a file of evidence line by line, without verifying it",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := readBundle(args[0])
			if err != nil {
				return err
			}
			l, err := explain.Bundle(b)
			if g.json {
				if e := printJSON(map[string]any{"verified": false, "lines": l}); e != nil {
					return e
				}
			} else {
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				for _, x := range l {
					fmt.Fprintf(w, "%s\t%s\t%s\n", x.Label, x.Value, x.Note)
				}
				if e := w.Flush(); e != nil {
					return e
				}
			}
			if err != nil {
				return refusedError(fmt.Errorf("%s: %w", args[0], err))
			}
			return nil
		},
	}
}

// exactArgs is cobra.ExactArgs with the exit status of wrong use.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError(fmt.Errorf("%s: expected %d argument(s), got %d; see --help", cmd.CommandPath(), n, len(args)))
		}
		return nil
	}
}

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, usageError(fmt.Errorf("%s: expected at most %d bytes", path, limit))
	}
	return b, nil
}

func readBundle(path string) (*evidence.Bundle, error) {
	raw, err := readLimited(path, evidence.MaxFile)
	if err != nil {
		return nil, err
	}
	b, err := evidence.ParseFile(raw)
	if err != nil {
		return nil, refusedError(fmt.Errorf("%s: %w", path, err))
	}
	return b, nil
}
