// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// runner is the part of a platform that this backend adds.
type runner struct {
	p       *epc.Platform
	stub    *os.File
	threads map[*Thread]struct{} // under p.Mu
}

// New makes a platform with an EPC of frames pages of 4096 bytes.
func New(frames int, o monitor.Options) (*epc.Platform, error) {
	return epc.New(frames, o, func(p *epc.Platform) (epc.Runner, error) {
		stub, err := epc.MemoryFile("enclave", stubELF(), 0)
		if err != nil {
			return nil, err
		}
		return &runner{p: p, stub: stub, threads: map[*Thread]struct{}{}}, nil
	})
}

// Mode implements epc.Runner.
func (r *runner) Mode() string { return "HU" }

// Close implements epc.Runner.
func (r *runner) Close() {
	r.p.Mu.Lock()
	var all []*Thread
	for t := range r.threads {
		all = append(all, t)
	}
	r.p.Mu.Unlock()
	for _, t := range all {
		t.Close()
	}
	r.stub.Close()
}

// Changed implements epc.Runner.
func (r *runner) Changed(e *monitor.Enclave, linear uint64) {
	for t := range r.threads {
		if t.e == e {
			t.stale[linear] = struct{}{}
		}
	}
}

// Shootdown implements epc.Runner.
func (r *runner) Shootdown(e *monitor.Enclave) {
	for t := range r.threads {
		if t.e == e {
			t.Interrupt()
		}
	}
}

// Forget implements epc.Runner.
func (r *runner) Forget(*monitor.Enclave) {}

// XSaveSize implements epc.Runner: x87, SSE, and AVX. The size of further
// components depends on the processor, and XCR0 cannot be set for a process.
func (r *runner) XSaveSize(xfrm uint64) uint64 {
	switch xfrm {
	case 3:
		return sgx.XSaveLegacy
	case 7:
		return sgx.XSaveLegacy + 256
	}
	return 0
}
