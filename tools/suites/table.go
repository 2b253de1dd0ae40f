// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The TPMs that a suite runs against, in the order of the table's columns.
const (
	oursMSSIM = "holdfast mssim"
	oursSWTPM = "holdfast swtpm"
	oursIn    = "holdfast in process"
	swtpm     = "swtpm"
	reference = "reference"
)

var columns = []string{oursMSSIM, oursSWTPM, oursIn, swtpm, reference}

// outcome is how a test ended.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
	absent  outcome = "" // not run there
)

// row is one test of a suite, with its outcome on each TPM.
type row struct {
	suite, version, mode, test string
	on                         map[string]outcome
}

// table holds all results of a run.
type table struct{ rows []*row }

// set records an outcome.
func (t *table) set(suite, version, mode, test, tpm string, o outcome) {
	for _, r := range t.rows {
		if r.suite == suite && r.mode == mode && r.test == test {
			r.on[tpm] = o
			return
		}
	}
	t.rows = append(t.rows, &row{suite, version, mode, test, map[string]outcome{tpm: o}})
}

// worse lists the tests that fail, or did not run to an end, on one of our
// TPMs and pass on swtpm.
func (t *table) worse() []*row {
	var out []*row
	for _, r := range t.rows {
		for _, ours := range columns[:3] {
			if o, ran := r.on[ours]; ran && o != passed && r.on[swtpm] == passed {
				out = append(out, r)
				break
			}
		}
	}
	return out
}

// print writes the counts for each suite, mode and TPM, and then each test
// that did not pass everywhere.
func (t *table) print(w io.Writer) {
	type key struct{ suite, mode, tpm string }
	counts := map[key]map[outcome]int{}
	var order []key
	for _, r := range t.rows {
		for _, c := range columns {
			o, ran := r.on[c]
			if !ran {
				continue
			}
			k := key{r.suite + " " + r.version, r.mode, c}
			if counts[k] == nil {
				counts[k] = map[outcome]int{}
				order = append(order, k)
			}
			counts[k][o]++
		}
	}
	fmt.Fprintf(w, "%-24s %-12s %-20s %6s %6s %6s\n", "suite", "mode", "TPM", "passed", "failed", "skipped")
	for _, k := range order {
		fmt.Fprintf(w, "%-24s %-12s %-20s %6d %6d %6d\n", k.suite, k.mode, k.tpm, counts[k][passed], counts[k][failed], counts[k][skipped])
	}
	fmt.Fprintln(w)
	for _, r := range t.rows {
		all := true
		var cells []string
		for _, c := range columns {
			if o, ran := r.on[c]; ran {
				cells = append(cells, c+": "+string(o))
				all = all && o == passed
			}
		}
		if !all {
			fmt.Fprintf(w, "%s %s %s: %s\n", r.suite, r.mode, r.test, strings.Join(cells, ", "))
		}
	}
}

// writeCSV writes one line for each test.
func (t *table) writeCSV(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(f)
	head := []string{"suite", "version", "mode", "test"}
	for _, c := range columns {
		head = append(head, strings.ReplaceAll(c, " ", "_"))
	}
	lines := [][]string{head}
	for _, r := range t.rows {
		l := []string{r.suite, r.version, r.mode, r.test}
		for _, c := range columns {
			l = append(l, string(r.on[c]))
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines[1:], func(a, b []string) int { return strings.Compare(a[0]+" "+a[2], b[0]+" "+b[2]) })
	_ = w.WriteAll(lines)
	return w.Error()
}
