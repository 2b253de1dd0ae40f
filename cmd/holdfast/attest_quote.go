// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/attest/provider/csvguest"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/provider/tpmquote"
	"holdfast/attest/provider/tsm"
)

func init() { attestVerbs = append(attestVerbs, newAttestQuote) }

// quoting are the flags of `attest quote`.
type quoting struct {
	device                 reportDevice
	key, secret, data, out string
	root, name             string
	guest                  string
	extended               bool
	chain                  string
	pcrs, logs             []string
	cbor                   bool
}

func newAttestQuote(g *globals) *cobra.Command {
	var q quoting
	c := &cobra.Command{
		Use:   "quote --tpm SPEC --key FILE --secret FILE --pcrs sha256:0,7,14 [--event-log FILE]... --out FILE",
		Short: "Make evidence with an enrolled TPM and write it to a file",
		Long: `Make evidence with an enrolled TPM and write it, with the endorsements that
it needs, to a file: a CMW collection (RFC 9999), as JSON or with --cbor as CBOR.

With --guest the evidence is that of the confidential virtual machine that this
runs in: snp and tdx through the kernel's configfs-tsm, csv through /dev/csv-guest.

With --simulated-root instead of a TPM the evidence is SIMULATED: it comes from
no hardware, and only a policy that says so accepts it.`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := parseReportData(q.data)
			if err != nil {
				return err
			}
			b, err := q.run(cmd.Context(), d)
			if err != nil {
				return err
			}
			enc := b.JSON()
			if q.cbor {
				enc = b.CBOR()
			}
			if q.out == "" {
				_, err := cmd.OutOrStdout().Write(enc)
				return err
			}
			if err := replaceFile(q.out, enc, 0o644); err != nil {
				return err
			}
			if g.json {
				return printJSON(map[string]any{"file": q.out, "type": b.Report.Type, "simulated": b.Report.Type == evidence.TypeSimulated,
					"report_data": hex.EncodeToString(d[:]), "bytes": len(enc)})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: %s, %d bytes, %d endorsements\n", q.out, b.Report.Type, len(enc), len(b.Endorsements))
			return err
		},
	}
	q.device.flags(c)
	f := c.Flags()
	f.StringVar(&q.key, "key", "", "key file of the enrolment")
	f.StringVar(&q.secret, "secret", "", "secret file of the enrolment")
	f.StringArrayVar(&q.pcrs, "pcrs", nil, "PCRs to quote, such as sha256:0,7,14; once for each bank")
	f.StringArrayVar(&q.logs, "event-log", nil, "event log that leads to the PCRs; firmware's first")
	f.StringVar(&q.data, "report-data", "", "up to 64 bytes in hexadecimal that the evidence is for; the rest is zeros")
	f.StringVar(&q.out, "out", "", "file to write; standard output if absent")
	f.BoolVar(&q.cbor, "cbor", false, "write CBOR instead of JSON")
	f.StringVar(&q.guest, "guest", "", "snp, tdx or csv: evidence of this confidential virtual machine, not of a TPM")
	f.BoolVar(&q.extended, "extended", false, "with --guest csv: a report of version 2")
	f.StringVar(&q.chain, "chain", "", "with --guest csv: file with HSK and CEK; %s stands for the serial number")
	f.StringVar(&q.root, "simulated-root", "", "root file of `attest simulated-root`: make SIMULATED evidence")
	f.StringVar(&q.name, "name", "simulated", "name of the simulated environment")
	return c
}

func (q *quoting) run(ctx context.Context, d evidence.ReportData) (*evidence.Bundle, error) {
	p, done, err := q.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := p.Report(ctx, d)
	if err != nil {
		return nil, refusedError(err)
	}
	es, err := p.Endorsements(ctx)
	if err != nil {
		return nil, refusedError(err)
	}
	return evidence.NewBundle(r, es)
}

// open makes the provider ready; done ends it.
func (q *quoting) open(ctx context.Context) (p provider.Provider, done func(), err error) {
	if q.root != "" {
		return q.openSimulated()
	}
	if q.guest != "" {
		return q.openGuest(ctx)
	}
	if q.key == "" || q.secret == "" || len(q.pcrs) == 0 {
		return nil, nil, usageError(errors.New("attest quote: --key, --secret and --pcrs are needed"))
	}
	k, err := tpmquote.LoadKeyFile(q.key)
	if err != nil {
		return nil, nil, usageError(err)
	}
	s, err := tpmquote.LoadSecret(q.secret)
	if err != nil {
		return nil, nil, usageError(err)
	}
	defer clear(s)
	conn, err := q.device.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err := tpmquote.Open(conn, k, s, tpmquote.Options{PCRs: q.pcrs, EventLogs: q.logs})
	if err != nil {
		return nil, nil, refusedError(errors.Join(err, conn.Close()))
	}
	return t, func() { t.Close(); conn.Close() }, nil
}

func (q *quoting) openGuest(ctx context.Context) (provider.Provider, func(), error) {
	var p provider.Provider
	var err error
	switch q.guest {
	case "snp":
		p, err = tsm.Open(ctx, tsm.Options{Kind: tsm.SNP})
	case "tdx":
		p, err = tsm.Open(ctx, tsm.Options{Kind: tsm.TDX})
	case "csv":
		p, err = csvguest.Open(ctx, csvguest.Options{Extended: q.extended, Chain: q.chain})
	default:
		return nil, nil, usageError(fmt.Errorf("--guest: expected snp, tdx or csv, got %q", q.guest))
	}
	if err != nil {
		return nil, nil, refusedError(err)
	}
	return p, func() { p.Close() }, nil
}

func (q *quoting) openSimulated() (provider.Provider, func(), error) {
	b, err := readPrivate(q.root)
	if err != nil {
		return nil, nil, err
	}
	defer clear(b)
	root, err := simulated.ParseRoot(b)
	if err != nil {
		return nil, nil, usageError(fmt.Errorf("%s: %w", q.root, err))
	}
	r, err := root.Record()
	if err != nil {
		return nil, nil, err
	}
	p, err := simulated.New(root, simulated.Options{Name: q.name, Algorithm: r.Algorithm})
	if err != nil {
		return nil, nil, usageError(err)
	}
	return p, func() { p.Close() }, nil
}

// readPrivate reads a small file that only its owner can read.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, usageError(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, usageError(fmt.Errorf("%s: mode %04o: expected a file that only its owner can read (chmod 600)", path, info.Mode().Perm()))
	}
	return readLimited(path, 1<<16)
}
