// SPDX-License-Identifier: Apache-2.0

package epc

import (
	"errors"
	"os"
	"time"

	"holdfast/enclave/monitor"
)

// Shared is memory that application and enclave both reach, outside ELRANGE:
// the application's memory as the enclave sees it.
type Shared struct {
	Addr uint64 // where the enclave finds it
	Size uint64 // bytes, a multiple of the page size; 0: nothing until Grant
	File *os.File
}

// Stop says why enclave code stopped.
type Stop struct {
	Interrupt bool // nothing happened: the thread was interrupted
	// Call: the enclave asks for the ENCLU leaf in RAX by a means of its mode,
	// and RIP is behind it. No exception occurred.
	Call      bool
	Vector    uint8 // the exception
	ErrorCode uint32
	Address   uint64 // of a page fault
}

// ErrGone says that what ran the enclave's code is gone: its process died, or
// its thread was closed.
var ErrGone = errors.New("enclave: what ran the enclave's code is gone")

// ErrForbidden says that the enclave did what nothing can go on after, like
// writing where it has no memory with page tables of its own. The thread must
// not run again.
var ErrForbidden = errors.New("enclave: forbidden by the monitor")

// Thread runs the code of one enclave thread. One goroutine at a time calls
// Run, Entered, LoadX and SaveX; the others are for any.
type Thread interface {
	// Run lets the enclave code of c run until an exception, an interrupt or a
	// call. The registers of c are loaded before and stored afterwards; RIP is
	// that of the instruction that stopped.
	Run(c *monitor.CPU) (Stop, error)
	// Entered says that the next Run follows an EENTER: what a mode keeps of a
	// thread beside its registers starts afresh.
	Entered() error
	// SaveX stores the XSAVE image in c, before AEX.
	SaveX(c *monitor.CPU) error
	// LoadX gives the thread the XSAVE image of c, after ERESUME.
	LoadX(c *monitor.CPU) error
	// Stale reports whether the mapping of the page at a linear address changed
	// since the thread took its mappings last: then an access that faulted is
	// worth another try. The caller holds Platform.Mu.
	Stale(linear uint64) bool
	// Interrupt makes a running thread stop soon; one that does not run stops
	// at its next Run at once.
	Interrupt()
	// Kill ends the thread at once; a Run that is under way returns ErrGone.
	Kill()
	// Close ends the thread and frees what it held.
	Close()
}

// Bare is a thread whose world switch can be measured alone.
type Bare interface {
	// Bare lets the instruction at which c stands stop the thread n times, without
	// the monitor and without a hand-over between threads, and returns how long
	// that took.
	Bare(c *monitor.CPU, n int) (time.Duration, error)
}

// Runner is what a backend adds to the memory.
type Runner interface {
	// Mode names the mode in which enclaves run, as in evidence: HU, GU or P.
	Mode() string
	// NewThread makes a thread of e that reaches the shared regions.
	NewThread(e *monitor.Enclave, shared ...Shared) (Thread, error)
	// Changed tells of a new or gone mapping; Shootdown interrupts the threads
	// of e; Forget drops what is kept of e. Platform.Mu is held for all three.
	Changed(e *monitor.Enclave, linear uint64)
	Shootdown(e *monitor.Enclave)
	Forget(e *monitor.Enclave)
	// XSaveSize is as in monitor.Backend.
	XSaveSize(xfrm uint64) uint64
	// Close ends all threads. Platform.Mu is not held.
	Close()
}
