// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"encoding/binary"
	"net/netip"

	"holdfast/latch/hold"
)

// recSize is the length of struct rec of bpf/hold.bpf.c, before its data.
const recSize = 96

// rec is a decoded struct rec. All integers are in host order.
type rec struct {
	id            hold.ID
	netns         uint64 // 0: the kernel cannot tell
	local, remote netip.AddrPort
	seq, base     uint32
	count, len    uint32
	ack, nxt      uint32
	ifindex       uint32
	window        uint16
	kind, reason  uint8
	data          []byte // of the ring; valid until the record is consumed
}

// decode reads a ring record; false if it is none of ours (a copy that failed).
func decode(b []byte, r *rec) bool {
	if len(b) < recSize {
		return false
	}
	e := binary.NativeEndian
	n := e.Uint32(b[72:])
	*r = rec{
		id:    hold.ID{Cookie: e.Uint64(b), Nonce: e.Uint64(b[8:])},
		netns: e.Uint64(b[16:]),
		seq:   e.Uint32(b[56:]), base: e.Uint32(b[60:]), count: e.Uint32(b[64:]), len: e.Uint32(b[68:]),
		ack: e.Uint32(b[76:]), nxt: e.Uint32(b[80:]), ifindex: e.Uint32(b[84:]),
		window: e.Uint16(b[92:]), kind: b[94], reason: b[95],
	}
	if r.kind == 0 || int64(n) > int64(len(b)-recSize) {
		return false
	}
	r.local = netip.AddrPortFrom(addr(b[24:40]), e.Uint16(b[88:]))
	r.remote = netip.AddrPortFrom(addr(b[40:56]), e.Uint16(b[90:]))
	r.data = b[recSize : recSize+int(n)]
	return true
}

func addr(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b)).Unmap() }
