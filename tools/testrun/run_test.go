// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// stream holds what `go test -json` writes for a package with one of each.
const stream = `{"Action":"start","Package":"holdfast/a"}
{"Action":"run","Package":"holdfast/a","Test":"TestGood"}
{"Action":"pass","Package":"holdfast/a","Test":"TestGood"}
{"Action":"run","Package":"holdfast/a","Test":"TestParent"}
{"Action":"run","Package":"holdfast/a","Test":"TestParent/one"}
{"Action":"pass","Package":"holdfast/a","Test":"TestParent/one"}
{"Action":"pass","Package":"holdfast/a","Test":"TestParent"}
{"Action":"run","Package":"holdfast/a","Test":"TestNoKVM"}
{"Action":"output","Package":"holdfast/a","Test":"TestNoKVM","Output":"    a_test.go:9: SKIP[kvm]: open /dev/kvm: no such file\n"}
{"Action":"skip","Package":"holdfast/a","Test":"TestNoKVM"}
`

func read(t *testing.T, more string) (*run, string, int) {
	t.Helper()
	r := &run{start: time.Now(), features: map[string]bool{"kvm": false, "curl": true}}
	r.read(strings.NewReader(stream + more))
	var b strings.Builder
	code := r.report(&b)
	return r, b.String(), code
}

func TestSummary(t *testing.T) {
	for _, c := range []struct{ name, more, last string }{
		{"good", `{"Action":"pass","Package":"holdfast/a"}`, "2 passed, 0 failed, 1 skipped"},
		{"failed", `{"Action":"run","Package":"holdfast/a","Test":"TestBad"}
{"Action":"fail","Package":"holdfast/a","Test":"TestBad"}
{"Action":"fail","Package":"holdfast/a"}`, "2 passed, 1 failed, 1 skipped"},
		{"skip without form", `{"Action":"run","Package":"holdfast/a","Test":"TestS"}
{"Action":"output","Package":"holdfast/a","Test":"TestS","Output":"no luck\n"}
{"Action":"skip","Package":"holdfast/a","Test":"TestS"}`, "2 passed, 1 failed, 1 skipped"},
		{"skip although present", `{"Action":"run","Package":"holdfast/a","Test":"TestS"}
{"Action":"output","Package":"holdfast/a","Test":"TestS","Output":"SKIP[curl]: none\n"}
{"Action":"skip","Package":"holdfast/a","Test":"TestS"}`, "2 passed, 1 failed, 1 skipped"},
		{"unknown feature", `{"Action":"run","Package":"holdfast/a","Test":"TestS"}
{"Action":"output","Package":"holdfast/a","Test":"TestS","Output":"SKIP[luck]: none\n"}
{"Action":"skip","Package":"holdfast/a","Test":"TestS"}`, "2 passed, 1 failed, 1 skipped"},
		{"full only", `{"Action":"run","Package":"holdfast/a","Test":"TestS"}
{"Action":"output","Package":"holdfast/a","Test":"TestS","Output":"SKIP[full]: takes an hour\n"}
{"Action":"skip","Package":"holdfast/a","Test":"TestS"}`, "2 passed, 0 failed, 2 skipped"},
		{"build failed", `{"Action":"build-output","ImportPath":"holdfast/b [holdfast/b.test]","Output":"b.go:1: syntax error\n"}
{"Action":"fail","Package":"holdfast/b","FailedBuild":"holdfast/b [holdfast/b.test]"}`, "2 passed, 1 failed, 1 skipped"},
		{"crash", `{"Action":"run","Package":"holdfast/b","Test":"TestCrash"}
{"Action":"output","Package":"holdfast/b","Test":"TestCrash","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"holdfast/b"}`, "2 passed, 1 failed, 1 skipped"},
	} {
		_, text, code := read(t, c.more)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if last := lines[len(lines)-1]; last != c.last {
			t.Errorf("%s: last line %q, want %q\n%s", c.name, last, c.last, text)
		}
		if good := strings.Contains(c.last, " 0 failed"); good != (code == 0) {
			t.Errorf("%s: exit status %d does not fit %q", c.name, code, c.last)
		}
	}
}

func TestNothingRunIsNoSuccess(t *testing.T) {
	r := &run{start: time.Now()}
	var b strings.Builder
	if code := r.report(&b); code == 0 {
		t.Errorf("a run without a single test ended well:\n%s", b.String())
	}
}

func TestAgain(t *testing.T) {
	const bad = `{"Action":"output","Package":"holdfast/a","Test":"TestBad/x","Output":"    a_test.go:3: got 1\\n"}
{"Action":"fail","Package":"holdfast/a","Test":"TestBad/x"}
{"Action":"fail","Package":"holdfast/a"}`
	pass := `{"Action":"pass","Package":"holdfast/a","Test":"TestBad"}` + "\n"
	for _, c := range []struct {
		name, first, second string
		err                 error
		tried               int
		last                string
	}{
		{"unsteady", bad, strings.Repeat(pass, 3), nil, 1, "3 passed, 0 failed, 1 skipped"},
		{"fails again", bad, strings.Repeat(pass, 2) + `{"Action":"fail","Package":"holdfast/a","Test":"TestBad"}`, errors.New("exit status 1"), 1, "2 passed, 1 failed, 1 skipped"},
		{"not run again", bad, "", nil, 1, "2 passed, 1 failed, 1 skipped"},
		{"a package", `{"Action":"fail","Package":"holdfast/b"}`, strings.Repeat(pass, 3), nil, 0, "2 passed, 1 failed, 1 skipped"},
		{"many", strings.ReplaceAll(bad, "TestBad", "TestA") + "\n" + strings.ReplaceAll(bad, "TestBad", "TestB") + "\n" + strings.ReplaceAll(bad, "TestBad", "TestC") + "\n" + bad,
			strings.Repeat(pass, 3), nil, 0, "2 passed, 4 failed, 1 skipped"},
	} {
		r := &run{start: time.Now(), features: map[string]bool{"kvm": false}}
		r.read(strings.NewReader(stream + c.first))
		tried := 0
		r.again(0, func(pkg, test string, times int) (io.Reader, error) {
			tried++
			if pkg != "holdfast/a" || test != "TestBad" || times != 3 {
				t.Errorf("%s: tried %s %s %d times", c.name, pkg, test, times)
			}
			return strings.NewReader(c.second), c.err
		})
		var b strings.Builder
		code := r.report(&b)
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if last := lines[len(lines)-1]; last != c.last || tried != c.tried || (code == 0) != strings.Contains(c.last, " 0 failed") {
			t.Errorf("%s: tried %d times, exit status %d, want %d and %q\n%s", c.name, tried, code, c.tried, c.last, b.String())
		}
		if unsteady := strings.Contains(b.String(), "UNSTEADY") && strings.Contains(b.String(), "a_test.go:3: got 1"); unsteady != (code == 0) {
			t.Errorf("%s: the summary hides what happened\n%s", c.name, b.String())
		}
	}
}
