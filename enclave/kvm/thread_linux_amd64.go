// SPDX-License-Identifier: Apache-2.0

package kvm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// kickSignal makes KVM_RUN return. Go's runtime uses it too and takes one that
// is not for it with calm.
const kickSignal = unix.SIGURG

// Thread is one thread of an enclave on a virtual processor.
type Thread struct {
	g     *guest
	cpu   *cpu
	saved [][]byte // P: system registers of interrupted entries
	began uint64   // generation of the mappings with which it runs; under Platform.Mu
	fault faults
	scrub bool // registers of an interrupted entry are still in the processor
	fresh bool // the next Run follows an EENTER

	ask  chan func()
	quit chan struct{} // closed to end the thread of the system
	done chan struct{} // closed when it has ended
	once sync.Once
	dead atomic.Bool

	mu      sync.Mutex // of the fields below and of run's immediate_exit
	tid     int
	kick    bool
	running bool
}

// faults bounds retries of accesses to memory that is not the machine's.
type faults struct {
	rip uint64
	gen uint64
	n   int
}

const faultRetries = 8

// serve is the thread of the system that uses the processor.
func (t *Thread) serve() {
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
	defer close(t.done)
	t.mu.Lock()
	t.tid = unix.Gettid()
	t.mu.Unlock()
	for {
		select {
		case f := <-t.ask:
			f()
		case <-t.quit:
			t.mu.Lock()
			t.tid = 0
			t.mu.Unlock()
			t.cpu.close()
			return
		}
	}
}

// do runs f on that thread.
func (t *Thread) do(f func() error) error {
	err := make(chan error, 1)
	select {
	case t.ask <- func() { err <- f() }:
		return <-err
	case <-t.done:
		return epc.ErrGone
	}
}

// Interrupt implements epc.Thread.
func (t *Thread) Interrupt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kick = true
	if t.running && t.tid != 0 {
		t.cpu.run[runImmediateExit] = 1 // if it has not entered KVM yet
		_ = unix.Tgkill(os.Getpid(), t.tid, kickSignal)
	}
}

// Kill implements epc.Thread.
func (t *Thread) Kill() {
	t.dead.Store(true)
	t.Interrupt()
}

// Close implements epc.Thread.
func (t *Thread) Close() {
	t.once.Do(func() {
		t.Kill()
		close(t.quit)
		<-t.done
		t.g.leave(t)
	})
	<-t.done
}

// begin is before each KVM_RUN; it reports false if the thread was kicked before
// the first. Later a kick makes KVM_RUN finish what it began and return at once,
// except while drain is set: a processor on its way out of the enclave arrives,
// and the kick is for the next Run.
func (t *Thread) begin(first, drain bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kick && first {
		t.kick = false
		return false
	}
	t.cpu.run[runImmediateExit] = 0
	if t.kick && !drain {
		t.cpu.run[runImmediateExit] = 1
	}
	t.running = true
	return true
}

// end is after each KVM_RUN; a kick that interrupted has done its work.
func (t *Thread) end(interrupted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
	if interrupted {
		t.kick = false
	}
}

// Run implements epc.Thread.
func (t *Thread) Run(c *monitor.CPU) (s epc.Stop, err error) {
	err = t.do(func() (err error) {
		s, err = t.run(c)
		return err
	})
	if t.dead.Load() && err == nil && s.Interrupt {
		err = epc.ErrGone
	}
	return s, err
}

func (t *Thread) run(c *monitor.CPU) (epc.Stop, error) {
	if t.dead.Load() {
		return epc.Stop{}, epc.ErrGone
	}
	if err := t.start(); err != nil {
		return epc.Stop{}, err
	}
	flush, err := t.g.sync(t)
	if err != nil {
		return epc.Stop{}, err
	}
	if !t.begin(true, false) {
		return epc.Stop{Interrupt: true}, nil
	}
	t.cpu.load(&c.Regs, flush)
	for {
		x, err := t.cpu.step(&c.Regs)
		t.end(err == nil && x.interrupt)
		var no *refusal
		drain := false
		switch {
		case err == nil && x.interrupt: // for us, or a signal that means nothing and does no harm
			return epc.Stop{Interrupt: true}, nil
		case err == nil:
			return t.why(c, x), nil
		case errors.Is(err, errAgain):
			drain = true
		case errors.As(err, &no):
			t.g.refuse(no.class)
			if !no.goOn {
				return epc.Stop{}, err
			}
		case errors.Is(err, errFault):
			if !t.retry() {
				t.g.refuse("memory outside")
				return epc.Stop{}, fmt.Errorf("%w: %w", epc.ErrForbidden, err)
			}
		default:
			return epc.Stop{}, err
		}
		t.begin(false, drain)
	}
}

