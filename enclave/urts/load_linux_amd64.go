// SPDX-License-Identifier: Apache-2.0

package urts

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/pager"
	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
)

// enclaveBase is where enclaves are put: a multiple of every size that an image
// may have. Each enclave has an address space of its own.
const enclaveBase = 0x2000_0000_0000

// Options of a load.
type Options struct {
	// Debug sets the DEBUG attribute: the enclave can be looked into, and gets
	// other keys. The signer must allow it.
	Debug bool
	// SharedSize is the size of the shared memory in bytes; 0 means 4 MiB.
	SharedSize int
	// OCalls serves the OCALLs.
	OCalls OCallFunc
	// Dynamic gives the enclave a fresh page wherever it touches its range where
	// there is none (EAUG), as the Linux driver does on SGX2; the enclave must
	// accept it (EACCEPT).
	Dynamic bool
	// App is a file with the application's memory (a memfd): what Service.Fault
	// grants of it, the enclave reaches at the application's addresses. It is
	// the enclave's once Load succeeded. nil: the enclave reaches Memory alone.
	App *os.File
	// MaxExceptions bounds the exceptions that an enclave handles in one ECALL,
	// with all that nests in it; 0: no bound. Beyond it the ECALL ends with
	// ErrFlood.
	MaxExceptions uint64
	// Done ends a load whose enclave does not come back from its initialization,
	// when it is closed; nil: never.
	Done <-chan struct{}
	// Bare is for enclaves without Intel's trusted runtime: nothing is called
	// after EINIT. Use Enter instead of ECall.
	Bare bool
}

// OCallFunc serves OCALL index; ms is the address of the marshalling structure
// in m. The result goes to the enclave as sgx_status_t, 0 for success. It runs
// on the goroutine of the ECALL and may make ECALLs itself.
type OCallFunc func(m *Memory, index int, ms uint64) uint32

// Enclave is a loaded enclave. ECalls may come from many goroutines; each takes
// a free thread of the enclave or waits for one.
type Enclave struct {
	Memory *Memory

	p       *epc.Platform
	e       *monitor.Enclave
	secs    monitor.Frame
	pages   *pager.Enclave
	slots   chan *slot
	all     []*slot
	ocalls  OCallFunc
	dynamic bool
	app     *os.File
	bind    bool // a thread of the application keeps its thread here
	shared  []epc.Shared
	made    []uint64 // TCS pages made by the enclave, not yet entered
	extra   int      // how many it made
	most    uint64   // Options.MaxExceptions
	n       counters

	mu     sync.Mutex
	closed bool
	broken error // why it is of no more use
}

// slot is one thread of the enclave: a TCS, what runs it, a piece
// of untrusted stack.
type slot struct {
	tcs   uint64
	cpu   monitor.CPU
	t     epc.Thread
	stack uint64 // top
	low   uint64 // bottom

	fault func(addr uint64) (epc.Region, bool) // during an ECALL of Held
	last  monitor.Outcome                      // what made it leave asynchronously

	raised uint64 // exceptions in this ECALL
}

const stackSize = 256 << 10

// maxMade is how many threads an enclave may make beside those of its image.
const maxMade = 256

// LeafError says that an SGX instruction refused.
type LeafError struct {
	Leaf    string
	Outcome monitor.Outcome
}

func (e *LeafError) Error() string {
	if e.Outcome.Vector != 0 {
		return fmt.Sprintf("urts: %s raised exception %d", e.Leaf, e.Outcome.Vector)
	}
	return fmt.Sprintf("urts: %s: %v", e.Leaf, e.Outcome.Code)
}

func leaf(name string, o monitor.Outcome) error {
	if o.OK() {
		return nil
	}
	return &LeafError{name, o}
}

// Load builds and initializes an enclave and, for an SDK image, lets its trusted
// runtime initialize itself.
func Load(p *epc.Platform, img *image.Image, o Options) (*Enclave, error) {
	if img.Sig == nil {
		return nil, errors.New("urts: the image has no SIGSTRUCT; give a signed one")
	}
	if o.SharedSize == 0 {
		o.SharedSize = 4 << 20
	}
	m, err := NewMemory(o.SharedSize)
	if err != nil {
		return nil, err
	}
	e := &Enclave{Memory: m, p: p, secs: monitor.NoFrame, ocalls: o.OCalls, dynamic: o.Dynamic, most: o.MaxExceptions, bind: img.Metadata.TCSPolicy == 0, shared: []epc.Shared{{Addr: MemoryAddr, Size: uint64(len(m.b)), File: m.file}}}
	if o.App != nil {
		if err := p.CanOpen(); err != nil {
			m.Close()
			return nil, err
		}
		e.app = o.App
		e.shared = append(e.shared, epc.Shared{File: o.App})
	}
	tcs, err := e.build(img, o)
	if err == nil {
		err = e.threads(tcs)
	}
	if err == nil && !o.Bare {
		err = e.initUntil(o.Done)
	}
	if err != nil {
		e.app = nil // still the caller's
		e.Close()
		return nil, err
	}
	return e, nil
}

