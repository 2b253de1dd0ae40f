// SPDX-License-Identifier: Apache-2.0

package edl

import (
	_ "embed"
	"fmt"
	"strings"
)

// guards are the functions that the trusted side's checks share.
//
//go:embed guards.h
var guards string

// Trusted makes the enclave's side, NAME_t.h and NAME_t.c: the tables of ECALLs
// and of which may be made from which OCALL, what each ECALL reaches first, and
// functions that make the OCALLs.
func (i *Interface) Trusted() Output {
	var h, c writer
	end := i.header(&h, "T", i.ForTrusted)
	for _, f := range i.ECalls {
		h.line("%s %s%s;", f.Return, f.Name, f.params())
	}
	h.line("")
	for _, f := range i.OCalls {
		h.line("%s;", f.proxy(""))
	}
	h.line("%s", end)

	c.line("%s\n#include \"%s_t.h\"\n\n#include \"sgx_trts.h\"\n\n#include <errno.h>\n#include <string.h>\n#include <stdlib.h>\n", generated, i.Name)
	c.WriteString(guards[strings.Index(guards, "*/")+3:]) // without the licence line
	c.line("")
	i.structures(&c)
	for _, f := range i.ECalls {
		i.entry(&c, f)
	}
	i.ecallTables(&c)
	for n, f := range i.OCalls {
		i.ocallProxy(&c, n, f)
	}
	return Output{h.String(), c.String()}
}

// ecallTables writes what the trusted runtime looks at: where each ECALL is, and
// whether it may be made, at the top or from an OCALL.
func (i *Interface) ecallTables(w *writer) {
	bit := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	n := max(1, len(i.ECalls))
	w.line("#ifdef __cplusplus\nextern \"C\" {\n#endif\n")
	w.line("struct edl_ecall_table {\n\tsize_t nr_ecall;\n\tstruct {\n\t\tvoid* ecall_addr;\n\t\tuint8_t is_priv;\n\t\tuint8_t is_switchless;\n\t} ecall_table[%d];\n};", n)
	w.line("extern const struct edl_ecall_table g_ecall_table;\nconst struct edl_ecall_table g_ecall_table = {\n\t%d,\n\t{", len(i.ECalls))
	for _, f := range i.ECalls {
		w.line("\t\t{(void*)sgx_%s, %d, %d},", f.Name, bit(!f.Public), bit(f.Threads))
	}
	if len(i.ECalls) == 0 {
		w.line("\t\t{NULL, 0, 0},")
	}
	w.line("\t}\n};\n")
	w.line("struct edl_entry_table {\n\tsize_t nr_ocall;\n\tuint8_t entry_table[%d][%d];\n};", max(1, len(i.OCalls)), n)
	w.line("extern const struct edl_entry_table g_dyn_entry_table;\nconst struct edl_entry_table g_dyn_entry_table = {\n\t%d,\n\t{", len(i.OCalls))
	for _, o := range i.OCalls {
		var row strings.Builder
		for _, e := range i.ECalls {
			allowed := false
			for _, a := range o.Allow {
				allowed = allowed || a == e.Name
			}
			fmt.Fprintf(&row, "%d, ", bit(allowed))
		}
		if len(i.ECalls) == 0 {
			row.WriteString("0, ")
		}
		w.line("\t\t{%s},", strings.TrimSuffix(row.String(), ", "))
	}
	if len(i.OCalls) == 0 {
		w.line("\t\t{0},")
	}
	w.line("\t}\n};\n\n#ifdef __cplusplus\n}\n#endif\n")
}

