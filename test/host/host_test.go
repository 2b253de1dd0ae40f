// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"regexp"
	"testing"
)

type fakeT struct{ skipped string }

func (f *fakeT) Helper()                       {}
func (f *fakeT) Skipf(format string, a ...any) { f.skipped = fmt.Sprintf(format, a...) }

func TestNeed(t *testing.T) {
	present, absent := "", ""
	for _, f := range Probe() {
		if f.Fact == "" || f.Gives == "" {
			t.Errorf("%s: says nothing about itself: %+v", f.Name, f)
		}
		if f.Present {
			present = f.Name
		} else {
			absent = f.Name
		}
	}
	if present != "" {
		f := &fakeT{}
		if Need(f, present); f.skipped != "" {
			t.Errorf("%s is present, yet Need skipped: %s", present, f.skipped)
		}
	}
	if absent != "" {
		f := &fakeT{}
		Need(f, absent)
		if !regexp.MustCompile(`^SKIP\[` + regexp.QuoteMeta(absent) + `\]: .+`).MatchString(f.skipped) {
			t.Errorf("%s is absent, Need said %q, want SKIP[%s]: ...", absent, f.skipped, absent)
		}
	}
	f := &fakeT{}
	if Need(f, "no-such-feature"); f.skipped == "" {
		t.Error("an unknown feature must skip (tools/testrun then fails), not run")
	}
}

func TestNothingLeftBehind(t *testing.T) {
	Probe()
	root, err := CgroupRoot()
	if err != nil {
		t.Skipf("SKIP[cgroup2]: %v", err)
	}
	es, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if regexp.MustCompile(`^holdfast-probe-`).MatchString(e.Name()) {
			t.Errorf("probe left %s/%s behind", root, e.Name())
		}
	}
}
