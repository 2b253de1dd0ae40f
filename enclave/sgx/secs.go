// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"fmt"
	"math/bits"
)

// SECS is the SGX Enclave Control Structure as ECREATE takes it (SDM, "SECS";
// 4096 bytes). MRENCLAVE, MRSIGNER, ISVPRODID, ISVSVN are written by the
// processor and must be zero in the source page.
type SECS struct {
	Size         uint64 // of ELRANGE in bytes, a power of two, at least two pages
	BaseAddr     uint64 // a multiple of Size
	SSAFrameSize uint32 // pages
	MiscSelect   MiscSelect
	Attributes   Attributes
	MREnclave    [32]byte
	MRSigner     [32]byte
	ConfigID     [64]byte
	ISVProdID    uint16
	ISVSVN       uint16
	ConfigSVN    uint16
}

// ParseSECS reads a source page of ECREATE. It checks the layout, and what the
// SDM's pseudo-code of ECREATE checks without knowing the processor's features.
func ParseSECS(b []byte) (*SECS, error) {
	const name = "SECS"
	if err := wantSize(name, b, PageSize); err != nil {
		return nil, err
	}
	if err := wantZero(name, b, [2]int{24, 48}, [2]int{96, 128}, [2]int{160, 192}, [2]int{262, PageSize}); err != nil {
		return nil, err
	}
	s := &SECS{
		Size: le.Uint64(b), BaseAddr: le.Uint64(b[8:]), SSAFrameSize: le.Uint32(b[16:]), MiscSelect: MiscSelect(le.Uint32(b[20:])),
		Attributes: parseAttributes(b[48:]), ISVProdID: le.Uint16(b[256:]), ISVSVN: le.Uint16(b[258:]), ConfigSVN: le.Uint16(b[260:]),
	}
	copy(s.MREnclave[:], b[64:])
	copy(s.MRSigner[:], b[128:])
	copy(s.ConfigID[:], b[192:])
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *SECS) check() error {
	bad := func(field, format string, a ...any) error {
		return &LayoutError{"SECS", field, fmt.Sprintf(format, a...)}
	}
	a := s.Attributes
	switch {
	case bits.OnesCount64(s.Size) != 1 || s.Size < 2*PageSize:
		return bad("SIZE", "expected a power of two of at least %d, got %#x", 2*PageSize, s.Size)
	case s.BaseAddr&(s.Size-1) != 0:
		return bad("BASEADDR", "expected a multiple of SIZE %#x, got %#x", s.Size, s.BaseAddr)
	case s.SSAFrameSize == 0:
		return bad("SSAFRAMESIZE", "expected at least 1 page, got 0")
	case s.MiscSelect&^MiscExInfo != 0:
		return bad("MISCSELECT", "reserved bits in %#x", uint32(s.MiscSelect))
	case a.Flags&^FlagsKnown != 0 || a.Flags&FlagInit != 0:
		return bad("ATTRIBUTES", "reserved bits or INIT in %#x", uint64(a.Flags))
	case a.XFRM&XFRMLegacy != XFRMLegacy:
		return bad("XFRM", "bits 0 and 1 must be set, got %#x", a.XFRM)
	case a.Flags&FlagKSS == 0 && (s.ConfigID != [64]byte{} || s.ConfigSVN != 0):
		return bad("CONFIGID", "must be zero without KSS")
	}
	return nil
}

// AppendTo appends the 4096 bytes of the structure.
func (s *SECS) AppendTo(b []byte) []byte {
	var p [PageSize]byte
	le.PutUint64(p[0:], s.Size)
	le.PutUint64(p[8:], s.BaseAddr)
	le.PutUint32(p[16:], s.SSAFrameSize)
	le.PutUint32(p[20:], uint32(s.MiscSelect))
	s.Attributes.appendTo(p[48:48])
	copy(p[64:], s.MREnclave[:])
	copy(p[128:], s.MRSigner[:])
	copy(p[192:], s.ConfigID[:])
	le.PutUint16(p[256:], s.ISVProdID)
	le.PutUint16(p[258:], s.ISVSVN)
	le.PutUint16(p[260:], s.ConfigSVN)
	return append(b, p[:]...)
}
