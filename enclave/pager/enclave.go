// SPDX-License-Identifier: Apache-2.0

package pager

import (
	"container/list"
	"fmt"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// page is one page of an enclave that may leave the EPC.
type page struct {
	owner   *Enclave
	linear  uint64
	frame   monitor.Frame // NoFrame while it is outside
	at      *list.Element // in the queue
	leaving bool          // blocked, on the way out
	coming  bool          // some thread is bringing it back
	blob    *monitor.Evicted
	va      *va
	slot    int
}

// Enclave is what the pager knows of one enclave.
type Enclave struct {
	p     *Pager
	secs  monitor.Frame
	pages map[uint64]*page         // that may leave, by linear address
	fixed map[uint64]monitor.Frame // that stay: TCS pages
	vas   []*va
	keep  bool // an eviction counts on the slots that there are
	gone  bool
}

// NewEnclave begins to keep the pages of the enclave whose SECS is in a frame
// of Alloc; Remove frees that too.
func (p *Pager) NewEnclave(secs monitor.Frame) *Enclave {
	return &Enclave{p: p, secs: secs, pages: map[uint64]*page{}, fixed: map[uint64]monitor.Frame{}}
}

// Add tells that a page was added (EADD, EAUG) in a frame of Alloc. Pages of
// type REG may leave from now on; others stay.
func (e *Enclave) Add(linear uint64, f monitor.Frame, t sgx.PageType) {
	if t != sgx.PageREG {
		e.fixed[linear] = f
		return
	}
	pg := &page{owner: e, linear: linear, frame: f}
	pg.at = e.p.queue.PushBack(pg)
	e.pages[linear] = pg
}

// Has reports whether the enclave has a page at a linear address, inside the
// EPC or not.
func (e *Enclave) Has(linear uint64) bool {
	linear &^= sgx.PageSize - 1
	_, fixed := e.fixed[linear]
	return fixed || e.pages[linear] != nil
}

// Absent reports whether the page at a linear address is outside the EPC or on
// its way out, so that In helps against the fault.
func (e *Enclave) Absent(linear uint64) bool {
	pg := e.pages[linear&^(sgx.PageSize-1)]
	return pg != nil && (pg.frame == monitor.NoFrame || pg.leaving)
}

// In brings the page at a linear address back, if it is not there. The caller
// is not inside the enclave.
func (e *Enclave) In(linear uint64) error {
	p, pg := e.p, e.pages[linear&^(sgx.PageSize-1)]
	if pg == nil {
		return nil
	}
	for !e.gone && (pg.leaving || pg.coming) {
		p.cond.Wait()
	}
	switch {
	case e.gone:
		return ErrGone
	case pg.frame != monitor.NoFrame:
		return nil
	}
	pg.coming = true
	f, err := p.Alloc()
	pg.coming = false
	defer p.cond.Broadcast()
	if err != nil {
		return fmt.Errorf("page %#x: %w", pg.linear, err)
	}
	if e.gone {
		p.Free(f)
		return ErrGone
	}
	if o := p.m.ELDU(e.secs, f, pg.va.frame, pg.slot, pg.blob, false); !o.OK() {
		p.Free(f)
		return fmt.Errorf("page %#x: %w (ELDU: %v)", pg.linear, ErrLost, o.Code)
	}
	e.empty(pg.va, pg.slot)
	pg.frame, pg.blob, pg.va = f, nil, nil
	pg.at = p.queue.PushBack(pg)
	p.outside--
	p.loaded++
	return nil
}

// Remove removes all pages of the enclave and its SECS (EREMOVE). No thread is
// inside. Whoever waits for a page of it gets ErrGone.
func (e *Enclave) Remove() error {
	p := e.p
	e.gone = true
	var failed error
	remove := func(f monitor.Frame) {
		if o := p.m.EREMOVE(f); !o.OK() {
			failed = fmt.Errorf("EREMOVE: %v", o)
			return
		}
		p.Free(f)
	}
	for _, pg := range e.pages {
		if pg.at != nil {
			p.queue.Remove(pg.at)
		}
		if pg.frame == monitor.NoFrame {
			p.outside--
			continue
		}
		remove(pg.frame)
	}
	for _, f := range e.fixed {
		remove(f)
	}
	for _, v := range e.vas {
		remove(v.frame)
	}
	e.vas = nil
	clear(e.pages)
	clear(e.fixed)
	remove(e.secs)
	p.cond.Broadcast()
	return failed
}
