// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"holdfast/attest/evidence/eventlog"
	"holdfast/tpm2"
	"holdfast/tss"
)

func init() { attestVerbs = append(attestVerbs, newAttestEventLog) }

// replayed is the output of `attest eventlog`.
type replayed struct {
	Events  []loggedEvent `json:"events"`
	PCRs    []replayedPCR `json:"pcrs"`
	Matches *bool         `json:"matches_tpm,omitempty"` // only with --tpm
}

type loggedEvent struct {
	PCR  uint32 `json:"pcr"`
	Type string `json:"type"`
	Size int    `json:"size"`
}

// A replayedPCR is a PCR that the log extends.
type replayedPCR struct {
	Bank  string `json:"bank"`
	Index int    `json:"index"`
	Value string `json:"value"`
	TPM   string `json:"tpm,omitempty"` // the TPM's value, with --tpm
	Same  *bool  `json:"same,omitempty"`

	hash tpm2.Alg
	want []byte
}

func newAttestEventLog(g *globals) *cobra.Command {
	var device reportDevice
	c := &cobra.Command{
		Use:   "eventlog FILE... [--tpm SPEC]",
		Short: "Show event logs of a measured boot, and replay them to PCR values",
		Long: `Show event logs of a measured boot (TCG PC Client format, SHA-256 and later), and
replay them to PCR values, in the order given: firmware first. With --tpm compare
each PCR that the logs extend with the TPM's; status 1 if one differs.

Linux shows the firmware's log as /sys/kernel/security/tpm0/binary_bios_measurements.
A comparison without a quote trusts the machine that answers: it finds mistakes, not
lies. Evidence for others is made by attest quote and judged by attest verify.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			logs, err := readLogs(args)
			if err != nil {
				return refusedError(err)
			}
			out, err := replay(logs)
			if err != nil {
				return refusedError(err)
			}
			if device.spec != "" {
				device.shared = true // nothing secret is asked
				conn, err := device.open(cmd.Context())
				if err != nil {
					return err
				}
				if err := errors.Join(out.compare(tss.New(conn)), conn.Close()); err != nil {
					return refusedError(err)
				}
			}
			if g.json {
				err = printJSON(out)
			} else {
				err = out.print(cmd.OutOrStdout())
			}
			if err == nil && out.Matches != nil && !*out.Matches {
				return refusedError(errors.New("the event log does not lead to the TPM's PCRs: something was extended that is not in the log, or the log is not of this boot"))
			}
			return err
		},
	}
	c.Flags().StringVar(&device.spec, "tpm", "", "compare with the PCRs of this TPM")
	return c
}

func readLogs(files []string) ([]*eventlog.Log, error) {
	var out []*eventlog.Log
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(f, eventlog.MaxSize+1))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		l, err := eventlog.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, l)
	}
	return out, nil
}

// replay replays the logs in every bank that the first one has and we can compute.
func replay(logs []*eventlog.Log) (*replayed, error) {
	out := &replayed{Events: []loggedEvent{}, PCRs: []replayedPCR{}}
	for _, l := range logs {
		for _, e := range l.Events {
			out.Events = append(out.Events, loggedEvent{e.PCR, eventlog.TypeName(e.Type), len(e.Data)})
		}
	}
	for _, a := range logs[0].Header.Algs {
		if a.Hash.New() == nil {
			continue
		}
		v, err := eventlog.Replay(a.Hash, logs...)
		if err != nil {
			return nil, err
		}
		for i, touched := range v.Touched {
			if touched && !v.Unknown[i] {
				out.PCRs = append(out.PCRs, replayedPCR{Bank: a.Hash.String(), Index: i, Value: hex.EncodeToString(v.Value[i]), hash: a.Hash, want: v.Value[i]})
			}
		}
	}
	return out, nil
}

// compare asks the TPM for each PCR that the logs extend. A log without such
// PCRs proves nothing and matches nothing.
func (r *replayed) compare(t *tss.TPM) error {
	all := len(r.PCRs) > 0
	for i := range r.PCRs {
		p := &r.PCRs[i]
		v, _, err := t.PCRRead(tpm2.SelectPCRs(p.hash, p.Index))
		if err != nil {
			return err
		}
		same := bytes.Equal(v[p.Index], p.want)
		p.TPM, p.Same = hex.EncodeToString(v[p.Index]), &same
		all = all && same
	}
	r.Matches = &all
	return nil
}

func (r *replayed) print(w io.Writer) error {
	var b bytes.Buffer
	for _, e := range r.Events {
		fmt.Fprintf(&b, "PCR %-2d  %-32s %d bytes\n", e.PCR, e.Type, e.Size)
	}
	for _, p := range r.PCRs {
		verdict := ""
		if p.Same != nil && *p.Same {
			verdict = "  as in the TPM"
		} else if p.Same != nil {
			verdict = "  NOT as in the TPM: " + p.TPM
		}
		fmt.Fprintf(&b, "%s PCR %-2d %s%s\n", p.Bank, p.Index, p.Value, verdict)
	}
	_, err := w.Write(b.Bytes())
	return err
}
