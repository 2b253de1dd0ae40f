// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"testing"

	"holdfast/enclave/sgx"
)

func TestBuild(t *testing.T) {
	w := newWorld(t, tweak{})
	if w.e.MREnclave() != w.wantMR || w.e.MRSigner() != w.sig.MRSigner() || !w.e.Initialized() {
		t.Error("identity after EINIT is wrong")
	}
	if w.e.Attributes().Flags&sgx.FlagInit == 0 {
		t.Error("INIT is not set")
	}
	if m := w.b.mapped[[2]uint64{w.e.ID(), codeAt}]; m.perm != sgx.PermR|sgx.PermX {
		t.Errorf("code page is mapped %v", m.perm)
	}
	if _, there := w.b.mapped[[2]uint64{w.e.ID(), tcsAt}]; there {
		t.Error("the enclave can reach its TCS")
	}
}

func TestECREATERefuses(t *testing.T) {
	w := newWorld(t, tweak{})
	good := sgx.SECS{Size: 0x4000, BaseAddr: 0x100000, SSAFrameSize: 1, Attributes: sgx.Attributes{Flags: sgx.FlagMode64, XFRM: 3}}
	try := func(what string, want Outcome, f Frame, change func(*sgx.SECS), raw func(*[sgx.PageSize]byte)) {
		s := good
		if change != nil {
			change(&s)
		}
		p := (*[sgx.PageSize]byte)(s.AppendTo(nil))
		if raw != nil {
			raw(p)
		}
		w.refused(what, want, func() Outcome {
			e, o := w.m.ECREATE(f, p)
			if (e != nil) != o.OK() {
				t.Errorf("%s: enclave %v with outcome %+v", what, e, o)
			}
			return o
		})
	}
	try("frame in use", pf(0), w.secs, nil, nil)
	try("frame outside", pf(0), 1000, nil, nil)
	try("32 bit", gp, 50, func(s *sgx.SECS) { s.Attributes.Flags = 0 }, nil)
	try("CET", gp, 50, func(s *sgx.SECS) { s.Attributes.Flags |= sgx.FlagCET }, nil)
	try("XFRM not offered", gp, 50, func(s *sgx.SECS) { s.Attributes.XFRM = 0xff }, nil)
	try("base not canonical", gp, 50, func(s *sgx.SECS) { s.BaseAddr = 1 << 50 }, nil)
	try("no SSA", gp, 50, func(s *sgx.SECS) { s.SSAFrameSize = 0 }, nil)
	for _, i := range []int{24, 47, 96, 127, 160, 191, 262, 4095} {
		try("reserved byte", gp, 50, nil, func(p *[sgx.PageSize]byte) { p[i] = 1 })
	}
	// What the caller writes as identity does not count.
	s := good
	s.MREnclave, s.MRSigner, s.ISVProdID, s.ISVSVN = [32]byte{9}, [32]byte{9}, 9, 9
	e, o := w.m.ECREATE(50, (*[sgx.PageSize]byte)(s.AppendTo(nil)))
	if !o.OK() || e.MREnclave() != [32]byte{} || e.MRSigner() != [32]byte{} || e.secs.ISVSVN != 0 || e.secs.ISVProdID != 0 {
		t.Error("the caller's identity was taken over")
	}
}

