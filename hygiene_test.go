// SPDX-License-Identifier: Apache-2.0

package holdfast

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const licenceLine = "// SPDX-License-Identifier: Apache-2.0"

// sourceFiles calls fn for each Go file of the module.
func sourceFiles(t *testing.T, fn func(name string, src []byte)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "out") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(p, ".go") {
			src, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			n++
			fn(filepath.ToSlash(p), src)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 3 {
		t.Fatalf("found only %d Go files: the walk is broken, so this test would prove nothing", n)
	}
}

func TestFormatAndLicence(t *testing.T) {
	sourceFiles(t, func(name string, src []byte) {
		out, err := format.Source(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(out, src) {
			t.Errorf("%s: not gofmt's form; run gofmt -w %s", name, name)
		}
		generated := bytes.HasPrefix(src, []byte("// Code generated"))
		if !generated && !bytes.HasPrefix(src, []byte(licenceLine)) {
			t.Errorf("%s: first line must be %q", name, licenceLine)
		}
	})
}

func TestUnsafeOnlyWhereNamed(t *testing.T) {
	sourceFiles(t, func(name string, src []byte) {
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, i := range f.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			base := strings.TrimSuffix(name, ".go")
			if p == "unsafe" && !strings.HasSuffix(base, "_unsafe") && !strings.HasSuffix(base, "_unsafe_test") && !strings.HasSuffix(base, "_unsafe_linux") && !strings.HasSuffix(base, "_unsafe_linux_amd64") && !strings.HasSuffix(base, "_unsafe_windows") {
				t.Errorf("%s imports unsafe: only files named *_unsafe.go may", name)
			}
			if p == "C" {
				t.Errorf("%s uses cgo", name)
			}
		}
	})
}

func TestOnePackageComment(t *testing.T) {
	docs := map[string][]string{}
	pkgs := map[string]bool{}
	sourceFiles(t, func(name string, src []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Error(err)
			return
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		pkgs[dir] = true
		if hasDoc(f) {
			docs[dir] = append(docs[dir], name)
		}
	})
	for dir := range pkgs {
		if len(docs[dir]) != 1 {
			t.Errorf("package %s has %d package comments %v, want exactly one (what to call first, then promises and limits)", dir, len(docs[dir]), docs[dir])
		}
	}
}

func hasDoc(f *ast.File) bool { return f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" }

// TestGoMod: what we ship is what the named versions are; and no module that
// the licence rules exclude (GPL and AGPL are not linked in).
func TestGoMod(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(mod), "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "replace") {
			t.Errorf("go.mod: %q: replace does not reach those who import us", l)
		}
		for _, no := range []string{"imgk/divert-go", "tinfoil-go", "google/gopacket"} {
			if strings.Contains(l, no) {
				t.Errorf("go.mod: %q is not to be linked (licence, or unkept)", l)
			}
		}
	}
}

var (
	skipCall = regexp.MustCompile(`\bt\.Skip(f|Now)?\(`)
	skipGood = regexp.MustCompile(`SKIP\[[a-z0-9-]+\]`)
)

// TestSkipsSayWhy: a test that skips names the feature of the machine that it
// lacks, in the form that `make test` compares with `holdfast doctor`.
func TestSkipsSayWhy(t *testing.T) {
	sourceFiles(t, func(name string, src []byte) {
		for i, line := range strings.Split(string(src), "\n") {
			if skipCall.MatchString(line) && !skipGood.MatchString(line) && strings.HasSuffix(name, "_test.go") {
				t.Errorf("%s:%d: a skip needs the form SKIP[feature]: fact, with a feature that `holdfast doctor` knows (or full, or flag): t.Skipf(\"SKIP[root]: ...\"), or call host.Need(t, \"root\") of test/host", name, i+1)
			}
		}
	})
	scripts, _ := filepath.Glob("cmd/holdfast/testdata/*.txtar")
	for _, name := range scripts {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(src), "\n") {
			if strings.Contains(line, "] skip ") && !skipGood.MatchString(line) {
				t.Errorf("%s:%d: a skip needs the form SKIP[feature]: fact", name, i+1)
			}
		}
	}
}
