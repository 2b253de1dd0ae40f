// SPDX-License-Identifier: Apache-2.0

package enclave

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"time"

	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
	"holdfast/enclave/urts/probe"
)

// plain is a backend in memory of this process: what is measured is the monitor
// alone.
type plain [][sgx.PageSize]byte

func (b plain) Frames() int                                         { return len(b) }
func (b plain) Page(f monitor.Frame) *[sgx.PageSize]byte            { return &b[f] }
func (plain) Map(*monitor.Enclave, uint64, monitor.Frame, sgx.Perm) {}
func (plain) Unmap(*monitor.Enclave, uint64)                        {}
func (plain) Shootdown(*monitor.Enclave)                            {}
func (plain) Rand(b []byte) error                                   { _, err := rand.Read(b); return err }
func (plain) XSaveSize(uint64) uint64                               { return sgx.XSaveLegacy }

const leafBase = 0x2000_0000_0000

// built is an initialized enclave without code that runs.
type built struct {
	m    *monitor.Monitor
	e    *monitor.Enclave
	c    *monitor.CPU
	next monitor.Frame // free
}

// build makes the test enclave; what ECREATE to EINIT took goes to took.
func build(took map[string][]float64) (*built, error) {
	img, err := probe.Image(1, 4, nil)
	if err != nil {
		return nil, err
	}
	epc := make(plain, 64)
	for i := range epc {
		epc[i][0] = 1 // the host has given the memory
		epc[i][0] = 0
	}
	m, err := monitor.New(epc, monitor.Options{Root: [32]byte{1}})
	if err != nil {
		return nil, err
	}
	b := &built{m: m, next: 1}
	step := func(name string, f func() monitor.Outcome) error {
		begin := time.Now()
		o := f()
		took[name] = append(took[name], us(time.Since(begin)))
		if !o.OK() {
			return fmt.Errorf("bench: %s: %+v", name, o)
		}
		return nil
	}
	s := sgx.SECS{Size: img.Size, BaseAddr: leafBase, SSAFrameSize: 1, MiscSelect: img.MiscSelect, Attributes: img.Attributes}
	page := (*[sgx.PageSize]byte)(s.AppendTo(nil))
	if err := step("ECREATE", func() (o monitor.Outcome) { b.e, o = m.ECREATE(0, page); return o }); err != nil {
		return nil, err
	}
	for i := range img.Pages {
		if err := b.add(&img.Pages[i], step); err != nil {
			return nil, err
		}
	}
	sig := img.Sig.AppendTo(nil)
	b.c = &monitor.CPU{XSave: make([]byte, sgx.XSaveLegacy)}
	return b, step("EINIT", func() monitor.Outcome { return m.EINIT(0, sig) })
}

func (b *built) add(pg *image.Page, step func(string, func() monitor.Outcome) error) error {
	var zero [sgx.PageSize]byte
	data := pg.Data
	if data == nil {
		data = &zero
	}
	f := b.next
	b.next++
	if err := step("EADD", func() monitor.Outcome { return b.m.EADD(0, f, leafBase+pg.Offset, pg.Info, data) }); err != nil {
		return err
	}
	for c := uint32(0); c < 16; c++ {
		if pg.Extend&(1<<c) != 0 {
			if err := step("EEXTEND", func() monitor.Outcome { return b.m.EEXTEND(0, f, c*sgx.ExtendSize) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// outside are the registers of an application that enters.
func (b *built) outside(l sgx.ENCLU) {
	b.c.Regs = monitor.Regs{RAX: uint64(l), RBX: leafBase + probe.OffTCS, RCX: 0x1000, RSP: 0x2000, RBP: 0x2000, RFLAGS: 0x202, XCR0: 7}
}

// leaves measures what the monitor does for each leaf, in blocks of n.
func leaves(quick bool) ([]Row, error) {
	builds, blocks, n := 30, 40, 500
	if quick {
		builds, blocks = 5, 10
	}
	took := map[string][]float64{}
	var b *built
	for range builds {
		var err error
		if b, err = build(took); err != nil {
			return nil, err
		}
	}
	var rows []Row
	for _, name := range []string{"ECREATE", "EADD", "EEXTEND", "EINIT"} {
		rows = append(rows, of(tableLeaves, name, "monitor", took[name]))
	}
	var bad error
	must := func(l sgx.ENCLU, o monitor.Outcome) {
		if !o.OK() && bad == nil {
			bad = fmt.Errorf("bench: %v: %+v", l, o)
		}
	}
	enclu := func(l sgx.ENCLU) func() {
		return func() { must(l, b.m.ENCLU(b.c, b.e, 0x1003)) }
	}
	enter := func() { b.outside(sgx.EENTER) }
	exit := func() { b.c.Regs.RAX, b.c.Regs.RBX = uint64(sgx.EEXIT), 0x1003 }
	const data = leafBase + probe.OffData
	at := func(l sgx.ENCLU, rbx, rcx, rdx uint64) func() {
		return func() { b.c.Regs.RAX, b.c.Regs.RBX, b.c.Regs.RCX, b.c.Regs.RDX = uint64(l), rbx, rcx, rdx }
	}
	nothing := func() {}
	// Each is measured with what must come before and after it outside of the time.
	pair := func(name string, before, leaf, after func()) {
		samples := make([]float64, 0, blocks)
		var allocs uint64
		var s0, s1 runtime.MemStats
		for range blocks {
			var d time.Duration
			runtime.ReadMemStats(&s0)
			for range n {
				before()
				begin := time.Now()
				leaf()
				d += time.Since(begin)
				after()
			}
			runtime.ReadMemStats(&s1)
			allocs += s1.Mallocs - s0.Mallocs
			samples = append(samples, us(d)/float64(n))
		}
		r := of(tableLeaves, name, "monitor", samples)
		// Whole ones: the runtime allocates now and then for itself.
		r.Allocs = float64(allocs / uint64(blocks*n))
		rows = append(rows, r)
	}
	eenter, eexit, eresume := enclu(sgx.EENTER), enclu(sgx.EEXIT), enclu(sgx.ERESUME)
	toEnd := func() { exit(); eexit() }
	toBegin := func() { enter(); eenter() }
	aex := func() { must(sgx.ERESUME, b.m.AEX(b.c, false, 0, 0, 0)) }
	resume := func() { b.outside(sgx.ERESUME) }
	pair("EENTER", enter, eenter, toEnd)
	pair("EEXIT", func() { toBegin(); exit() }, eexit, nothing)
	pair("AEX", toBegin, aex, func() { resume(); eresume(); toEnd() })
	pair("ERESUME", func() { toBegin(); aex(); resume() }, eresume, toEnd)
	toBegin()
	pair("EREPORT", at(sgx.EREPORT, data, data+512, data+1024), enclu(sgx.EREPORT), nothing)
	pair("EGETKEY", at(sgx.EGETKEY, data+2048, data+3072, 0), func() { b.m.ENCLU(b.c, b.e, 0x1003) }, nothing)
	return rows, bad
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// measuredHeap makes the heap pages of the test enclave measured ones.
func measuredHeap(yes bool) func(*image.Image) {
	if !yes {
		return nil
	}
	return func(m *image.Image) {
		for i := range m.Pages {
			if m.Pages[i].Data == nil {
				m.Pages[i].Data, m.Pages[i].Extend = new([sgx.PageSize]byte), 0xffff
			}
		}
	}
}
