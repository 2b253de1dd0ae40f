// SPDX-License-Identifier: Apache-2.0

package tlshello

// Extension types used here (IANA TLS ExtensionType Values).
const (
	extServerName        uint16 = 0
	extSupportedGroups   uint16 = 10
	extALPN              uint16 = 16
	extPadding           uint16 = 21
	extPreSharedKey      uint16 = 41
	extEarlyData         uint16 = 42
	extSupportedVersions uint16 = 43
	extCookie            uint16 = 44
	extPSKModes          uint16 = 45
	extKeyShare          uint16 = 51
	extECH               uint16 = 0xfe0d
)

// An Extension is one extension of a hello as it stood there. Data is a view
// of the message.
type Extension struct {
	Type uint16
	Data []byte
}

// maxExtensions bounds the work on a hello; browsers send below 25.
const maxExtensions = 128

// splitExtensions appends the extensions of block to dst. A type that occurs
// twice is an error (RFC 8446 section 4.2).
func splitExtensions(dst []Extension, block []byte) ([]Extension, error) {
	c := cursor{b: block}
	for len(c.b) > 0 {
		e := Extension{Type: c.u16(), Data: c.vec16()}
		if c.bad {
			return nil, fail(Malformed, "extension %d of %d bytes block is cut", len(dst), len(block))
		}
		for i := range dst {
			if dst[i].Type == e.Type {
				return nil, fail(Malformed, "extension %#04x stands twice", e.Type)
			}
		}
		if len(dst) == maxExtensions {
			return nil, fail(HelloTooLarge, "more than %d extensions", maxExtensions)
		}
		dst = append(dst, e)
	}
	return dst, nil
}

// find returns the data of extension t.
func find(list []Extension, t uint16) (data []byte, ok bool) {
	for i := range list {
		if list[i].Type == t {
			return list[i].Data, true
		}
	}
	return nil, false
}
