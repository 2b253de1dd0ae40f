// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/attest/evidence"
)

func init() { attestVerbs = append(attestVerbs, newAttestWrap) }

// wrapTypes are the reports that `attest wrap` takes, with their endorsements.
var wrapTypes = map[string][2]string{
	"sev-snp": {evidence.TypeSNP, evidence.TypeCertificate},
	"tdx":     {evidence.TypeTDX, ""},
	"csv":     {evidence.TypeCSV, evidence.TypeCSVChain},
}

func newAttestWrap(g *globals) *cobra.Command {
	var kind, report, endorsement, out string
	var asCBOR bool
	c := &cobra.Command{
		Use:   "wrap --type sev-snp|tdx|csv --report FILE [--endorsement FILE] --out FILE",
		Short: "Make a file of evidence from a raw report that another program made",
		Long: `Make a file of evidence, a CMW collection (RFC 9999), from a raw report that
another program made. --endorsement is the certificate of the VCEK or VLEK (DER) for
sev-snp, HSK and CEK for csv; without it the verifier takes it from its collateral.`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			types, ok := wrapTypes[kind]
			if !ok || report == "" || out == "" {
				return usageError(errors.New("attest wrap: --type (sev-snp, tdx or csv), --report and --out are needed"))
			}
			body, err := readLimited(report, evidence.MaxReportBody)
			if err != nil {
				return err
			}
			b := &evidence.Bundle{Report: evidence.Report{Type: types[0], Body: body}}
			if endorsement != "" {
				if types[1] == "" {
					return usageError(fmt.Errorf("--endorsement: evidence of type %s carries its own", kind))
				}
				e, err := readLimited(endorsement, evidence.MaxEndorsementBody)
				if err != nil {
					return err
				}
				b.Endorsements = []evidence.Endorsement{{Type: types[1], Body: e}}
				b.Report.Needs = [][32]byte{b.Endorsements[0].Hash()}
			}
			enc := b.JSON()
			if asCBOR {
				enc = b.CBOR()
			}
			if _, err := evidence.ParseFile(enc); err != nil {
				return usageError(err)
			}
			if err := replaceFile(out, enc, 0o644); err != nil {
				return err
			}
			if g.json {
				return printJSON(map[string]any{"file": out, "type": b.Report.Type, "bytes": len(enc)})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: %s, %d bytes, %d endorsements\n", out, b.Report.Type, len(enc), len(b.Endorsements))
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&kind, "type", "", "sev-snp, tdx or csv")
	f.StringVar(&report, "report", "", "the raw report")
	f.StringVar(&endorsement, "endorsement", "", "certificate or chain of the report key")
	f.StringVar(&out, "out", "", "file to write")
	f.BoolVar(&asCBOR, "cbor", false, "write CBOR instead of JSON")
	return c
}
