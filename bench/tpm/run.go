// SPDX-License-Identifier: Apache-2.0

package tpm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"holdfast/bench/stat"
	"holdfast/tss"
)

// Options of a run.
type Options struct {
	Ours   tss.Transport
	Peer   tss.Transport // another TPM; nil: not measured, as said in the result
	PeerIs string        // its name; default "swtpm"
	Quick  bool
	Log    func(format string, args ...any)
	Filter func(name string) bool // nil: all
}

// Row is one command. Times are in microseconds.
type Row struct {
	Name    string    `json:"name"`
	Calls   int       `json:"calls"` // on each side
	Ours    Quantiles `json:"ours_us"`
	Peer    Quantiles `json:"peer_us"`
	PeerIs  string    `json:"peer_is"`           // the peer's name, or bare primitive; "" if there is none here
	Ratio   float64   `json:"ours_over_peer"`    // of the medians
	Skipped string    `json:"skipped,omitempty"` // why the peer's side is missing
}

// Quantiles of a side.
type Quantiles struct {
	P5  float64 `json:"p5"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// blocks is in how many turns the calls of a row are split; who begins
// alternates too, since whoever comes first warms the caches of both.
const blocks = 20

// Run measures every operation.
func Run(ctx context.Context, o Options) ([]Row, error) {
	ours := tss.New(o.Ours)
	p := peer{name: o.PeerIs}
	if p.name == "" {
		p.name = "swtpm"
	}
	if o.Peer != nil {
		p.tpm = tss.New(o.Peer)
	}
	var out []Row
	for _, op := range operations {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if o.Filter != nil && !o.Filter(op.name) {
			continue
		}
		r, err := op.run(ours, p, o.Quick)
		if err != nil {
			return out, fmt.Errorf("%s: %w", op.name, err)
		}
		o.Log("%s", r.Line())
		out = append(out, r)
	}
	return out, nil
}

// Line is the row for people.
func (r Row) Line() string {
	if r.PeerIs == "" {
		return fmt.Sprintf("%-36s %10.0f us   no peer here: %s", r.Name, r.Ours.P50, r.Skipped)
	}
	return fmt.Sprintf("%-36s %10.0f us   %-14s %10.0f us   ratio %5.2f", r.Name, r.Ours.P50, r.PeerIs, r.Peer.P50, r.Ratio)
}

// peer is the other TPM of a run.
type peer struct {
	name string
	tpm  *tss.TPM // nil: not here
}

func (op operation) run(ours *tss.TPM, p peer, quick bool) (r Row, err error) {
	r = Row{Name: op.name, Calls: op.calls}
	if quick {
		r.Calls = max(op.calls/5, 12)
	}
	call, cleanup, err := op.prepare(ours)
	if err != nil {
		return r, fmt.Errorf("ours: %w", err)
	}
	defer func() { err = errors.Join(err, cleanup()) }()
	var other func() error
	switch {
	case op.pq:
		r.PeerIs = "bare primitive"
		other, err = op.bare()
	case p.tpm == nil:
		r.Skipped = p.name + " is not here"
	default:
		r.PeerIs = p.name
		var done func() error
		if other, done, err = op.prepare(p.tpm); err == nil {
			defer func() { err = errors.Join(err, done()) }()
		}
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", r.PeerIs, err)
	}
	var a, b []float64
	for i := range blocks {
		for _, mine := range [2]bool{i%2 == 0, i%2 == 1} {
			if mine {
				if a, err = measure(call, a, max(r.Calls/blocks, 1)); err != nil {
					return r, fmt.Errorf("ours: %w", err)
				}
			} else if other != nil {
				if b, err = measure(other, b, max(r.Calls/blocks, 1)); err != nil {
					return r, fmt.Errorf("%s: %w", r.PeerIs, err)
				}
			}
		}
	}
	r.Calls = len(a)
	r.Ours, r.Peer = quantiles(a), quantiles(b)
	if r.Peer.P50 > 0 {
		r.Ratio = r.Ours.P50 / r.Peer.P50
	}
	return r, nil
}

func measure(call func() error, times []float64, n int) ([]float64, error) {
	for range n {
		start := time.Now()
		if err := call(); err != nil {
			return times, err
		}
		times = append(times, float64(time.Since(start).Nanoseconds())/1e3)
	}
	return times, nil
}

func quantiles(v []float64) Quantiles {
	return Quantiles{stat.Quantile(v, 0.05), stat.Median(v), stat.Quantile(v, 0.95)}
}

// AppendCSV appends rows with the facts of the host to a CSV file.
func AppendCSV(path string, facts stat.Host, rows []Row) error {
	header := append(append([]string{}, stat.HostColumns...), "command", "calls", "ours_p5_us", "ours_p50_us", "ours_p95_us", "peer", "peer_p5_us", "peer_p50_us", "peer_p95_us", "ours_over_peer")
	var out [][]string
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	for _, r := range rows {
		out = append(out, append(facts.Fields(), r.Name, strconv.Itoa(r.Calls), f(r.Ours.P5), f(r.Ours.P50), f(r.Ours.P95), r.PeerIs, f(r.Peer.P5), f(r.Peer.P50), f(r.Peer.P95), strconv.FormatFloat(r.Ratio, 'f', 3, 64)))
	}
	return stat.Append(path, header, out)
}
