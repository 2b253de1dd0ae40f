// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"

	"holdfast/enclave/sgx"
)

// Evicted pages leave the EPC encrypted. Each has a version of its own, kept in
// a slot of a version array (VA) page inside the EPC; a page that comes back
// must match its slot, which is emptied, so that an old copy never comes back.

// VASlots is the number of versions in a VA page.
const VASlots = sgx.PageSize / 8

// Evicted is a page outside the EPC: ciphertext with its tag, and what PCMD
// says of it. All of it is authenticated.
type Evicted struct {
	Info   sgx.SecInfo
	Linear uint64
	EID    uint64
	Data   [sgx.PageSize + 16]byte // ciphertext ‖ tag
}

// pagingKey is drawn at each start: evicted pages do not outlive the monitor.
type pagingKey struct {
	key  [32]byte
	aead cipher.AEAD
	next uint64 // version counter; every eviction gets a new one
}

func (k *pagingKey) draw(b Backend) error {
	if err := b.Rand(k.key[:]); err != nil {
		return fmt.Errorf("monitor: random numbers: %w", err)
	}
	c, err := aes.NewCipher(k.key[:])
	if err != nil {
		return fmt.Errorf("monitor: paging key: %w", err)
	}
	if k.aead, err = cipher.NewGCM(c); err != nil {
		return fmt.Errorf("monitor: paging key: %w", err)
	}
	return nil
}

func (k *pagingKey) clear() {
	clear(k.key[:])
	k.aead = nil
}

// nonce is the version, which never repeats under one key.
func nonce(version uint64) (n [12]byte) {
	le.PutUint64(n[:], version)
	return n
}

func (v *Evicted) header() []byte {
	b := make([]byte, 0, 24)
	b = le.AppendUint64(b, v.Info.Flags())
	b = le.AppendUint64(b, v.Linear)
	return le.AppendUint64(b, v.EID)
}

// EPA makes a VA page (SDM, "EPA").
func (m *Monitor) EPA(f Frame) Outcome {
	if !m.free(f) {
		return pf(0)
	}
	clear(m.b.Page(f)[:])
	m.epcm[f] = epcm{valid: true, typ: sgx.PageVA}
	return ok
}

// EBLOCK forbids new translations to a page (SDM, "EBLOCK").
func (m *Monitor) EBLOCK(f Frame) Outcome {
	if !m.valid(f) {
		return code(sgx.PGInvld)
	}
	p := &m.epcm[f]
	switch {
	case p.typ == sgx.PageSECS:
		return code(sgx.PGIsSECS)
	case p.typ == sgx.PageVA:
		return code(sgx.NotBlockable)
	case p.blocked:
		return code(sgx.Blkstate)
	}
	p.blocked = true
	p.epoch = p.enclave.epoch
	m.b.Unmap(p.enclave, p.linear)
	return ok
}

// ETRACK starts to watch for threads that entered before it to leave (SDM,
// "ETRACK"). The backend is told to forget cached translations.
func (m *Monitor) ETRACK(secs Frame) Outcome {
	e := m.enclaveOf(secs)
	if e == nil {
		return pf(0)
	}
	if e.tracking {
		return code(sgx.PrevTrkIncmpl)
	}
	e.epoch++
	e.previous = e.inside
	e.tracking = e.previous > 0
	m.b.Shootdown(e)
	return ok
}

// Tracking reports whether a thread is still inside that entered before the
// last ETRACK.
func (e *Enclave) Tracking() bool { return e.tracking }

