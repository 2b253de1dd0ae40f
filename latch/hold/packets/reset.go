// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"encoding/binary"
	"net/netip"
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
