// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/bench/stat"
)

// Comparison is what was measured at one point.
type Comparison struct {
	Concurrency int          `json:"concurrency"`
	Size        int64        `json:"size"`
	RTT         float64      `json:"rtt_ms"`      // asked for; 0: a veth pair without delay
	Ping        float64      `json:"ping_ms"`     // measured before the samples; 0 without delay
	Dropped     uint64       `json:"dropped"`     // packets that the delaying wire lost up to now
	Rounds      int          `json:"rounds"`      // samples of each side
	SampleTime  float64      `json:"sample_secs"` // length of a sample, connections that began in it finished
	Sides       []SideResult `json:"sides"`
}

// SideResult is one side of it. Ratios and differences are to the first side,
// native TLS, round by round.
type SideResult struct {
	Name       string     `json:"name"`
	Title      string     `json:"title"`
	Side                  // medians
	OverNative stat.Ratio `json:"over_native"` // of connections per second
	Added      stat.Ratio `json:"added_p50_ms"`
	CPURatio   stat.Ratio `json:"cpu_ratio"` // native over this, without the reporter
	Errors     int        `json:"errors"`
	FirstError string     `json:"first_error,omitempty"`

	samples []measured
}

// Side has the medians of one side.
type Side struct {
	Rate float64            `json:"rate"` // connections per second
	P50  float64            `json:"p50_ms"`
	P95  float64            `json:"p95_ms"`
	CPU  map[string]float64 `json:"cpu_us_per_connection"`
}

// Find returns a side's result, nil if it was not measured.
func (c *Comparison) Find(name string) *SideResult {
	for i := range c.Sides {
		if c.Sides[i].Name == name {
			return &c.Sides[i]
		}
	}
	return nil
}

// P50Ratio is the median of paired ratios of the median times of two sides.
func (c *Comparison) P50Ratio(a, b string) stat.Ratio {
	x, y := c.Find(a), c.Find(b)
	if x == nil || y == nil {
		return stat.Ratio{}
	}
	p50 := func(m measured) float64 { return m.P50 }
	return stat.PairedRatio(values(x.samples, p50), values(y.samples, p50))
}

// Total counts the connections that got their reply, and those that did not.
func (c *Comparison) Total() (connections, failed int) {
	for _, s := range c.Sides {
		for _, m := range s.samples {
			connections += m.Connections
			failed += m.Errors
		}
	}
	return connections, failed
}

// Compare measures every point with every side.
func Compare(ctx context.Context, o Options) ([]Comparison, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var out []Comparison
	for _, p := range o.Points {
		c, err := s.compare(ctx, p)
		if err != nil {
			return out, fmt.Errorf("concurrency %d, %d bytes, round-trip time %v: %w", p.Concurrency, p.Size, p.RTT, err)
		}
		out = append(out, *c)
		o.Log("c=%d size=%d rtt=%v: %s", p.Concurrency, c.Size, p.RTT, c.line())
	}
	return out, nil
}

// line is a comparison in one line, for the log.
func (c *Comparison) line() string {
	var parts []string
	for _, s := range c.Sides {
		parts = append(parts, fmt.Sprintf("%s %.3g ms", s.Name, s.P50))
	}
	return strings.Join(parts, ", ")
}

func (s *stage) compare(ctx context.Context, p Point) (*Comparison, error) {
	c := &Comparison{Concurrency: p.Concurrency, Size: max(p.Size, smallSize), RTT: ms(p.RTT), Rounds: p.Pairs, SampleTime: p.Time.Seconds()}
	if s.link != nil {
		ping, err := s.link.SetRTT(p.RTT)
		if err != nil {
			return nil, err
		}
		c.Ping = ms(ping)
	}
	all, err := s.rounds(ctx, p)
	if err != nil {
		return nil, err
	}
	if s.link != nil {
		c.Dropped = s.link.Dropped()
	}
	for i, side := range s.o.Ways {
		c.Sides = append(c.Sides, result(side, all[i], all[0]))
	}
	return c, nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

func result(side Way, own, native []measured) SideResult {
	rate := func(m measured) float64 { return m.Rate }
	p50 := func(m measured) float64 { return m.P50 }
	cpu := func(m measured) float64 { return m.total(false) }
	r := SideResult{Name: side.Name, Title: side.Title, Side: medians(own), samples: own,
		OverNative: stat.PairedRatio(values(own, rate), values(native, rate)),
		Added:      stat.PairedDiff(values(own, p50), values(native, p50)),
		CPURatio:   stat.PairedRatio(values(native, cpu), values(own, cpu))}
	for _, m := range own {
		r.Errors += m.Errors
		if r.FirstError == "" {
			r.FirstError = strings.TrimSpace(m.FirstError)
		}
	}
	return r
}

// reporter is the process that stands for the security processor.
const reporter = "reporter"

func (m measured) total(withReporter bool) float64 {
	t := 0.0
	for name, v := range m.cpu {
		if name != reporter || withReporter {
			t += v
		}
	}
	return t
}

func values(ms []measured, f func(measured) float64) []float64 {
	var out []float64
	for _, m := range ms {
		out = append(out, f(m))
	}
	return out
}

func medians(ms []measured) Side {
	s := Side{
		Rate: stat.Median(values(ms, func(m measured) float64 { return m.Rate })),
		P50:  stat.Median(values(ms, func(m measured) float64 { return m.P50 })),
		P95:  stat.Median(values(ms, func(m measured) float64 { return m.P95 })),
		CPU:  map[string]float64{},
	}
	for name := range ms[0].cpu {
		s.CPU[name] = stat.Median(values(ms, func(m measured) float64 { return m.cpu[name] }))
	}
	return s
}
