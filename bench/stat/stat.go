// SPDX-License-Identifier: Apache-2.0

// Package stat holds the few statistics of the benchmarks: medians, paired
// ratios with a bootstrap interval, and the facts of the host that a figure
// belongs to. Start with [PairedRatio].
package stat

import (
	"math/rand/v2"
	"sort"
)

// Median of the values; 0 for none.
func Median(v []float64) float64 { return Quantile(v, 0.5) }

// Quantile q (0 to 1) by linear interpolation; 0 for no values.
func Quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := append([]float64(nil), v...)
	sort.Float64s(s)
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// Ratio is the median of paired ratios (or differences, or values) with its
// 95 % interval.
type Ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Pairs  int     `json:"pairs"`
}

// PairedRatio is the median of a[i]/b[i] over samples that were taken one
// right after the other, so that what the machine did meanwhile hits both. The
// interval is the percentile bootstrap of that median with 2,000 resamples;
// its random numbers are seeded, so that the same samples give the same
// interval.
func PairedRatio(a, b []float64) Ratio {
	n := min(len(a), len(b))
	var r []float64
	for i := range n {
		if b[i] != 0 {
			r = append(r, a[i]/b[i])
		}
	}
	return interval(r)
}

// interval is the median of values with its bootstrap interval.
func interval(r []float64) Ratio {
	if len(r) == 0 {
		return Ratio{}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	medians := make([]float64, 2000)
	sample := make([]float64, len(r))
	for i := range medians {
		for j := range sample {
			sample[j] = r[rng.IntN(len(r))]
		}
		medians[i] = Median(sample)
	}
	return Ratio{Median: Median(r), Low: Quantile(medians, 0.025), High: Quantile(medians, 0.975), Pairs: len(r)}
}
