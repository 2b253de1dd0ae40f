// SPDX-License-Identifier: Apache-2.0

package pager

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// batch is how many pages of one enclave leave together: one interruption of
// its threads serves them all.
const batch = 16

// minResident is how many pages that may leave must be there before any does.
// An enclave with fewer could not go on: its code, its stack and its SSA frame
// would take turns for ever.
const minResident = 24

// ErrFull says that no page is free and none may leave.
var ErrFull = errors.New("the EPC is full")

// ErrLost says that a page outside the EPC is not the one that left: somebody
// altered or exchanged it.
var ErrLost = errors.New("a page that had left the EPC came back altered or replayed")

// ErrGone says that the enclave was removed meanwhile.
var ErrGone = errors.New("the enclave is gone")

// Stats counts what a pager did and holds.
type Stats struct {
	Frames  int    // of the EPC
	InUse   int    // allocated, VA pages included
	Outside int    // pages of enclaves outside the EPC
	Evicted uint64 // pages moved out since the start
	Loaded  uint64 // pages moved back
}

// Pager is the keeper of one EPC.
type Pager struct {
	m      *monitor.Monitor
	frames frames
	maxOut int

	cond     *sync.Cond // of the monitor's lock: something changed
	evicting bool
	waiting  int       // calls of Track
	queue    list.List // of *page, resident and not on the way out, the oldest first
	outside  int
	evicted  uint64
	loaded   uint64
}

// New keeps the EPC of m, frames pages. lock is the monitor's. At most maxOut
// pages may be outside at a time, which bounds the memory that enclaves can
// make the host spend (about 4.2 KiB each); 0 means four times the EPC.
func New(m *monitor.Monitor, frames, maxOut int, lock sync.Locker) *Pager {
	if maxOut == 0 {
		maxOut = 4 * frames
	}
	return &Pager{m: m, frames: newFrames(frames), maxOut: maxOut, cond: sync.NewCond(lock)}
}

// Stats returns the counts.
func (p *Pager) Stats() Stats {
	return Stats{Frames: p.frames.total, InUse: p.InUse(), Outside: p.outside, Evicted: p.evicted, Loaded: p.loaded}
}

// InUse counts the frames that are allocated.
func (p *Pager) InUse() int { return p.frames.used }

// Alloc takes a free frame, if need be by moving pages out.
func (p *Pager) Alloc() (monitor.Frame, error) {
	for {
		// The last frame is for the versions of what leaves.
		if p.frames.available() > 1 {
			return p.frames.take(), nil
		}
		if p.evicting {
			p.cond.Wait()
			continue
		}
		if err := p.evict(); err != nil {
			return monitor.NoFrame, err
		}
	}
}

// Free gives a frame back after EREMOVE.
func (p *Pager) Free(f monitor.Frame) {
	p.frames.put(f)
	p.cond.Broadcast()
}

// Left says that a thread left an enclave, which an eviction or Track may wait
// for.
func (p *Pager) Left() {
	if p.evicting || p.waiting > 0 {
		p.cond.Broadcast()
	}
}

// evict moves up to batch pages of the enclave with the oldest page out.
func (p *Pager) evict() error {
	oldest := p.queue.Front()
	if p.queue.Len() < minResident {
		return fmt.Errorf("%w: of its %d pages only %d could leave, and fewer than %d leave enclaves no room to run; give the platform a larger one", ErrFull, p.frames.total, p.queue.Len(), minResident)
	}
	if p.outside >= p.maxOut {
		return fmt.Errorf("%w: and %d pages are outside already, which is the limit", ErrFull, p.outside)
	}
	p.evicting = true
	defer func() {
		p.evicting = false
		p.cond.Broadcast()
	}()
	e := oldest.Value.(*page).owner
	e.keep = true
	defer func() { e.keep = false }()
	if e.slots() == 0 {
		if err := e.newVA(); err != nil {
			return err
		}
	}
	var victims []*page
	limit := min(batch, p.queue.Len()/2, e.slots(), p.maxOut-p.outside)
	for x := oldest; x != nil && len(victims) < limit; {
		next := x.Next()
		if pg := x.Value.(*page); pg.owner == e {
			p.queue.Remove(x)
			pg.at = nil
			victims = append(victims, pg)
		}
		x = next
	}
	for _, pg := range victims {
		if o := p.m.EBLOCK(pg.frame); !o.OK() {
			return fmt.Errorf("EBLOCK: %v", o)
		}
		pg.leaving = true
	}
	for !e.gone { // a SECS that is gone may be another's by now
		o := p.m.ETRACK(e.secs)
		if o.OK() {
			break
		}
		if o.Code != sgx.PrevTrkIncmpl {
			return fmt.Errorf("ETRACK: %v", o)
		}
		p.cond.Wait()
	}
	for _, pg := range victims {
		if err := p.out(pg); err != nil {
			return err
		}
	}
	return nil
}

// out writes one blocked page back, as soon as no thread can still use it.
func (p *Pager) out(pg *page) error {
	for !pg.owner.gone {
		v, slot := pg.owner.slot()
		pg.blob = new(monitor.Evicted)
		o := p.m.EWB(pg.frame, v.frame, slot, pg.blob)
		switch {
		case o.OK():
			v.set(slot)
			pg.va, pg.slot, pg.leaving = v, slot, false
			p.frames.put(pg.frame)
			pg.frame = monitor.NoFrame
			p.outside++
			p.evicted++
			p.cond.Broadcast()
			return nil
		case o.Code == sgx.NotTracked:
			pg.blob = nil
			p.cond.Wait()
		default:
			return fmt.Errorf("EWB: %v", o)
		}
	}
	return nil
}
