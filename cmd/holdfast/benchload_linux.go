// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast/bench/latch"
	"holdfast/bench/latch/baseline"
)

// loadFlags are those of the two ends of the load, which `bench latch` starts
// as processes of their own.
type loadFlags struct {
	kit, group string
	latency    time.Duration
	latch.LoadOptions
	count int
}

func init() {
	benches = append(benches, func(*globals) *cobra.Command {
		var f loadFlags
		return f.command("serve", "Serve the load of bench latch", func(cmd *cobra.Command, k *baseline.Kit) error {
			return latch.Serve(cmd.Context(), k, f.Design, f.Address, os.Stdout)
		})
	}, func(*globals) *cobra.Command {
		var f loadFlags
		c := f.command("load", "Make the load of bench latch", func(cmd *cobra.Command, k *baseline.Kit) error {
			s, err := latch.Load(cmd.Context(), k, f.LoadOptions)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(s)
		})
		c.Flags().IntVar(&f.Concurrency, "concurrency", 1, "connections at a time")
		c.Flags().DurationVar(&f.Time, "time", time.Second, "length of the sample")
		c.Flags().Int64Var(&f.Size, "size", 1024, "bytes of a request")
		return c
	}, func(*globals) *cobra.Command {
		var f loadFlags
		c := f.command("live", "Open sessions and keep them until the input ends", func(_ *cobra.Command, k *baseline.Kit) error {
			return latch.Live(k, f.Design, f.Address, f.count, os.Stdin, os.Stdout)
		})
		c.Flags().IntVar(&f.count, "count", 1, "sessions")
		return c
	})
}

func (f *loadFlags) command(use, short string, run func(*cobra.Command, *baseline.Kit) error) *cobra.Command {
	c := &cobra.Command{Use: use, Hidden: true, Args: cobra.NoArgs, Short: short, RunE: func(cmd *cobra.Command, _ []string) error {
		k, err := baseline.OpenKit(f.kit, f.group, f.latency)
		if err != nil {
			return err
		}
		return run(cmd, k)
	}}
	c.Flags().StringVar(&f.kit, "kit", "", "folder with what both ends share")
	c.Flags().StringVar(&f.group, "group", "x25519", "x25519 or x25519mlkem768")
	c.Flags().DurationVar(&f.latency, "latency", 0, "of a SIMULATED report")
	c.Flags().StringVar(&f.Design, "design", "native", "a design of package baseline")
	c.Flags().StringVar(&f.Address, "address", "", "HOST:PORT")
	return c
}
