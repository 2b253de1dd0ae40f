// SPDX-License-Identifier: Apache-2.0

package sgx

import "fmt"

// TCS is a Thread Control Structure as EADD takes it (SDM, "TCS"; 4096 bytes).
// Offsets are relative to the enclave's base.
type TCS struct {
	Flags   TCSFlags
	OSSA    uint64 // of the SSA stack, page aligned
	CSSA    uint32 // current SSA slot; must be zero at EADD
	NSSA    uint32
	OEntry  uint64
	AEP     uint64 // written by EENTER; must be zero at EADD
	OFSBase uint64 // page aligned
	OGSBase uint64 // page aligned
	FSLimit uint32 // low 12 bits set
	GSLimit uint32
}

// TCSFlags are the FLAGS of a TCS.
type TCSFlags uint64

// Bits of TCSFlags. DBGOPTIN is cleared by EADD.
const (
	TCSDebugOptIn TCSFlags = 1 << 0
	TCSAEXNotify  TCSFlags = 1 << 1
)

// ParseTCS reads a source page of EADD for a TCS. Alignment of OSSA, OFSBASE and
// OGSBASE is checked by EENTER, not here.
func ParseTCS(b []byte) (*TCS, error) {
	const name = "TCS"
	if err := wantSize(name, b, PageSize); err != nil {
		return nil, err
	}
	if err := wantZero(name, b, [2]int{0, 8}, [2]int{72, PageSize}); err != nil {
		return nil, err
	}
	t := &TCS{
		Flags: TCSFlags(le.Uint64(b[8:])), OSSA: le.Uint64(b[16:]), CSSA: le.Uint32(b[24:]), NSSA: le.Uint32(b[28:]),
		OEntry: le.Uint64(b[32:]), AEP: le.Uint64(b[40:]), OFSBase: le.Uint64(b[48:]), OGSBase: le.Uint64(b[56:]),
		FSLimit: le.Uint32(b[64:]), GSLimit: le.Uint32(b[68:]),
	}
	if t.Flags&^(TCSDebugOptIn|TCSAEXNotify) != 0 {
		return nil, &LayoutError{name, "FLAGS", fmt.Sprintf("reserved bits in %#x", uint64(t.Flags))}
	}
	return t, nil
}

// AppendTo appends the 4096 bytes of the structure, with STATE zero.
func (t *TCS) AppendTo(b []byte) []byte {
	var p [PageSize]byte
	le.PutUint64(p[8:], uint64(t.Flags))
	le.PutUint64(p[16:], t.OSSA)
	le.PutUint32(p[24:], t.CSSA)
	le.PutUint32(p[28:], t.NSSA)
	le.PutUint64(p[32:], t.OEntry)
	le.PutUint64(p[40:], t.AEP)
	le.PutUint64(p[48:], t.OFSBase)
	le.PutUint64(p[56:], t.OGSBase)
	le.PutUint32(p[64:], t.FSLimit)
	le.PutUint32(p[68:], t.GSLimit)
	return append(b, p[:]...)
}
