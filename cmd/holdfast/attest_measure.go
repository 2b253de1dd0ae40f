// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	launch "holdfast/attest/provider/measure"
	"holdfast/tss"
)

func init() { attestVerbs = append(attestVerbs, newAttestMeasure) }

func newAttestMeasure(g *globals) *cobra.Command {
	var device reportDevice
	var pcr int
	var log, kind string
	c := &cobra.Command{
		Use:   "measure FILE... --tpm SPEC --pcr N --log FILE",
		Short: "Extend a PCR with the digests of files and write them down in an event log",
		Long: `Extend a PCR with the digests of files and write them down in an event log,
so that later evidence proves what was started.

A launcher runs this before it starts the agent and the service, for example as
ExecStartPre= of their units: first measure, then start. The order matters: what
is measured after it ran could have lied about itself. The event log (TCG PC
Client format, one EV_EVENT_TAG event for each file with path and SHA-256)
belongs on a file system that is empty at each start of the machine, such as
/run, since PCRs begin anew there too. What starts the launcher must itself be
measured by something earlier, such as the firmware's measured boot.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || log == "" || pcr < 0 {
				return usageError(errors.New("attest measure: FILE, --pcr and --log are needed"))
			}
			conn, err := device.open(cmd.Context())
			if err != nil {
				return err
			}
			m, err := launch.Files(tss.New(conn), pcr, log, kind, args)
			if err = errors.Join(err, conn.Close()); err != nil {
				return refusedError(err)
			}
			out := make([]appraisedEvent, len(m))
			for i, x := range m {
				out[i] = appraisedEvent{uint32(pcr), x.Kind, x.Name, hex.EncodeToString(x.SHA256[:])}
			}
			if g.json {
				return printJSON(map[string]any{"log": log, "measured": out})
			}
			for _, x := range out {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "PCR %d  %s  %s  sha256:%s\n", x.PCR, x.Kind, x.Name, x.SHA256); err != nil {
					return err
				}
			}
			return nil
		},
	}
	device.flags(c)
	c.Flags().IntVar(&pcr, "pcr", -1, "PCR to extend, 0 to 15; 8 to 15 are the operating system's")
	c.Flags().StringVar(&log, "log", "", "event log to append to; begun if missing")
	c.Flags().StringVar(&kind, "kind", "file", "what the files are, for policies: file, config, ...")
	return c
}
