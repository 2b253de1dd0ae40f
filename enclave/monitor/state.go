// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"fmt"

	"holdfast/enclave/sgx"
)

// epcm is the state of one EPC page (SDM, "Enclave Page Cache Map").
type epcm struct {
	valid    bool
	blocked  bool
	pending  bool
	modified bool
	pr       bool // permission restricted, to be accepted
	typ      sgx.PageType
	perm     sgx.Perm
	linear   uint64
	enclave  *Enclave // nil for VA pages
	epoch    uint64   // of the enclave when the page was blocked or changed
}

// Enclave is what the core knows of one enclave: its SECS and its pages.
type Enclave struct {
	secs     sgx.SECS
	frame    Frame // of the SECS
	init     bool
	dead     bool
	sig      identity
	measure  *sgx.Measurement // until EINIT
	pages    map[uint64]Frame // linear address to frame
	children int              // pages in the EPC, without the SECS
	inside   int              // threads inside
	epoch    uint64           // counted by ETRACK
	tracking bool             // an ETRACK waits for threads of the epoch before
	previous int              // threads inside that entered before epoch
	xsave    uint64           // bytes of an XSAVE image with the enclave's XFRM
	eid      uint64           // unique in the life of the monitor
}

// identity are the fields of SIGSTRUCT that EINIT keeps.
type identity struct {
	familyID, extProdID [16]byte
}

// Base and Size give ELRANGE.
func (e *Enclave) Base() uint64 { return e.secs.BaseAddr }

// Size is the length of ELRANGE in bytes.
func (e *Enclave) Size() uint64 { return e.secs.Size }

// ID is a number that no other enclave of this monitor has or will have.
func (e *Enclave) ID() uint64 { return e.eid }

// Initialized reports whether EINIT succeeded.
func (e *Enclave) Initialized() bool { return e.init }

// Attributes returns the enclave's attributes, INIT included.
func (e *Enclave) Attributes() sgx.Attributes {
	a := e.secs.Attributes
	if e.init {
		a.Flags |= sgx.FlagInit
	}
	return a
}

// MiscSelect is what the enclave's SSA frames record beside registers.
func (e *Enclave) MiscSelect() sgx.MiscSelect { return e.secs.MiscSelect }

// MREnclave is the measurement, zero before EINIT.
func (e *Enclave) MREnclave() [32]byte { return e.secs.MREnclave }

// MRSigner is the digest of the signer's key, zero before EINIT.
func (e *Enclave) MRSigner() [32]byte { return e.secs.MRSigner }

// contains reports whether n bytes at linear lie within ELRANGE.
func (e *Enclave) contains(linear, n uint64) bool {
	o := linear - e.secs.BaseAddr
	return linear >= e.secs.BaseAddr && o < e.secs.Size && n <= e.secs.Size-o
}

// Launch decides who may be launched with which privileges. The SDM's launch
// tokens are replaced by it, as on processors with flexible launch control.
type Launch func(mrsigner [32]byte, a sgx.Attributes) bool

// DefaultLaunch lets every signer launch, but nobody with the provisioning or
// the launch key.
func DefaultLaunch(_ [32]byte, a sgx.Attributes) bool {
	return a.Flags&(sgx.FlagProvisionKey|sgx.FlagEInitTokenKey) == 0
}

// Options of a monitor.
type Options struct {
	Launch Launch // nil: DefaultLaunch
	// Root is the secret from which reports and keys derive; it never leaves
	// the monitor.
	Root [32]byte
	// CPUSVN is the version of the monitor in reports and keys. A key request
	// for a higher one fails.
	CPUSVN [16]byte
	// AnyExitTarget lets EEXIT jump anywhere, as SGX does. By default it must
	// return to where EENTER came from, so that an enclave cannot hijack the
	// application's control flow.
	AnyExitTarget bool
	// NoDebug refuses debug enclaves.
	NoDebug bool
}

// Monitor is the state of the platform. The caller serialises all calls.
type Monitor struct {
	b        Backend
	o        Options
	epcm     []epcm
	nextID   uint64
	keyID    [32]byte // of this monitor's reports, new at each start
	paging   pagingKey
	enclaves int
}

// New returns a monitor with an empty EPC.
func New(b Backend, o Options) (*Monitor, error) {
	n := b.Frames()
	if n <= 0 || uint64(n) >= uint64(NoFrame) {
		return nil, fmt.Errorf("monitor: expected between 1 and %d EPC frames, got %d", NoFrame-1, n)
	}
	if o.Launch == nil {
		o.Launch = DefaultLaunch
	}
	if o.Root == [32]byte{} {
		return nil, errors.New("monitor: the root secret is zero; draw or unseal one first")
	}
	m := &Monitor{b: b, o: o, epcm: make([]epcm, n)}
	if err := b.Rand(m.keyID[:]); err != nil {
		return nil, fmt.Errorf("monitor: random numbers: %w", err)
	}
	if err := m.paging.draw(b); err != nil {
		return nil, err
	}
	return m, nil
}

// Close forgets the root secret and clears the EPC. No call may follow.
func (m *Monitor) Close() {
	clear(m.o.Root[:])
	m.paging.clear()
	for f := range m.epcm {
		if m.epcm[f].valid {
			clear(m.b.Page(Frame(f))[:])
		}
		m.epcm[f] = epcm{}
	}
}

func (m *Monitor) valid(f Frame) bool { return uint64(f) < uint64(len(m.epcm)) && m.epcm[f].valid }

func (m *Monitor) free(f Frame) bool { return uint64(f) < uint64(len(m.epcm)) && !m.epcm[f].valid }

// enclaveOf returns the enclave whose SECS is in frame f.
func (m *Monitor) enclaveOf(f Frame) *Enclave {
	if !m.valid(f) || m.epcm[f].typ != sgx.PageSECS {
		return nil
	}
	return m.epcm[f].enclave
}

// Enclave returns the enclave whose SECS is in frame f, or nil.
func (m *Monitor) Enclave(f Frame) *Enclave { return m.enclaveOf(f) }

// page returns the EPCM entry behind a linear address of e, or nil.
func (m *Monitor) page(e *Enclave, linear uint64) (*epcm, Frame) {
	f, there := e.pages[linear&^(sgx.PageSize-1)]
	if !there {
		return nil, NoFrame
	}
	return &m.epcm[f], f
}

// mapPage tells the backend what the enclave may now do with a page. Pages that
// wait for EACCEPT, that are blocked, or that are no REG page are out of reach.
func (m *Monitor) mapPage(p *epcm, f Frame) {
	if p.typ != sgx.PageREG || p.pending || p.modified || p.blocked || p.perm&sgx.PermRWX == 0 {
		m.b.Unmap(p.enclave, p.linear)
		return
	}
	m.b.Map(p.enclave, p.linear, f, p.perm&sgx.PermRWX)
}

// drop takes a page out of the EPC and wipes it.
func (m *Monitor) drop(f Frame) {
	p := &m.epcm[f]
	if e := p.enclave; e != nil && p.typ != sgx.PageSECS {
		m.b.Unmap(e, p.linear)
		delete(e.pages, p.linear)
		e.children--
	}
	clear(m.b.Page(f)[:])
	*p = epcm{}
}
