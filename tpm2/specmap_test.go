// SPDX-License-Identifier: Apache-2.0

package tpm2

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSpecMap: each type of the specification that the doc comment of a
// declaration here says it is ("X is TPMS_Y") has a row in docs/specmap.md.
func TestSpecMap(t *testing.T) {
	text, err := os.ReadFile("../docs/specmap.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "\n## Each structure\n")
	if !ok {
		t.Fatal("docs/specmap.md has no section \"Each structure\"")
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	is := regexp.MustCompile(`^\w+ (?:is|reads a|writes a) (TPM[A-Z0-9]*_[A-Z0-9_]+)`)
	n := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			var doc *ast.CommentGroup
			switch d := d.(type) {
			case *ast.GenDecl:
				doc = d.Doc
			case *ast.FuncDecl:
				doc = d.Doc
			}
			if doc == nil {
				continue
			}
			m := is.FindStringSubmatch(doc.Text())
			if m == nil {
				continue
			}
			n++
			if !strings.Contains(part, "| "+m[1]+" |") {
				t.Errorf("docs/specmap.md has no row for %s (%s)", m[1], name)
			}
		}
	}
	if n < 40 {
		t.Errorf("found only %d types: the reading is broken", n)
	}
}
