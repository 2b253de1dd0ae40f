// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"holdfast/bench/stat"
)

// made are two comparisons of native TLS with one that takes 4 ms more.
func made() []Comparison {
	var out []Comparison
	for i, rtt := range []float64{1, 10} {
		var native, other []measured
		for j := range 5 {
			p := 3*rtt + float64(j)
			native = append(native, measured{Sample{Connections: 10, Rate: 1000 / p, P50: p, P95: p}, map[string]float64{"client": 100, "server": 100}})
			other = append(other, measured{Sample{Connections: 10, Rate: 500 / p, P50: p + 4, P95: p + 5, Errors: i, FirstError: "late\n"}, map[string]float64{"client": 200, "server": 100, "gate": 50, "agent": 50}})
		}
		out = append(out, Comparison{Concurrency: 1, Size: 64 << 20, RTT: rtt, Rounds: 5, SampleTime: 1,
			Sides: []SideResult{result(Native(), native, native), result(Latched("latch"), other, native)}})
	}
	return out
}

func TestComparison(t *testing.T) {
	cs := made()
	l := cs[1].Find("latch")
	if l.OverNative.Median != 0.5 || l.OverNative.Low != 0.5 || l.Added.Median != 4 || l.CPURatio.Median != 0.5 || l.Errors != 5 || l.FirstError != "late" {
		t.Errorf("%+v", l)
	}
	if r := cs[1].P50Ratio("latch", "native"); r.Median < 1.11 || r.Median > 1.13 { // (32+4)/32
		t.Errorf("%+v", r)
	}
	if cs[0].Find("nested") != nil || cs[0].P50Ratio("nested", "native") != (stat.Ratio{}) {
		t.Error("a side that is not there")
	}
	if n, bad := cs[1].Total(); n != 100 || bad != 5 {
		t.Errorf("%d connections, %d failed", n, bad)
	}
	o := cs[0].outcome()
	if o.LatchOverPlain != 0.5 || o.CPURatio != 0.5 || o.AddedP50 != 4 || o.Latch.P50 != 9 {
		t.Errorf("%+v", o)
	}
	rows := cs[0].Rows("rtt", Options{Group: "x25519", Latency: time.Millisecond})
	if len(rows) != 2 || len(rows[0]) != len(Columns) || rows[1][3] != "latch" {
		t.Errorf("%v", rows)
	}
}

func TestTables(t *testing.T) {
	cs := made()
	for _, want := range []string{"| native TLS ", "| latch ", "0.500 [0.500, 0.500]", "| 1   ", "errors"} {
		if got := cs[1].Table(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	m := Matrix(cs, ByRTT, Added)
	for _, want := range []string{"| 1 ms ", "| 10 ms ", "4.00 [4.00, 4.00]"} {
		if !strings.Contains(m, want) {
			t.Errorf("no %q in\n%s", want, m)
		}
	}
	if Bytes(1024) != "1 KB" || Bytes(64<<20) != "64 MB" {
		t.Error(Bytes(1024), Bytes(64<<20))
	}
	svg, err := Chart(cs, ByRTT, Time, "title", Note(stat.ThisHost("v"), Options{Group: "x25519"}), true).SVG()
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
