// SPDX-License-Identifier: Apache-2.0

package host

import (
	"holdfast/enclave/monitor"
	"holdfast/enclave/pager"
)

// Pager hands out the pages of the EPC; the caller holds Mu.
func (p *Platform) Pager() *pager.Pager { return p.keeper }

// InUse counts the frames that are allocated; the caller holds Mu.
func (p *Platform) InUse() int { return p.keeper.InUse() }

// Forget drops what the platform keeps of an enclave that is gone; the caller
// holds Mu.
func (p *Platform) Forget(e *monitor.Enclave) { delete(p.pages, e) }

// Stale reports whether the mapping of the page at a linear address changed
// since the thread took its mappings last: then an access that faulted is worth
// another try. The caller holds Mu.
func (t *Thread) Stale(linear uint64) bool {
	_, s := t.stale[linear&^(4096-1)]
	return s
}
