// SPDX-License-Identifier: Apache-2.0

package pager

import (
	"fmt"
	"math/bits"
	"slices"

	"holdfast/enclave/monitor"
)

// va is a version array page: which of its slots hold a version.
type va struct {
	frame monitor.Frame
	used  [monitor.VASlots / 64]uint64
	n     int
}

func (v *va) set(slot int) {
	v.used[slot/64] |= 1 << (slot % 64)
	v.n++
}

// Version array pages belong to one enclave each and end with it: a slot whose
// page never came back is still occupied for the monitor.

// slots counts the empty slots.
func (e *Enclave) slots() int {
	n := 0
	for _, v := range e.vas {
		n += monitor.VASlots - v.n
	}
	return n
}

// slot finds an empty one; there is one, since evict looked.
func (e *Enclave) slot() (*va, int) {
	for _, v := range e.vas {
		for i, w := range v.used {
			if w != ^uint64(0) {
				return v, 64*i + bits.TrailingZeros64(^w)
			}
		}
	}
	panic("pager: no empty slot although they were counted")
}

// newVA makes a VA page of the frame that Alloc kept back.
func (e *Enclave) newVA() error {
	p := e.p
	f := p.frames.take()
	if f == monitor.NoFrame {
		return fmt.Errorf("%w: no page is left for the versions of evicted pages", ErrFull)
	}
	if o := p.m.EPA(f); !o.OK() {
		p.frames.put(f)
		return fmt.Errorf("EPA: %v", o)
	}
	e.vas = append(e.vas, &va{frame: f})
	return nil
}

// empty takes a slot out of use, and the page with its last one.
func (e *Enclave) empty(v *va, slot int) {
	v.used[slot/64] &^= 1 << (slot % 64)
	if v.n--; v.n > 0 || e.keep {
		return
	}
	if o := e.p.m.EREMOVE(v.frame); o.OK() {
		e.vas = slices.DeleteFunc(e.vas, func(x *va) bool { return x == v })
		e.p.Free(v.frame)
	}
}
