// SPDX-License-Identifier: Apache-2.0

package urts

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
)

// Stats counts what the threads of an enclave did since it was loaded.
type Stats struct {
	Calls      uint64 `json:"ecalls"`      // entries for ECALLs, nested ones and Enter included
	OCalls     uint64 `json:"ocalls"`      // that reached the application
	Exceptions uint64 `json:"exceptions"`  // that the enclave was to handle
	Faults     uint64 `json:"page_faults"` // that the runtime served: pages that came, memory that was granted
	Interrupts uint64 `json:"interrupts"`  // asynchronous exits without an exception
	Refused    uint64 `json:"refused"`     // leaves that failed, exceptions that nobody handled
}

type counters struct {
	calls, ocalls, exceptions, faults, interrupts, refused atomic.Uint64
}

// Stats returns the counts.
func (e *Enclave) Stats() Stats {
	n := &e.n
	return Stats{n.calls.Load(), n.ocalls.Load(), n.exceptions.Load(), n.faults.Load(), n.interrupts.Load(), n.refused.Load()}
}

// refuse counts something for the enclave and the platform; Platform.Mu is held.
func (e *Enclave) refuse(what string) {
	e.n.refused.Add(1)
	e.p.Refuse(what)
}

// ErrFlood says that an ECALL was ended because the enclave raised more
// exceptions in it than Options.MaxExceptions. It is an ErrCrashed.
var ErrFlood = fmt.Errorf("%w: it raised exceptions without end", ErrCrashed)

// raised counts an exception of the call that s is in, against the bound.
func (e *Enclave) raised(s *slot) error {
	e.n.exceptions.Add(1)
	if s.raised++; e.most == 0 || s.raised <= e.most {
		return nil
	}
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	e.refuse("exception flood")
	return ErrFlood
}

// BareExits measures n bare world switches of a thread of the enclave (epc.Bare)
// by the instruction at an offset, which must stop it: UD2.
func (e *Enclave) BareExits(offset uint64, n int) (time.Duration, error) {
	s := <-e.slots
	defer func() { e.slots <- s }()
	if err := e.usable(); err != nil {
		return 0, err
	}
	b, can := s.t.(epc.Bare)
	if !can {
		return 0, errors.New("urts: this mode cannot measure bare exits")
	}
	c := monitor.CPU{Regs: monitor.Regs{RIP: e.e.Base() + offset, RSP: s.stack, RFLAGS: 0x202, FSBase: e.e.Base(), GSBase: e.e.Base()}}
	return b.Bare(&c, n)
}
