// SPDX-License-Identifier: Apache-2.0

package edl

import (
	"fmt"
	"reflect"
)

// check looks at what the grammar alone does not say.
func (i *Interface) check() error {
	for _, step := range []func() error{i.checkTypes, i.checkNames, i.checkAllow} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, f := range append(append([]*Func(nil), i.ECalls...), i.OCalls...) {
		if err := i.checkFunc(f); err != nil {
			return err
		}
	}
	return nil
}

func (i *Interface) warn(p Pos, format string, a ...any) {
	i.Warnings = append(i.Warnings, p.String()+": warning: "+fmt.Sprintf(format, a...))
}

// MaxCalls bounds ECALLs and OCALLs, each, so that their table stays small.
const MaxCalls = 4096

func (i *Interface) checkNames() error {
	if len(i.ECalls) > MaxCalls || len(i.OCalls) > MaxCalls {
		return fmt.Errorf("%s: %d ECALLs and %d OCALLs, more than %d of a kind", i.Name, len(i.ECalls), len(i.OCalls), MaxCalls)
	}
	seen := map[string]*Func{}
	public := false
	for _, f := range append(append([]*Func(nil), i.ECalls...), i.OCalls...) {
		if o := seen[f.Name]; o != nil {
			return errorAt(f.Pos, "function `%s' is already declared at %v", f.Name, o.Pos)
		}
		seen[f.Name] = f
		public = public || f.Public
	}
	if len(i.ECalls) > 0 && !public {
		return errorAt(i.ECalls[0].Pos, "no ECALL is public, so that the enclave can never be entered: write `public' before those that the application may call")
	}
	return nil
}

func (i *Interface) checkAllow() error {
	ecalls := map[string]*Func{}
	for _, f := range i.ECalls {
		ecalls[f.Name] = f
	}
	for _, f := range i.OCalls {
		for _, n := range f.Allow {
			switch e := ecalls[n]; {
			case e == nil:
				return errorAt(f.Pos, "`%s' allows `%s', which is no ECALL", f.Name, n)
			case e.Public:
				i.warn(f.Pos, "`%s' is public: that `%s' allows it says that it may also be called from there", n, f.Name)
			}
		}
	}
	return nil
}

func (i *Interface) checkTypes() error {
	seen := map[string]Decl{}
	var kept []Decl
	for _, d := range i.Types {
		pos, name := typeName(d)
		if name == "" {
			kept = append(kept, d)
			continue
		}
		if o := seen[name]; o != nil {
			if !sameType(o, d) {
				op, _ := typeName(o)
				return errorAt(pos, "`%s' is already defined at %v", name, op)
			}
			continue
		}
		seen[name] = d
		kept = append(kept, d)
		if r, ok := d.(*Record); ok {
			if !r.Union {
				i.records[r.Name] = r
			}
			if err := i.checkMembers(r); err != nil {
				return err
			}
		}
	}
	i.Types = kept
	return nil
}

func typeName(d Decl) (Pos, string) {
	switch d := d.(type) {
	case *Record:
		return d.Pos, d.kind() + " " + d.Name
	case *Enum:
		if d.Name == "" {
			return d.Pos, ""
		}
		return d.Pos, "enum " + d.Name
	}
	return Pos{}, ""
}

// sameType compares definitions without their places.
func sameType(a, b Decl) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && (&File{Decls: []Decl{a}}).String() == (&File{Decls: []Decl{b}}).String()
}

// deep reports whether a struct has members that are copied with it.
func (r *Record) deep() bool {
	for _, m := range r.Members {
		if m.deep() {
			return true
		}
	}
	return false
}

// deep reports whether a struct's pointer member is copied with the struct.
func (p *Param) deep() bool { return p.Attrs.Size != nil || p.Attrs.Count != nil }

func (i *Interface) deepRecord(t Type) *Record {
	if r := i.records[t.Name]; t.Class == Struct && r != nil && r.deep() {
		return r
	}
	return nil
}

