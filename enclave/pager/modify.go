// SPDX-License-Identifier: Apache-2.0

package pager

import (
	"fmt"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// What follows serves a runtime that changes pages of a running enclave (EMODT,
// EMODPR, EREMOVE). The lock is held, and may be released while they wait.

// Resident brings the page at a linear address in and returns its frame, which
// is good until the lock is released.
func (e *Enclave) Resident(linear uint64) (monitor.Frame, error) {
	linear &^= sgx.PageSize - 1
	for {
		if f, fixed := e.fixed[linear]; fixed {
			return f, nil
		}
		pg := e.pages[linear]
		switch {
		case e.gone:
			return monitor.NoFrame, ErrGone
		case pg == nil:
			return monitor.NoFrame, fmt.Errorf("page %#x: the enclave has no page there", linear)
		case pg.frame != monitor.NoFrame && !pg.leaving && pg.at != nil:
			return pg.frame, nil
		case pg.frame != monitor.NoFrame && !pg.leaving:
			e.p.cond.Wait() // chosen to leave
		default:
			if err := e.In(linear); err != nil {
				return monitor.NoFrame, err
			}
		}
	}
}

// Pin keeps a resident page in the EPC from now on.
func (e *Enclave) Pin(linear uint64) {
	linear &^= sgx.PageSize - 1
	if pg := e.pages[linear]; pg != nil && pg.at != nil {
		e.p.queue.Remove(pg.at)
		delete(e.pages, linear)
		e.fixed[linear] = pg.frame
	}
}

// Drop removes a pinned page for good (EREMOVE) and frees its frame.
func (e *Enclave) Drop(linear uint64) monitor.Outcome {
	linear &^= sgx.PageSize - 1
	f, there := e.fixed[linear]
	if !there {
		return monitor.Outcome{Code: sgx.PGInvld}
	}
	o := e.p.m.EREMOVE(f)
	if o.OK() {
		delete(e.fixed, linear)
		e.p.Free(f)
	}
	return o
}

// Track makes every thread that is inside leave once (ETRACK), and returns when
// they have: what was changed before can be accepted then.
func (e *Enclave) Track() error {
	p := e.p
	p.waiting++
	defer func() { p.waiting-- }()
	for {
		o := p.m.ETRACK(e.secs)
		if o.OK() {
			break
		}
		if o.Code != sgx.PrevTrkIncmpl {
			return fmt.Errorf("ETRACK: %v", o)
		}
		p.cond.Wait()
		if e.gone {
			return ErrGone
		}
	}
	for x := p.m.Enclave(e.secs); x != nil && x.Tracking() && !e.gone; {
		p.cond.Wait()
	}
	if e.gone {
		return ErrGone
	}
	return nil
}
