// SPDX-License-Identifier: Apache-2.0

package edl

import (
	"fmt"
	"strings"
)

// Output is what one side of the border gets.
type Output struct {
	Header, Source string
}

// writer collects C text.
type writer struct{ strings.Builder }

func (w *writer) line(format string, a ...any) {
	fmt.Fprintf(&w.Builder, format, a...)
	w.WriteByte('\n')
}

const generated = "/* Made by holdfast enclave edger8r. Change the EDL file, not this one. */"

// hasMS reports whether a call has a marshalling structure.
func (f *Func) hasMS() bool { return !f.returnsNothing() || len(f.Params) > 0 || f.Errno }

func (f *Func) returnsNothing() bool { return f.Return.Class == Void && f.Return.Ptr == 0 }

// free returns name, or another one if a parameter has it.
func (f *Func) free(name string) string {
	for _, p := range f.Params {
		if p.Name == name {
			return f.free("_edl_" + name)
		}
	}
	return name
}

// declare is the parameter in a prototype.
func (p *Param) declare() string {
	s := p.Type.String() + " " + p.Name
	for _, d := range p.Dims {
		s += fmt.Sprintf("[%d]", d)
	}
	return s
}

func (f *Func) params(first ...string) string {
	for _, p := range f.Params {
		first = append(first, p.declare())
	}
	if len(first) == 0 {
		return "(void)"
	}
	return "(" + strings.Join(first, ", ") + ")"
}

// proxy is the prototype of a function that makes a call.
func (f *Func) proxy(prefix string) string {
	var first []string
	if f.Trusted {
		first = append(first, "sgx_enclave_id_t "+f.free("eid"))
	}
	if !f.returnsNothing() {
		first = append(first, f.Return.String()+"* "+f.free("retval"))
	}
	if f.Trusted {
		return "sgx_status_t " + prefix + f.Name + f.params(first...)
	}
	return "sgx_status_t SGX_CDECL " + f.Name + f.params(first...)
}

// pointer reports whether the parameter is passed as an address.
func (p *Param) pointer() bool {
	return p.Type.Ptr > 0 || p.Dims != nil || p.Attrs.IsPtr || p.Attrs.IsAry
}

// copied reports whether what the parameter points to crosses the border.
func (p *Param) copied() bool { return p.pointer() && (p.Attrs.In || p.Attrs.Out) }

func (p *Param) text() bool { return p.Attrs.Str || p.Attrs.WStr }

// field is the type of the parameter in the marshalling structure.
func (p *Param) field() string {
	if p.Dims != nil || p.Attrs.IsAry {
		return p.Type.String() + "*"
	}
	return p.Type.String()
}

// buffer is the type of a pointer to a copy of what the parameter points to.
func (p *Param) buffer() string {
	t := p.Type
	if t.Ptr == 1 { // const stands for what the last pointer points to
		t.Const = false
	}
	if p.Dims != nil || p.Attrs.IsAry {
		return t.String() + "*"
	}
	return t.String()
}

// argument makes of a field, or a buffer, what the function takes.
func (p *Param) argument(expr string) string {
	switch {
	case p.Attrs.IsAry:
		return fmt.Sprintf("(%s != NULL) ? *%s : NULL", expr, expr)
	case len(p.Dims) > 1:
		rest := ""
		for _, d := range p.Dims[1:] {
			rest += fmt.Sprintf("[%d]", d)
		}
		return fmt.Sprintf("(%s (*)%s)%s", p.Type, rest, expr)
	}
	return expr
}

