// SPDX-License-Identifier: Apache-2.0

package monitor

import "holdfast/enclave/sgx"

// flagsOffered are the attributes that an enclave may have here. CET (shadow
// stacks) is not offered, as on a processor without it.
const flagsOffered = sgx.FlagsKnown &^ (sgx.FlagInit | sgx.FlagCET)

// canonical reports whether a linear address is canonical with 48 bits.
func canonical(a uint64) bool { return uint64(int64(a<<16)>>16) == a }

// ECREATE makes a SECS in a free frame from a source page (SDM, "ECREATE"). Bad
// frame: #PF; anything wrong in the page: #GP(0). The page is read once, so that
// it may be memory that the application writes to meanwhile; likewise EADD's and
// EINIT's sources.
func (m *Monitor) ECREATE(f Frame, source *[sgx.PageSize]byte) (*Enclave, Outcome) {
	if !m.free(f) {
		return nil, pf(0)
	}
	page := *source
	s, err := sgx.ParseSECS(page[:])
	if err != nil {
		return nil, gp
	}
	xsave := m.b.XSaveSize(s.Attributes.XFRM)
	switch {
	case s.Attributes.Flags&sgx.FlagMode64 == 0, s.Attributes.Flags&^flagsOffered != 0,
		!canonical(s.BaseAddr), !canonical(s.BaseAddr + s.Size - 1), s.Size > 1<<46,
		m.o.NoDebug && s.Attributes.Flags&sgx.FlagDebug != 0,
		xsave == 0, sgx.CheckFrame(s.SSAFrameSize, s.MiscSelect, xsave) != nil:
		return nil, gp
	}
	// The identity is what EINIT finds, not what the caller writes.
	s.MREnclave, s.MRSigner, s.ISVProdID, s.ISVSVN = [32]byte{}, [32]byte{}, 0, 0
	m.nextID++
	e := &Enclave{secs: *s, frame: f, measure: sgx.NewMeasurement(), pages: map[uint64]Frame{}, xsave: xsave, eid: m.nextID}
	e.measure.Create(s.SSAFrameSize, s.Size)
	m.epcm[f] = epcm{valid: true, typ: sgx.PageSECS, enclave: e}
	m.enclaves++
	return e, ok
}

// EADD adds a page to an enclave that is being built (SDM, "EADD"): frame f at
// a linear address, with content from a private copy.
func (m *Monitor) EADD(secs, f Frame, linear uint64, info sgx.SecInfo, source *[sgx.PageSize]byte) Outcome {
	e := m.enclaveOf(secs)
	switch {
	case e == nil:
		return pf(0)
	case info.Perm&^sgx.PermRWX != 0, info.Type != sgx.PageREG && info.Type != sgx.PageTCS:
		return gp
	case info.Type == sgx.PageREG && info.Perm&sgx.PermW != 0 && info.Perm&sgx.PermR == 0:
		return gp
	case !m.free(f):
		return pf(0)
	case e.init, linear%sgx.PageSize != 0, !e.contains(linear, sgx.PageSize):
		return gp
	}
	// The monitor owns the enclave's page table: one page for one address.
	if _, taken := e.pages[linear]; taken {
		return gp
	}
	content := *source
	if info.Type == sgx.PageTCS {
		t, err := sgx.ParseTCS(content[:])
		if err != nil || t.Flags&sgx.TCSAEXNotify != 0 && e.secs.Attributes.Flags&sgx.FlagAEXNotify == 0 {
			return gp
		}
		t.Flags &^= sgx.TCSDebugOptIn
		t.CSSA, t.AEP = 0, 0
		content = [sgx.PageSize]byte(t.AppendTo(nil))
		info.Perm = 0
	}
	*m.b.Page(f) = content
	m.epcm[f] = epcm{valid: true, typ: info.Type, perm: info.Perm, linear: linear, enclave: e}
	e.pages[linear] = f
	e.children++
	e.measure.Add(linear-e.secs.BaseAddr, info)
	m.mapPage(&m.epcm[f], f)
	return ok
}

// EEXTEND measures 256 bytes of a page at an offset in it (SDM, "EEXTEND").
func (m *Monitor) EEXTEND(secs, f Frame, offset uint32) Outcome {
	e := m.enclaveOf(secs)
	switch {
	case e == nil, !m.valid(f):
		return pf(0)
	case offset%sgx.ExtendSize != 0 || offset >= sgx.PageSize:
		return gp
	}
	p := &m.epcm[f]
	if p.enclave != e || p.typ != sgx.PageREG && p.typ != sgx.PageTCS {
		return pf(0)
	}
	if e.init {
		return gp
	}
	e.measure.Extend(p.linear-e.secs.BaseAddr+uint64(offset), (*[sgx.ExtendSize]byte)(m.b.Page(f)[offset:]))
	return ok
}

// EINIT finishes an enclave (SDM, "EINIT"): SIGSTRUCT is genuine, measures this
// enclave, and its masked attributes match.
func (m *Monitor) EINIT(secs Frame, sigstruct []byte) Outcome {
	e := m.enclaveOf(secs)
	if e == nil {
		return pf(0)
	}
	if e.init {
		return gp
	}
	var once [sgx.SigStructSize]byte
	if copy(once[:], sigstruct); len(sigstruct) != len(once) {
		return code(sgx.InvalidSigStruct)
	}
	s, err := sgx.ParseSigStruct(once[:])
	if err != nil {
		return code(sgx.InvalidSigStruct)
	}
	if s.Vendor != 0 && s.Vendor != 0x8086 {
		return code(sgx.InvalidSigStruct)
	}
	a := e.secs.Attributes
	if a.Flags&sgx.FlagKSS == 0 && (s.ISVFamilyID != [16]byte{} || s.ISVExtProdID != [16]byte{}) {
		return code(sgx.InvalidSigStruct)
	}
	if s.Verify() != nil {
		return code(sgx.InvalidSignature)
	}
	mr := e.measure.Sum()
	if mr != s.EnclaveHash {
		return code(sgx.InvalidMeasurement)
	}
	if a.And(s.AttrMask) != s.Attributes.And(s.AttrMask) || e.secs.MiscSelect&s.MiscMask != s.MiscSelect&s.MiscMask {
		return code(sgx.InvalidAttribute)
	}
	if !m.o.Launch(s.MRSigner(), a) {
		return code(sgx.InvalidEInitToken)
	}
	e.secs.MREnclave, e.secs.MRSigner = mr, s.MRSigner()
	e.secs.ISVProdID, e.secs.ISVSVN = s.ISVProdID, s.ISVSVN
	e.sig = identity{s.ISVFamilyID, s.ISVExtProdID}
	e.measure, e.init = nil, true
	return ok
}

// EREMOVE frees a page (SDM, "EREMOVE"). A page that is free already is no
// error. The SECS goes last.
func (m *Monitor) EREMOVE(f Frame) Outcome {
	if uint64(f) >= uint64(len(m.epcm)) {
		return pf(0)
	}
	p := &m.epcm[f]
	switch {
	case !p.valid:
		return ok
	case p.typ == sgx.PageVA:
		clear(m.b.Page(f)[:])
		*p = epcm{}
		return ok
	case p.typ == sgx.PageSECS:
		if p.enclave.children > 0 {
			return code(sgx.ChildPresent)
		}
		p.enclave.dead = true
		m.enclaves--
	case p.typ == sgx.PageTRIM && !p.modified:
		// trimmed and accepted: nobody can reach it any more
	case p.enclave.inside > 0:
		return code(sgx.EnclaveAct)
	}
	m.drop(f)
	return ok
}
