// SPDX-License-Identifier: Apache-2.0

package edl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files is a file system for a Loader.
type files map[string]string

func (f files) read(p string) ([]byte, error) {
	s, ok := f[p]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	}
	return []byte(s), nil
}

func load(t *testing.T, f files) (*Interface, error) {
	t.Helper()
	i, err := (&Loader{Read: f.read, Search: []string{"lib"}}).Load("e.edl")
	if err != nil && i != nil {
		t.Error("an error with an Interface")
	}
	return i, err
}

// wrap makes a file of declarations.
func wrap(s string) string { return "enclave {\n" + s + "\n};" }

func TestRefused(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{``, "1:1: expected `enclave'"},
		{`enclave { } ; x`, "expected nothing behind"},
		{"enclave {\n\ttrusted { public void f(); }\n};", "3:1: expected `;' after the block"},
		{wrap(`trusted { public void f() };`), "expected `;' after the function, got `}'"},
		{wrap(`/* no end`), "comment has no end"},
		{wrap(`include "x`), "string does not end"},
		{wrap(`#define X 1`), "preprocessor"},
		{wrap(`import "x.edl";`), "begins with `from"},
		{wrap(`trusted { public int[3] f(); };`), "cannot return an array"},
		{wrap(`trusted { public void f([in, sizefunc=len] void* p); };`), "sizefunc"},
		{wrap(`trusted { public void f([in, in] int* p); };`), "`in' stands here twice"},
		{wrap(`trusted { public void f([inn] int* p); };`), "unknown attribute `inn'"},
		{wrap(`trusted { public void f([] int* p); };`), "expected an attribute"},
		{wrap(`trusted { public void f(int* p); };`), "say what happens"},
		{wrap(`trusted { public void f([in] int p); };`), "attributes are for pointers"},
		{wrap(`trusted { public void f([in, user_check] int* p); };`), "exclude each other"},
		{wrap(`trusted { public void f([in] void* p); };`), "points to void: give its size"},
		{wrap(`trusted { public void f([in, size=n] char* p); };`), "size=n names no parameter"},
		{wrap(`trusted { public void f([in, size=n] char* p, float n); };`), "must be an integer"},
		{wrap(`trusted { public void f([in, size=n] char* p, [in] size_t* n); };`), "must be an integer"},
		{wrap(`trusted { public void f([in, size=p] char* p); };`), "its own size"},
		{wrap(`trusted { public void f([in, size=0] char* p); };`), "copies nothing"},
		{wrap(`trusted { public void f([out, string] char* p); };`), "a string needs [in]"},
		{wrap(`trusted { public void f([in, string] int* p); };`), "pointers to char"},
		{wrap(`trusted { public void f([in, string] char** p); };`), "pointers to char"},
		{wrap(`trusted { public void f([in, wstring] char* p); };`), "pointers to wchar_t"},
		{wrap(`trusted { public void f([in, string, wstring] char* p); };`), "exclude each other"},
		{wrap(`trusted { public void f([in, string, size=3] char* p); };`), "a string has no size"},
		{wrap(`trusted { public void f([user_check, size=3] char* p); };`), "need a direction"},
		{wrap(`trusted { public void f([out] const char* p); };`), "cannot be [out]"},
		{wrap(`trusted { public void f([in, isptr] int p); };`), "for types of your own"},
		{wrap(`trusted { public void f([in, isptr, isary] foo p); };`), "exclude each other"},
		{wrap(`trusted { public void f([in, readonly] foo* p); };`), "readonly goes with isptr"},
		{wrap(`trusted { public void f([out, isptr, readonly] foo p); };`), "cannot be [out]"},
		{wrap(`trusted { public void f([in] int* p[3]); };`), "arrays of pointers"},
		{wrap(`trusted { public void f([in] int p[]); };`), "unknown length"},
		{wrap(`trusted { public void f([in] int p[0]); };`), "length of the array"},
		{wrap(`trusted { public void f([in] int p[65536][65536]); };`), "more than 2^31"},
		{wrap(`trusted { public void f([in, count=2] int p[3]); };`), "an array has its length"},
		{wrap(`trusted { public void f(void p); };`), "void"},
		{wrap(`trusted { public void f(const int p); };`), "`const' stands only"},
		{wrap(`trusted { public void f(int a, int a); };`), "two parameters `a'"},
		{wrap(`trusted { void f(); };`), "no ECALL is public"},
		{wrap(`trusted { public void f(); public void f(); };`), "already declared"},
		{wrap(`trusted { public void f(); }; untrusted { void f(); };`), "already declared"},
		{wrap(`trusted { public void f() allow(g); };`), "expected `;'"},
		{wrap(`untrusted { void g() allow(f); };`), "which is no ECALL"},
		{wrap(`untrusted { [cdecl, stdcall] void g(); };`), "two calling conventions"},
		{wrap(`untrusted { [safe] void g(); };`), "unknown attribute of a function"},
		{wrap(`untrusted { void g() propagate_errno propagate_errno; };`), "twice"},
		{wrap(`struct s { };`), "no members"},
		{wrap(`struct s { int a; int a; };`), "two members"},
		{wrap(`struct s { int a; }; struct s { long a; };`), "already defined"},
		{wrap(`struct s { [in] int* a; };`), "no attributes but size and count"},
		{wrap(`struct s { [count=3] int a; };`), "is no pointer"},
		{wrap(`struct s { [count=n] void* a; int n; };`), "give its size"},
		{wrap(`struct s { [count=n] int* a; };`), "names no member"},
		{wrap(`struct s { int n; [count=n] int* a; }; struct t { struct s s; };`), "one level deep"},
		{wrap(`struct s { int n; [count=n] int* a; }; struct t { [count=1] struct s* s; };`), "one level deep"},
		{wrap(`struct s { int n; [count=n] int* a; }; trusted { public void f(struct s v); };`), "not by value"},
		{wrap(`struct s { int n; [count=n] int* a; }; trusted { public struct s f(); };`), "returns a struct"},
		{wrap(`struct s { int n; [count=n] int* a; }; trusted { public void f([out] struct s* v); };`), "[in] or [in, out]"},
		{wrap(`struct s { int n; [count=n] int* a; }; trusted { public void f([in, size=16] struct s* v); };`), "give count, not size"},
		{wrap(`struct s { int n; [count=n] int* a; }; trusted { public void f([in] struct s v[2]); };`), "by one pointer"},
		{wrap(`union u { [count=1] int* a; };`), "members of a union"},
		{wrap(`enum e { };`), "no constants"},
		{wrap(`from "none.edl" import *;`), "none.edl is in none of"},
		{wrap(`from "self.edl" import *;`), "imports itself"},
		{wrap(`from "other.edl" import h;`), "no function `h'"},
	} {
		_, err := load(t, files{"e.edl": c.src, "self.edl": wrap(`from "self.edl" import *;`), "other.edl": wrap(`trusted { public void g(); };`)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n\tgot %v, want %q", c.src, err, c.want)
		}
	}
}

