// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/bench/stat"
	"holdfast/bench/tpm"
	"holdfast/test/host"
)

func init() {
	benches = append(benches, func(g *globals) *cobra.Command {
		var quick bool
		var csvFile, only string
		c := &cobra.Command{
			Use: "tpm", Short: "Our TPM beside swtpm, command by command", Args: cobra.NoArgs,
			Long: "Measure our TPM (holdfast tpm serve) and swtpm over the swtpm data protocol on unix sockets, in alternating\n" +
				"blocks of calls; the post-quantum commands, which swtpm lacks, beside the bare primitive.",
			RunE: func(cmd *cobra.Command, _ []string) error { return benchTPM(cmd, g, quick, csvFile, only) },
		}
		c.Flags().BoolVar(&quick, "quick", false, "a fifth of the calls")
		c.Flags().StringVar(&csvFile, "csv", "", "append the rows to this CSV file")
		c.Flags().StringVar(&only, "only", "", "only commands whose name holds this")
		return c
	})
}

func benchTPM(cmd *cobra.Command, g *globals, quick bool, csvFile, only string) error {
	facts := stat.ThisHost(version)
	log := func(format string, a ...any) {
		if !g.json {
			fmt.Fprintf(cmd.OutOrStdout(), format+"\n", a...)
		}
	}
	rows, err := runBenchTPM(cmd.Context(), tpm.Options{Quick: quick, Log: log, Filter: func(n string) bool { return strings.Contains(n, only) }})
	if err != nil {
		return err
	}
	if csvFile != "" {
		if err := tpm.AppendCSV(csvFile, facts, rows); err != nil {
			return err
		}
	}
	if b := facts.Busy(); b != "" {
		log("%s", b)
	}
	if g.json {
		return printJSON(map[string]any{"host": facts, "transport": "swtpm data protocol, unix socket", "rows": rows})
	}
	return nil
}

// runBenchTPM starts both servers around the run.
func runBenchTPM(ctx context.Context, o tpm.Options) (rows []tpm.Row, err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ours, err := tpm.StartOurs(ctx, self, mkdir(dir, "ours"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	o.Ours = ours
	if host.Has("swtpm").Present {
		peer, err := tpm.StartSwtpm(ctx, mkdir(dir, "swtpm"))
		if err != nil {
			return nil, err
		}
		defer peer.Close()
		o.Peer = peer
	}
	return tpm.Run(ctx, o)
}

// mkdir makes a private folder in dir; if it cannot, its use will say why.
func mkdir(dir, name string) string {
	p := dir + "/" + name
	_ = os.Mkdir(p, 0o700)
	return p
}