// entry writes what an ECALL reaches first: it takes the structure once, checks,
// copies, calls, copies back.
func (i *Interface) entry(w *writer, f *Func) {
	w.line("static sgx_status_t SGX_CDECL sgx_%s(void* pms)\n{", f.Name)
	if !f.hasMS() {
		w.line("\tif (pms != NULL)\n\t\treturn SGX_ERROR_INVALID_PARAMETER;\n\t%s();\n\treturn SGX_SUCCESS;\n}\n", f.Name)
		return
	}
	copies := false
	w.line("\tms_%s_t* ms = SGX_CAST(ms_%s_t*, pms);\n\tms_%s_t in;\n\tsgx_status_t status = SGX_SUCCESS;", f.Name, f.Name, f.Name)
	for _, p := range f.Params {
		if !p.copied() {
			continue
		}
		copies = true
		w.line("\t%s _tmp_%s = NULL;\n\tsize_t _len_%s = 0;\n\t%s _in_%s = NULL;", p.field(), p.Name, p.Name, p.buffer(), p.Name)
		if i.deepParam(p) != nil {
			w.line("\tedl_deep* _deep_%s = NULL;\n\tsize_t _n_%s = 0;\n\tsize_t _i_%s;", p.Name, p.Name, p.Name)
		}
	}
	w.line("\n\tif (pms == NULL || !sgx_is_outside_enclave(pms, sizeof(in)))\n\t\treturn SGX_ERROR_INVALID_PARAMETER;")
	w.line("\tedl_fence();\n\tmemcpy((void*)&in, ms, sizeof(in));\n\tedl_fence(); /* from here on only this copy is looked at */")
	for _, p := range f.Params {
		if !p.copied() {
			continue
		}
		w.line("\t_tmp_%s = in.%s;", p.Name, f.ms(p.Name))
		if p.text() {
			w.line("\t_len_%s = in.%s;", p.Name, f.msLen(p))
		} else {
			a, b := p.length("_tmp_"+p.Name, func(n string) string { return "in." + f.ms(n) })
			w.line("\tif (edl_multiply(%s, %s, &_len_%s))\n\t\treturn SGX_ERROR_INVALID_PARAMETER;", a, b, p.Name)
		}
		w.line("\tif (_tmp_%s != NULL && !sgx_is_outside_enclave((const void*)_tmp_%s, _len_%s))\n\t\treturn SGX_ERROR_INVALID_PARAMETER;", p.Name, p.Name, p.Name)
	}
	if copies {
		w.line("\tedl_fence();\n")
	}
	for _, p := range f.Params {
		if p.copied() {
			i.copyIn(w, p)
		}
	}
	var args []string
	for _, p := range f.Params {
		if p.copied() {
			args = append(args, p.argument("_in_"+p.Name))
		} else {
			args = append(args, p.argument("in."+f.ms(p.Name)))
		}
	}
	result := ""
	if !f.returnsNothing() {
		result = "ms->ms_retval = "
	}
	w.line("\t%s%s(%s);", result, f.Name, strings.Join(args, ", "))
	for _, p := range f.Params {
		if p.copied() && p.Attrs.Out {
			i.copyOut(w, p)
		}
	}
	if copies {
		w.line("\nerr:")
	}
	for _, p := range f.Params {
		if !p.copied() {
			continue
		}
		if r := i.deepParam(p); r != nil {
			w.line("\tedl_deep_free(_deep_%s, _n_%s * %dU);", p.Name, p.Name, len(r.deepMembers()))
		}
		w.line("\tfree((void*)_in_%s);", p.Name)
	}
	w.line("\treturn status;\n}\n")
}

// copyIn copies what a parameter points to into the enclave.
func (i *Interface) copyIn(w *writer, p *Param) {
	n := p.Name
	if p.text() {
		w.line("\tif (_tmp_%s != NULL) {", n)
	} else {
		w.line("\tif (_tmp_%s != NULL && _len_%s != 0) {", n, n)
	}
	fail := func(cond, status string) {
		w.line("\t\tif (%s) {\n\t\t\tstatus = %s;\n\t\t\tgoto err;\n\t\t}", cond, status)
	}
	switch {
	case p.Attrs.WStr:
		fail(fmt.Sprintf("_len_%s == 0 || _len_%s %% sizeof(wchar_t) != 0", n, n), "SGX_ERROR_INVALID_PARAMETER")
	case p.Attrs.Str:
		fail(fmt.Sprintf("_len_%s == 0", n), "SGX_ERROR_INVALID_PARAMETER")
	case p.whole():
		fail(fmt.Sprintf("_len_%s %% sizeof(*_tmp_%s) != 0", n, n), "SGX_ERROR_INVALID_PARAMETER")
	}
	w.line("\t\t_in_%s = (%s)malloc(_len_%s);", n, p.buffer(), n)
	fail("_in_"+n+" == NULL", "SGX_ERROR_OUT_OF_MEMORY")
	if p.Attrs.In {
		w.line("\t\tmemcpy((void*)_in_%s, (const void*)_tmp_%s, _len_%s);", n, n, n)
	} else {
		w.line("\t\tmemset((void*)_in_%s, 0, _len_%s);", n, n)
	}
	if p.text() {
		w.line("\t\t%s = 0;", p.last("_in_"+n))
		fail(fmt.Sprintf("%s != _len_%s", p.textSize("_in_"+n), n), "SGX_ERROR_UNEXPECTED")
	}
	if r := i.deepParam(p); r != nil {
		r.deepIn(w, n)
	}
	w.line("\t}")
}

