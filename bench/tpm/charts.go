// SPDX-License-Identifier: Apache-2.0

package tpm

import (
	"slices"

	"holdfast/bench/plot"
)

// speedups are the pairs of the seed's Figures 5 and 6: how many times as fast
// the quantum-resistant operation is as the number-theoretic one.
var speedups = []struct {
	name     string
	old, new [2]string // algorithm and column
}{
	{"Create: KEM / RSA", [2]string{"RSA-2048", "Create"}, [2]string{"ML-KEM-768", "Create"}},
	{"Create: DSA / RSA", [2]string{"RSA-2048", "Create"}, [2]string{"ML-DSA-65", "Create"}},
	{"Create: DSA / ECC", [2]string{"ECC P-256", "Create"}, [2]string{"ML-DSA-65", "Create"}},
	{"Sign: DSA / RSA", [2]string{"RSA-2048", "Sign"}, [2]string{"ML-DSA-65", "Sign"}},
	{"Sign: DSA / ECC", [2]string{"ECC P-256", "Sign"}, [2]string{"ML-DSA-65", "Sign"}},
	{"Verify: DSA / RSA", [2]string{"RSA-2048", "Verify"}, [2]string{"ML-DSA-65", "Verify"}},
	{"Verify: DSA / ECC", [2]string{"ECC P-256", "Verify"}, [2]string{"ML-DSA-65", "Verify"}},
	{"Encrypt: KEM / RSA", [2]string{"RSA-2048", "Encrypt"}, [2]string{"ML-KEM-768", "Encrypt"}},
	{"Decrypt: KEM / RSA", [2]string{"RSA-2048", "Decrypt"}, [2]string{"ML-KEM-768", "Decrypt"}},
}

// Charts draws the like of the seed's figures: sizes of keys (its Figure 4) as
// "key-sizes", and speedups on this processor (Figures 5 and 6) as "speedups".
func Charts(machine string, times []TableRow, memory []MemoryRow) map[string]*plot.Chart {
	sizes := &plot.Chart{Title: "Bytes of a key in the TPM", Bars: true, Y: plot.Axis{Label: "bytes", Log: true}}
	series := []plot.Series{{Name: "public area"}, {Name: "private area, wrapped"}, {Name: "saved context"}, {Name: "loaded (heap)"}}
	for _, m := range memory {
		x := float64(len(sizes.X.Names))
		sizes.X.Names = append(sizes.X.Names, m.Key)
		for i, v := range []int{m.Public, m.Private, m.Context, m.Loaded} {
			series[i].Points = append(series[i].Points, plot.Point{X: x, Y: float64(v)})
		}
	}
	sizes.Series = series

	fast := &plot.Chart{Title: "Quantum-resistant over number-theoretic, " + machine, Bars: true, Y: plot.Axis{Label: "times as fast (below 1: slower)", Log: true}}
	var s plot.Series
	s.Name = "speedup"
	for _, p := range speedups {
		a, ok := micros(times, p.old)
		b, too := micros(times, p.new)
		if !ok || !too || b <= 0 {
			continue
		}
		s.Points = append(s.Points, plot.Point{X: float64(len(fast.X.Names)), Y: a / b})
		fast.X.Names = append(fast.X.Names, p.name)
	}
	fast.Series = []plot.Series{s}
	return map[string]*plot.Chart{"key-sizes": sizes, "speedups": fast}
}

func micros(rows []TableRow, at [2]string) (float64, bool) {
	i := slices.IndexFunc(rows, func(r TableRow) bool { return r.Algorithm == at[0] })
	if i < 0 {
		return 0, false
	}
	v, ok := rows[i].Micros[at[1]]
	return v, ok
}
