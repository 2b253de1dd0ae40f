// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"

	"holdfast/enclave/monitor"
)

// Alloc takes a free EPC frame; the caller holds Mu.
func (p *Platform) Alloc() (monitor.Frame, error) {
	if n := len(p.freeList); n > 0 {
		f := p.freeList[n-1]
		p.freeList = p.freeList[:n-1]
		return f, nil
	}
	if p.fresh < monitor.Frame(p.Frames()) {
		p.fresh++
		return p.fresh - 1, nil
	}
	return monitor.NoFrame, fmt.Errorf("enclave/host: all %d pages of the EPC are in use; give the platform a larger one", p.Frames())
}

// Free gives a frame back after EREMOVE; the caller holds Mu.
func (p *Platform) Free(f monitor.Frame) { p.freeList = append(p.freeList, f) }

// InUse counts the frames that are allocated; the caller holds Mu.
func (p *Platform) InUse() int { return int(p.fresh) - len(p.freeList) }

// Forget drops what the platform keeps of an enclave that is gone; the caller
// holds Mu.
func (p *Platform) Forget(e *monitor.Enclave) { delete(p.pages, e) }