// initUntil initializes the trusted runtime; when done is closed the threads are
// killed, so that it ends with an error.
func (e *Enclave) initUntil(done <-chan struct{}) error {
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-done:
			for _, s := range e.all {
				s.t.Kill()
			}
		case <-over:
		}
	})
	err := e.initRuntime()
	close(over)
	watch.Wait()
	return err
}

// attributes chooses what the processor would be asked for: 64 bit, the widest
// XFRM that is offered here and that the signer leaves free.
func attributes(p *epc.Platform, s *sgx.SigStruct, want sgx.Attributes, debug bool) sgx.Attributes {
	a := sgx.Attributes{Flags: want.Flags | sgx.FlagMode64, XFRM: 3}
	if debug {
		a.Flags |= sgx.FlagDebug
	}
	const avx = 7
	if p.XSaveSize(avx) != 0 && avx&s.AttrMask.XFRM == s.Attributes.XFRM&s.AttrMask.XFRM {
		a.XFRM = avx
	}
	return a
}

func (e *Enclave) build(img *image.Image, o Options) (tcs []uint64, err error) {
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	keeper := e.p.Pager()
	f, err := keeper.Alloc()
	if err != nil {
		return nil, err
	}
	s := sgx.SECS{Size: img.Size, BaseAddr: enclaveBase, SSAFrameSize: img.SSAFrameSize, MiscSelect: img.MiscSelect, Attributes: attributes(e.p, img.Sig, img.Attributes, o.Debug)}
	enclave, out := e.p.Monitor.ECREATE(f, (*[sgx.PageSize]byte)(s.AppendTo(nil)))
	if err := leaf("ECREATE", out); err != nil {
		keeper.Free(f)
		return nil, err
	}
	e.e, e.secs, e.pages = enclave, f, keeper.NewEnclave(f)
	var zero [sgx.PageSize]byte
	for i := range img.Pages {
		pg := &img.Pages[i]
		f, err := keeper.Alloc()
		if err != nil {
			return nil, err
		}
		data := pg.Data
		if data == nil {
			data = &zero
		}
		at := enclaveBase + pg.Offset
		if err := leaf("EADD", e.p.Monitor.EADD(e.secs, f, at, pg.Info, data)); err != nil {
			keeper.Free(f)
			return nil, fmt.Errorf("%w (page %#x)", err, pg.Offset)
		}
		for c := uint32(0); c < 16; c++ {
			if pg.Extend&(1<<c) != 0 {
				if err := leaf("EEXTEND", e.p.Monitor.EEXTEND(e.secs, f, c*sgx.ExtendSize)); err != nil {
					return nil, err
				}
			}
		}
		e.pages.Add(at, f, pg.Info.Type)
		if pg.Info.Type == sgx.PageTCS {
			tcs = append(tcs, at)
		}
	}
	if len(tcs) == 0 {
		return nil, errors.New("urts: the image has no thread (no TCS)")
	}
	return tcs, leaf("EINIT", e.p.Monitor.EINIT(e.secs, img.Sig.AppendTo(nil)))
}

func (e *Enclave) threads(tcs []uint64) error {
	e.slots = make(chan *slot, len(tcs)+maxMade)
	for _, at := range tcs {
		s, err := e.newSlot(at, true)
		if err != nil {
			return err
		}
		e.all = append(e.all, s)
		e.slots <- s
	}
	return nil
}

// newSlot starts a process for the thread at a TCS, with an untrusted stack in
// Memory or without one.
func (e *Enclave) newSlot(tcs uint64, own bool) (s *slot, err error) {
	s = &slot{tcs: tcs}
	if own {
		if s.low, err = e.Memory.Alloc(stackSize); err != nil {
			return nil, err
		}
		s.stack = s.low + stackSize - 64
	}
	s.cpu.XSave = make([]byte, sgx.XSaveLegacy+256)
	s.cpu.Regs.XCR0 = 7
	s.t, err = e.p.NewThread(e.e, e.shared...)
	return s, err
}

// MREnclave is the enclave's measurement.
func (e *Enclave) MREnclave() [32]byte { return e.e.MREnclave() }

// Close ends the threads and gives the pages back. ECALLs that run end with an
// error.
func (e *Enclave) Close() {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.closed = true
	e.mu.Unlock()
	for _, s := range e.all {
		s.t.Close()
	}
	e.p.Mu.Lock()
	defer e.p.Mu.Unlock()
	for _, s := range e.all {
		if s.cpu.Inside() != nil { // its process is gone: nothing of it runs any more
			e.p.Monitor.AEX(&s.cpu, false, 0, 0, 0)
		}
	}
	if e.pages != nil {
		if err := e.pages.Remove(); err != nil { // a bug here; nothing of it can be used again
			slog.Error("enclave pages could not be removed", "error", err)
		}
	}
	if e.e != nil {
		e.p.Forget(e.e)
	}
	e.Memory.Close()
	if e.app != nil {
		e.app.Close()
	}
}