// Bare implements epc.Bare: what a world switch costs at least.
func (t *Thread) Bare(c *monitor.CPU, n int) (d time.Duration, err error) {
	err = t.do(func() error {
		if _, err := t.g.sync(t); err != nil {
			return err
		}
		begin := time.Now()
		for range n {
			r := c.Regs
			t.cpu.load(&r, false)
			for {
				_, err := t.cpu.step(&r)
				if err == nil {
					break
				}
				if !errors.Is(err, errAgain) {
					return err
				}
			}
		}
		d = time.Since(begin)
		return nil
	})
	return d, err
}

// retry says whether an access to memory that the machine does not have is
// worth another try: the page may have been taken away in that very moment, and
// then the page tables say so by now.
func (t *Thread) retry() bool {
	rip, gen := le.Uint64(t.cpu.run[runRegs+8*16:]), t.g.generation()
	if t.fault.rip != rip || t.fault.gen != gen {
		t.fault = faults{rip: rip, gen: gen}
	}
	t.fault.n++
	return t.fault.n < faultRetries
}

// why translates an exit into what the processor did.
func (t *Thread) why(c *monitor.CPU, x exit) epc.Stop {
	if x.call {
		return epc.Stop{Call: true}
	}
	s := epc.Stop{Vector: x.vector, ErrorCode: x.code}
	switch x.vector {
	case sgx.VectorPF:
		s.Address = x.cr2 &^ (sgx.PageSize - 1)
	case sgx.VectorGP:
		if illegal(t.g.fetch(c.Regs.RIP)) {
			return epc.Stop{Vector: sgx.VectorUD}
		}
	case sgx.VectorDE, sgx.VectorDB, sgx.VectorBP, sgx.VectorUD, sgx.VectorMF, sgx.VectorAC, sgx.VectorXM:
	default: // no enclave hears of others
		s.Vector = sgx.VectorGP
	}
	return s
}

// Entered implements epc.Thread. What it notes the next Run carries out: a
// hand-over to the thread of the system costs as much as a call. Nobody else
// looks at these fields meanwhile, and Run hands them over.
func (t *Thread) Entered() error {
	if t.dead.Load() {
		return epc.ErrGone
	}
	t.fresh = true
	return nil
}

// start brings what a mode keeps beside registers into the state at an EENTER.
func (t *Thread) start() error {
	if !t.fresh {
		return nil
	}
	t.fresh = false
	t.cpu.forget()
	if !t.scrub {
		return nil
	}
	t.scrub = false
	return t.cpu.setX(initialX())
}

// initialX is an XSAVE image of the initial state.
func initialX() []byte {
	x := make([]byte, sgx.XSaveLegacy)
	le.PutUint16(x, 0x37f)
	le.PutUint32(x[24:], 0x1f80)
	return x
}

// SaveX implements epc.Thread.
func (t *Thread) SaveX(c *monitor.CPU) error {
	return t.do(func() error {
		if t.g.m.mode == P {
			t.saved = append(t.saved, t.cpu.system())
		}
		t.scrub = true
		if err := t.cpu.xsave(c.XSave); err != nil {
			return err
		}
		clear(c.XSave[464:512])
		// Only what the image has room for is in use.
		le.PutUint64(c.XSave[512:], le.Uint64(c.XSave[512:])&t.g.xfrm)
		clear(c.XSave[520:576])
		return nil
	})
}

// LoadX implements epc.Thread.
func (t *Thread) LoadX(c *monitor.CPU) error {
	return t.do(func() error {
		if n := len(t.saved); n > 0 {
			t.cpu.restore(t.saved[n-1])
			t.saved = t.saved[:n-1]
		}
		t.scrub = false
		return t.cpu.setX(c.XSave)
	})
}

// Stale implements epc.Thread.
func (t *Thread) Stale(linear uint64) bool {
	return t.g.when[linear&^(sgx.PageSize-1)] > t.began
}
