// SPDX-License-Identifier: Apache-2.0

package kvm

import (
	"fmt"
	"sync"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// guest is the machine of one enclave and its threads.
type guest struct {
	r    *runner
	e    *monitor.Enclave
	m    *machine
	xfrm uint64

	apply sync.Mutex // whoever puts changes in place

	// under Platform.Mu
	threads map[*Thread]struct{}
	stale   map[uint64]struct{} // addresses whose mapping changed
	gen     uint64              // counts changes
	when    map[uint64]uint64   // the count at which a page last changed
}

// changed notes that the mapping of a page changed; Platform.Mu is held.
func (g *guest) changed(linear uint64) {
	g.gen++
	g.stale[linear] = struct{}{}
	g.when[linear] = g.gen
}

func (g *guest) generation() uint64 {
	g.r.p.Mu.Lock()
	defer g.r.p.Mu.Unlock()
	return g.gen
}

// sync brings the machine's memory up to date before t runs. It reports whether
// t's processor must forget translations.
func (g *guest) sync(t *Thread) (flush bool, err error) {
	g.apply.Lock()
	defer g.apply.Unlock()
	p := g.r.p
	p.Mu.Lock()
	changes := p.Changes(g.e, g.stale)
	flush = t.began != g.gen
	t.began = g.gen
	p.Mu.Unlock()
	for _, c := range changes {
		if c.There {
			err = g.m.place(c.Linear, c.Size, c.Perm, int(p.File().Fd()), int64(c.Frame)*sgx.PageSize)
		} else {
			err = g.m.remove(c.Linear, c.Size)
		}
		if err != nil {
			return false, fmt.Errorf("enclave/kvm: page %#x: %w", c.Linear, err)
		}
	}
	return flush, nil
}

func (g *guest) refuse(class string) {
	g.r.p.Mu.Lock()
	g.r.p.Refuse(class)
	g.r.p.Mu.Unlock()
}

// fetch reads what can be read of the instruction at rip.
func (g *guest) fetch(rip uint64) []byte {
	g.r.p.Mu.Lock()
	defer g.r.p.Mu.Unlock()
	var b [15]byte
	for i := range b {
		if !g.r.p.Monitor.Fetch(g.e, rip+uint64(i), b[i:i+1]) {
			return b[:i]
		}
	}
	return b[:]
}

// leave takes a closed thread out; the last one ends the machine.
func (g *guest) leave(t *Thread) {
	g.r.p.Mu.Lock()
	delete(g.threads, t)
	last := len(g.threads) == 0
	if last && g.r.guests[g.e] == g {
		delete(g.r.guests, g.e)
	}
	g.r.p.Mu.Unlock()
	if last {
		g.m.close()
	}
}

// runner is the part of a platform that this backend adds.
type runner struct {
	p    *epc.Platform
	d    *device
	mode Mode

	create sync.Mutex                  // one new thread at a time
	guests map[*monitor.Enclave]*guest // under p.Mu
}

// New makes a platform with an EPC of frames pages of 4096 bytes, whose enclaves
// run in virtual machines in the mode given.
func New(frames int, o monitor.Options, mode Mode) (*epc.Platform, error) {
	d, err := open()
	if err != nil {
		return nil, err
	}
	p, err := epc.New(frames, o, func(p *epc.Platform) (epc.Runner, error) {
		return &runner{p: p, d: d, mode: mode, guests: map[*monitor.Enclave]*guest{}}, nil
	})
	if err != nil {
		d.close()
	}
	return p, err
}

// Mode implements epc.Runner.
func (r *runner) Mode() string { return r.mode.String() }

// Close implements epc.Runner.
func (r *runner) Close() {
	r.p.Mu.Lock()
	var all []*Thread
	for _, g := range r.guests {
		for t := range g.threads {
			all = append(all, t)
		}
	}
	r.p.Mu.Unlock()
	for _, t := range all {
		t.Close()
	}
	r.d.close()
}

// NewThread implements epc.Runner. All threads of an enclave get the shared
// memory of the first.
func (r *runner) NewThread(e *monitor.Enclave, shared ...epc.Shared) (epc.Thread, error) {
	r.create.Lock()
	defer r.create.Unlock()
	r.p.Mu.Lock()
	g := r.guests[e]
	r.p.Mu.Unlock()
	fresh := g == nil
	if fresh {
		m, err := newMachine(r.d, r.mode, e.Base(), e.Size(), shared)
		if err != nil {
			return nil, err
		}
		g = &guest{r: r, e: e, m: m, xfrm: e.Attributes().XFRM, threads: map[*Thread]struct{}{}, stale: map[uint64]struct{}{}, when: map[uint64]uint64{}}
	}
	c, err := g.m.newCPU(g.xfrm, quirks{})
	if err != nil {
		if fresh {
			g.m.close()
		}
		return nil, err
	}
	t := &Thread{g: g, cpu: c, ask: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	go t.serve()
	r.p.Mu.Lock()
	defer r.p.Mu.Unlock()
	if fresh {
		r.p.Each(e, func(linear uint64, _ epc.Mapping) { g.changed(linear) })
		r.guests[e] = g
	}
	g.threads[t] = struct{}{}
	return t, nil
}

// Changed implements epc.Runner.
func (r *runner) Changed(e *monitor.Enclave, linear uint64) {
	if g := r.guests[e]; g != nil {
		g.changed(linear)
	}
}

// Shootdown implements epc.Runner.
func (r *runner) Shootdown(e *monitor.Enclave) {
	if g := r.guests[e]; g != nil {
		for t := range g.threads {
			t.Interrupt()
		}
	}
}

// Forget implements epc.Runner.
func (r *runner) Forget(*monitor.Enclave) {}

// XSaveSize implements epc.Runner: x87, SSE and AVX. Further components lie
// elsewhere on each processor.
func (r *runner) XSaveSize(xfrm uint64) uint64 {
	if xfrm&^r.d.xfrm() != 0 {
		return 0
	}
	switch xfrm {
	case 3:
		return sgx.XSaveLegacy
	case 7:
		return sgx.XSaveLegacy + 256
	}
	return 0
}
