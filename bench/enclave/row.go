// SPDX-License-Identifier: Apache-2.0

package enclave

import (
	"fmt"

	"holdfast/bench/stat"
)

// Row is one operation in one mode.
type Row struct {
	Table string `json:"table"`
	Name  string `json:"operation"`
	Mode  string `json:"mode"` // HU, GU, P; "monitor" without enclave code, "host" for what the system costs
	N     int    `json:"samples"`
	// Microseconds.
	P5  float64 `json:"p5_us"`
	P50 float64 `json:"p50_us"`
	P95 float64 `json:"p95_us"`
	// Allocs is allocations per operation, -1 where it was not counted.
	Allocs float64 `json:"allocations"`
}

// Tables, in the order in which they are printed.
const (
	tableCalls   = "edge calls (table 1)"
	tableFaults  = "exceptions (table 2)"
	tableMarshal = "marshalling (figure 7)"
	tableLoad    = "loading"
	tableLeaves  = "monitor"
)

// Names of operations.
const (
	opBare    = "two bare exits"
	opECall   = "empty ECALL, inproc"
	opOCall   = "OCALL, inproc"
	opHosted  = "empty ECALL, hosted"
	opHostedO = "OCALL, hosted"
	opUD      = "#UD through the monitor, two phases"
	opUDIn    = "#UD handled inside"
	opGC      = "GC: revoke W, fault, W back, per page"
	opGCIn    = "GC by page tables inside, per page"
	opLoad    = "load, per measured page"
	opLoadBig = "load, per page that is not measured"
	opPing    = "a byte there and back between two threads by pipes"
	opCall    = "system call (getppid)"
)

// of makes a row of samples in microseconds.
func of(table, name, mode string, us []float64) Row {
	return Row{Table: table, Name: name, Mode: mode, N: len(us), P5: stat.Quantile(us, 0.05), P50: stat.Median(us), P95: stat.Quantile(us, 0.95), Allocs: -1}
}

// find returns the median of an operation in a mode.
func find(rows []Row, name, mode string) (float64, bool) {
	for _, r := range rows {
		if r.Name == name && r.Mode == mode {
			return r.P50, true
		}
	}
	return 0, false
}

// Goal is a goal of the design with what this run gave.
type Goal struct {
	Name string `json:"goal"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

// Goals compares rows with the goals; one for which the run has no rows is left
// out.
func Goals(rows []Row) []Goal {
	var out []Goal
	atMost := func(name, unit string, got, most float64) {
		out = append(out, Goal{name, fmt.Sprintf("at most %s%s", stat.Short(most), unit), stat.Short(got) + unit, got <= most})
	}
	ratio := func(name string, a, am, b, bm string, most float64) {
		x, ok := find(rows, a, am)
		y, too := find(rows, b, bm)
		if ok && too && y > 0 {
			atMost(name, "x", x/y, most)
		}
	}
	for _, mode := range []string{"HU", "GU", "P"} {
		ratio("empty ECALL, inproc, of two bare exits, "+mode, opECall, mode, opBare, mode, 1.2)
		ratio("OCALL, inproc, of two bare exits, "+mode, opOCall, mode, opBare, mode, 1.2)
	}
	ratio("HU world switch of GU's", opBare, "HU", opBare, "GU", 0.5)
	if x, ok := find(rows, opUDIn, "P"); ok && x > 0 {
		if y, ok := find(rows, opUD, "GU"); ok {
			out = append(out, Goal{"#UD in GU of #UD in P", "at least 50x", stat.Short(y/x) + "x", y/x >= 50})
		}
	}
	for _, mode := range []string{"HU", "GU", "P"} {
		if x, ok := find(rows, opLoad, mode); ok {
			atMost("load per page, "+mode, " us", x, 10)
		}
	}
	for _, r := range rows {
		if r.Table == tableLeaves {
			atMost(r.Name+" in the monitor", " us", r.P50, 1)
			if r.Name == "EENTER" || r.Name == "EEXIT" || r.Name == "AEX" || r.Name == "ERESUME" {
				atMost(r.Name+" allocations", "", r.Allocs, 0)
			}
		}
	}
	return out
}
