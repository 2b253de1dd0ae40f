// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"encoding/binary"
	"net/netip"

	"holdfast/latch/hold"
)

// A kick is a TCP segment without payload, from the peer's address to the
// client's socket, with option 253 (RFC 4727) in the layout of struct kick in
// bpf/hold.bpf.c. It never leaves the machine: its destination is local.
const (
	kickOption = 28
	kickTCP    = 20 + kickOption
	kickSize4  = 20 + kickTCP
	kickSize6  = 40 + kickTCP
)

// kick says what the segment carries.
type kick struct {
	id            hold.ID
	local, remote netip.AddrPort
	seq, ack      uint32 // TCP header: as the peer would send it now
	window        uint16 // the last one seen from the peer, unscaled
	end, examined uint32 // of the verdict
}

// encode writes the packet into b and returns its length: 68 bytes for IPv4,
// 88 for IPv6.
func (k *kick) encode(b []byte) int {
	src, dst := k.remote.Addr(), k.local.Addr()
	var sum uint32
	var t []byte
	if dst.Is4() {
		b = b[:kickSize4]
		clear(b)
		b[0], b[3], b[6], b[8], b[9] = 0x45, kickSize4, 0x40, 64, 6
		s, d := src.As4(), dst.As4()
		copy(b[12:], s[:])
		copy(b[16:], d[:])
		sum = partial(b[12:20], 0)
		t = b[20:]
	} else {
		b = b[:kickSize6]
		clear(b)
		b[0], b[5], b[6], b[7] = 0x60, kickTCP, 6, 64
		s, d := src.As16(), dst.As16()
		copy(b[8:], s[:])
		copy(b[24:], d[:])
		sum = partial(b[8:40], 0)
		t = b[40:]
	}
	binary.BigEndian.PutUint16(t, k.remote.Port())
	binary.BigEndian.PutUint16(t[2:], k.local.Port())
	binary.BigEndian.PutUint32(t[4:], k.seq)
	binary.BigEndian.PutUint32(t[8:], k.ack)
	t[12], t[13] = kickTCP/4<<4, 0x10 // ACK
	binary.BigEndian.PutUint16(t[14:], k.window)
	o := t[20:]
	o[0], o[1], o[2], o[3] = 253, kickOption, 'H', 'f'
	e := binary.NativeEndian
	e.PutUint32(o[4:], uint32(k.id.Cookie))
	e.PutUint32(o[8:], uint32(k.id.Cookie>>32))
	e.PutUint32(o[12:], uint32(k.id.Nonce))
	e.PutUint32(o[16:], uint32(k.id.Nonce>>32))
	e.PutUint32(o[20:], k.end)
	e.PutUint32(o[24:], k.examined)
	sum = partial(t, sum+6+kickTCP)
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(t[16:], ^uint16(sum))
	return len(b)
}

// partial adds the 16-bit words of b (even length) to s.
func partial(b []byte, s uint32) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	return s
}
