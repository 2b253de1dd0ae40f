// SPDX-License-Identifier: Apache-2.0

package edl

import (
	"fmt"
	"strconv"
	"strings"
)

// String is the file as EDL text, which parses to the same tree.
func (f *File) String() string {
	var b strings.Builder
	b.WriteString("enclave {\n")
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *Include:
			fmt.Fprintf(&b, "\tinclude \"%s\"\n", d.Header)
		case *Import:
			names := "*"
			if d.Names != nil {
				names = strings.Join(d.Names, ", ")
			}
			fmt.Fprintf(&b, "\tfrom \"%s\" import %s;\n", d.Path, names)
		case *Record:
			fmt.Fprintf(&b, "\t%s %s {\n", d.kind(), d.Name)
			for _, m := range d.Members {
				fmt.Fprintf(&b, "\t\t%v;\n", m)
			}
			b.WriteString("\t};\n")
		case *Enum:
			b.WriteString("\tenum ")
			if d.Name != "" {
				b.WriteString(d.Name + " ")
			}
			b.WriteString("{\n")
			for _, v := range d.Values {
				fmt.Fprintf(&b, "\t\t%v,\n", v)
			}
			b.WriteString("\t};\n")
		case *Block:
			if d.Trusted {
				b.WriteString("\ttrusted {\n")
			} else {
				b.WriteString("\tuntrusted {\n")
			}
			for _, i := range d.Includes {
				fmt.Fprintf(&b, "\t\tinclude \"%s\"\n", i.Header)
			}
			for _, f := range d.Funcs {
				fmt.Fprintf(&b, "\t\t%v;\n", f)
			}
			b.WriteString("\t};\n")
		}
	}
	b.WriteString("};\n")
	return b.String()
}

func (r *Record) kind() string {
	if r.Union {
		return "union"
	}
	return "struct"
}

func (v EnumValue) String() string {
	if v.Value == nil {
		return v.Name
	}
	return v.Name + " = " + v.Value.String()
}

func (v *Value) String() string {
	if v.Name != "" {
		return v.Name
	}
	return strconv.FormatUint(v.Number, 10)
}

func (f *Func) String() string {
	var b strings.Builder
	var call []string
	if f.Conv != "" {
		call = append(call, f.Conv)
	}
	if f.Import {
		call = append(call, "dllimport")
	}
	if call != nil {
		b.WriteString("[" + strings.Join(call, ", ") + "] ")
	}
	switch {
	case f.Public:
		b.WriteString("public ")
	case f.Trusted && f.Return.Class == Foreign && f.Return.Name == "private":
		b.WriteString("private ") // a type of that name
	}
	fmt.Fprintf(&b, "%v %s(", f.Return, f.Name)
	for i, p := range f.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.String())
	}
	b.WriteString(")")
	if f.Allow != nil {
		b.WriteString(" allow(" + strings.Join(f.Allow, ", ") + ")")
	}
	if f.Errno {
		b.WriteString(" propagate_errno")
	}
	if f.Threads {
		b.WriteString(" transition_using_threads")
	}
	return b.String()
}

func (p *Param) String() string {
	s := p.Attrs.String()
	if s != "" {
		s += " "
	}
	s += p.Type.String() + " " + p.Name
	for _, d := range p.Dims {
		s += fmt.Sprintf("[%d]", d)
	}
	return s
}

func (a *Attrs) String() string {
	var s []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"in", a.In}, {"out", a.Out}, {"user_check", a.UserCheck}, {"string", a.Str}, {"wstring", a.WStr}, {"isptr", a.IsPtr}, {"isary", a.IsAry}, {"readonly", a.ReadOnly}} {
		if f.set {
			s = append(s, f.name)
		}
	}
	if a.Size != nil {
		s = append(s, "size="+a.Size.String())
	}
	if a.Count != nil {
		s = append(s, "count="+a.Count.String())
	}
	if s == nil {
		return ""
	}
	return "[" + strings.Join(s, ", ") + "]"
}

// String is the type in C, and in EDL: "const struct foo*".
func (t Type) String() string {
	s := t.Bare()
	if t.Const {
		s = "const " + s
	}
	return s + strings.Repeat("*", t.Ptr)
}

// Bare is the type in C without const and asterisks.
func (t Type) Bare() string {
	switch t.Class {
	case Struct:
		return "struct " + t.Name
	case Union:
		return "union " + t.Name
	case Enumeration:
		return "enum " + t.Name
	}
	return t.Name
}
