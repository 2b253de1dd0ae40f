// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"hash/maphash"
	"os"
	"sort"
	"sync"
	"testing"

	"holdfast/enclave/sgx"
)

// fake is a backend in plain memory that records what the enclave may reach.
type fake struct {
	mem       [][sgx.PageSize]byte
	mapped    map[[2]uint64]mapping // enclave id, address
	shootdown int
	seed      byte
	racing    map[Frame]*[sgx.PageSize]byte // pages that others write to meanwhile, in place of mem
}

type mapping struct {
	f    Frame
	perm sgx.Perm
}

func newFake(frames int) *fake {
	return &fake{mem: make([][sgx.PageSize]byte, frames), mapped: map[[2]uint64]mapping{}}
}

func (b *fake) Frames() int { return len(b.mem) }
func (b *fake) Page(f Frame) *[sgx.PageSize]byte {
	if p := b.racing[f]; p != nil {
		return p
	}
	return &b.mem[f]
}
func (b *fake) Map(e *Enclave, linear uint64, f Frame, perm sgx.Perm) {
	b.mapped[[2]uint64{e.ID(), linear}] = mapping{f, perm}
}
func (b *fake) Unmap(e *Enclave, linear uint64) { delete(b.mapped, [2]uint64{e.ID(), linear}) }
func (b *fake) Shootdown(*Enclave)              { b.shootdown++ }
func (b *fake) Rand(p []byte) error {
	for i := range p {
		b.seed = b.seed*31 + 7
		p[i] = b.seed
	}
	return nil
}
func (b *fake) XSaveSize(xfrm uint64) uint64 {
	switch xfrm {
	case 3:
		return 576
	case 7:
		return 832
	}
	return 0
}

// signerKey reads the signer's test key that enclave/sgx uses too.
var signerKey = sync.OnceValue(func() *rsa.PrivateKey {
	b, err := os.ReadFile("../urts/probe/testdata/signer-test-key.pem")
	if err != nil {
		panic(err)
	}
	p, _ := pem.Decode(b)
	k, err := x509.ParsePKCS8PrivateKey(p.Bytes)
	if err != nil {
		panic(err)
	}
	return k.(*rsa.PrivateKey)
})

const (
	base    = 0x7f0000000000
	elrange = 0x40000
	aep     = 0x401000
	next    = 0x400010
	tcsAt   = base + 0x10000
	ssaAt   = base + 0x11000
	dataAt  = base + 0x20000
	codeAt  = base
)

// world is a monitor with one enclave: a code page, a TCS with two SSA frames,
// two data pages.
type world struct {
	t      testing.TB
	b      *fake
	m      *Monitor
	e      *Enclave
	secs   Frame
	f      map[uint64]Frame
	free   Frame
	sig    sgx.SigStruct
	wantMR [32]byte
}

type tweak struct {
	secs func(*sgx.SECS)
	sig  func(*sgx.SigStruct) // before signing
	raw  func([]byte)         // after signing
	opt  func(*Options)
	tcs  func(*sgx.TCS)
}

func newWorld(t testing.TB, tw tweak) *world {
	t.Helper()
	w := buildWorld(t, tw)
	if o := w.einit(tw); !o.OK() {
		t.Fatalf("EINIT: %+v", o)
	}
	return w
}

func buildWorld(t testing.TB, tw tweak) *world {
	t.Helper()
	o := Options{Root: [32]byte{1}, CPUSVN: [16]byte{5, 5}}
	if tw.opt != nil {
		tw.opt(&o)
	}
	b := newFake(64)
	m, err := New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, b: b, m: m, f: map[uint64]Frame{}}
	s := sgx.SECS{Size: elrange, BaseAddr: base, SSAFrameSize: 1, MiscSelect: sgx.MiscExInfo, Attributes: sgx.Attributes{Flags: sgx.FlagMode64 | sgx.FlagAEXNotify, XFRM: 3}}
	if tw.secs != nil {
		tw.secs(&s)
	}
	w.secs = w.take()
	var out Outcome
	if w.e, out = m.ECREATE(w.secs, (*[sgx.PageSize]byte)(s.AppendTo(nil))); !out.OK() {
		t.Fatalf("ECREATE: %+v", out)
	}
	mr := sgx.NewMeasurement()
	mr.Create(s.SSAFrameSize, s.Size)
	tcs := sgx.TCS{OSSA: ssaAt - base, NSSA: 2, OEntry: 0x40, OFSBase: 0x20000, OGSBase: 0x21000, FSLimit: 0xffffffff, GSLimit: 0xffffffff}
	if tw.tcs != nil {
		tw.tcs(&tcs)
	}
	add := func(at uint64, info sgx.SecInfo, page [sgx.PageSize]byte) {
		f := w.take()
		if o := m.EADD(w.secs, f, at, info, &page); !o.OK() {
			t.Fatalf("EADD %#x: %+v", at, o)
		}
		w.f[at] = f
		mr.Add(at-base, info)
		for i := uint32(0); i < sgx.PageSize; i += sgx.ExtendSize {
			if o := m.EEXTEND(w.secs, f, i); !o.OK() {
				t.Fatalf("EEXTEND %#x: %+v", at, o)
			}
		}
		stored := *b.Page(f)
		mr.ExtendPage(at-base, &stored)
	}
	add(codeAt, sgx.SecInfo{Perm: sgx.PermR | sgx.PermX, Type: sgx.PageREG}, [sgx.PageSize]byte{0x0f, 0x01, 0xd7})
	add(tcsAt, sgx.SecInfo{Type: sgx.PageTCS}, [sgx.PageSize]byte(tcs.AppendTo(nil)))
	rw := sgx.SecInfo{Perm: sgx.PermR | sgx.PermW, Type: sgx.PageREG}
	for _, at := range []uint64{ssaAt, ssaAt + 0x1000, dataAt, dataAt + 0x1000} {
		add(at, rw, [sgx.PageSize]byte{})
	}
	w.wantMR = mr.Sum()
	w.sig = sgx.SigStruct{Attributes: s.Attributes, AttrMask: sgx.Attributes{Flags: ^sgx.Flags(0), XFRM: ^uint64(0)}, MiscSelect: s.MiscSelect, MiscMask: ^sgx.MiscSelect(0),
		EnclaveHash: w.wantMR, ISVProdID: 7, ISVSVN: 3}
	return w
}

