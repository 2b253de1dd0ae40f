// SPDX-License-Identifier: Apache-2.0

package stat

// PairedDiff is the median of a[i]-b[i] over samples taken one right after the
// other, with the interval of [PairedRatio].
func PairedDiff(a, b []float64) Ratio {
	var d []float64
	for i := range min(len(a), len(b)) {
		d = append(d, a[i]-b[i])
	}
	return interval(d)
}

// Spread is the median of single values with the same interval.
func Spread(v []float64) Ratio { return interval(v) }
