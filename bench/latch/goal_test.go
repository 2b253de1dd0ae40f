// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"math"
	"strings"
	"testing"
	"time"

	"holdfast/bench/stat"
)

func TestGoals(t *testing.T) {
	r := stat.Ratio{Median: 0.9, Low: 0.8, High: 0.95, Pairs: 5}
	for _, c := range []struct {
		g    Goal
		want string
	}{
		{AtLeast("a", "-", 0.9, r, ""), "yes"}, {AtLeast("a", "-", 0.91, r, ""), "no"}, {AtMost("a", "-", 0.9, r, ""), "yes"}, {AtMost("a", "-", 0.89, r, ""), "no"},
		{AtMost("nothing measured", "-", 1, stat.Ratio{}, ""), "no"}, {Inform("a", "-", r, ""), "-"},
	} {
		if c.g.Met != c.want {
			t.Errorf("%+v: expected %s", c.g, c.want)
		}
	}
	table := GoalTable([]Goal{AtMost("report", "3.74 ms", 3.77, r, "ms"), AtLeast("one", "-", 2, One(3), "")})
	for _, want := range []string{"≤ 3.77 ms", "0.900 [0.800, 0.950] ms", "| 3.00 "} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

func TestBound(t *testing.T) {
	if b := Bound(64, 200*time.Millisecond, 1000); math.Abs(b-0.32) > 1e-9 {
		t.Error(b)
	}
	if b := Bound(64, time.Millisecond, 1000); b != 1 {
		t.Error(b)
	}
}