// EWB evicts a blocked and tracked page (SDM, "EWB"): its ciphertext goes into
// out, its version into an empty slot of a VA page.
func (m *Monitor) EWB(f, va Frame, slot int, out *Evicted) Outcome {
	if !m.valid(f) || !m.valid(va) || m.epcm[va].typ != sgx.PageVA {
		return pf(0)
	}
	if slot < 0 || slot >= VASlots {
		return gp
	}
	p, v := &m.epcm[f], m.b.Page(va)[8*slot:][:8]
	switch {
	case p.typ == sgx.PageSECS || p.typ == sgx.PageVA:
		return pf(0) // SECS and VA stay: they hold what cannot be rebuilt
	case !p.blocked:
		return code(sgx.PageNotBlocked)
	case !p.enclave.settled(p):
		return code(sgx.NotTracked)
	case le.Uint64(v) != 0:
		return code(sgx.VASlotOccupied)
	}
	m.paging.next++
	version := m.paging.next
	out.Info, out.Linear, out.EID = p.info(), p.linear, p.enclave.eid
	n := nonce(version)
	m.paging.aead.Seal(out.Data[:0], n[:], m.b.Page(f)[:], out.header())
	le.PutUint64(v, version)
	m.drop(f)
	return ok
}

// ELDU brings an evicted page back (SDM, "ELDB/ELDU"), unblocked; with blocked
// set it is ELDB. The slot is emptied: this copy cannot be loaded again.
func (m *Monitor) ELDU(secs, f, va Frame, slot int, in *Evicted, blocked bool) Outcome {
	e := m.enclaveOf(secs)
	if e == nil || !m.free(f) || !m.valid(va) || m.epcm[va].typ != sgx.PageVA {
		return pf(0)
	}
	if slot < 0 || slot >= VASlots || in.Linear%sgx.PageSize != 0 || !e.contains(in.Linear, sgx.PageSize) {
		return gp
	}
	if _, taken := e.pages[in.Linear]; taken {
		return gp
	}
	v := m.b.Page(va)[8*slot:][:8]
	version := le.Uint64(v)
	if version == 0 || in.EID != e.eid {
		return code(sgx.MACCompareFail)
	}
	n := nonce(version)
	plain, err := m.paging.aead.Open(nil, n[:], in.Data[:], in.header())
	if err != nil {
		return code(sgx.MACCompareFail)
	}
	copy(m.b.Page(f)[:], plain)
	clear(plain)
	clear(v)
	i := in.Info
	m.epcm[f] = epcm{valid: true, blocked: blocked, typ: i.Type, perm: i.Perm & sgx.PermRWX, linear: in.Linear, enclave: e, epoch: e.epoch,
		pending: i.Perm&sgx.BitPending != 0, modified: i.Perm&sgx.BitModified != 0, pr: i.Perm&sgx.BitPR != 0}
	e.pages[in.Linear] = f
	e.children++
	m.mapPage(&m.epcm[f], f)
	return ok
}

// EDBGRD and EDBGWR read and write eight bytes of a debug enclave's page, for
// debuggers (SDM, "EDBGRD", "EDBGWR").
func (m *Monitor) EDBGRD(f Frame, offset uint32) (uint64, Outcome) {
	if _, o := m.debuggable(f, offset); !o.OK() {
		return 0, o
	}
	return le.Uint64(m.b.Page(f)[offset:]), ok
}

// EDBGWR writes eight bytes of a debug enclave's page. Of a TCS only FLAGS may
// be written.
func (m *Monitor) EDBGWR(f Frame, offset uint32, value uint64) Outcome {
	p, o := m.debuggable(f, offset)
	if !o.OK() {
		return o
	}
	if p.typ == sgx.PageTCS && (offset != tcsFlags || value&^uint64(sgx.TCSDebugOptIn) != 0) {
		return gp
	}
	le.PutUint64(m.b.Page(f)[offset:], value)
	return ok
}

func (m *Monitor) debuggable(f Frame, offset uint32) (*epcm, Outcome) {
	if !m.valid(f) {
		return nil, pf(0)
	}
	if offset%8 != 0 || offset >= sgx.PageSize {
		return nil, gp
	}
	p := &m.epcm[f]
	switch {
	case p.typ != sgx.PageREG && p.typ != sgx.PageTCS, p.pending, p.modified:
		return nil, code(sgx.PageNotDebuggable)
	case p.enclave.secs.Attributes.Flags&sgx.FlagDebug == 0:
		return nil, gp
	}
	return p, ok
}
