// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast/bench/latch"
)

// The two ends of the load, which `bench latch` starts as processes of their own.
func init() {
	benches = append(benches, func(*globals) *cobra.Command {
		var address, cert string
		c := &cobra.Command{Use: "serve", Hidden: true, Args: cobra.NoArgs, Short: "Serve the load of bench latch",
			RunE: func(cmd *cobra.Command, _ []string) error {
				return latch.Serve(cmd.Context(), address, cert, os.Stdout)
			}}
		c.Flags().StringVar(&address, "address", "", "HOST:PORT")
		c.Flags().StringVar(&cert, "cert", "", "file to write the certificate to")
		return c
	}, func(*globals) *cobra.Command {
		var o latch.LoadOptions
		c := &cobra.Command{Use: "load", Hidden: true, Args: cobra.NoArgs, Short: "Make the load of bench latch",
			RunE: func(cmd *cobra.Command, _ []string) error {
				s, err := latch.Load(cmd.Context(), o)
				if err != nil {
					return err
				}
				return json.NewEncoder(os.Stdout).Encode(s)
			}}
		c.Flags().StringVar(&o.Address, "address", "", "HOST:PORT")
		c.Flags().StringVar(&o.CertFile, "cert", "", "the server's certificate")
		c.Flags().StringVar(&o.Group, "group", "x25519", "x25519 or x25519mlkem768")
		c.Flags().IntVar(&o.Concurrency, "concurrency", 1, "connections at a time")
		c.Flags().DurationVar(&o.Time, "time", time.Second, "length of the sample")
		return c
	})
}
