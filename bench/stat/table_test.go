// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math/rand/v2"
	"testing"
)

func TestTable(t *testing.T) {
	x := Table{Head: []string{"what", "µs"}}
	x.Add("a|b\nc", 12345.6)
	x.Add("short")
	want := "| what  | µs     |\n|-------|--------|\n| a/b c | 12,346 |\n| short |        |\n"
	if got := x.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.0123: "0.012", 0.84: "0.840", 1.5: "1.50", -12.34: "-12.3", 999.6: "1000", 9999: "9999", 12345: "12,345", -123456: "-123,456", 1234567: "1,234,567"} {
		if got := Short(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
	if got := (Ratio{Median: 0.5, Low: 0.25, High: 2}).String(); got != "0.500 [0.250, 2.00]" {
		t.Error(got)
	}
}

// TestPairedDiff: what both sides share goes out.
func TestPairedDiff(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a, b []float64
	for range 40 {
		common := 100 * rng.Float64()
		b = append(b, common)
		a = append(a, common+5+rng.Float64())
	}
	if d := PairedDiff(a, b); d.Median < 5 || d.Median > 6 || d.Low < 5 || d.High > 6 || d.Low > d.Median || d.High < d.Median || d.Pairs != 40 {
		t.Errorf("%+v", d)
	}
	if d := PairedDiff(nil, b); d != (Ratio{}) {
		t.Errorf("nothing: %+v", d)
	}
}