func (i *Interface) checkMembers(r *Record) error {
	names := map[string]*Param{}
	for _, m := range r.Members {
		if names[m.Name] != nil {
			return errorAt(m.Pos, "`%s' has two members `%s'", r.Name, m.Name)
		}
		names[m.Name] = m
		if m.Type.Class == Void && m.Type.Ptr == 0 {
			return errorAt(m.Pos, "member `%s' is void", m.Name)
		}
		if err := checkDims(m); err != nil {
			return err
		}
		if m.Attrs == (Attrs{}) {
			if m.Type.Ptr == 0 && i.deepRecord(m.Type) != nil {
				return errorAt(m.Pos, "member `%s' is a struct with pointers that are copied: this goes only one level deep", m.Name)
			}
			continue
		}
		a := m.Attrs
		a.Size, a.Count = nil, nil
		switch {
		case a != (Attrs{}):
			return errorAt(m.Pos, "member `%s': members have no attributes but size and count", m.Name)
		case m.Type.Ptr == 0 || m.Dims != nil:
			return errorAt(m.Pos, "member `%s' has a size or count, but is no pointer", m.Name)
		case m.Type.Const:
			return errorAt(m.Pos, "member `%s' is copied, so it cannot point to const", m.Name)
		case m.Type.Class == Void && m.Type.Ptr == 1 && m.Attrs.Size == nil:
			return errorAt(m.Pos, "member `%s' points to void: give its size", m.Name)
		case m.Type.Ptr == 1 && i.deepRecord(m.Type) != nil, m.Type.Ptr == 1 && m.Type.Class == Struct && m.Type.Name == r.Name:
			return errorAt(m.Pos, "member `%s' points to a struct with pointers that are copied: this goes only one level deep", m.Name)
		case m.Type.Ptr > 1:
			i.warn(m.Pos, "`%s' points to pointers: they are copied as they are, not what they point to", m.Name)
		}
	}
	for _, m := range r.Members {
		if err := checkValues(m, names, "member"); err != nil {
			return err
		}
	}
	return nil
}

func checkDims(p *Param) error {
	n := uint64(1)
	for _, d := range p.Dims {
		if n *= d; n > 1<<31 {
			return errorAt(p.Pos, "array `%s' has more than 2^31 elements", p.Name)
		}
	}
	return nil
}

// checkValues looks at what size and count name.
func checkValues(p *Param, names map[string]*Param, what string) error {
	for _, v := range []struct {
		attr string
		*Value
	}{{"size", p.Attrs.Size}, {"count", p.Attrs.Count}} {
		switch {
		case v.Value == nil:
		case v.Name == "" && v.Number == 0:
			return errorAt(p.Pos, "`%s': %s=0 copies nothing", p.Name, v.attr)
		case v.Name == "":
		case names[v.Name] == nil:
			return errorAt(p.Pos, "`%s': %s=%s names no %s", p.Name, v.attr, v.Name, what)
		case names[v.Name] == p:
			return errorAt(p.Pos, "`%s' is its own %s", p.Name, v.attr)
		default:
			o := names[v.Name]
			if o.Type.Ptr != 0 || o.Dims != nil || (o.Type.Class != Integer && o.Type.Class != Foreign) || o.Attrs != (Attrs{}) {
				return errorAt(p.Pos, "`%s': %s=%s must be an integer", p.Name, v.attr, v.Name)
			}
		}
	}
	return nil
}

func (i *Interface) checkFunc(f *Func) error {
	if f.Return.Ptr == 0 && i.deepRecord(f.Return) != nil {
		return errorAt(f.Pos, "`%s' returns a struct with pointers that are copied: use a parameter", f.Name)
	}
	if f.Return.Ptr > 0 {
		i.warn(f.Pos, "`%s' returns a pointer: nothing checks it", f.Name)
	}
	names := map[string]*Param{}
	for _, p := range f.Params {
		if names[p.Name] != nil {
			return errorAt(p.Pos, "`%s' has two parameters `%s'", f.Name, p.Name)
		}
		names[p.Name] = p
	}
	for _, p := range f.Params {
		if err := i.checkParam(p); err != nil {
			return err
		}
		if err := checkValues(p, names, "parameter"); err != nil {
			return err
		}
	}
	return nil
}

