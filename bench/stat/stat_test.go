// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"testing"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		q, w float64
	}{
		{nil, 0.5, 0}, {[]float64{3}, 0.9, 3}, {[]float64{4, 1, 3, 2}, 0.5, 2.5}, {[]float64{5, 1, 3}, 0.5, 3}, {[]float64{0, 10}, 0.95, 9.5}, {[]float64{1, 2}, 1, 2},
	} {
		if got := Quantile(c.v, c.q); math.Abs(got-c.w) > 1e-12 {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.v, c.q, got, c.w)
		}
	}
}

func TestPairedRatio(t *testing.T) {
	r := PairedRatio([]float64{9, 18, 27, 36}, []float64{10, 20, 30, 40})
	if math.Abs(r.Median-0.9) > 1e-12 || math.Abs(r.Low-0.9) > 1e-12 || math.Abs(r.High-0.9) > 1e-12 || r.Pairs != 4 {
		t.Errorf("equal ratios: %+v, want 0.9 with no spread", r)
	}
	r = PairedRatio([]float64{1, 2, 3, 4, 5, 6, 7}, []float64{1, 1, 1, 1, 1, 1, 1})
	if r.Median != 4 || r.Low >= 4 || r.High <= 4 || r.Low < 1 || r.High > 7 {
		t.Errorf("spread: %+v", r)
	}
	if r := PairedRatio([]float64{1}, []float64{0}); r.Pairs != 0 {
		t.Errorf("a failed sample counts: %+v", r)
	}
}

func TestBusy(t *testing.T) {
	if b := (Host{Cores: 2, Load: "0.80 4.00 9.00"}).Busy(); b != "" {
		t.Errorf("load 0.8 on two cores: %q", b)
	}
	if b := (Host{Cores: 2, Load: "2.50 0.10 0.10"}).Busy(); b == "" {
		t.Error("load 2.5 on two cores is not called busy")
	}
}