// last is the place of a string's end in a buffer.
func (p *Param) last(buffer string) string {
	if p.Attrs.WStr {
		return fmt.Sprintf("%s[_len_%s / sizeof(wchar_t) - 1]", buffer, p.Name)
	}
	return fmt.Sprintf("%s[_len_%s - 1]", buffer, p.Name)
}

// textSize is the size in bytes of a string in a buffer, with its end.
func (p *Param) textSize(buffer string) string {
	if p.Attrs.WStr {
		return "(wcslen(" + buffer + ") + 1) * sizeof(wchar_t)"
	}
	return "strlen((const char*)" + buffer + ") + 1"
}

// copyOut copies back to the application.
func (i *Interface) copyOut(w *writer, p *Param) {
	n := p.Name
	w.line("\tif (_in_%s != NULL) {", n)
	if p.text() {
		w.line("\t\t%s = 0;\n\t\t_len_%s = %s;", p.last("_in_"+n), n, p.textSize("_in_"+n))
	}
	if r := i.deepParam(p); r != nil {
		r.deepOut(w, n)
	}
	w.line("\t\tmemcpy((void*)_tmp_%s, (const void*)_in_%s, _len_%s);\n\t}", n, n, n)
}

// ocallProxy writes the function by which enclave code makes an OCALL: it puts
// structure and copies on the application's stack.
func (i *Interface) ocallProxy(w *writer, n int, f *Func) {
	w.line("%s\n{", f.proxy(""))
	call := "sgx_ocall"
	if f.Threads {
		call = "sgx_ocall_switchless"
	}
	if !f.hasMS() {
		w.line("\treturn %s(%d, NULL);\n}\n", call, n)
		return
	}
	w.line("\tsgx_status_t _edl_status = SGX_SUCCESS;\n\tms_%s_t* _edl_ms = NULL;\n\tvoid* _edl_next = NULL;\n\tsize_t _edl_size = 0;", f.Name)
	deep := false
	for _, p := range f.Params {
		if !p.copied() {
			continue
		}
		w.line("\tsize_t _len_%s = 0;\n\tvoid* _out_%s = NULL;", p.Name, p.Name)
		if i.deepParam(p) != nil {
			deep = true
			w.line("\tedl_deep* _deep_%s = NULL;\n\tsize_t _n_%s = 0;\n\tsize_t _i_%s;", p.Name, p.Name, p.Name)
		}
	}
	w.line("")
	fail := func(indent, status string) {
		if deep {
			w.line("%s{\n%s\t_edl_status = %s;\n%s\tgoto _edl_end;\n%s}", indent, indent, status, indent, indent)
		} else {
			w.line("%s\treturn %s;", indent, status)
		}
	}
	w.line("\tif (edl_add(&_edl_size, sizeof(*_edl_ms)))")
	fail("\t", "SGX_ERROR_INVALID_PARAMETER")
	for _, p := range f.Params {
		if p.copied() {
			i.ocallSize(w, p, fail)
		}
	}
	w.line("\n\t_edl_next = sgx_ocalloc(_edl_size);\n\tif (_edl_next == NULL) {\n\t\tsgx_ocfree();")
	if deep {
		w.line("\t\t_edl_status = SGX_ERROR_UNEXPECTED;\n\t\tgoto _edl_end;\n\t}")
	} else {
		w.line("\t\treturn SGX_ERROR_UNEXPECTED;\n\t}")
	}
	w.line("\t_edl_ms = (ms_%s_t*)edl_take(&_edl_next, sizeof(*_edl_ms));", f.Name)
	for _, p := range f.Params {
		i.ocallCopy(w, f, p)
	}
	w.line("\n\t_edl_status = %s(%d, _edl_ms);\n\tif (_edl_status == SGX_SUCCESS) {", call, n)
	if !f.returnsNothing() {
		r := f.free("retval")
		w.line("\t\tif (%s)\n\t\t\t*%s = _edl_ms->ms_retval;", r, r)
	}
	for _, p := range f.Params {
		if p.copied() && p.Attrs.Out {
			i.ocallResult(w, p)
		}
	}
	if f.Errno {
		w.line("\t\terrno = _edl_ms->ocall_errno;")
	}
	w.line("\t}\n\tsgx_ocfree();")
	if deep {
		w.line("\n_edl_end:")
		for _, p := range f.Params {
			if p.copied() && i.deepParam(p) != nil {
				w.line("\tfree(_deep_%s);", p.Name)
			}
		}
	}
	w.line("\treturn _edl_status;\n}\n")
}