func TestEADDRefuses(t *testing.T) {
	w := buildWorld(t, tweak{})
	rw := sgx.SecInfo{Perm: sgx.PermR | sgx.PermW, Type: sgx.PageREG}
	var page [sgx.PageSize]byte
	const at = base + 0x30000
	for _, c := range []struct {
		what   string
		want   Outcome
		secs   Frame
		f      Frame
		linear uint64
		info   sgx.SecInfo
		change func(*[sgx.PageSize]byte)
	}{
		{"no SECS", pf(0), 60, 50, at, rw, nil},
		{"a REG page as SECS", pf(0), w.f[codeAt], 50, at, rw, nil},
		{"frame in use", pf(0), w.secs, w.f[codeAt], at, rw, nil},
		{"frame outside", pf(0), w.secs, 64, at, rw, nil},
		{"not aligned", gp, w.secs, 50, at + 8, rw, nil},
		{"below ELRANGE", gp, w.secs, 50, base - 0x1000, rw, nil},
		{"above ELRANGE", gp, w.secs, 50, base + elrange, rw, nil},
		{"address taken", gp, w.secs, 50, codeAt, rw, nil},
		{"W without R", gp, w.secs, 50, at, sgx.SecInfo{Perm: sgx.PermW, Type: sgx.PageREG}, nil},
		{"pending", gp, w.secs, 50, at, sgx.SecInfo{Perm: sgx.PermR | sgx.BitPending, Type: sgx.PageREG}, nil},
		{"type SECS", gp, w.secs, 50, at, sgx.SecInfo{Type: sgx.PageSECS}, nil},
		{"type VA", gp, w.secs, 50, at, sgx.SecInfo{Type: sgx.PageVA}, nil},
		{"type TRIM", gp, w.secs, 50, at, sgx.SecInfo{Type: sgx.PageTRIM}, nil},
		{"TCS with state", gp, w.secs, 50, at, sgx.SecInfo{Type: sgx.PageTCS}, func(p *[sgx.PageSize]byte) { p[0] = 1 }},
		{"TCS reserved", gp, w.secs, 50, at, sgx.SecInfo{Type: sgx.PageTCS}, func(p *[sgx.PageSize]byte) { p[72] = 1 }},
		{"TCS flags", gp, w.secs, 50, at, sgx.SecInfo{Type: sgx.PageTCS}, func(p *[sgx.PageSize]byte) { p[8] = 4 }},
	} {
		p := page
		if c.change != nil {
			c.change(&p)
		}
		w.refused(c.what, c.want, func() Outcome { return w.m.EADD(c.secs, c.f, c.linear, c.info, &p) })
	}
	w.refused("EEXTEND offset", gp, func() Outcome { return w.m.EEXTEND(w.secs, w.f[codeAt], 100) })
	w.refused("EEXTEND beyond", gp, func() Outcome { return w.m.EEXTEND(w.secs, w.f[codeAt], 4096) })
	w.refused("EEXTEND SECS", pf(0), func() Outcome { return w.m.EEXTEND(w.secs, w.secs, 0) })
	w.refused("EEXTEND free frame", pf(0), func() Outcome { return w.m.EEXTEND(w.secs, 50, 0) })
	if o := w.einit(tweak{}); !o.OK() {
		t.Fatal(o)
	}
	w.refused("EADD after EINIT", gp, func() Outcome { return w.m.EADD(w.secs, 50, at, rw, &page) })
	w.refused("EEXTEND after EINIT", gp, func() Outcome { return w.m.EEXTEND(w.secs, w.f[codeAt], 0) })
}

// TestTCSIsForced: what EADD forces in a TCS page.
func TestTCSIsForced(t *testing.T) {
	w := newWorld(t, tweak{tcs: func(s *sgx.TCS) { s.Flags, s.CSSA, s.AEP = sgx.TCSDebugOptIn, 1, 0x1234 }})
	got, err := sgx.ParseTCS(w.b.Page(w.f[tcsAt])[:])
	if err != nil || got.Flags != 0 || got.CSSA != 0 || got.AEP != 0 {
		t.Errorf("TCS %+v, %v", got, err)
	}
	if p := w.m.epcm[w.f[tcsAt]]; p.perm != 0 {
		t.Errorf("a TCS has permissions %v", p.perm)
	}
}

