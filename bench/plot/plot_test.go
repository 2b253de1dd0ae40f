// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

// elements reads the SVG as XML and returns its elements by name.
func elements(t *testing.T, svg []byte) map[string][]map[string]string {
	t.Helper()
	out := map[string][]map[string]string{}
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			m := map[string]string{}
			for _, a := range e.Attr {
				m[a.Name.Local] = a.Value
			}
			out[e.Name.Local] = append(out[e.Name.Local], m)
		case xml.CharData:
			if n := len(out["text"]); n > 0 && strings.TrimSpace(string(e)) != "" {
				out["text"][n-1]["="] = string(e)
			}
		}
	}
}

func has(m []map[string]string, text string) bool {
	for _, e := range m {
		if e["="] == text {
			return true
		}
	}
	return false
}

func TestLinesOnLogAxes(t *testing.T) {
	c := Chart{Title: "A & B <c>", Note: "note", X: Axis{Label: "size", Log: true, Ticks: []float64{1, 100}, Names: []string{"one", "hundred"}}, Y: Axis{Label: "ms", Log: true},
		Series: []Series{{Name: "first", Points: []Point{{1, 1, 0.9, 1.2}, {100, 100, 0, 0}}}, {Name: "second", Dashed: true, Points: []Point{{1, 10, 0, 0}, {10, 10, 0, 0}, {100, 10, 0, 0}}}}}
	svg, err := c.SVG()
	if err != nil {
		t.Fatal(err)
	}
	e := elements(t, svg)
	for _, want := range []string{"A & B <c>", "note", "size", "ms", "first", "second", "one", "hundred", "10"} {
		if !has(e["text"], want) {
			t.Errorf("no text %q", want)
		}
	}
	if len(e["polyline"]) != 2 || len(e["circle"]) != 5 || e["polyline"][1]["stroke-dasharray"] == "" {
		t.Errorf("%d lines, %d points", len(e["polyline"]), len(e["circle"]))
	}
	// the middle of a logarithmic axis is the geometric mean
	mid, _ := strconv.ParseFloat(e["circle"][3]["cx"], 64)
	if math.Abs(mid-(left+plotW/2)) > 0.2 {
		t.Errorf("10 of 1 to 100 stands at %v, expected %v", mid, left+plotW/2)
	}
	again, _ := c.SVG()
	if string(again) != string(svg) {
		t.Error("another output for the same input")
	}
}

func TestBars(t *testing.T) {
	c := Chart{Bars: true, X: Axis{Names: []string{"a", "b"}, Ticks: []float64{0, 1}}, Series: []Series{{Name: "s", Points: []Point{{0, 10, 0, 0}, {1, 20, 18, 22}}}}}
	svg, err := c.SVG()
	if err != nil {
		t.Fatal(err)
	}
	bars := elements(t, svg)["rect"][1:]
	h0, _ := strconv.ParseFloat(bars[0]["height"], 64)
	h1, _ := strconv.ParseFloat(bars[1]["height"], 64)
	if math.Abs(h1-2*h0) > 0.3 || h0 < 50 {
		t.Errorf("bars of %v and %v for 10 and 20", h0, h1)
	}
}

func TestRefuses(t *testing.T) {
	for name, c := range map[string]Chart{
		"nothing":        {},
		"no points":      {Series: []Series{{}}},
		"zero on a log":  {Y: Axis{Log: true}, Series: []Series{{Points: []Point{{1, 0, 0, 0}}}}},
		"not a number":   {Series: []Series{{Points: []Point{{1, math.NaN(), 0, 0}}}}},
		"too many lines": {Series: make([]Series, 9)},
	} {
		if svg, err := c.SVG(); err == nil || svg != nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		log       bool
		low, high float64
		want      []float64
	}{
		{false, 0, 1, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{false, 0, 1750, []float64{0, 500, 1000, 1500, 2000}},
		{true, 0.9, 60, []float64{0.5, 1, 2, 5, 10, 20, 50, 100}},
		{true, 1, 1e5, []float64{1, 10, 100, 1000, 1e4, 1e5}},
	} {
		a := Axis{Log: c.log}
		got := a.ticks(&span{c.low, c.high, 2})
		if len(got) != len(c.want) {
			t.Errorf("%v to %v: %v, want %v", c.low, c.high, got, c.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9*c.want[i] {
				t.Errorf("%v to %v: %v, want %v", c.low, c.high, got, c.want)
				break
			}
		}
	}
}
