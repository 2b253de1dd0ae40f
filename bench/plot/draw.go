// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"encoding/xml"
	"fmt"
	"strings"
)

type writer struct{ strings.Builder }

func (w *writer) f(format string, a ...any) { fmt.Fprintf(w, format+"\n", a...) }

// text writes a text; it may hold any character.
func (w *writer) text(x, y float64, anchor, more, text string) {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	w.f(`<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, more, b.String())
}

func (w *writer) axes(c *Chart, x, y scale, xTicks, yTicks []float64) {
	for i, v := range yTicks {
		w.f(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>`, left, y.at(v), left+plotW, y.at(v))
		w.text(left-6, y.at(v)+4, "end", "", c.Y.name(i, v))
	}
	for i, v := range xTicks {
		w.f(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#000"/>`, x.at(v), top+plotH, x.at(v), top+plotH+4)
		w.text(x.at(v), top+plotH+18, "middle", "", c.X.name(i, v))
	}
	w.f(`<path d="M%d %dV%dH%d" fill="none" stroke="#000"/>`, left, top, top+plotH, left+plotW)
	w.text(left+plotW/2, top+plotH+40, "middle", "", c.X.Label)
	w.text(-(top + plotH/2), 20, "middle", ` transform="rotate(-90)"`, c.Y.Label)
}

func (a *Axis) name(i int, v float64) string {
	if i < len(a.Names) {
		return a.Names[i]
	}
	return number(v)
}

func (w *writer) line(s Series, x, y scale) {
	var path []string
	for _, p := range s.Points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.X), y.at(p.Y)))
		w.whisker(x.at(p.X), p, y, colours[s.Colour-1])
		w.f(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x.at(p.X), y.at(p.Y), colours[s.Colour-1])
	}
	w.f(`<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8"%s/>`, strings.Join(path, " "), colours[s.Colour-1], dash(s.Dashed))
}

func (w *writer) whisker(at float64, p Point, y scale, colour string) {
	if p.Low != 0 || p.High != 0 {
		w.f(`<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-width="1"/>`, at, y.at(p.Low), y.at(p.High), colour)
	}
}

// bars draws the bars of one series: groups stand side by side.
func (w *writer) bars(c *Chart, i int, s Series, x, y scale) {
	each := (x.at(1) - x.at(0)) * 0.8 / float64(len(c.Series))
	for _, p := range s.Points {
		from := x.at(p.X) + each*(float64(i)-float64(len(c.Series))/2)
		w.f(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, from, y.at(p.Y), each-1, max(0, y.from-y.at(p.Y)), colours[s.Colour-1])
		w.whisker(from+each/2, p, y, "#000")
	}
}

func dash(dashed bool) string {
	if dashed {
		return ` stroke-dasharray="6 4"`
	}
	return ""
}

func (w *writer) legend(i int, s Series, bars bool) {
	y := float64(top + 8 + 20*i)
	x := float64(left + plotW + 20)
	if bars {
		w.f(`<rect x="%.1f" y="%.1f" width="14" height="10" fill="%s"/>`, x+4, y-5, colours[s.Colour-1])
	} else {
		w.f(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="1.8"%s/>`, x, y, x+22, y, colours[s.Colour-1], dash(s.Dashed))
	}
	w.text(x+28, y+4, "start", "", s.Name)
}
