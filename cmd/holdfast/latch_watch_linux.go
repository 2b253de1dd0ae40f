// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"holdfast/latch/gate"
	"holdfast/latch/watch"
)

func init() {
	registerLatch(func(g *globals) *cobra.Command {
		var config, cgroup, statsFile, readyFile string
		c := &cobra.Command{
			Use:   "watch --config FILE [--cgroup PATH]",
			Short: "Confirm the TLS sessions of a control group afterwards, without a gate",
			Long: `Records the TLS sessions of the processes in a control group (version 2),
holds nothing, and confirms from the manifests of the services' agents (batch:
true at their listeners) that each session ended at an attested receiver. A
session that no manifest lists before the deadline is an ALARM in the log, and
with action: kill its connection is ended. This detects a false receiver after
the fact; only a gate keeps the request from it. Ends on SIGTERM, with status 1
if there was an alarm. A configuration with every key:

` + watch.Example,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if config == "" {
					return usageError(errors.New("--config FILE is needed"))
				}
				conf, err := watch.LoadConfig(config)
				if err != nil {
					return usageError(err)
				}
				if cgroup == "" {
					cgroup = conf.Scope.Cgroup
				}
				if cgroup == "" {
					return usageError(errors.New("which processes? give --cgroup PATH, or scope: {cgroup: PATH} in the configuration"))
				}
				if os.Geteuid() != 0 {
					return unsupportedError(errors.New("latch watch needs root: control groups and eBPF"))
				}
				dir, err := gate.CgroupDir(cgroup)
				if err != nil {
					return unsupportedError(err)
				}
				w, err := watch.Open(conf, dir)
				if err != nil {
					return unsupportedError(err)
				}
				defer w.Close()
				slog.Info("watching", "cgroup", dir)
				if readyFile != "" {
					if err := os.WriteFile(readyFile, []byte(dir+"\n"), 0o644); err != nil {
						return err
					}
				}
				if err := w.Run(cmd.Context()); err != nil {
					return err
				}
				s := w.Stats()
				if statsFile != "" {
					err = writeJSON(statsFile, s)
				}
				if g.json {
					err = errors.Join(err, printJSON(s))
				}
				if err == nil && len(s.Alarms) > 0 {
					return refusedError(errors.New("there were alarms; see the log"))
				}
				return err
			},
		}
		c.Flags().StringVar(&config, "config", "", "configuration file of the watcher")
		c.Flags().StringVar(&cgroup, "cgroup", "", "control group, as a path below the cgroup v2 root")
		c.Flags().StringVar(&statsFile, "stats", "", "write the counters to this file as JSON at the end")
		c.Flags().StringVar(&readyFile, "ready", "", "write the control group's folder to this file when the watcher is up")
		return c
	})
}
