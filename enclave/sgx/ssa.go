// SPDX-License-Identifier: Apache-2.0

package sgx

import "fmt"

// GPR is the GPRSGX area, the last 184 bytes of an SSA frame (SDM, "GPRSGX
// Region").
type GPR struct {
	RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI uint64
	R8, R9, R10, R11, R12, R13, R14, R15   uint64
	RFLAGS, RIP                            uint64
	URSP, URBP                             uint64 // the application's stack and frame pointer
	ExitInfo                               ExitInfo
	AEXNotify                              uint8 // bit 0: ERESUME enters the handler instead
	FSBase, GSBase                         uint64
}

// GPRSize is the size of GPRSGX in bytes.
const GPRSize = 184

// AppendTo appends the 184 bytes of the structure.
func (g *GPR) AppendTo(b []byte) []byte {
	for _, v := range [...]uint64{
		g.RAX, g.RCX, g.RDX, g.RBX, g.RSP, g.RBP, g.RSI, g.RDI, g.R8, g.R9, g.R10, g.R11, g.R12, g.R13, g.R14, g.R15,
		g.RFLAGS, g.RIP, g.URSP, g.URBP,
	} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, uint32(g.ExitInfo))
	b = append(b, 0, 0, 0, g.AEXNotify)
	b = le.AppendUint64(b, g.FSBase)
	return le.AppendUint64(b, g.GSBase)
}

// ParseGPR reads a GPRSGX area. The enclave may have written anything there, so
// nothing but the size is checked: ERESUME decides what it accepts.
func ParseGPR(b []byte) (*GPR, error) {
	if err := wantSize("GPRSGX", b, GPRSize); err != nil {
		return nil, err
	}
	var v [20]uint64
	for i := range v {
		v[i] = le.Uint64(b[8*i:])
	}
	return &GPR{
		v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19],
		ExitInfo(le.Uint32(b[160:])), b[167], le.Uint64(b[168:]), le.Uint64(b[176:]),
	}, nil
}

// ExitInfo is EXITINFO: why the last asynchronous exit happened, or 0.
type ExitInfo uint32

// Exit types in EXITINFO.
const (
	ExitHardware = 3
	ExitSoftware = 6 // #BP by INT3, #OF
)

// NewExitInfo builds a valid EXITINFO.
func NewExitInfo(vector uint8, exitType uint8) ExitInfo {
	return ExitInfo(uint32(vector) | uint32(exitType&7)<<8 | 1<<31)
}

// Valid reports whether an exception was recorded.
func (e ExitInfo) Valid() bool { return e>>31 == 1 }

// Vector is the number of the exception.
func (e ExitInfo) Vector() uint8 { return uint8(e) }

// Type is ExitHardware or ExitSoftware.
func (e ExitInfo) Type() uint8 { return uint8(e>>8) & 7 }

// Exceptions that AEX reports to the enclave (SDM, "EXITINFO", table of
// vectors). #PF and #GP are reported only with MISCSELECT.EXINFO.
const (
	VectorDE = 0
	VectorDB = 1
	VectorBP = 3
	VectorBR = 5
	VectorUD = 6
	VectorGP = 13
	VectorPF = 14
	VectorMF = 16
	VectorAC = 17
	VectorXM = 19
)

// Reported says whether an exception is recorded in EXITINFO.
func Reported(vector uint8, m MiscSelect) bool {
	switch vector {
	case VectorDE, VectorDB, VectorBP, VectorBR, VectorUD, VectorMF, VectorAC, VectorXM:
		return true
	case VectorGP, VectorPF:
		return m&MiscExInfo != 0
	}
	return false
}

// Offsets in an SSA frame, which is counted from its end: GPRSGX last, the MISC
// region (EXINFO, 16 bytes: fault address u64, error code u32, reserved) below
// it, XSAVE at the start.
const (
	ExInfoSize  = 16
	XSaveLegacy = 576 // smallest XSAVE image: legacy region and header
)

// GPROffset is where GPRSGX starts in a frame of the given number of pages.
func GPROffset(ssaFrameSize uint32) uint64 { return uint64(ssaFrameSize)*PageSize - GPRSize }

// ExInfoOffset is where EXINFO starts.
func ExInfoOffset(ssaFrameSize uint32) uint64 { return GPROffset(ssaFrameSize) - ExInfoSize }

// CheckFrame says whether an XSAVE image of xsave bytes fits below the MISC and
// GPR regions, as ECREATE demands.
func CheckFrame(ssaFrameSize uint32, m MiscSelect, xsave uint64) error {
	room := GPROffset(ssaFrameSize)
	if m&MiscExInfo != 0 {
		room = ExInfoOffset(ssaFrameSize)
	}
	if xsave > room {
		return &LayoutError{"SECS", "SSAFRAMESIZE", fmt.Sprintf("an XSAVE image of %d bytes does not fit into %d", xsave, room)}
	}
	return nil
}