// ocallSize adds the room for a parameter, which must lie in the enclave.
func (i *Interface) ocallSize(w *writer, p *Param, fail func(indent, status string)) {
	n := p.Name
	w.line("\tif (%s != NULL) {", n)
	if p.text() {
		w.line("\t\t_len_%s = %s;", n, p.textSize(n))
	} else {
		a, b := p.length(n, func(n string) string { return n })
		w.line("\t\tif (edl_multiply(%s, %s, &_len_%s))", a, b, n)
		fail("\t\t", "SGX_ERROR_INVALID_PARAMETER")
	}
	w.line("\t\tif (!sgx_is_within_enclave((const void*)%s, _len_%s) || edl_add(&_edl_size, _len_%s))", n, n, n)
	fail("\t\t", "SGX_ERROR_INVALID_PARAMETER")
	if p.whole() {
		w.line("\t\tif (_len_%s %% sizeof(*%s) != 0)", n, n)
		fail("\t\t", "SGX_ERROR_INVALID_PARAMETER")
	}
	if r := i.deepParam(p); r != nil {
		r.deepSize(w, n)
	}
	w.line("\t}")
}

// ocallCopy fills a parameter's field and the copy it points to.
func (i *Interface) ocallCopy(w *writer, f *Func, p *Param) {
	n := p.Name
	switch {
	case p.copied():
		w.line("\tif (%s != NULL && _len_%s != 0) {\n\t\t_out_%s = edl_take(&_edl_next, _len_%s);", n, n, n, n)
		if p.Attrs.In {
			w.line("\t\tmemcpy(_out_%s, (const void*)%s, _len_%s);", n, n, n)
		} else {
			w.line("\t\tmemset(_out_%s, 0, _len_%s);", n, n)
		}
		if r := i.deepParam(p); r != nil {
			r.deepCopy(w, n)
		}
		w.line("\t}\n\t_edl_ms->%s = (%s)_out_%s;", f.ms(n), p.field(), n)
	case p.Dims != nil || p.Attrs.IsAry:
		w.line("\t_edl_ms->%s = (%s)%s;", f.ms(n), p.field(), n)
	default:
		w.line("\t_edl_ms->%s = %s;", f.ms(n), n)
	}
	if p.text() {
		w.line("\t_edl_ms->%s = _len_%s;", f.msLen(p), n)
	}
}

// ocallResult copies back into the enclave, from where the copy was put.
func (i *Interface) ocallResult(w *writer, p *Param) {
	n := p.Name
	w.line("\t\tif (_out_%s != NULL) {", n)
	if r := i.deepParam(p); r != nil {
		r.deepResult(w, n)
	} else {
		w.line("\t\t\tmemcpy((void*)%s, _out_%s, _len_%s);", n, n, n)
	}
	if p.text() {
		w.line("\t\t\t%s = 0;", p.last(n))
	}
	w.line("\t\t}")
}
