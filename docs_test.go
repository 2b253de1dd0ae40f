// SPDX-License-Identifier: Apache-2.0

package holdfast

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the Markdown files of the module.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "out") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(p, ".md") {
			out = append(out, filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 5 {
		t.Fatalf("found only %v: the walk is broken", out)
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// TestLinks: every relative link leads somewhere.
func TestLinks(t *testing.T) {
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
	}
}

// TestReadmeStartsWithACommand: the first command is within 20 lines.
func TestReadmeStartsWithACommand(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "make ") && i < 20 {
			return
		}
	}
	t.Error("README.md has no command within its first 20 lines")
}

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*$`)
)

// TestSpecMap: each row of docs/specmap.md names files and tests that exist.
// In a row, a code span with a slash or a dot is a path from the root; a code
// span Test... or Fuzz... is looked for in the paths of the same row.
func TestSpecMap(t *testing.T) {
	text, err := os.ReadFile("docs/specmap.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, row := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| section") {
			continue
		}
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) < 4 {
			t.Errorf("a row needs section, what, file and test: %s", row)
			continue
		}
		rows++
		var paths, tests []string
		for _, cell := range cells[2:] {
			for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
				if testName.MatchString(m[1]) {
					tests = append(tests, m[1])
				} else {
					paths = append(paths, m[1])
				}
			}
		}
		if len(paths) == 0 {
			t.Errorf("no file in: %s", row)
		}
		var sources strings.Builder
		for _, p := range paths {
			if _, err := os.Stat(p); err != nil {
				t.Errorf("docs/specmap.md names %s, which is not there", p)
				continue
			}
			readTests(t, p, &sources)
		}
		for _, name := range tests {
			if !strings.Contains(sources.String(), "func "+name+"(") {
				t.Errorf("docs/specmap.md: no %s in %v", name, paths)
			}
		}
		if len(tests) == 0 && !strings.Contains(cells[3], "_test.go") {
			t.Errorf("no test in: %s", row)
		}
	}
	if rows < 10 {
		t.Errorf("found only %d rows: the reading is broken", rows)
	}
}

// readTests adds the test files at path (a file, or a folder) to out.
func readTests(t *testing.T, path string, out *strings.Builder) {
	t.Helper()
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(path, "*_test.go"))
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b)
		}
	}
}
