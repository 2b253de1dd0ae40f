// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/attest/trust"
)

func init() { attestVerbs = append(attestVerbs, newAttestPin) }

func newAttestPin(g *globals) *cobra.Command {
	var name, kind, chip, trustFile string
	c := &cobra.Command{
		Use:   "pin --name ENVIRONMENT --type sev-snp|tdx|csv --chip HEX --trust FILE",
		Short: "Pin the chip of a confidential virtual machine in a trust file",
		Long: `Pin the chip of a confidential virtual machine in a trust file, so that policies can
accept it by name. The chip's identity comes from the provider of the machine;
'attest verify' of evidence from a chip that is not pinned names it, too, but then
you trust the machine that the evidence came from.

  sev-snp   CHIP_ID, 64 bytes
  tdx       PPID of the PCK certificate, 16 bytes
  csv       SHA-256 of the chip endorsement key's point, 32 bytes`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if trustFile == "" {
				return usageError(errors.New("attest pin: --trust is needed"))
			}
			id, err := hex.DecodeString(chip)
			if err != nil {
				return usageError(fmt.Errorf("--chip: %w", err))
			}
			var all trust.Records
			old, err := trust.Load(trustFile)
			switch {
			case err == nil:
				all = old.Records()
			case !errors.Is(err, os.ErrNotExist):
				return usageError(err)
			}
			all.Platforms = append(all.Platforms, trust.Platform{Environment: name, Type: kind, Chip: id})
			roots, err := trust.Build(all)
			if err != nil {
				return usageError(fmt.Errorf("%s: %w", trustFile, err))
			}
			b, err := roots.Encode()
			if err != nil {
				return err
			}
			if err := replaceFile(trustFile, b, 0o644); err != nil {
				return err
			}
			if g.json {
				return printJSON(map[string]any{"environment": name, "type": kind, "chip": chip, "trust": trustFile})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "pinned %s (%s) in %s\n", name, kind, trustFile)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&name, "name", "", "the environment's name, by which policies accept it")
	f.StringVar(&kind, "type", "", "sev-snp, tdx or csv")
	f.StringVar(&chip, "chip", "", "the chip's identity in hexadecimal")
	f.StringVar(&trustFile, "trust", "", "trust file; made if missing")
	return c
}
