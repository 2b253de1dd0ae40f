// SPDX-License-Identifier: Apache-2.0

package enclave

import (
	"fmt"

	"holdfast/bench/plot"
)

// Charts draws edge calls and exceptions by mode, and what the marshalling buffer
// adds, by file name.
func Charts(rows []Row) map[string]*plot.Chart {
	var modes []string
	for _, m := range []string{"HU", "GU", "P"} {
		if _, ok := find(rows, opECall, m); ok {
			modes = append(modes, m)
		}
	}
	names := []string{opBare, opECall, opOCall, opHosted, opHostedO, opUD, opGC}
	short := []string{"two exits", "ECALL", "OCALL", "ECALL hosted", "OCALL hosted", "#UD", "GC page"}
	calls := &plot.Chart{Title: "Edge calls and exceptions", Bars: true, X: plot.Axis{Names: short}, Y: plot.Axis{Label: "microseconds, median", Log: true}}
	marshal := &plot.Chart{Title: "What the marshalling buffer adds to an ECALL", X: plot.Axis{Label: "KiB", Log: true, Ticks: []float64{1, 4, 16, 64}}, Y: plot.Axis{Label: "per cent"}}
	for _, mode := range modes {
		s := plot.Series{Name: mode}
		for i, n := range names {
			for _, r := range rows {
				if r.Name == n && r.Mode == mode && r.P50 > 0 {
					s.Points = append(s.Points, plot.Point{X: float64(i), Y: r.P50, Low: max(r.P5, r.P50/10), High: r.P95})
				}
			}
		}
		calls.Series = append(calls.Series, s)
		for _, dir := range []string{"in", "out", "in and out"} {
			s := plot.Series{Name: mode + ", " + dir, Dashed: mode != modes[0]}
			for _, size := range marshalSizes {
				name := fmt.Sprintf("ECALL, %d KiB %s", size>>10, dir)
				direct, ok := find(rows, name+", direct", mode)
				copied, too := find(rows, name+", marshalled", mode)
				if ok && too && direct > 0 {
					s.Points = append(s.Points, plot.Point{X: float64(size >> 10), Y: 100 * (copied/direct - 1)})
				}
			}
			if len(marshal.Series) < 8 {
				marshal.Series = append(marshal.Series, s)
			}
		}
	}
	out := map[string]*plot.Chart{}
	if len(modes) > 0 {
		out["enclave-calls"], out["enclave-marshalling"] = calls, marshal
	}
	return out
}
