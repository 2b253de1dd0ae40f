// SPDX-License-Identifier: Apache-2.0

package main

import (
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
