// SPDX-License-Identifier: Apache-2.0

// Package plot draws line and bar charts as SVG, with what figures need: axes
// with ticks, linear or logarithmic, a legend, intervals, and a line below that
// says what the figure was made of. The output is the same for the same input.
//
// Fill a [Chart] and call [Chart.SVG].
package plot

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Chart is one figure.
type Chart struct {
	Title  string
	Note   string // below: host, samples, what was simulated
	X, Y   Axis
	Series []Series
	// Bars draws a bar for each point instead of lines. The X of points must be
	// 0, 1, 2, ... then, and X.Names their names.
	Bars bool
}

// Axis is a scale.
type Axis struct {
	Label string
	Log   bool
	// Ticks are the marks, in the order of values; none: chosen from the data.
	Ticks []float64
	// Names are their texts; none: the numbers.
	Names []string
}

// Series is one line or group of bars.
type Series struct {
	Name   string
	Dashed bool
	Colour int // 1 to 8; 0: that of its place
	Points []Point
}

// Point is a value with its interval; Low and High are not drawn if both are 0.
type Point struct{ X, Y, Low, High float64 }

// colours can be told apart by those who see no red or green (Okabe and Ito).
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"}

const (
	width, height            = 860, 500
	left, right, top, bottom = 80, 260, 50, 80
	plotW, plotH             = width - left - right, height - top - bottom
)

// scale maps values to pixels.
type scale struct {
	low, high float64
	log       bool
	from, to  float64
}

func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log(max(v, s.low)), math.Log(low), math.Log(high)
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// SVG draws the chart. Values on a logarithmic axis must be above 0.
func (c *Chart) SVG() ([]byte, error) {
	if len(c.Series) == 0 || len(c.Series) > len(colours) {
		return nil, fmt.Errorf("plot: %d series, expected 1 to %d", len(c.Series), len(colours))
	}
	xs, ys := &span{}, &span{}
	for _, s := range c.Series {
		for _, p := range s.Points {
			xs.take(p.X)
			ys.take(p.Y)
			if p.Low != 0 || p.High != 0 {
				ys.take(p.Low)
				ys.take(p.High)
			}
		}
	}
	if xs.n == 0 {
		return nil, errors.New("plot: no points")
	}
	for _, a := range []struct {
		axis *Axis
		span *span
	}{{&c.X, xs}, {&c.Y, ys}} {
		if a.axis.Log && a.span.low <= 0 || math.IsInf(a.span.high, 0) || math.IsNaN(a.span.low+a.span.high) {
			return nil, fmt.Errorf("plot: %s: values from %v to %v, expected finite ones, above 0 on a logarithmic axis", a.axis.Label, a.span.low, a.span.high)
		}
	}
	if !c.Y.Log {
		ys.take(0)
	}
	xTicks, yTicks := c.X.ticks(xs), c.Y.ticks(ys)
	x := scale{xs.low, xs.high, c.X.Log, left, left + plotW}
	y := scale{ys.low, ys.high, c.Y.Log, top + plotH, top}
	if c.Bars {
		x.low, x.high = -0.5, float64(len(c.X.Names))-0.5
	} else if x.low == x.high {
		x.low, x.high = x.low/2, x.high*2+1
	}
	if y.low == y.high {
		y.high = y.low*2 + 1
	}
	w := &writer{}
	w.f(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, width, height, width, height)
	w.f(`<rect width="%d" height="%d" fill="white"/>`, width, height)
	w.text(left, 26, "start", ` font-size="16" font-weight="bold"`, c.Title)
	w.axes(c, x, y, xTicks, yTicks)
	for i, s := range c.Series {
		if s.Colour == 0 {
			s.Colour = i + 1
		}
		if s.Colour < 1 || s.Colour > len(colours) {
			return nil, fmt.Errorf("plot: colour %d, expected 1 to %d", s.Colour, len(colours))
		}
		if c.Bars {
			w.bars(c, i, s, x, y)
		} else {
			w.line(s, x, y)
		}
		w.legend(i, s, c.Bars)
	}
	w.text(left, height-12, "start", ` font-size="10" fill="#555"`, c.Note)
	w.f(`</svg>`)
	return []byte(w.String()), nil
}

type span struct {
	low, high float64
	n         int
}

func (s *span) take(v float64) {
	if s.n++; s.n == 1 {
		s.low, s.high = v, v
	}
	s.low, s.high = math.Min(s.low, v), math.Max(s.high, v)
}

// ticks are the axis' own or round numbers; the span grows to whole ticks.
func (a *Axis) ticks(s *span) []float64 {
	if len(a.Ticks) > 0 {
		return a.Ticks
	}
	var out []float64
	if a.Log {
		s.low, s.high = roundDown(s.low), roundUp(s.high)
		steps := []float64{1, 2, 5}
		if s.high/s.low > 1000 {
			steps = steps[:1]
		}
		for d := math.Pow(10, math.Floor(math.Log10(s.low))); d <= s.high*1.001; d *= 10 {
			for _, m := range steps {
				if v := d * m; v >= s.low*0.999 && v <= s.high*1.001 {
					out = append(out, v)
				}
			}
		}
		return out
	}
	step := roundUp((s.high - s.low) / 6)
	if step <= 0 || math.IsNaN(step) {
		step = 1
	}
	s.low, s.high = math.Floor(s.low/step)*step, math.Ceil(s.high/step*0.9999)*step
	for i := 0; s.low+float64(i)*step <= s.high*1.0001; i++ {
		out = append(out, s.low+float64(i)*step)
	}
	return out
}

// roundUp and roundDown give 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 0
	}
	d := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*d >= v*0.9999 {
			return m * d
		}
	}
	return 10 * d
}

func roundDown(v float64) float64 {
	d := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if m*d <= v*1.0001 {
			return m * d
		}
	}
	return d
}

// number prints a tick.
func number(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.6g", v), ".")
}
