// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"fmt"
	"strconv"
	"strings"

	"holdfast/bench/plot"
	"holdfast/bench/stat"
)

// Columns are those of the CSV files of comparisons, behind the host's.
var Columns = []string{"kind", "group", "report_ms", "way", "concurrency", "size", "rtt_ms", "ping_ms", "dropped", "rounds", "sample_s", "errors",
	"rate", "over_native", "over_native_low", "over_native_high", "p50_ms", "p95_ms", "added_p50_ms", "added_low", "added_high",
	"cpu_ratio", "cpu_ratio_low", "cpu_ratio_high", "client_us", "server_us", "gate_us", "agent_us"}

// Rows are a comparison's lines of the CSV file, without the host.
func (c *Comparison) Rows(kind string, o Options) [][]string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	var out [][]string
	for _, s := range c.Sides {
		out = append(out, []string{kind, o.Group, f(ms(o.Latency)), s.Name, strconv.Itoa(c.Concurrency), strconv.FormatInt(c.Size, 10), f(c.RTT), f(c.Ping),
			strconv.FormatUint(c.Dropped, 10), strconv.Itoa(c.Rounds), f(c.SampleTime), strconv.Itoa(s.Errors),
			f(s.Rate), f(s.OverNative.Median), f(s.OverNative.Low), f(s.OverNative.High), f(s.P50), f(s.P95), f(s.Added.Median), f(s.Added.Low), f(s.Added.High),
			f(s.CPURatio.Median), f(s.CPURatio.Low), f(s.CPURatio.High), f(s.CPU["client"]), f(s.CPU["server"]), f(s.CPU["gate"]), f(s.CPU["agent"])})
	}
	return out
}

// Table has a line for each side of one comparison.
func (c *Comparison) Table() string {
	t := stat.Table{Head: []string{"way", "connections/s", "of native TLS", "median ms", "95 % ms", "added ms", "CPU µs: client", "server", "gate", "agent", "errors"}}
	for _, s := range c.Sides {
		over, added := s.OverNative.String(), s.Added.String()
		if s.Name == c.Sides[0].Name {
			over, added = "1", "0"
		}
		row := []any{s.Title, s.Rate, over, s.P50, s.P95, added}
		for _, who := range []string{"client", "server", "gate", "agent"} {
			if v, ok := s.CPU[who]; ok {
				row = append(row, v)
			} else {
				row = append(row, "-")
			}
		}
		t.Add(append(row, s.Errors)...)
	}
	return t.String()
}

// Axis is what a table or chart has along its other axis.
type Axis struct {
	Head  string
	value func(*Comparison) float64
	name  func(*Comparison) string
}

// Axes of tables and charts.
var (
	ByConcurrency = Axis{"concurrency", func(c *Comparison) float64 { return float64(c.Concurrency) }, func(c *Comparison) string { return strconv.Itoa(c.Concurrency) }}
	BySize        = Axis{"bytes of the request", func(c *Comparison) float64 { return float64(c.Size) }, func(c *Comparison) string { return Bytes(c.Size) }}
	ByRTT         = Axis{"round-trip time in ms", func(c *Comparison) float64 { return c.RTT }, func(c *Comparison) string { return number(c.RTT) + " ms" }}
)

// Bytes names a size: 1 KB is 1,024 bytes here, as in the published tables.
func Bytes(n int64) string {
	if n >= 1<<20 {
		return number(float64(n)/(1<<20)) + " MB"
	}
	return number(float64(n)/(1<<10)) + " KB"
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// Value is what a cell of a table shows of a side.
type Value struct {
	Head string
	get  func(*SideResult) stat.Ratio
}

// Values of tables and charts.
var (
	Rate = Value{"connections/s over native TLS", func(s *SideResult) stat.Ratio { return s.OverNative }}
	Time = Value{"median time in ms", func(s *SideResult) stat.Ratio {
		return stat.Spread(values(s.samples, func(m measured) float64 { return m.P50 }))
	}}
	Added = Value{"ms added to native TLS at the median", func(s *SideResult) stat.Ratio { return s.Added }}
	Speed = Value{"connections/s", func(s *SideResult) stat.Ratio {
		return stat.Spread(values(s.samples, func(m measured) float64 { return m.Rate }))
	}}
)

// Matrix is a table with a line for each side and a column for each comparison.
func Matrix(cs []Comparison, a Axis, v Value) string {
	t := stat.Table{Head: []string{v.Head}}
	for i := range cs {
		t.Head = append(t.Head, a.name(&cs[i]))
	}
	for j := range cs[0].Sides {
		row := []any{cs[0].Sides[j].Title}
		for i := range cs {
			row = append(row, v.get(&cs[i].Sides[j]).String())
		}
		t.Add(row...)
	}
	return t.String()
}

// colour keeps the colours of a design the same in every chart.
var colour = map[string]int{"native": 1, "nested": 2, "ra-tls": 3, "tls-ra": 4, "tls-ra-batched": 5, "gateway": 6, "latch": 7}

// Chart draws the same: a line for each side over a logarithmic axis.
func Chart(cs []Comparison, a Axis, v Value, title, note string, logY bool) *plot.Chart {
	c := &plot.Chart{Title: title, Note: note, X: plot.Axis{Label: a.Head, Log: true}, Y: plot.Axis{Label: v.Head, Log: logY}}
	for i := range cs {
		c.X.Ticks = append(c.X.Ticks, a.value(&cs[i]))
		c.X.Names = append(c.X.Names, a.name(&cs[i]))
	}
	for j, s := range cs[0].Sides {
		line := plot.Series{Name: s.Title, Dashed: s.Name == Native().Name, Colour: colour[s.Name]}
		for i := range cs {
			r := v.get(&cs[i].Sides[j])
			line.Points = append(line.Points, plot.Point{X: a.value(&cs[i]), Y: r.Median, Low: r.Low, High: r.High})
		}
		c.Series = append(c.Series, line)
	}
	return c
}

// Note is the line below charts and tables: what made the figures.
func Note(h stat.Host, o Options) string {
	parts := []string{fmt.Sprintf("%s, %d cores, Linux %s", h.CPU, h.Cores, h.Kernel), o.Group, "SIMULATED reports of " + o.Latency.String(), h.Commit + " " + h.Time}
	if h.Busy() != "" {
		parts = append(parts, "MACHINE BUSY: load "+h.Load)
	}
	return strings.Join(parts, "; ")
}
