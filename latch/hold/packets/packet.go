// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"encoding/binary"
	"net/netip"

	"holdfast/latch/hold"
)

// Protocol numbers and TCP flags.
const (
	ProtoTCP = 6
	ProtoUDP = 17

	FlagFIN = 0x01
	FlagSYN = 0x02
	FlagRST = 0x04
	FlagACK = 0x10
	FlagURG = 0x20
)

// Packet is a parsed IP packet. Payload is a view of the input and may be cut;
// Size is its length on the wire.
type Packet struct {
	Src, Dst netip.AddrPort // ports 0 for other protocols than TCP and UDP
	Proto    uint8
	Flags    uint8 // of TCP: FlagFIN and others
	Size     int
	Payload  []byte

	mptcp    bool // option 30 (RFC 8684), or options that cannot be read
	seq, ack uint32
	window   uint16
}

// Parse reads an IPv4 or IPv6 packet as a queue shows it: whole (defragmented),
// possibly larger than the MTU, possibly cut. What it does not understand has
// a reason; then only the addresses are filled, as far as they are known.
func Parse(b []byte) (p Packet, why hold.Reason) {
	var l4, end int
	var src, dst netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		l4, p.Proto = int(b[0]&15)*4, b[9]
		if end = int(binary.BigEndian.Uint16(b[2:])); end == 0 { // a super-packet (BIG TCP)
			end = len(b)
		}
		src, dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		if l4 != 20 || b[6]&0x3f != 0 || b[7] != 0 { // options, or a fragment
			return Packet{Src: netip.AddrPortFrom(src, 0), Dst: netip.AddrPortFrom(dst, 0)}, hold.ReasonPacket
		}
	case len(b) >= 40 && b[0]>>4 == 6:
		l4, p.Proto = 40, b[6]
		if end = 40 + int(binary.BigEndian.Uint16(b[4:])); end == 40 {
			end = len(b)
		}
		src, dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return Packet{}, hold.ReasonPacket
	}
	p.Src, p.Dst = netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0)
	if p.Proto != ProtoTCP && p.Proto != ProtoUDP {
		if src.Is6() && extension(p.Proto) {
			return p, hold.ReasonPacket
		}
		return p, hold.ReasonProtocol
	}
	head := 8
	if p.Proto == ProtoTCP {
		head = 20
	}
	if len(b) < l4+head || end < l4+head {
		return p, hold.ReasonPacket
	}
	t := b[l4:]
	p.Src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(t))
	p.Dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(t[2:]))
	if p.Proto == ProtoUDP {
		p.Size = end - l4 - 8
		p.Payload = b[l4+8 : max(l4+8, min(end, len(b)))]
		return p, hold.ReasonNone
	}
	off := int(t[12]>>4) * 4
	if off < 20 || l4+off > len(b) || l4+off > end {
		return p, hold.ReasonPacket
	}
	p.seq, p.ack = binary.BigEndian.Uint32(t[4:]), binary.BigEndian.Uint32(t[8:])
	p.Flags, p.window = t[13], binary.BigEndian.Uint16(t[14:])
	p.mptcp = hasMPTCP(t[20:off])
	p.Size = end - l4 - off
	p.Payload = b[l4+off : min(end, len(b))]
	return p, hold.ReasonNone
}

// extension reports whether an IPv6 next header is an extension header (RFC
// 8200, section 4) behind which TCP could hide.
func extension(next uint8) bool {
	switch next {
	case 0, 43, 44, 50, 51, 60, 135, 139, 140:
		return true
	}
	return false
}

// hasMPTCP looks for option 30. Options that cannot be read count as it.
func hasMPTCP(o []byte) bool {
	for len(o) > 0 {
		switch o[0] {
		case 0:
			return false
		case 1:
			o = o[1:]
		case 30:
			return true
		default:
			if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
				return true
			}
			o = o[o[1]:]
		}
	}
	return false
}
