// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table is a Markdown table whose columns line up as plain text too.
type Table struct {
	Head []string
	Rows [][]string
}

// Add appends a row: strings as they are, float64 by Short, a Ratio with its
// interval, everything else as fmt prints it.
func (t *Table) Add(cells ...any) {
	var row []string
	for _, c := range cells {
		switch c := c.(type) {
		case string:
			row = append(row, c)
		case float64:
			row = append(row, Short(c))
		default:
			row = append(row, fmt.Sprint(c))
		}
	}
	t.Rows = append(t.Rows, row)
}

// String is the text, with a line end. A row must have as many cells as the head; what a cell
// may not hold (line ends, bars) is replaced.
func (t *Table) String() string {
	width := make([]int, len(t.Head))
	rows := append([][]string{t.Head}, t.Rows...)
	for i, r := range rows {
		clean := make([]string, len(t.Head))
		for j := range clean {
			if j < len(r) {
				clean[j] = strings.NewReplacer("\n", " ", "|", "/").Replace(r[j])
			}
			width[j] = max(width[j], utf8.RuneCountInString(clean[j]), 3)
		}
		rows[i] = clean
	}
	var b strings.Builder
	for i, r := range rows {
		for j, c := range r {
			b.WriteString("| " + c + strings.Repeat(" ", width[j]-utf8.RuneCountInString(c)+1))
		}
		b.WriteString("|\n")
		if i == 0 {
			for _, w := range width {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// Short prints a number with three significant digits, and digits of thousands
// in full.
func Short(v float64) string {
	a := max(v, -v)
	switch {
	case a >= 10000:
		s := fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1 || a == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// String is the median with its interval: 0.84 [0.82, 0.87].
func (r Ratio) String() string {
	return fmt.Sprintf("%s [%s, %s]", Short(r.Median), Short(r.Low), Short(r.High))
}