func TestEINITRefuses(t *testing.T) {
	flip := func(i int) func([]byte) { return func(b []byte) { b[i] ^= 1 } }
	for _, c := range []struct {
		what string
		want sgx.Code
		tw   tweak
	}{
		{"header", sgx.InvalidSigStruct, tweak{raw: flip(0)}},
		{"header 2", sgx.InvalidSigStruct, tweak{raw: flip(24)}},
		{"exponent", sgx.InvalidSigStruct, tweak{raw: flip(512)}},
		{"reserved", sgx.InvalidSigStruct, tweak{raw: flip(44)}},
		{"vendor", sgx.InvalidSigStruct, tweak{sig: func(s *sgx.SigStruct) { s.Vendor = 1 }}},
		{"family without KSS", sgx.InvalidSigStruct, tweak{sig: func(s *sgx.SigStruct) { s.ISVFamilyID[0] = 1 }}},
		{"signature", sgx.InvalidSignature, tweak{raw: flip(600)}},
		{"modulus", sgx.InvalidSignature, tweak{raw: flip(130)}},
		{"Q1", sgx.InvalidSignature, tweak{raw: flip(1040)}},
		{"Q2", sgx.InvalidSignature, tweak{raw: flip(1500)}},
		{"product changed after signing", sgx.InvalidSignature, tweak{raw: flip(1024)}},
		{"measurement", sgx.InvalidMeasurement, tweak{sig: func(s *sgx.SigStruct) { s.EnclaveHash[0] ^= 1 }}},
		{"attributes", sgx.InvalidAttribute, tweak{sig: func(s *sgx.SigStruct) { s.Attributes.Flags |= sgx.FlagDebug }}},
		{"XFRM", sgx.InvalidAttribute, tweak{sig: func(s *sgx.SigStruct) { s.Attributes.XFRM = 7 }}},
		{"MISCSELECT", sgx.InvalidAttribute, tweak{sig: func(s *sgx.SigStruct) { s.MiscSelect = 0 }}},
		{"provisioning key", sgx.InvalidEInitToken, tweak{secs: func(s *sgx.SECS) { s.Attributes.Flags |= sgx.FlagProvisionKey }}},
		{"launch key", sgx.InvalidEInitToken, tweak{secs: func(s *sgx.SECS) { s.Attributes.Flags |= sgx.FlagEInitTokenKey }}},
	} {
		w := buildWorld(t, c.tw)
		w.refused(c.what, code(c.want), func() Outcome { return w.einit(c.tw) })
		if w.e.Initialized() {
			t.Errorf("%s: initialized", c.what)
		}
	}
	w := newWorld(t, tweak{})
	w.refused("twice", gp, func() Outcome { return w.einit(tweak{}) })
	w.refused("no SECS", pf(0), func() Outcome { return w.m.EINIT(60, nil) })
	// A mask leaves attributes free.
	newWorld(t, tweak{sig: func(s *sgx.SigStruct) {
		s.AttrMask.Flags = ^sgx.FlagDebug
		s.Attributes.Flags |= sgx.FlagDebug
	}})
	// With KSS the family may be set.
	newWorld(t, tweak{secs: func(s *sgx.SECS) { s.Attributes.Flags |= sgx.FlagKSS }, sig: func(s *sgx.SigStruct) { s.ISVFamilyID[0] = 1 }})
}

func TestNoDebug(t *testing.T) {
	w := newWorld(t, tweak{opt: func(o *Options) { o.NoDebug = true }})
	s := sgx.SECS{Size: 0x4000, BaseAddr: 0x100000, SSAFrameSize: 1, Attributes: sgx.Attributes{Flags: sgx.FlagMode64 | sgx.FlagDebug, XFRM: 3}}
	w.refused("debug enclave", gp, func() Outcome { _, o := w.m.ECREATE(50, (*[sgx.PageSize]byte)(s.AppendTo(nil))); return o })
}

func TestEREMOVE(t *testing.T) {
	w := newWorld(t, tweak{})
	w.refused("SECS with children", code(sgx.ChildPresent), func() Outcome { return w.m.EREMOVE(w.secs) })
	w.refused("outside", pf(0), func() Outcome { return w.m.EREMOVE(64) })
	if o := w.m.EREMOVE(60); !o.OK() {
		t.Errorf("a free page: %+v", o)
	}
	w.put(dataAt, []byte("secret"))
	c := w.enter()
	w.refused("thread inside", code(sgx.EnclaveAct), func() Outcome { return w.m.EREMOVE(w.f[dataAt]) })
	c.Regs.RAX, c.Regs.RBX = uint64(sgx.EEXIT), next
	if o := w.m.ENCLU(c, nil, 0); !o.OK() {
		t.Fatal(o)
	}
	for at, f := range w.f {
		if o := w.m.EREMOVE(f); !o.OK() {
			t.Errorf("%#x: %+v", at, o)
		}
		if *w.b.Page(f) != [sgx.PageSize]byte{} {
			t.Errorf("page %#x was not wiped", at)
		}
	}
	if o := w.m.EREMOVE(w.secs); !o.OK() || len(w.b.mapped) != 0 {
		t.Errorf("SECS: %+v, still mapped %v", o, w.b.mapped)
	}
	c = w.cpu()
	if o := w.m.ENCLU(c, w.e, next); o.Vector != sgx.VectorGP {
		t.Errorf("a dead enclave was entered: %+v", o)
	}
}
