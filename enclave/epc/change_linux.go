// SPDX-License-Identifier: Apache-2.0

package epc

import (
	"slices"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// Change is one range of linear addresses whose mapping differs from what a
// backend has in place.
type Change struct {
	Linear, Size uint64
	Mapping      // of the first page; the frames follow each other
	There        bool
}

// Changes says what is to be put in place for the stale addresses, neighbours
// joined: an enclave is loaded into frames that follow each other, so a thousand
// pages become a few ranges. It empties stale. The caller holds Mu.
func (p *Platform) Changes(e *monitor.Enclave, stale map[uint64]struct{}) []Change {
	if len(stale) == 0 {
		return nil
	}
	addrs := make([]uint64, 0, len(stale))
	for linear := range stale {
		addrs = append(addrs, linear)
	}
	clear(stale)
	slices.Sort(addrs)
	var out []Change
	for _, linear := range addrs {
		m, there := p.pages[e][linear]
		if n := len(out); n > 0 {
			l := &out[n-1]
			pages := l.Size / sgx.PageSize
			if l.Linear+l.Size == linear && l.There == there && (!there || m.Perm == l.Perm && uint64(m.Frame) == uint64(l.Frame)+pages) {
				l.Size += sgx.PageSize
				continue
			}
		}
		out = append(out, Change{linear, sgx.PageSize, m, there})
	}
	return out
}
