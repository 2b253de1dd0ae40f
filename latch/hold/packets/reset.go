// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"encoding/binary"
	"net/netip"

	"holdfast/latch/hold"
)

// encodeReset makes an RST, ACK segment with its IP header.
func encodeReset(from, to netip.AddrPort, seq, ack uint32) []byte {
	var b, t []byte
	var sum uint32
	if to.Addr().Is4() {
		b = make([]byte, 40)
		b[0], b[3], b[6], b[8], b[9] = 0x45, 40, 0x40, 64, ProtoTCP
		s, d := from.Addr().As4(), to.Addr().As4()
		copy(b[12:], s[:])
		copy(b[16:], d[:])
		binary.BigEndian.PutUint16(b[10:], fold(partial(b[:20], 0)))
		sum, t = partial(b[12:20], 0), b[20:]
	} else {
		b = make([]byte, 60)
		b[0], b[5], b[6], b[7] = 0x60, 20, ProtoTCP, 64
		s, d := from.Addr().As16(), to.Addr().As16()
		copy(b[8:], s[:])
		copy(b[24:], d[:])
		sum, t = partial(b[8:40], 0), b[40:]
	}
	e := binary.BigEndian
	e.PutUint16(t, from.Port())
	e.PutUint16(t[2:], to.Port())
	e.PutUint32(t[4:], seq)
	e.PutUint32(t[8:], ack)
	t[12], t[13] = 5<<4, FlagRST|FlagACK
	e.PutUint16(t[16:], fold(partial(t[:20], sum+ProtoTCP+20)))
	return b
}

// fold makes the Internet checksum (RFC 1071) of a sum of words.
func fold(sum uint32) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// partial adds the 16-bit words of b (even length) to s.
func partial(b []byte, s uint32) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	return s
}

// FixChecksums writes the checksums of a whole IP packet with TCP or UDP (RFC
// 1071, RFC 9293, RFC 768, RFC 8200) and reports whether it could: not of what
// Parse does not understand or does not have whole.
func FixChecksums(b []byte) bool {
	p, why := Parse(b)
	if why != hold.ReasonNone || len(p.Payload) != p.Size {
		return false
	}
	end := len(b)
	l4, first := 40, 8
	if b[0]>>4 == 4 {
		l4, first = 20, 12
		if n := int(binary.BigEndian.Uint16(b[2:])); n != 0 {
			end = n
		}
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], fold(partial(b[:20], 0)))
	} else if n := int(binary.BigEndian.Uint16(b[4:])); n != 0 {
		end = 40 + n
	}
	t := b[l4:end]
	at := 16
	if p.Proto == ProtoUDP {
		at = 6
	}
	t[at], t[at+1] = 0, 0
	sum := partial(b[first:l4], 0) + uint32(p.Proto) + uint32(len(t)>>16) + uint32(len(t)&0xffff)
	if len(t)%2 != 0 {
		sum += uint32(t[len(t)-1]) << 8
	}
	c := fold(partial(t, sum))
	if c == 0 && p.Proto == ProtoUDP {
		c = 0xffff // 0 would say that there is none
	}
	binary.BigEndian.PutUint16(t[at:], c)
	return true
}
