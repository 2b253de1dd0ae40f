// SPDX-License-Identifier: Apache-2.0

package monitor

import "holdfast/enclave/sgx"

// EAUG adds a page to a running enclave (SDM, "EAUG"). It is zero, readable and
// writable, and pending until the enclave accepts it.
func (m *Monitor) EAUG(secs, f Frame, linear uint64) Outcome {
	e := m.enclaveOf(secs)
	switch {
	case e == nil, !m.free(f):
		return pf(0)
	case !e.init, linear%sgx.PageSize != 0, !e.contains(linear, sgx.PageSize):
		return gp
	}
	if _, taken := e.pages[linear]; taken {
		return gp
	}
	clear(m.b.Page(f)[:])
	m.epcm[f] = epcm{valid: true, typ: sgx.PageREG, perm: sgx.PermR | sgx.PermW, pending: true, linear: linear, enclave: e}
	e.pages[linear] = f
	e.children++
	return ok
}

// EMODPR takes permissions away (SDM, "EMODPR"). The enclave must accept.
func (m *Monitor) EMODPR(f Frame, perm sgx.Perm) Outcome {
	p, o := m.changeable(f)
	if !o.OK() {
		return o
	}
	if perm&^sgx.PermRWX != 0 || perm&sgx.PermW != 0 && perm&sgx.PermR == 0 {
		return gp
	}
	if p.typ != sgx.PageREG {
		return pf(0)
	}
	p.perm &= perm
	p.pr = true
	p.epoch = p.enclave.epoch
	m.mapPage(p, f)
	return ok
}

// EMODT makes a page a TCS or trims it (SDM, "EMODT"). The enclave must accept.
func (m *Monitor) EMODT(f Frame, to sgx.PageType) Outcome {
	p, o := m.changeable(f)
	if !o.OK() {
		return o
	}
	if to != sgx.PageTCS && to != sgx.PageTRIM {
		return gp
	}
	if p.typ != sgx.PageREG && !(p.typ == sgx.PageTCS && to == sgx.PageTRIM) {
		return pf(0)
	}
	p.typ, p.perm, p.modified, p.pr = to, 0, true, false
	p.epoch = p.enclave.epoch
	m.mapPage(p, f)
	return ok
}

// changeable finds a page of an initialized enclave that is not already being
// changed.
func (m *Monitor) changeable(f Frame) (*epcm, Outcome) {
	if !m.valid(f) {
		return nil, pf(0)
	}
	p := &m.epcm[f]
	switch {
	case p.enclave == nil, p.typ == sgx.PageSECS, p.typ == sgx.PageVA, p.blocked:
		return nil, pf(0)
	case p.pending, p.modified:
		return nil, code(sgx.PageNotModifiable)
	case !p.enclave.init:
		return nil, gp
	}
	return p, ok
}

// settled reports whether no thread that entered before the page was changed
// can still use the old translation: an ETRACK came after the change and its
// threads are gone, or nobody but the caller's epoch is inside.
func (e *Enclave) settled(p *epcm) bool {
	return e.epoch > p.epoch && !e.tracking
}

// operand reads the SECINFO at RBX and finds the page at RCX.
func (m *Monitor) operand(c *CPU) (sgx.SecInfo, *epcm, Frame, Outcome) {
	e := c.e
	if e == nil {
		return sgx.SecInfo{}, nil, NoFrame, gp
	}
	var b [sgx.SecInfoSize]byte
	if o := m.read(e, c.Regs.RBX, b[:], sgx.SecInfoSize); !o.OK() {
		return sgx.SecInfo{}, nil, NoFrame, o
	}
	if c.Regs.RCX%sgx.PageSize != 0 || !e.contains(c.Regs.RCX, sgx.PageSize) {
		return sgx.SecInfo{}, nil, NoFrame, gp
	}
	info, err := sgx.ParseSecInfo(b[:])
	if err != nil {
		return sgx.SecInfo{}, nil, NoFrame, gp
	}
	p, f := m.page(e, c.Regs.RCX)
	if p == nil || p.blocked {
		return sgx.SecInfo{}, nil, NoFrame, pf(c.Regs.RCX)
	}
	return info, p, f, ok
}

