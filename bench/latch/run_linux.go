// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"strconv"
	"time"

	"holdfast/bench/stat"
)

// Quick is what --quick measures.
var Quick = []Point{{Concurrency: 64, Pairs: 15, Time: time.Second}, {Concurrency: 16, Pairs: 9, Time: time.Second}, {Concurrency: 1, Pairs: 9, Time: time.Second}}

// Outcome is what was measured at one concurrency.
type Outcome struct {
	LatchOverPlain float64    `json:"latch_over_plain"` // median of paired ratios of connections per second
	RateInterval   [2]float64 `json:"latch_over_plain_interval"`
	CPURatio       float64    `json:"cpu_ratio"` // see METHOD.md
	CPUInterval    [2]float64 `json:"cpu_ratio_interval"`
	WithReporter   float64    `json:"cpu_ratio_with_reporter"`
	Pairs          int        `json:"pairs"`
	Plain          Side       `json:"plain"`
	Latch          Side       `json:"latch"`
	AddedP50       float64    `json:"added_p50_ms"` // median of paired differences
	Errors         int        `json:"errors"`
	FirstError     string     `json:"first_error,omitempty"`
}

// Results by "c64" and so on.
type Results map[string]Outcome

// Run measures every point with two sides, native TLS and the latch.
func Run(ctx context.Context, o Options) (Results, error) {
	cs, err := Compare(ctx, o)
	out := Results{}
	for i := range cs {
		out["c"+strconv.Itoa(cs[i].Concurrency)] = cs[i].outcome()
	}
	return out, err
}

// outcome is a comparison of two sides.
func (c *Comparison) outcome() Outcome {
	plain, latch := &c.Sides[0], &c.Sides[1]
	all := func(m measured) float64 { return m.total(true) }
	r := Outcome{
		LatchOverPlain: latch.OverNative.Median, RateInterval: [2]float64{latch.OverNative.Low, latch.OverNative.High},
		CPURatio: latch.CPURatio.Median, CPUInterval: [2]float64{latch.CPURatio.Low, latch.CPURatio.High},
		WithReporter: stat.PairedRatio(values(plain.samples, all), values(latch.samples, all)).Median,
		Pairs:        c.Rounds, Plain: plain.Side, Latch: latch.Side, AddedP50: latch.Added.Median,
		Errors: plain.Errors + latch.Errors, FirstError: plain.FirstError,
	}
	if r.FirstError == "" {
		r.FirstError = latch.FirstError
	}
	return r
}
