// SPDX-License-Identifier: Apache-2.0

package edl

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Interface is a checked EDL file with what it imports: all that the two sides of
// the border need to know. ECALLs and OCALLs are numbered by their place here.
type Interface struct {
	Name         string   // of the enclave: the file's name without its ending
	Headers      []string // C headers for both sides
	ForTrusted   []string // C headers for the trusted side
	ForUntrusted []string // and for the untrusted one
	Types        []Decl   // *Record and *Enum, used ones before their users
	ECalls       []*Func
	OCalls       []*Func
	Warnings     []string // what is allowed, and hardly meant

	records map[string]*Record // structs by name
}

// Loader reads EDL files and what they import.
type Loader struct {
	// Search are folders for imports, after the importing file's own.
	Search []string
	// Read reads a file; its error for a missing one is fs.ErrNotExist.
	Read func(path string) ([]byte, error)
	// Preprocess runs a C preprocessor over a file that has lines with #. If it is
	// nil, these are errors.
	Preprocess func(path string, src []byte) ([]byte, error)
}

// maxFiles bounds how many files one may import.
const maxFiles = 1000

// Load reads a file with its imports, and checks all of it. On an error the
// Interface is nil.
func (l *Loader) Load(path string) (*Interface, error) {
	ld := &loading{Loader: l, modules: map[string]*module{}}
	m, err := ld.module(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	i := &Interface{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), Headers: m.both, ForTrusted: m.trusted, ForUntrusted: m.untrusted, Types: m.types, records: map[string]*Record{}}
	if !isName(i.Name) {
		return nil, fmt.Errorf("%s: the file's name becomes part of names in C: expected letters, digits and _ before the ending", path)
	}
	for _, f := range m.funcs {
		if f.Trusted {
			i.ECalls = append(i.ECalls, f)
		} else {
			i.OCalls = append(i.OCalls, f)
		}
	}
	if err := i.check(); err != nil {
		return nil, err
	}
	return i, nil
}

func isName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isDigit(s[i])) {
			return false
		}
	}
	return s != ""
}

// module is a file with what it imports: its own functions first, then those of
// the imports in their order.
type module struct {
	both, trusted, untrusted []string
	types                    []Decl
	funcs                    []*Func
}

type loading struct {
	*Loader
	modules map[string]*module // nil: being read
}

func (l *loading) module(path string) (*module, error) {
	if m, ok := l.modules[path]; ok {
		if m == nil {
			return nil, fmt.Errorf("%s: imports itself, directly or by others", path)
		}
		return m, nil
	}
	if len(l.modules) >= maxFiles {
		return nil, fmt.Errorf("%s: more than %d files are imported", path, maxFiles)
	}
	src, err := l.Read(path)
	if err != nil {
		return nil, err
	}
	if l.Preprocess != nil && hasDirective(string(src)) {
		if src, err = l.Preprocess(path, src); err != nil {
			return nil, fmt.Errorf("%s: preprocessor: %w", path, err)
		}
	}
	f, err := Parse(path, string(src))
	if err != nil {
		return nil, err
	}
	l.modules[path] = nil
	m := &module{}
	var own []Decl
	var imported []*Func
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *Include:
			m.both = appendNew(m.both, d.Header)
		case *Record, *Enum:
			own = append(own, d)
		case *Block:
			for _, i := range d.Includes {
				if d.Trusted {
					m.trusted = appendNew(m.trusted, i.Header)
				} else {
					m.untrusted = appendNew(m.untrusted, i.Header)
				}
			}
			m.funcs = append(m.funcs, d.Funcs...)
		case *Import:
			from, err := l.find(path, d)
			if err != nil {
				return nil, err
			}
			fs, err := pick(from, d)
			if err != nil {
				return nil, err
			}
			imported = append(imported, fs...)
			m.both = appendNew(m.both, from.both...)
			m.trusted = appendNew(m.trusted, from.trusted...)
			m.untrusted = appendNew(m.untrusted, from.untrusted...)
			m.types = appendNew(m.types, from.types...)
		}
	}
	m.types = appendNew(m.types, own...)
	m.funcs = appendNew(m.funcs, imported...) // one function may come by several ways
	l.modules[path] = m
	return m, nil
}

// find reads an imported file: beside the importing one, or in the search path.
func (l *loading) find(importer string, d *Import) (*module, error) {
	dirs := append([]string{filepath.Dir(importer)}, l.Search...)
	if filepath.IsAbs(d.Path) {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		m, err := l.module(filepath.Join(dir, filepath.FromSlash(d.Path)))
		var pe *fs.PathError
		if errors.Is(err, fs.ErrNotExist) && (!errors.As(err, &pe) || pe.Path == filepath.Join(dir, filepath.FromSlash(d.Path))) {
			continue
		}
		return m, err
	}
	return nil, errorAt(d.Pos, "%s is in none of %s: add its folder with --search-path", d.Path, strings.Join(dirs, ", "))
}

// pick takes the functions that an import names.
func pick(m *module, d *Import) ([]*Func, error) {
	if d.Names == nil {
		return m.funcs, nil
	}
	var out []*Func
names:
	for _, n := range d.Names {
		for _, f := range m.funcs {
			if f.Name == n {
				out = append(out, f)
				continue names
			}
		}
		return nil, errorAt(d.Pos, "%s has no function `%s'", d.Path, n)
	}
	return out, nil
}

func appendNew[T comparable](to []T, more ...T) []T {
next:
	for _, m := range more {
		for _, t := range to {
			if t == m {
				continue next
			}
		}
		to = append(to, m)
	}
	return to
}

// hasDirective reports whether a line begins with #.
func hasDirective(src string) bool {
	for _, l := range strings.Split(src, "\n") {
		if strings.HasPrefix(strings.TrimLeft(l, " \t"), "#") {
			return true
		}
	}
	return false
}
