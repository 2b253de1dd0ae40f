// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"encoding/binary"
	"fmt"
)

// AddressSize is that of WINDIVERT_ADDRESS, in bytes.
const AddressSize = 80

// Address is WINDIVERT_ADDRESS of the network layers (WinDivert 2.2
// documentation, section 5.3; include/windivert.h). On the wire between program
// and driver it is little-endian: 8 bytes of time, 8 bits layer, 8 bits event,
// 8 flags from the lowest bit on in the order of the fields below, 40 reserved
// bits, then a union of 64 bytes that begins with the two interface numbers.
type Address struct {
	Timestamp int64 // of QueryPerformanceCounter
	Layer     Layer
	Event     uint8 // 0: a packet

	Sniffed     bool
	Outbound    bool
	Loopback    bool
	Impostor    bool // injected by another driver
	IPv6        bool
	IPChecksum  bool // it is right
	TCPChecksum bool
	UDPChecksum bool

	Interface    uint32
	Subinterface uint32
}

// Layer is WINDIVERT_LAYER.
type Layer uint8

// LayerNetwork is WINDIVERT_LAYER_NETWORK: packets to and from this machine.
const LayerNetwork Layer = 0

func (a *Address) flags() []*bool {
	return []*bool{&a.Sniffed, &a.Outbound, &a.Loopback, &a.Impostor, &a.IPv6, &a.IPChecksum, &a.TCPChecksum, &a.UDPChecksum}
}

// Encode writes the structure.
func (a *Address) Encode() (b [AddressSize]byte) {
	e := binary.LittleEndian
	e.PutUint64(b[:], uint64(a.Timestamp))
	b[8], b[9] = byte(a.Layer), a.Event
	for i, f := range a.flags() {
		if *f {
			b[10] |= 1 << i
		}
	}
	e.PutUint32(b[16:], a.Interface)
	e.PutUint32(b[20:], a.Subinterface)
	return b
}

// DecodeAddress reads the structure. Reserved bits and the rest of the union are
// not looked at: the driver promises nothing about them. Another layer or event
// than a packet of the network layer is an error.
func DecodeAddress(b *[AddressSize]byte) (Address, error) {
	e := binary.LittleEndian
	a := Address{Timestamp: int64(e.Uint64(b[:])), Layer: Layer(b[8]), Event: b[9], Interface: e.Uint32(b[16:]), Subinterface: e.Uint32(b[20:])}
	if a.Layer != LayerNetwork || a.Event != 0 {
		return Address{}, fmt.Errorf("windivert: layer %d, event %d; expected a packet (0) of the network layer (0)", a.Layer, a.Event)
	}
	for i, f := range a.flags() {
		*f = b[10]>>i&1 != 0
	}
	return a, nil
}
