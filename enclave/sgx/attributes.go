// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"fmt"
	"strings"
)

// Flags are the first eight bytes of ATTRIBUTES (SDM, "ATTRIBUTES").
type Flags uint64

// Bits of Flags.
const (
	FlagInit          Flags = 1 << 0 // set by EINIT only
	FlagDebug         Flags = 1 << 1
	FlagMode64        Flags = 1 << 2
	FlagProvisionKey  Flags = 1 << 4
	FlagEInitTokenKey Flags = 1 << 5
	FlagCET           Flags = 1 << 6
	FlagKSS           Flags = 1 << 7
	FlagAEXNotify     Flags = 1 << 10

	// FlagsKnown are all bits that have a meaning; the rest is reserved.
	FlagsKnown = FlagInit | FlagDebug | FlagMode64 | FlagProvisionKey | FlagEInitTokenKey | FlagCET | FlagKSS | FlagAEXNotify
)

var flagNames = []struct {
	f    Flags
	name string
}{
	{FlagInit, "INIT"}, {FlagDebug, "DEBUG"}, {FlagMode64, "MODE64BIT"}, {FlagProvisionKey, "PROVISIONKEY"},
	{FlagEInitTokenKey, "EINITTOKEN_KEY"}, {FlagCET, "CET"}, {FlagKSS, "KSS"}, {FlagAEXNotify, "AEXNOTIFY"},
}

// String lists the bits by the SDM's names.
func (f Flags) String() string {
	var s []string
	for _, n := range flagNames {
		if f&n.f != 0 {
			s = append(s, n.name)
			f &^= n.f
		}
	}
	if f != 0 {
		s = append(s, fmt.Sprintf("reserved %#x", uint64(f)))
	}
	return strings.Join(s, "|")
}

// Attributes are flags and the XSAVE features an enclave runs with (16 bytes).
type Attributes struct {
	Flags Flags
	XFRM  uint64
}

// AttributesSize is the size of ATTRIBUTES in bytes.
const AttributesSize = 16

// XFRMLegacy are the two bits (x87, SSE) that XFRM must have.
const XFRMLegacy = 3

func parseAttributes(b []byte) Attributes {
	return Attributes{Flags(le.Uint64(b)), le.Uint64(b[8:])}
}

func (a Attributes) appendTo(b []byte) []byte {
	return le.AppendUint64(le.AppendUint64(b, uint64(a.Flags)), a.XFRM)
}

// And returns the attributes that are set in both: the masking of EINIT and
// EGETKEY.
func (a Attributes) And(m Attributes) Attributes {
	return Attributes{a.Flags & m.Flags, a.XFRM & m.XFRM}
}

// Or returns the attributes that are set in either.
func (a Attributes) Or(m Attributes) Attributes {
	return Attributes{a.Flags | m.Flags, a.XFRM | m.XFRM}
}

// MiscSelect chooses what the MISC region of an SSA frame holds.
type MiscSelect uint32

// MiscExInfo makes AEX write EXINFO (fault address and error code) for #PF and
// #GP. The other bits are reserved.
const MiscExInfo MiscSelect = 1
