// SPDX-License-Identifier: Apache-2.0

package monitor

import "holdfast/enclave/sgx"

// Fetch reads the instruction bytes at a linear address of e into b, as the
// processor would fetch them. It reports false if the enclave may not execute
// there. A blocked page counts: the thread that has just executed there did so
// with a cached translation.
func (m *Monitor) Fetch(e *Enclave, linear uint64, b []byte) bool {
	if !e.contains(linear, uint64(len(b))) {
		return false
	}
	for i := range b {
		p, f := m.page(e, linear+uint64(i))
		if p == nil || p.typ != sgx.PageREG || p.pending || p.modified || p.perm&sgx.PermX == 0 {
			return false
		}
		b[i] = m.b.Page(f)[(linear+uint64(i))%sgx.PageSize]
	}
	return true
}
