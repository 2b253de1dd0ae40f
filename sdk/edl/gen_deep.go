// SPDX-License-Identifier: Apache-2.0

package edl

import "fmt"

// Structs whose pointer members are copied with them. For each such pointer of
// each element the generated code keeps an edl_deep: where the data lies on each
// side, and its size when it crossed. What is copied back is decided by that alone,
// not by what the other side made of the struct.

// deepParam is the struct of a parameter that is copied deeply, or nil.
func (i *Interface) deepParam(p *Param) *Record {
	if p.Type.Ptr != 1 || !p.copied() {
		return nil
	}
	return i.deepRecord(p.Type)
}

func (r *Record) deepMembers() []*Param {
	var out []*Param
	for _, m := range r.Members {
		if m.deep() {
			out = append(out, m)
		}
	}
	return out
}

// factors are those of a member's size, of the struct that expr names.
func (p *Param) factors(expr string) (string, string) {
	return p.length(expr+"."+p.Name, func(n string) string { return expr + "." + n })
}

func loop(w *writer, indent, n string, body func(indent string)) {
	w.line("%sfor (_i_%s = 0; _i_%s < _n_%s; _i_%s++) {", indent, n, n, n, n)
	body(indent + "\t")
	w.line("%s}", indent)
}

func slot(n string, members, j int) string {
	return fmt.Sprintf("_deep_%s[_i_%s * %dU + %dU]", n, n, members, j)
}

// deepIn follows the copied structs of an ECALL: no pointer of the application's
// stays in them.
func (r *Record) deepIn(w *writer, n string) {
	ms := r.deepMembers()
	elem := fmt.Sprintf("_in_%s[_i_%s]", n, n)
	w.line("\t\t_n_%s = _len_%s / sizeof(*_in_%s);", n, n, n)
	w.line("\t\t_deep_%s = (edl_deep*)calloc(_n_%s, %dU * sizeof(edl_deep));", n, n, len(ms))
	w.line("\t\tif (_deep_%s == NULL) {\n\t\t\t_n_%s = 0;\n\t\t\tstatus = SGX_ERROR_OUT_OF_MEMORY;\n\t\t\tgoto err;\n\t\t}", n, n)
	loop(w, "\t\t", n, func(in string) {
		for j, m := range ms {
			s := slot(n, len(ms), j)
			a, b := m.factors(elem)
			w.line("%s%s.outside = (void*)%s.%s;", in, s, elem, m.Name)
			w.line("%sif (edl_multiply(%s, %s, &%s.size))\n%s\tstatus = SGX_ERROR_INVALID_PARAMETER;", in, a, b, s, in)
			if m.whole() {
				w.line("%selse if (%s.size %% sizeof(*%s.%s) != 0)\n%s\tstatus = SGX_ERROR_INVALID_PARAMETER;", in, s, elem, m.Name, in)
			}
			w.line("%selse\n%s\tstatus = edl_deep_in(&%s);", in, in, s)
			w.line("%sif (status != SGX_SUCCESS)\n%s\tgoto err;\n%s%s.%s = (%s)%s.inside;", in, in, in, elem, m.Name, m.Type, s)
		}
	})
}

// deepOut copies back what the pointers of an ECALL's structs point to, and puts
// the application's pointers back.
func (r *Record) deepOut(w *writer, n string) {
	ms := r.deepMembers()
	loop(w, "\t\t", n, func(in string) {
		for j, m := range ms {
			s := slot(n, len(ms), j)
			w.line("%sif (%s.inside != NULL)\n%s\tmemcpy(%s.outside, %s.inside, %s.size);", in, s, in, s, s, s)
			w.line("%s_in_%s[_i_%s].%s = (%s)%s.outside;", in, n, n, m.Name, m.Type, s)
		}
	})
}

// deepSize adds the room that an OCALL's pointers need.
func (r *Record) deepSize(w *writer, n string) {
	ms := r.deepMembers()
	elem := fmt.Sprintf("%s[_i_%s]", n, n)
	w.line("\t\t_n_%s = _len_%s / sizeof(*%s);", n, n, n)
	w.line("\t\t_deep_%s = (edl_deep*)calloc(_n_%s + 1, %dU * sizeof(edl_deep));", n, n, len(ms))
	w.line("\t\tif (_deep_%s == NULL) {\n\t\t\t_edl_status = SGX_ERROR_OUT_OF_MEMORY;\n\t\t\tgoto _edl_end;\n\t\t}", n)
	loop(w, "\t\t", n, func(in string) {
		for j, m := range ms {
			s := slot(n, len(ms), j)
			a, b := m.factors(elem)
			w.line("%s%s.inside = (void*)%s.%s;", in, s, elem, m.Name)
			w.line("%sif (%s.inside != NULL && (edl_multiply(%s, %s, &%s.size) ||", in, s, a, b, s)
			w.line("%s    !sgx_is_within_enclave(%s.inside, %s.size) || edl_add(&_edl_size, %s.size))) {", in, s, s, s)
			w.line("%s\t_edl_status = SGX_ERROR_INVALID_PARAMETER;\n%s\tgoto _edl_end;\n%s}", in, in, in)
		}
	})
}

// deepCopy puts the data of an OCALL's pointers outside. No pointer into the
// enclave stays in the structs.
func (r *Record) deepCopy(w *writer, n string) {
	ms := r.deepMembers()
	loop(w, "\t\t", n, func(in string) {
		for j, m := range ms {
			s := slot(n, len(ms), j)
			w.line("%sif (%s.inside != NULL && %s.size != 0) {", in, s, s)
			w.line("%s\t%s.outside = edl_take(&_edl_next, %s.size);\n%s\tmemcpy(%s.outside, %s.inside, %s.size);\n%s}", in, s, s, in, s, s, s, in)
			w.line("%s((struct %s*)_out_%s)[_i_%s].%s = (%s)%s.outside;", in, r.Name, n, n, m.Name, m.Type, s)
		}
	})
}

// deepResult takes an OCALL's structs back. A struct whose sizes say more than
// there is room for is refused, since enclave code would rely on them.
func (r *Record) deepResult(w *writer, n string) {
	ms := r.deepMembers()
	loop(w, "\t\t\t", n, func(in string) {
		w.line("%sstruct %s _edl_e;\n%ssize_t _edl_l = 0;", in, r.Name, in)
		w.line("%smemcpy((void*)&_edl_e, (const struct %s*)_out_%s + _i_%s, sizeof(_edl_e));\n%sedl_fence();", in, r.Name, n, n, in)
		for j, m := range ms {
			s := slot(n, len(ms), j)
			a, b := m.factors("_edl_e")
			w.line("%sif (edl_multiply(%s, %s, &_edl_l) || (%s.inside != NULL && _edl_l > %s.size)) {", in, a, b, s, s)
			w.line("%s\t_edl_status = SGX_ERROR_UNEXPECTED;\n%s\tbreak;\n%s}", in, in, in)
		}
		for j, m := range ms {
			s := slot(n, len(ms), j)
			w.line("%sif (%s.outside != NULL)\n%s\tmemcpy(%s.inside, %s.outside, %s.size);", in, s, in, s, s, s)
			w.line("%s_edl_e.%s = (%s)%s.inside;", in, m.Name, m.Type, s)
		}
		w.line("%smemcpy((void*)&%s[_i_%s], (const void*)&_edl_e, sizeof(_edl_e));", in, n, n)
	})
}
