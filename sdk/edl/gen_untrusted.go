// SPDX-License-Identifier: Apache-2.0

package edl

import (
	"fmt"
	"strings"
)

// Untrusted makes the application's side, NAME_u.h and NAME_u.c: functions that
// make the ECALLs, and the table of OCALLs. With prefix their names begin with
// the enclave's, so that one application can have several enclaves.
func (i *Interface) Untrusted(prefix bool) Output {
	pre := ""
	if prefix {
		pre = i.Name + "_"
	}
	var h, c writer
	end := i.header(&h, "U", i.ForUntrusted)
	for _, f := range i.OCalls {
		guard := strings.ToUpper(f.Name) + "_DEFINED__"
		conv, imp := "SGX_NOCONVENTION", ""
		if f.Conv != "" {
			conv = "SGX_" + strings.ToUpper(f.Conv)
		}
		if f.Import {
			imp = "SGX_DLLIMPORT "
		}
		h.line("#ifndef %s\n#define %s", guard, guard)
		h.line("%s%s SGX_UBRIDGE(%s, %s, %s);\n#endif", imp, f.Return, conv, f.Name, f.params())
	}
	h.line("")
	for _, f := range i.ECalls {
		h.line("%s;", f.proxy(pre))
	}
	h.line("%s", end)

	c.line("%s\n#include \"%s_u.h\"\n#include <errno.h>\n#include <string.h>\n", generated, i.Name)
	i.structures(&c)
	for _, f := range i.OCalls {
		i.bridge(&c, f)
	}
	i.ocallTable(&c)
	for n, f := range i.ECalls {
		i.ecallProxy(&c, n, f, pre)
	}
	return Output{h.String(), c.String()}
}

// bridge writes what the monitor's OCALL reaches: it unpacks the structure.
func (i *Interface) bridge(w *writer, f *Func) {
	w.line("static sgx_status_t SGX_CDECL %s_%s(void* pms)\n{", i.Name, f.Name)
	if !f.hasMS() {
		w.line("\tif (pms != NULL)\n\t\treturn SGX_ERROR_INVALID_PARAMETER;\n\t%s();\n\treturn SGX_SUCCESS;\n}\n", f.Name)
		return
	}
	w.line("\tms_%s_t* ms = SGX_CAST(ms_%s_t*, pms);", f.Name, f.Name)
	var args []string
	for _, p := range f.Params {
		args = append(args, p.argument("ms->"+f.ms(p.Name)))
	}
	result := ""
	if !f.returnsNothing() {
		result = "ms->ms_retval = "
	}
	w.line("\t%s%s(%s);", result, f.Name, strings.Join(args, ", "))
	if f.Errno {
		w.line("\tms->ocall_errno = errno;")
	}
	w.line("\treturn SGX_SUCCESS;\n}\n")
}

func (i *Interface) ocallTable(w *writer) {
	w.line("static const struct {\n\tsize_t nr_ocall;\n\tvoid* table[%d];\n} ocall_table_%s = {\n\t%d,\n\t{", max(1, len(i.OCalls)), i.Name, len(i.OCalls))
	for _, f := range i.OCalls {
		w.line("\t\t(void*)%s_%s,", i.Name, f.Name)
	}
	if len(i.OCalls) == 0 {
		w.line("\t\tNULL,")
	}
	w.line("\t}\n};\n")
}

func (i *Interface) ecallProxy(w *writer, n int, f *Func, prefix string) {
	w.line("%s\n{\n\tsgx_status_t _edl_status;", f.proxy(prefix))
	ms, call := "NULL", "sgx_ecall"
	if f.Threads {
		call = "sgx_ecall_switchless"
	}
	if f.hasMS() {
		ms = "&_edl_ms"
		w.line("\tms_%s_t _edl_ms;", f.Name)
		for _, p := range f.Params {
			if p.Dims != nil || p.Attrs.IsAry {
				w.line("\t_edl_ms.%s = (%s)%s;", f.ms(p.Name), p.field(), p.Name)
			} else {
				w.line("\t_edl_ms.%s = %s;", f.ms(p.Name), p.Name)
			}
			if p.text() {
				w.line("\t_edl_ms.%s = %s;", f.msLen(p), p.textLength())
			}
		}
	}
	w.line("\t_edl_status = %s(%s, %d, &ocall_table_%s, %s);", call, f.free("eid"), n, i.Name, ms)
	if !f.returnsNothing() {
		r := f.free("retval")
		w.line("\tif (_edl_status == SGX_SUCCESS && %s)\n\t\t*%s = _edl_ms.ms_retval;", r, r)
	}
	w.line("\treturn _edl_status;\n}\n")
}

// textLength is the size in bytes of a string with its end.
func (p *Param) textLength() string {
	if p.Attrs.WStr {
		return fmt.Sprintf("%s ? (wcslen(%s) + 1) * sizeof(wchar_t) : 0", p.Name, p.Name)
	}
	return fmt.Sprintf("%s ? strlen((const char*)%s) + 1 : 0", p.Name, p.Name)
}
