// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/hot"
	"holdfast/latch/agent"
	"holdfast/latch/audit"
	"holdfast/latch/observe"
)

func init() {
	registerLatch(func(g *globals) *cobra.Command {
		var config string
		var check bool
		c := &cobra.Command{
			Use:   "agent --config FILE",
			Short: "Attest the TLS sessions of this machine's services to gates",
			Long: `Attest the TLS sessions of this machine's services to gates.

The agent observes the ServerHellos of the listeners in its configuration,
takes announcements of gates over the evidence channel, and has the security
processor sign what both agree on. It runs beside the services as root (or with
CAP_BPF, CAP_NET_ADMIN, CAP_SYS_PTRACE) and touches none of their packets. It
ends on SIGTERM. SIGHUP has it open its security processor, the files of its key
and the audit log again. --check reads the configuration and ends.

A listener counts if its creator runs one of executables, in one of units, as
one of users (numbers). Without units only root's listeners count, unless users
says otherwise: any user can start an approved program in his own way.

  listeners:
    - {address: 0.0.0.0:443, service: shop, executables: [/usr/sbin/nginx], units: [nginx.service]}
  channel:
    listen: [tcp:0.0.0.0:7443]
  provider:
    tpm: {address: swtpm:unix:/run/holdfast/tpm.sock, key: /etc/holdfast/ak.yaml, secret: /etc/holdfast/ak.secret, pcrs: [sha256:0,7,14]}
  operations: {control: /run/holdfast/agent.sock, metrics: 127.0.0.1:9478, audit: {file: /var/log/holdfast/agent.jsonl}}`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return latchAgent(cmd, g.json, config, check) },
		}
		c.Flags().StringVar(&config, "config", "", "configuration file (YAML)")
		c.Flags().BoolVar(&check, "check", false, "read the configuration, say whether it is right, and end")
		return c
	})
}

func latchAgent(cmd *cobra.Command, asJSON bool, file string, check bool) error {
	if file == "" {
		return usageError(errors.New("--config: no file given"))
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return usageError(err)
	}
	c, err := agent.ParseConfig(b)
	if err != nil {
		return usageError(fmt.Errorf("%s: %w", file, err))
	}
	if check {
		if asJSON {
			return printJSON(map[string]any{"config": file, "ok": true, "listeners": len(c.Listeners)})
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: good, %d listeners\n", file, len(c.Listeners))
		return err
	}
	start := time.Now()
	hot.OneProcessor()
	log, err := audit.Open(c.Operations.Audit)
	if err != nil {
		return refusedError(err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			slog.Error("audit", "error", err)
		}
	}()
	r, err := c.OpenWatched(version, func(d *agent.Decision) { log.Add(agentEvent(d)) })
	if errors.Is(err, observe.ErrUnsupported) {
		return unsupportedError(err)
	}
	if err != nil {
		return refusedError(err)
	}
	defer r.Close()
	for _, a := range r.Addrs() {
		slog.Info("the agent answers gates", "network", a.Network(), "address", a.String())
	}
	stop, err := operateAgent(cmd.Context(), c.Operations, r, log, start)
	if err != nil {
		return refusedError(err)
	}
	defer stop()
	err = r.Run(cmd.Context())
	s := r.Stats()
	slog.Info("the agent ends", "sessions", s.Attested, "reports", s.Reports, "after", time.Since(start).Round(time.Millisecond).String())
	if asJSON {
		err = errors.Join(err, printJSON(s))
	}
	if err != nil {
		return refusedError(err)
	}
	return nil
}
