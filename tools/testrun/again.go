// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A test that failed is run again by itself, so that one deadline missed on a
// busy machine is told apart from a fault: it is unsteady, which the summary
// says with what the test said, if it then passes often enough in a row. More
// failures than a few, and all that end a whole package, are never excused.
const (
	againTimes = 3
	againMost  = 3
)

// runner runs one test of a package several times and returns the events.
type runner func(pkg, test string, times int) (io.Reader, error)

// rerun is the runner of a real run; args are those of the first one.
func rerun(prefix, args []string) runner {
	return func(pkg, test string, times int) (io.Reader, error) {
		full := []string{"test", "-json", "-timeout=15m", fmt.Sprintf("-count=%d", times), "-run=^" + test + "$"}
		if len(prefix) > 0 {
			full = append(full, "-exec="+strings.Join(prefix, " "))
		}
		for _, a := range args {
			if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "-p=") {
				full = append(full, a)
			}
		}
		cmd := exec.Command("go", append(full, pkg)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return strings.NewReader(string(out)), err
	}
}

// again tries what failed since the first `from` failures once more.
func (r *run) again(from int, try runner) {
	failed := r.failed[from:]
	tests := map[string]bool{}
	for _, f := range failed {
		if f.test == "" {
			return
		}
		tests[f.pkg+" "+f.test] = true
	}
	if len(tests) > againMost {
		return
	}
	bad := map[string]bool{} // failed again
	for k := range tests {
		pkg, test, _ := strings.Cut(k, " ")
		fmt.Printf("--    again, %d times: %s %s\n", againTimes, strings.TrimPrefix(pkg, "holdfast/"), test)
		events, err := try(pkg, test, againTimes)
		second := &run{}
		if events != nil {
			second.read(events)
		}
		bad[k] = err != nil || len(second.failed) > 0 || second.passed < againTimes
	}
	r.failed = r.failed[:from:from]
	for _, f := range failed {
		if bad[f.pkg+" "+f.test] {
			r.failed = append(r.failed, f)
			continue
		}
		r.passed++
		r.unsteady = append(r.unsteady, f)
	}
}
