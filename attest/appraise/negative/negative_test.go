// SPDX-License-Identifier: Apache-2.0

package negative

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAllRun: some test runs each row, and each row has every attack.
func TestAllRun(t *testing.T) {
	run := map[string]bool{}
	err := filepath.WalkDir("../..", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		b, err := os.ReadFile(p)
		for kind := range Table {
			if strings.Contains(string(b), `negative.Run(t, "`+kind+`"`) {
				run[kind] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, row := range Table {
		if !run[kind] {
			t.Errorf("no test runs the row %s", kind)
		}
		for attack, cell := range row {
			if !slices.Contains(Attacks, attack) || cell == "" {
				t.Errorf("%s, %s: %q", kind, attack, cell)
			}
		}
		if len(row) != len(Attacks) {
			t.Errorf("%s: expected %d attacks, got %d", kind, len(Attacks), len(row))
		}
	}
}

// TestDocumented: the table that people read is this one.
func TestDocumented(t *testing.T) {
	const file = "../../../docs/threat-model-attest.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), Markdown()) {
		t.Errorf("%s: expected the table\n%s", file, Markdown())
	}
}
