// SPDX-License-Identifier: Apache-2.0

package sgx

import "fmt"

// Perm are a page's permissions and the EDMM state bits of SECINFO.FLAGS.
type Perm uint8

// Bits of SECINFO.FLAGS, bits 5:0 (SDM, "SECINFO.FLAGS").
const (
	PermR       Perm = 1 << 0
	PermW       Perm = 1 << 1
	PermX       Perm = 1 << 2
	BitPending  Perm = 1 << 3
	BitModified Perm = 1 << 4
	BitPR       Perm = 1 << 5

	PermRWX = PermR | PermW | PermX
)

func (p Perm) String() string {
	out := []byte("---")
	for i, c := range "rwx" {
		if p&(1<<i) != 0 {
			out[i] = byte(c)
		}
	}
	for i, c := range "PMR" { // pending, modified, permission restricted
		if p&(BitPending<<i) != 0 {
			out = append(out, byte(c))
		}
	}
	return string(out)
}

// PageType is the type of an EPC page (SDM, "PAGE_TYPE").
type PageType uint8

// Page types.
const (
	PageSECS    PageType = 0
	PageTCS     PageType = 1
	PageREG     PageType = 2
	PageVA      PageType = 3
	PageTRIM    PageType = 4
	PageSSFirst PageType = 5
	PageSSRest  PageType = 6
)

var pageTypeNames = [...]string{"SECS", "TCS", "REG", "VA", "TRIM", "SS_FIRST", "SS_REST"}

func (t PageType) String() string {
	if int(t) < len(pageTypeNames) {
		return pageTypeNames[t]
	}
	return fmt.Sprintf("PageType(%d)", uint8(t))
}

// SecInfo is SECINFO (SDM; 64 bytes, aligned to 64).
type SecInfo struct {
	Perm Perm
	Type PageType
}

// SecInfoSize is the size of SECINFO in bytes.
const SecInfoSize = 64

// Flags returns the eight bytes FLAGS.
func (s SecInfo) Flags() uint64 { return uint64(s.Perm) | uint64(s.Type)<<8 }

// ParseSecInfo reads a SECINFO and refuses reserved bits and unknown types.
func ParseSecInfo(b []byte) (SecInfo, error) {
	const name = "SECINFO"
	if err := wantSize(name, b, SecInfoSize); err != nil {
		return SecInfo{}, err
	}
	if err := wantZero(name, b, [2]int{8, SecInfoSize}); err != nil {
		return SecInfo{}, err
	}
	f := le.Uint64(b)
	s := SecInfo{Perm(f & 0x3f), PageType(f >> 8)}
	if f&^0xff3f != 0 || int(s.Type) >= len(pageTypeNames) {
		return SecInfo{}, &LayoutError{name, "FLAGS", fmt.Sprintf("reserved bits or unknown page type in %#x", f)}
	}
	return s, nil
}

// AppendTo appends the 64 bytes of the structure.
func (s SecInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint64(b, s.Flags())
	return append(b, make([]byte, SecInfoSize-8)...)
}