func (w *world) einit(tw tweak) Outcome {
	w.t.Helper()
	if tw.sig != nil {
		tw.sig(&w.sig)
	}
	w.sign()
	raw := w.sig.AppendTo(nil)
	if tw.raw != nil {
		tw.raw(raw)
	}
	return w.m.EINIT(w.secs, raw)
}

// signatures keeps what was signed before: signing is slow, and fuzzing builds
// the same enclave again and again.
var signatures sync.Map

func (w *world) sign() {
	w.t.Helper()
	unsigned := w.sig
	if s, there := signatures.Load(unsigned); there {
		w.sig = s.(sgx.SigStruct)
		return
	}
	if err := w.sig.Sign(signerKey()); err != nil {
		w.t.Fatal(err)
	}
	signatures.Store(unsigned, w.sig)
}

func (w *world) take() Frame { w.free++; return w.free - 1 }

// cpu returns a processor that stands at EENTER for the TCS.
func (w *world) cpu() *CPU {
	x := make([]byte, 832)
	initXSave(x)
	return &CPU{XSave: x, Regs: Regs{RAX: uint64(sgx.EENTER), RBX: tcsAt, RCX: aep, RSP: 0x7ffff000, RBP: 0x7ffff100, RDI: 11, RSI: 22, XCR0: 7, FSBase: 0xf5, GSBase: 0x65, RFLAGS: 0x202}}
}

// enter returns a processor inside.
func (w *world) enter() *CPU {
	w.t.Helper()
	c := w.cpu()
	if o := w.m.ENCLU(c, w.e, next); !o.OK() {
		w.t.Fatalf("EENTER: %+v", o)
	}
	return c
}

// put writes into enclave memory as the enclave would.
func (w *world) put(at uint64, b []byte) {
	copy(w.b.Page(w.f[at&^0xfff])[at%0x1000:], b)
}

func (w *world) get(at uint64, n int) []byte {
	return w.b.Page(w.f[at&^0xfff])[at%0x1000:][:n]
}

// digest covers all state that a leaf may change.
var digestSeed = maphash.MakeSeed()

func (w *world) digest() uint64 {
	var hash maphash.Hash
	hash.SetSeed(digestSeed)
	h := &hash
	for i, p := range w.m.epcm {
		id := uint64(0)
		if p.enclave != nil {
			id = p.enclave.eid
		}
		q := p
		q.enclave = nil
		fmt.Fprintf(h, "%d %+v %d;", i, q, id)
		h.Write(w.b.mem[i][:])
	}
	var maps []string
	for k, v := range w.b.mapped {
		maps = append(maps, fmt.Sprint(k, v))
	}
	sort.Strings(maps)
	e := w.e
	fmt.Fprint(h, maps, e.init, e.dead, e.children, e.inside, e.epoch, e.tracking, e.previous, e.secs, len(e.pages))
	if e.measure != nil {
		fmt.Fprint(h, e.measure.Sum())
	}
	return h.Sum64()
}

// refused checks that a leaf ends with this outcome and changes nothing.
func (w *world) refused(what string, want Outcome, leaf func() Outcome) {
	w.t.Helper()
	before := w.digest()
	got := leaf()
	got.Address, got.ErrorCode = 0, 0
	want.Address, want.ErrorCode = 0, 0
	if got != want {
		w.t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
	if w.digest() != before {
		w.t.Errorf("%s: refused, but the state changed", what)
	}
}
