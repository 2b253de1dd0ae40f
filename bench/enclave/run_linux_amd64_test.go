// SPDX-License-Identifier: Apache-2.0

package enclave

import (
	"testing"
)

// TestRun: every operation has a row with a time, and every goal of the mode is
// judged; the figures can be drawn.
func TestRun(t *testing.T) {
	rows, err := Run(Options{Modes: []string{"HU"}, Quick: true, Log: t.Logf, part: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{opBare, opECall, opUD, opGC, opLoad, opLoadBig, "ECALL, 64 KiB in and out, marshalled"} {
		if us, ok := find(rows, name, "HU"); !ok || us <= 0 {
			t.Errorf("%s: %v, %v", name, us, ok)
		}
	}
	for _, r := range rows {
		if r.N < 1 || r.P5 > r.P50 || r.P50 > r.P95 {
			t.Errorf("%+v", r)
		}
	}
	goals := map[string]Goal{}
	for _, g := range Goals(rows) {
		goals[g.Name] = g
	}
	for _, name := range []string{"empty ECALL, inproc, of two bare exits, HU", "load per page, HU", "EENTER in the monitor"} {
		if goals[name].Got == "" {
			t.Errorf("no goal %q", name)
		}
	}
	// What is counted does not depend on the machine.
	for _, name := range []string{"EENTER allocations", "EEXIT allocations", "AEX allocations", "ERESUME allocations"} {
		if g := goals[name]; !g.Met {
			t.Errorf("%s: %s", name, g.Got)
		}
	}
	charts := Charts(rows)
	if len(charts) != 2 {
		t.Errorf("%d charts", len(charts))
	}
	for name, c := range charts {
		if svg, err := c.SVG(); err != nil || len(svg) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGoals(t *testing.T) {
	rows := []Row{{Name: opBare, Mode: "HU", P50: 10}, {Name: opBare, Mode: "GU", P50: 30}, {Name: opECall, Mode: "HU", P50: 12.1}, {Name: opUD, Mode: "GU", P50: 600}, {Name: opUDIn, Mode: "P", P50: 10}}
	met := map[string]bool{}
	for _, g := range Goals(rows) {
		met[g.Name] = g.Met
	}
	want := map[string]bool{"empty ECALL, inproc, of two bare exits, HU": false, "HU world switch of GU's": true, "#UD in GU of #UD in P": true}
	if len(met) != len(want) {
		t.Errorf("got %v", met)
	}
	for name, w := range want {
		if met[name] != w {
			t.Errorf("%s: met %v, want %v", name, met[name], w)
		}
	}
}