func (i *Interface) checkParam(p *Param) error {
	a, t := p.Attrs, p.Type
	array := p.Dims != nil || a.IsAry
	pointer := t.Ptr > 0 || a.IsPtr
	sized := a.Size != nil || a.Count != nil
	text := a.Str || a.WStr
	bad := func(format string, v ...any) error {
		return errorAt(p.Pos, "parameter `%s': %s", p.Name, fmt.Sprintf(format, v...))
	}
	if err := checkDims(p); err != nil {
		return err
	}
	switch {
	case t.Class == Void && t.Ptr == 0:
		return bad("its type is void")
	case (a.IsPtr || a.IsAry) && (t.Class != Foreign || t.Ptr > 0):
		return bad("isptr and isary are for types of your own that hide a pointer or an array, not for `%v'", t)
	case a.IsPtr && a.IsAry:
		return bad("isptr and isary exclude each other")
	case a.ReadOnly && !a.IsPtr:
		return bad("readonly goes with isptr; for other pointers write const")
	case array && pointer:
		return bad("arrays of pointers are not supported")
	case !array && !pointer:
		if a != (Attrs{}) {
			return bad("attributes are for pointers and arrays, not for `%v'; is it a type of your own that is a pointer (isptr) or an array (isary)?", t)
		}
		if i.deepRecord(t) != nil {
			return bad("a struct with pointers that are copied is passed by a pointer with count, not by value")
		}
		return nil
	case a.IsAry && p.Dims != nil:
		return bad("isary and array lengths exclude each other")
	case (a.In || a.Out) && a.UserCheck:
		return bad("user_check and a direction exclude each other")
	case !a.In && !a.Out && !a.UserCheck:
		return bad("say what happens with what it points to: [in], [out], [in, out] or [user_check]")
	case a.Str && a.WStr:
		return bad("string and wstring exclude each other")
	case text && sized:
		return bad("a string has no size or count: it ends with a zero")
	case (text || sized) && a.UserCheck:
		return bad("string, size and count need a direction; with user_check nothing is copied")
	case text && !a.In:
		return bad("a string needs [in]: without it there is no length")
	case a.Str && (array || a.IsPtr || t.Ptr != 1 || t.Class != Integer || (t.Name != "char" && t.Name != "unsigned char")):
		return bad("string is for pointers to char, not for `%v'", t)
	case a.WStr && (array || a.IsPtr || t.Ptr != 1 || t.Name != "wchar_t"):
		return bad("wstring is for pointers to wchar_t, not for `%v'", t)
	case a.Out && (t.Const || a.ReadOnly):
		return bad("what is const or readonly cannot be [out]")
	case array && sized:
		return bad("an array has its length: no size, no count")
	case t.Class == Void && t.Ptr == 1 && !a.UserCheck && a.Size == nil:
		return bad("it points to void: give its size")
	}
	if r := i.deepRecord(t); r != nil && !a.UserCheck {
		switch {
		case array || t.Ptr != 1:
			return bad("struct `%s' has pointers that are copied: pass it by one pointer, with count", r.Name)
		case a.Size != nil:
			return bad("struct `%s' has pointers that are copied: give count, not size", r.Name)
		case !a.In:
			return bad("struct `%s' has pointers that are copied: [in] or [in, out], since an [out] one has no sizes", r.Name)
		}
	}
	if t.Ptr > 1 && !a.UserCheck {
		i.warn(p.Pos, "`%s' points to pointers: they are copied as they are, not what they point to", p.Name)
	}
	return nil
}
