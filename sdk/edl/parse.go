// SPDX-License-Identifier: Apache-2.0

package edl

import "strings"

// Parse reads one EDL file; imports are not followed. name is for messages. An
// error is an *Error, and then the file is nil.
func Parse(name, src string) (*File, error) {
	toks, err := lex(name, src)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	f := p.file()
	if p.err != nil {
		return nil, p.err
	}
	return f, nil
}

// parser goes through the tokens. After the first error it stands at the end, so
// that every loop ends.
type parser struct {
	toks []token
	at   int
	err  error
}

func (p *parser) peek() token { return p.toks[p.at] }

func (p *parser) next() token {
	t := p.toks[p.at]
	if p.at < len(p.toks)-1 {
		p.at++
	}
	return t
}

func (p *parser) fail(pos Pos, format string, a ...any) {
	if p.err == nil {
		p.err = errorAt(pos, format, a...)
	}
	p.at = len(p.toks) - 1
}

func (p *parser) is(text string) bool {
	t := p.peek()
	return (t.kind == tokPunct || t.kind == tokName) && t.text == text
}

func (p *parser) take(text string) bool {
	if p.is(text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) want(text, where string) {
	if !p.take(text) {
		p.fail(p.peek().pos, "expected `%s' %s, got %v", text, where, p.peek())
	}
}

// name takes an identifier that is no keyword.
func (p *parser) name(what string) string {
	t := p.peek()
	if t.kind != tokName || keywords[t.text] {
		p.fail(t.pos, "expected %s, got %v", what, t)
		return ""
	}
	return p.next().text
}

func (p *parser) str(what string) string {
	t := p.peek()
	if t.kind != tokString || t.text == "" {
		p.fail(t.pos, "expected %s in quotes, got %v", what, t)
		return ""
	}
	return p.next().text
}

func (p *parser) file() *File {
	f := &File{}
	p.want("enclave", "at the start of the file")
	p.want("{", "after `enclave'")
	for p.err == nil && !p.is("}") {
		if d := p.declaration(); d != nil {
			f.Decls = append(f.Decls, d)
		}
	}
	p.want("}", "at the end of `enclave'")
	p.take(";")
	if t := p.peek(); p.err == nil && t.kind != tokEOF {
		p.fail(t.pos, "expected nothing behind `enclave { ... };', got %v", t)
	}
	return f
}

func (p *parser) declaration() Decl {
	t := p.peek()
	switch {
	case p.take("include"):
		return &Include{p.str("the name of a header")}
	case p.take("from"):
		i := &Import{Pos: t.pos, Path: p.str("the name of an EDL file")}
		p.want("import", "after the name of the file")
		if !p.take("*") {
			for i.Names = append(i.Names, p.name("the name of a function, or *")); p.take(","); {
				i.Names = append(i.Names, p.name("the name of a function"))
			}
		}
		p.want(";", "after the import")
		return i
	case p.take("struct"), p.take("union"):
		return p.record(t)
	case p.take("enum"):
		return p.enum(t)
	case p.take("trusted"), p.take("untrusted"):
		return p.block(t.text == "trusted")
	case p.is("import"):
		p.fail(t.pos, "an import begins with `from \"FILE.edl\" import'")
	default:
		p.fail(t.pos, "expected include, from, struct, union, enum, trusted, untrusted or `}', got %v", t)
	}
	return nil
}

func (p *parser) record(t token) Decl {
	r := &Record{Pos: t.pos, Union: t.text == "union", Name: p.name("the name of the " + t.text)}
	p.want("{", "after `"+t.text+" "+r.Name+"'")
	for p.err == nil && !p.is("}") {
		r.Members = append(r.Members, p.param(!r.Union))
		p.want(";", "after the member")
	}
	p.want("}", "at the end of `"+t.text+" "+r.Name+"'")
	if p.err == nil && len(r.Members) == 0 {
		p.fail(t.pos, "%s `%s' has no members", t.text, r.Name)
	}
	p.want(";", "after the "+t.text)
	return r
}

func (p *parser) enum(t token) Decl {
	e := &Enum{Pos: t.pos}
	if !p.is("{") {
		e.Name = p.name("the name of the enum")
	}
	p.want("{", "after `enum'")
	for p.err == nil && !p.is("}") {
		v := EnumValue{Name: p.name("a constant")}
		if p.take("=") {
			v.Value = p.value("the constant's value")
		}
		e.Values = append(e.Values, v)
		if !p.take(",") {
			break
		}
	}
	p.want("}", "at the end of the enum")
	if p.err == nil && len(e.Values) == 0 {
		p.fail(t.pos, "the enum has no constants")
	}
	p.want(";", "after the enum")
	return e
}

func (p *parser) value(what string) *Value {
	if t := p.peek(); t.kind == tokNumber {
		p.next()
		return &Value{Number: t.num}
	}
	return &Value{Name: p.name(what + " (a number or a name)")}
}

func (p *parser) block(trusted bool) Decl {
	b := &Block{Trusted: trusted}
	p.want("{", "after `trusted' or `untrusted'")
	for p.is("include") {
		p.next()
		b.Includes = append(b.Includes, &Include{p.str("the name of a header")})
	}
	for p.err == nil && !p.is("}") {
		b.Funcs = append(b.Funcs, p.function(trusted))
	}
	p.want("}", "at the end of the block")
	p.want(";", "after the block")
	return b
}

func (p *parser) function(trusted bool) *Func {
	f := &Func{Trusted: trusted}
	if trusted {
		if p.take("public") {
			f.Public = true
		} else if p.is("private") && p.toks[min(p.at+1, len(p.toks)-1)].kind == tokName {
			p.next()
		}
	} else if p.is("[") {
		p.callAttributes(f)
	}
	f.Return = p.typ()
	f.Pos = p.peek().pos
	if p.is("[") {
		p.fail(f.Pos, "a function cannot return an array: return a pointer, or use an [out] parameter")
	}
	f.Name = p.name("the name of a function")
	p.want("(", "after the name of the function")
	if p.is("void") && p.toks[min(p.at+1, len(p.toks)-1)].text == ")" {
		p.next()
	}
	for p.err == nil && !p.is(")") {
		f.Params = append(f.Params, p.param(true))
		if !p.take(",") {
			break
		}
		if p.is(")") {
			p.fail(p.peek().pos, "expected a parameter after the comma")
		}
	}
	p.want(")", "after the parameters")
	for p.err == nil && !p.is(";") {
		p.postfix(f)
	}
	p.want(";", "after the function")
	return f
}

// callAttributes reads [cdecl, dllimport] before an OCALL.
func (p *parser) callAttributes(f *Func) {
	p.next()
	for p.err == nil {
		t := p.peek()
		switch n := p.name("cdecl, stdcall, fastcall or dllimport"); n {
		case "cdecl", "stdcall", "fastcall":
			if f.Conv != "" {
				p.fail(t.pos, "two calling conventions, `%s' and `%s'", f.Conv, n)
			}
			f.Conv = n
		case "dllimport":
			if f.Import {
				p.fail(t.pos, "`dllimport' stands here twice")
			}
			f.Import = true
		default:
			p.fail(t.pos, "unknown attribute of a function `%s', expected cdecl, stdcall, fastcall or dllimport", n)
		}
		if !p.take(",") {
			break
		}
	}
	p.want("]", "after the attributes")
}

func (p *parser) postfix(f *Func) {
	t := p.next()
	twice := func(b bool) {
		if b {
			p.fail(t.pos, "`%s' stands here twice", t.text)
		}
	}
	switch {
	case t.kind == tokName && t.text == "transition_using_threads":
		twice(f.Threads)
		f.Threads = true
	case t.kind == tokName && t.text == "propagate_errno" && !f.Trusted:
		twice(f.Errno)
		f.Errno = true
	case t.kind == tokName && t.text == "allow" && !f.Trusted:
		twice(f.Allow != nil)
		p.want("(", "after `allow'")
		if !p.is(")") {
			for f.Allow = append(f.Allow, p.name("the name of an ECALL")); p.take(","); {
				f.Allow = append(f.Allow, p.name("the name of an ECALL"))
			}
		}
		p.want(")", "after the allowed ECALLs")
	default:
		p.fail(t.pos, "expected `;' after the function, got %v", t)
	}
}

// param reads `[attributes] type name[4]`.
func (p *parser) param(attributes bool) *Param {
	m := &Param{Pos: p.peek().pos}
	if p.is("[") {
		if !attributes {
			p.fail(m.Pos, "members of a union have no attributes")
		}
		p.attributes(&m.Attrs)
	}
	m.Type = p.typ()
	m.Name = p.name("the name of a parameter or member")
	for p.is("[") {
		pos := p.next().pos
		if p.is("]") {
			p.fail(pos, "an array of unknown length is not supported: give its length, or use a pointer with count")
		}
		n := p.next()
		if n.kind != tokNumber || n.num == 0 || n.num > 1<<31 {
			p.fail(n.pos, "expected the length of the array, a number from 1 to 2^31, got %v", n)
		}
		m.Dims = append(m.Dims, n.num)
		p.want("]", "after the length of the array")
	}
	return m
}

func (p *parser) attributes(a *Attrs) {
	open := p.next()
	if p.is("]") {
		p.fail(open.pos, "expected an attribute between the brackets")
	}
	flags := map[string]*bool{"in": &a.In, "out": &a.Out, "user_check": &a.UserCheck, "string": &a.Str, "wstring": &a.WStr, "isptr": &a.IsPtr, "isary": &a.IsAry, "readonly": &a.ReadOnly}
	values := map[string]**Value{"size": &a.Size, "count": &a.Count}
	for p.err == nil {
		t := p.peek()
		n := p.name("an attribute")
		flag, value := flags[n], values[n]
		switch {
		case p.err != nil:
		case n == "sizefunc":
			p.fail(t.pos, "`sizefunc' is no longer part of EDL, since the size would be read twice: use size or count")
		case flag == nil && value == nil:
			p.fail(t.pos, "unknown attribute `%s', expected one of in, out, user_check, string, wstring, size, count, isptr, isary, readonly", n)
		case flag != nil && *flag, value != nil && *value != nil:
			p.fail(t.pos, "attribute `%s' stands here twice", n)
		case flag != nil:
			*flag = true
		default:
			p.want("=", "after `"+n+"'")
			*value = p.value("a " + n)
		}
		if !p.take(",") {
			break
		}
	}
	p.want("]", "after the attributes")
}

// sized are the integer types of one word.
var sized = map[string]bool{"int8_t": true, "int16_t": true, "int32_t": true, "int64_t": true, "uint8_t": true, "uint16_t": true, "uint32_t": true, "uint64_t": true, "size_t": true, "wchar_t": true}

func (p *parser) typ() Type {
	c := p.peek()
	t := Type{Const: p.take("const")}
	s := p.peek()
	switch {
	case p.is("struct") || p.is("union") || p.is("enum"):
		p.next()
		t.Class = map[string]Class{"struct": Struct, "union": Union, "enum": Enumeration}[s.text]
		t.Name = p.name("the name of the " + s.text)
	case s.kind == tokName && sized[s.text], p.is("char"), p.is("int"):
		t.Name = p.next().text
	case p.is("float") || p.is("double"):
		t.Class, t.Name = Floating, p.next().text
	case p.is("void"):
		t.Class, t.Name = Void, p.next().text
	case p.is("unsigned") || p.is("short") || p.is("long"):
		p.integer(&t)
	default:
		t.Class, t.Name = Foreign, p.name("a type")
	}
	for p.take("*") {
		if t.Ptr++; t.Ptr > 8 {
			p.fail(s.pos, "more than 8 asterisks")
		}
	}
	if t.Const && t.Ptr == 0 {
		p.fail(c.pos, "`const' stands only before what a pointer points to")
	}
	return t
}

// integer reads the types of several words, and writes each in one way.
func (p *parser) integer(t *Type) {
	var words []string
	if p.take("unsigned") {
		words = append(words, "unsigned")
	}
	switch {
	case len(words) == 1 && p.take("char"):
		words = append(words, "char")
	case p.take("short"):
		words = append(words, "short")
		p.take("int")
	case p.take("long"):
		words = append(words, "long")
		if len(words) == 1 && p.take("double") {
			t.Class, t.Name = Floating, "long double"
			return
		}
		if p.take("long") {
			words = append(words, "long")
		}
		p.take("int")
	default:
		p.take("int")
		words = append(words, "int")
	}
	t.Name = strings.Join(words, " ")
}