// EACCEPT accepts what the supervisor did to a page (SDM, "EACCEPT"): RBX
// SECINFO that says what the enclave expects, RCX the page.
func (m *Monitor) EACCEPT(c *CPU) Outcome {
	info, p, f, o := m.operand(c)
	if !o.OK() {
		return o
	}
	state := info.Perm &^ sgx.PermRWX
	switch info.Type {
	case sgx.PageREG:
		if state&sgx.BitModified != 0 {
			return gp
		}
	case sgx.PageTCS, sgx.PageTRIM:
		if state != sgx.BitModified {
			return gp
		}
	default:
		return gp
	}
	if p.typ != sgx.PageREG && p.typ != sgx.PageTCS && p.typ != sgx.PageTRIM {
		return pf(c.Regs.RCX)
	}
	if p.info() != info {
		return code(sgx.PageAttributeMismatch)
	}
	if (p.modified || p.pr) && !c.e.settled(p) {
		return code(sgx.NotTracked)
	}
	if p.typ == sgx.PageTCS {
		t, err := sgx.ParseTCS(m.b.Page(f)[:])
		if err != nil || t.CSSA >= t.NSSA && t.NSSA != 0 || t.Flags&sgx.TCSAEXNotify != 0 && c.e.secs.Attributes.Flags&sgx.FlagAEXNotify == 0 {
			return gp
		}
		t.Flags &^= sgx.TCSDebugOptIn
		t.AEP = 0
		copy(m.b.Page(f)[:], t.AppendTo(nil))
	}
	p.pending, p.modified, p.pr = false, false, false
	m.mapPage(p, f)
	return ok
}

// info is the EPCM entry in the form of a SECINFO.
func (p *epcm) info() sgx.SecInfo {
	s := sgx.SecInfo{Perm: p.perm, Type: p.typ}
	if p.pending {
		s.Perm |= sgx.BitPending
	}
	if p.modified {
		s.Perm |= sgx.BitModified
	}
	if p.pr {
		s.Perm |= sgx.BitPR
	}
	return s
}

// EACCEPTCOPY accepts a pending page and fills it from another (SDM,
// "EACCEPTCOPY"): RBX SECINFO, RCX the pending page, RDX the source.
func (m *Monitor) EACCEPTCOPY(c *CPU) Outcome {
	info, p, f, o := m.operand(c)
	if !o.OK() {
		return o
	}
	if info.Type != sgx.PageREG || info.Perm&^sgx.PermRWX != 0 || info.Perm&sgx.PermW != 0 && info.Perm&sgx.PermR == 0 {
		return gp
	}
	if o := m.probe(c.e, c.Regs.RDX, sgx.PageSize, sgx.PageSize, sgx.PermR); !o.OK() {
		return o
	}
	if !p.pending || p.modified || p.typ != sgx.PageREG || p.perm != sgx.PermR|sgx.PermW {
		return code(sgx.PageAttributeMismatch)
	}
	_, from := m.page(c.e, c.Regs.RDX)
	*m.b.Page(f) = *m.b.Page(from)
	p.perm, p.pending = info.Perm, false
	m.mapPage(p, f)
	return ok
}

// EMODPE gives an own page more permissions (SDM, "EMODPE"): RBX SECINFO, RCX
// the page. The request goes to the monitor directly, the system is not asked.
func (m *Monitor) EMODPE(c *CPU) Outcome {
	info, p, f, o := m.operand(c)
	if !o.OK() {
		return o
	}
	if info.Perm&^sgx.PermRWX != 0 {
		return gp
	}
	if p.typ != sgx.PageREG || p.pending || p.modified {
		return pf(c.Regs.RCX)
	}
	perm := p.perm | info.Perm
	if perm&sgx.PermW != 0 && perm&sgx.PermR == 0 {
		return gp
	}
	p.perm = perm
	m.mapPage(p, f)
	return ok
}

// Trimmed reports whether the page at a linear address was trimmed and accepted,
// so that EREMOVE may take it while threads are inside.
func (m *Monitor) Trimmed(e *Enclave, linear uint64) bool {
	p, _ := m.page(e, linear)
	return p != nil && p.typ == sgx.PageTRIM && !p.modified
}

// Enterable reports whether there is a TCS at a linear address that the enclave
// accepted.
func (m *Monitor) Enterable(e *Enclave, linear uint64) bool {
	p, _ := m.page(e, linear)
	return p != nil && p.typ == sgx.PageTCS && !p.modified && linear%sgx.PageSize == 0
}
