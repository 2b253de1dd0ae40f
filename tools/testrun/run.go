// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"sort"
	"strings"
	"time"
)

// A run collects the outcome of all steps.
type run struct {
	full     bool
	start    time.Time
	features map[string]bool // from the doctor: is it present?
	passed   int
	failed   []outcome
	unsteady []outcome // failed, then passed by itself (again.go)
	skipped  []outcome
	notes    []string
}

// An outcome is a failed or skipped test with its output, or a reason. A test
// has its package's path and the name of its function.
type outcome struct{ name, why, pkg, test string }

func (r *run) fail(name, why string) {
	r.failed = append(r.failed, outcome{name: name, why: strings.TrimSpace(why)})
	fmt.Printf("FAIL  %s\n", name)
}

func (r *run) note(s string) { r.notes = append(r.notes, s) }

// step runs one command that either works or not.
func (r *run) step(name string, env []string, args ...string) {
	begin := time.Now()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.fail(name, string(out))
		return
	}
	r.passed++
	fmt.Printf("ok    %-58s %6.1f s\n", name, time.Since(begin).Seconds())
}

// event is a line of `go test -json` (cmd/test2json).
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

// goTest runs `go test` and takes its events in.
func (r *run) goTest(name string, prefix []string, args ...string) {
	if len(args) == 0 {
		return
	}
	fmt.Printf("--    %s\n", name)
	full := []string{"test", "-json", "-count=1", "-timeout=15m"}
	if len(prefix) > 0 {
		full = append(full, "-exec="+strings.Join(prefix, " "))
	}
	cmd := exec.Command("go", append(full, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.fail(name, err.Error())
		return
	}
	failedBefore := len(r.failed)
	r.read(out)
	if err := cmd.Wait(); err != nil && len(r.failed) == failedBefore {
		r.fail(name, "go test: "+err.Error())
	}
	r.again(failedBefore, rerun(prefix, args))
}

// read takes the event stream in and prints a line for each package.
func (r *run) read(stream io.Reader) {
	output := map[string]*strings.Builder{} // by package and test
	parents := map[string]bool{}            // tests with subtests: only the leaves count
	count := map[string]int{}
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text()) // go itself has something to say
			continue
		}
		pkg := e.Package
		if pkg == "" {
			pkg, _, _ = strings.Cut(e.ImportPath, " ")
		}
		key := pkg + " " + e.Test
		switch e.Action {
		case "run":
			if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
				parents[pkg+" "+e.Test[:i]] = true
			}
		case "output", "build-output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
		case "pass", "fail", "skip":
			text := ""
			if b := output[key]; b != nil {
				text = b.String()
			}
			delete(output, key)
			if e.Test == "" {
				r.packageDone(e, pkg, text, output, count[pkg])
				continue
			}
			count[pkg]++
			r.testDone(e.Action, pkg, e.Test, text, parents[key])
		}
	}
}

func (r *run) testDone(action, pkg, test, text string, parent bool) {
	function, _, _ := strings.Cut(test, "/")
	o := outcome{strings.TrimPrefix(pkg, "holdfast/") + " " + test, text, pkg, function}
	switch {
	case action == "fail" && (!parent || strings.Contains(text, ".go:")):
		r.failed = append(r.failed, o)
	case action == "fail" || parent && action == "pass":
	case action == "pass":
		r.passed++
	default:
		r.skipped = append(r.skipped, o)
	}
}

func (r *run) packageDone(e event, pkg, text string, output map[string]*strings.Builder, tests int) {
	short := strings.TrimPrefix(pkg, "holdfast/")
	switch {
	case e.Action == "fail":
		// What did not end by itself (a crash, a time-out, a failed build) has output left over.
		var left []string
		for k, b := range output {
			if strings.HasPrefix(k, pkg+" ") {
				left = append(left, b.String())
				delete(output, k)
			}
		}
		sort.Strings(left)
		if len(left) > 0 || e.FailedBuild != "" || tests == 0 {
			r.failed = append(r.failed, outcome{name: short + " (package)", why: text + strings.Join(left, "")})
		}
		fmt.Printf("FAIL  %-40s %4d tests %12.1f s\n", short, tests, e.Elapsed)
	case e.Action == "pass" && tests > 0:
		fmt.Printf("ok    %-40s %4d tests %12.1f s\n", short, tests, e.Elapsed)
	}
}

// skipForm finds the announced reason in a test's output.
var skipForm = regexp.MustCompile(`SKIP\[([a-z0-9-]+)\]: *([^\n]*)`)

// judge says why a skip is wrong, or "".
func (r *run) judge(text string) (feature, fact, wrong string) {
	m := skipForm.FindStringSubmatch(text)
	if m == nil {
		return "", "", "skipped without the form SKIP[feature]: fact"
	}
	feature, fact = m[1], m[2]
	present, known := r.features[feature]
	switch {
	case feature == "full" && !r.full:
		return feature, fact, ""
	case feature == "flag":
		return feature, fact, "" // a tool in a test's clothes, which only its own flag starts
	case feature == "full":
		return feature, fact, "skipped in the full run"
	case !known:
		return feature, fact, fmt.Sprintf("skipped for the feature %q, which `holdfast doctor` does not know", feature)
	case present:
		return feature, fact, fmt.Sprintf("skipped for the feature %q, which `holdfast doctor` finds on this host", feature)
	}
	return feature, fact, ""
}

// report prints the summary and returns the exit status.
func (r *run) report(w io.Writer) int {
	right := map[string][]string{}
	facts := map[string]string{}
	skips := 0
	for _, s := range r.skipped {
		feature, fact, wrong := r.judge(s.why)
		if wrong != "" {
			r.failed = append(r.failed, outcome{name: s.name, why: wrong + "\n" + s.why})
			continue
		}
		skips++
		right[feature] = append(right[feature], s.name)
		facts[feature] = fact
	}
	fmt.Fprintln(w)
	show := func(what string, list []outcome) {
		for _, f := range list {
			fmt.Fprintf(w, "%s  %s\n", what, f.name)
			for _, l := range strings.Split(strings.TrimRight(f.why, "\n"), "\n") {
				fmt.Fprintf(w, "    %s\n", l)
			}
		}
	}
	show(fmt.Sprintf("UNSTEADY (to be mended: failed, then passed %d times in a row by itself)", againTimes), r.unsteady)
	show("FAILED", r.failed)
	var names []string
	for f := range right {
		names = append(names, f)
	}
	sort.Strings(names)
	for _, f := range names {
		fmt.Fprintf(w, "skipped [%s], %d: %s\n", f, len(right[f]), facts[f])
		for _, n := range right[f] {
			fmt.Fprintf(w, "    %s\n", n)
		}
	}
	for _, n := range r.notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	fmt.Fprintf(w, "in %.0f s\n", time.Since(r.start).Seconds())
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), skips)
	if len(r.failed) > 0 || r.passed == 0 {
		return 1
	}
	return 0
}