// length gives the two factors of the size in bytes. name reads another
// parameter, or member; self is the pointer.
func (p *Param) length(self string, name func(string) string) (a, b string) {
	value := func(v *Value) string {
		if v.Name == "" {
			return fmt.Sprintf("(size_t)%dU", v.Number)
		}
		return "(size_t)" + name(v.Name)
	}
	n := uint64(1)
	for _, d := range p.Dims {
		n *= d
	}
	switch {
	case p.Dims != nil || p.Attrs.IsAry:
		return fmt.Sprintf("sizeof(%s)", p.Type), fmt.Sprintf("%dU", n)
	case p.Attrs.Size != nil && p.Attrs.Count != nil:
		return value(p.Attrs.Size), value(p.Attrs.Count)
	case p.Attrs.Size != nil:
		return value(p.Attrs.Size), "1U"
	case p.Attrs.Count != nil:
		return "sizeof(*" + self + ")", value(p.Attrs.Count)
	}
	return "sizeof(*" + self + ")", "1U"
}

// whole reports whether a size that was given must be a multiple of the
// elements' size.
func (p *Param) whole() bool {
	return p.Attrs.Size != nil && !p.Attrs.IsPtr && !(p.Type.Class == Void && p.Type.Ptr == 1)
}

// structures writes the marshalling structures.
func (i *Interface) structures(w *writer) {
	for _, f := range i.calls() {
		if !f.hasMS() {
			continue
		}
		w.line("typedef struct ms_%s_t {", f.Name)
		if !f.returnsNothing() {
			w.line("\t%s ms_retval;", f.Return)
		}
		for _, p := range f.Params {
			w.line("\t%s %s;", p.field(), f.ms(p.Name))
			if p.text() {
				w.line("\tsize_t %s;", f.msLen(p))
			}
		}
		if f.Errno {
			w.line("\tint ocall_errno;")
		}
		w.line("} ms_%s_t;\n", f.Name)
	}
}

func (i *Interface) calls() []*Func { return append(append([]*Func(nil), i.ECalls...), i.OCalls...) }

// header writes what both headers have: guard, includes, types. end closes it.
func (i *Interface) header(w *writer, side string, includes []string) (end string) {
	guard := strings.ToUpper(i.Name) + "_" + side + "_H__"
	w.line("%s\n#ifndef %s\n#define %s\n", generated, guard, guard)
	w.line("#include <stdint.h>\n#include <wchar.h>\n#include <stddef.h>\n#include \"sgx_edger8r.h\"")
	for _, h := range append(append([]string(nil), i.Headers...), includes...) {
		w.line("#include \"%s\"", h)
	}
	w.line("\n#include <stdlib.h> /* for size_t */\n\n#ifndef SGX_CAST\n#define SGX_CAST(type, item) ((type)(item))\n#endif\n")
	w.line("#ifdef __cplusplus\nextern \"C\" {\n#endif\n")
	for _, d := range i.Types {
		define(w, d)
	}
	return "\n#ifdef __cplusplus\n}\n#endif\n\n#endif"
}

// define writes a type, once if several enclaves share it.
func define(w *writer, d Decl) {
	_, name := typeName(d)
	guard := "_" + strings.ReplaceAll(name, " ", "_")
	if name != "" {
		w.line("#ifndef %s\n#define %s", guard, guard)
	}
	switch d := d.(type) {
	case *Record:
		w.line("typedef %s %s {", d.kind(), d.Name)
		for _, m := range d.Members {
			w.line("\t%s;", m.declare())
		}
		w.line("} %s;", d.Name)
	case *Enum:
		if d.Name == "" {
			w.line("enum {")
		} else {
			w.line("typedef enum %s {", d.Name)
		}
		for _, v := range d.Values {
			w.line("\t%v,", v)
		}
		w.line("} %s;", d.Name)
	}
	if name != "" {
		w.line("#endif")
	}
	w.line("")
}

// ms is the name of a parameter's field. A parameter may be called as the result is.
func (f *Func) ms(name string) string {
	if name == "retval" && !f.returnsNothing() {
		name += "_"
	}
	return "ms_" + name
}

// msLen is the name of the field of a string's size.
func (f *Func) msLen(p *Param) string {
	for name := p.Name + "_len"; ; name += "_" {
		if f.free(name) == name {
			return "ms_" + name
		}
	}
}
