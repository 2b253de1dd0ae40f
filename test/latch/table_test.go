// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCasesTable: every test that docs/latch-cases.md names is there, so that
// "yes" in the table means something.
func TestCasesTable(t *testing.T) {
	doc, err := os.ReadFile("../../docs/latch-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{}
	for _, m := range regexp.MustCompile("`([A-Z])` = `([a-z/]+)`").FindAllStringSubmatch(string(doc), -1) {
		folders[m[1]] = m[2]
	}
	named := regexp.MustCompile("`([A-Z]) ((?:Test|Fuzz)[A-Za-z0-9]+)(?:/[^`]*)?`").FindAllStringSubmatch(string(doc), -1)
	if len(folders) < 9 || len(named) < 60 {
		t.Fatalf("%d folders and %d tests were read from the table; its form has changed", len(folders), len(named))
	}
	source := map[string]string{}
	for letter, dir := range folders {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests (%v)", dir, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source[letter] += string(b)
		}
	}
	for _, m := range named {
		if !strings.Contains(source[m[1]], "func "+m[2]+"(") {
			t.Errorf("%s is not in %s", m[2], folders[m[1]])
		}
	}
}
