// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/hot"
	"holdfast/latch/gate"
	"holdfast/latch/ops"
)

func init() { registerLatch(latchProxy) }

func latchProxy(g *globals) *cobra.Command {
	var config, statsFile, readyFile string
	var check bool
	c := &cobra.Command{
		Use:   "proxy --config FILE",
		Short: "Gate the programs that use this as their proxy (any system, no privileges)",
		Long: `Takes clients as an HTTP CONNECT or SOCKS5 proxy and holds each of their TLS
connections until its receiver is attested, or refuses it. It runs on Linux,
macOS and Windows and needs no privileges. Programs that do not use it are not
gated: on Linux prefer ` + "`latch gate`" + `, which asks nobody.

  proxy:
    - {address: 127.0.0.1:3128, mode: connect}
    - {address: 127.0.0.1:1080, mode: socks5}

On Linux a rule of the system can lead connections here (mode: transparent):

  nft add table ip latch
  nft add chain ip latch out '{ type nat hook output priority -100; }'
  nft add rule ip latch out meta skuid != holdfast tcp dport 443 redirect to :3129`,
		Example: "  holdfast latch proxy --config gate.yaml &\n  curl -x http://127.0.0.1:3128 https://service.example/",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadGate(config)
			if err != nil {
				return err
			}
			if check {
				return checked(cmd, g, config, conf)
			}
			hot.OneProcessor()
			o, err := newOperations(config, conf)
			if err != nil {
				return refusedError(err)
			}
			conf.Watch(o.decided)
			s, err := gate.OpenProxy(conf)
			if err != nil {
				return refusedError(errors.Join(err, o.close()))
			}
			err = o.serve(cmd.Context(), conf.Operations, s.Gate, "the users of its proxy", s.Reload, func() (func(ops.Pair) bool, error) {
				there := map[ops.Pair]bool{}
				for _, p := range s.Proxy.Live() {
					there[ops.NewPair(p[0], p[1])] = true
				}
				return func(p ops.Pair) bool { return there[p] }, nil
			})
			if err != nil {
				return refusedError(errors.Join(err, s.Close(), o.close()))
			}
			s.Ready(cmd.Context(), 2*time.Second)
			for _, l := range conf.Proxy {
				slog.Info("the proxy is up", "address", l.Address, "mode", string(l.Mode))
			}
			if readyFile != "" {
				if err := os.WriteFile(readyFile, []byte("ready\n"), 0o644); err != nil {
					return errors.Join(err, s.Close(), o.close())
				}
			}
			<-cmd.Context().Done()
			stats := s.Stats()
			if statsFile != "" {
				err = writeJSON(statsFile, stats)
			}
			return errors.Join(err, s.Close(), o.close())
		},
	}
	c.Flags().BoolVar(&check, "check", false, "read the configuration and what it names, say whether it is right, and end")
	c.Flags().StringVar(&config, "config", "", "configuration file of the gate")
	c.Flags().StringVar(&statsFile, "stats", "", "write the counters to this file as JSON at the end")
	c.Flags().StringVar(&readyFile, "ready", "", "write this file when the proxy is up")
	return c
}
