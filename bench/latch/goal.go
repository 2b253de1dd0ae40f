// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"strconv"
	"time"

	"holdfast/bench/stat"
)

// Goal is a row of the table of goals.
type Goal struct {
	What string     `json:"what"`
	Seed string     `json:"seed"` // as its text states it; "-" where it states nothing
	Goal string     `json:"goal"` // "-" for a row that only informs
	Ours stat.Ratio `json:"ours"`
	Unit string     `json:"unit"`
	Met  string     `json:"met"` // yes, no, or "-"
}

// AtLeast and AtMost are the two kinds of goals; the median is judged.
func AtLeast(what, seed string, goal float64, ours stat.Ratio, unit string) Goal {
	return Goal{what, seed, "≥ " + number(goal) + spaced(unit), ours, unit, yes(ours.Pairs > 0 && ours.Median >= goal)}
}

// AtMost is a goal that ours must not exceed.
func AtMost(what, seed string, goal float64, ours stat.Ratio, unit string) Goal {
	return Goal{what, seed, "≤ " + number(goal) + spaced(unit), ours, unit, yes(ours.Pairs > 0 && ours.Median <= goal)}
}

// Inform is a row without a goal.
func Inform(what, seed string, ours stat.Ratio, unit string) Goal {
	return Goal{what, seed, "-", ours, unit, "-"}
}

// One is a single figure.
func One(v float64) stat.Ratio { return stat.Ratio{Median: v, Low: v, High: v, Pairs: 1} }

func spaced(unit string) string {
	if unit == "" {
		return ""
	}
	return " " + unit
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// GoalTable is the table of goals.
func GoalTable(goals []Goal) string {
	t := stat.Table{Head: []string{"what", "seed", "goal", "ours", "met"}}
	for _, g := range goals {
		ours := g.Ours.String()
		switch g.Ours.Pairs {
		case 0: // What says it all
			t.Add(g.What, g.Seed, g.Goal, "", g.Met)
			continue
		case 1:
			ours = stat.Short(g.Ours.Median)
		}
		t.Add(g.What, g.Seed, g.Goal, ours+spaced(g.Unit), g.Met)
	}
	return t.String()
}

// Fields are a goal's line of the CSV file, without the host.
func (g *Goal) Fields() []string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	return []string{g.What, g.Seed, g.Goal, f(g.Ours.Median), f(g.Ours.Low), f(g.Ours.High), g.Unit, g.Met}
}

// Bound is the most of native TLS's rate that c clients can reach when each
// session is held for a time and native TLS makes plain sessions a second.
func Bound(c int, hold time.Duration, plain float64) float64 {
	return min(1, float64(c)/(hold.Seconds()*plain))
}
