// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// TestReasonTexts reads the constants from the source, so that a code without
// a sentence cannot slip in.
func TestReasonTexts(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[Reason]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "Reason" {
			return true
		}
		s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		r := Reason(s)
		if seen[r] {
			t.Errorf("code %q stands twice", r)
		}
		seen[r] = true
		if !form.MatchString(s) {
			t.Errorf("code %q: want lower case words joined by hyphens", r)
		}
		if !r.Known() || len(r.Text()) < 20 {
			t.Errorf("code %q has no sentence", r)
		}
		return true
	})
	if len(seen) == 0 || len(seen) != len(Reasons()) {
		t.Errorf("%d constants, %d sentences", len(seen), len(Reasons()))
	}
	if Reason("nonsense").Known() || Reason("nonsense").Text() == "" {
		t.Error("an unknown code must be unknown and still have a sentence")
	}
}