func TestImports(t *testing.T) {
	i, err := load(t, files{
		"e.edl":          wrap(`from "a.edl" import *; from "lib.edl" import y; trusted { public void own(); }; struct s { struct base b; };`),
		"a.edl":          wrap(`from "sub/b.edl" import *; include "a.h" trusted { include "t.h" public void a(); }; untrusted { void o(); };`),
		"sub/b.edl":      wrap(`from "c.edl" import c; struct base { int x; }; trusted { void b(); };`),
		"sub/c.edl":      wrap(`trusted { void c(); void notc(); };`),
		"lib/lib.edl":    wrap(`from "common.edl" import *; trusted { void x(); void y(); };`),
		"lib/common.edl": wrap(`struct base { int x; }; untrusted { include "u.h" void shared(); };`),
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range i.ECalls {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "own a b c y" {
		t.Errorf("ECALLs %s, want own a b c y: the file's own first, then those of its imports in order", got)
	}
	if len(i.OCalls) != 1 || len(i.Types) != 2 || strings.Join(i.Headers, "")+strings.Join(i.ForTrusted, "")+strings.Join(i.ForUntrusted, "") != "a.ht.hu.h" {
		t.Errorf("OCALLs %v, types %v, headers %v %v %v", i.OCalls, i.Types, i.Headers, i.ForTrusted, i.ForUntrusted)
	}
	// One function by two ways is one function.
	i, err = load(t, files{"e.edl": wrap(`from "a.edl" import *; from "b.edl" import f;`), "a.edl": wrap(`from "b.edl" import *;`), "b.edl": wrap(`trusted { public void f(); };`)})
	if err != nil || len(i.ECalls) != 1 {
		t.Errorf("got %v, %v", i, err)
	}
}

func TestWarnings(t *testing.T) {
	i, err := load(t, files{"e.edl": wrap(`trusted { public int* f([in, count=n] const void** p, int n); }; untrusted { void g() allow(f); };`)})
	if err != nil {
		t.Fatal(err)
	}
	w := strings.Join(i.Warnings, "\n")
	for _, want := range []string{"e.edl:2:23: warning: `f' returns a pointer", "`p' points to pointers", "`f' is public"} {
		if !strings.Contains(w, want) {
			t.Errorf("no warning %q in\n%s", want, w)
		}
	}
}

func TestPreprocess(t *testing.T) {
	f := files{"e.edl": "#define N 4\nenclave { trusted { public void f([in] int a[N]); }; };"}
	l := &Loader{Read: f.read, Preprocess: func(_ string, b []byte) ([]byte, error) {
		return []byte(strings.ReplaceAll(strings.TrimPrefix(string(b), "#define N 4\n"), "[N]", "[4]")), nil
	}}
	i, err := l.Load("e.edl")
	if err != nil || i.ECalls[0].Params[0].Dims[0] != 4 {
		t.Errorf("got %v, %v", i, err)
	}
	l.Preprocess = func(string, []byte) ([]byte, error) { return nil, errors.New("broken") }
	if i, err := l.Load("e.edl"); err == nil || i != nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v, %v", i, err)
	}
}

// checkRoundTrip: what parses prints to text that parses to the same tree.
func checkRoundTrip(t *testing.T, src string) {
	t.Helper()
	f, err := Parse("f.edl", src)
	if err != nil {
		if f != nil {
			t.Error("an error with a File")
		}
		return
	}
	text := f.String()
	g, err := Parse("f.edl", text)
	if err != nil {
		t.Fatalf("printed text does not parse: %v\n%s", err, text)
	}
	if !same(f, g) {
		t.Fatalf("printed text parses to another tree:\n%s\n%s", text, g)
	}
}

func FuzzParse(f *testing.F) {
	all, err := os.ReadFile(filepath.Join("testdata", "all.edl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(all))
	f.Add(wrap(`trusted { private private private(private private); public unsigned long int x(unsigned short a, long double b); };`))
	f.Add(wrap(`enum { A = 0x10, B }; from "x" import y, z; untrusted { [dllimport] void f() allow(); };`))
	f.Fuzz(func(t *testing.T, src string) { checkRoundTrip(t, src) })
}

// FuzzGenerate: whatever passes the checks gives code on both sides.
func FuzzGenerate(f *testing.F) {
	all, err := os.ReadFile(filepath.Join("testdata", "all.edl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(all))
	f.Add(wrap(`trusted { public void f([in, out, count=n, size=2] foo* p, int n); };`))
	f.Fuzz(func(t *testing.T, src string) {
		i, err := load(t, files{"e.edl": src, "imported.edl": wrap(`trusted { public void imported_ecall(); }; untrusted { void imported_ocall(); };`)})
		if err != nil {
			return
		}
		for _, o := range []Output{i.Trusted(), i.Untrusted(true), i.Untrusted(false)} {
			if strings.Contains(o.Header+o.Source, "%!") {
				t.Fatalf("a broken format in\n%s\n%s", o.Header, o.Source)
			}
			if strings.Count(o.Source, "{") != strings.Count(o.Source, "}") {
				t.Fatalf("braces do not match in\n%s", o.Source)
			}
		}
	})
}
