// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"holdfast/internal/bpfring"
)

// Kinds and flags of a record: keep in step with bpf/observe.bpf.c.
const (
	kindBound      = 1
	kindUnbound    = 2
	kindIn         = 3
	kindOut        = 4
	kindClosed     = 5
	kindListenerIn = 6
	kindWatch      = 7

	flagLost = 1
	flagEnds = 2
)

const (
	recordSize = 72 // struct rec
	connSize   = 64 // struct conn
)

// record is a struct rec. Integers of the kernel are in host order.
type record struct {
	cookie, listener uint64
	local, remote    netip.AddrPort
	seq, base        uint32
	length           int // payload of the packet; data is its copied beginning
	kind, flags      uint8
	data             []byte // of the ring; valid until the record is consumed
}

// decode reads a ring record; false if it cannot be one.
func decode(b []byte, r *record) bool {
	if len(b) < recordSize {
		return false
	}
	e := binary.NativeEndian
	n := e.Uint32(b[60:])
	if uint64(n) > uint64(len(b)-recordSize) {
		return false
	}
	*r = record{
		cookie: e.Uint64(b), listener: e.Uint64(b[8:]),
		local:  netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[16:32])).Unmap(), e.Uint16(b[64:])),
		remote: netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[32:48])).Unmap(), e.Uint16(b[66:])),
		seq:    e.Uint32(b[48:]), base: e.Uint32(b[52:]), length: int(e.Uint32(b[56:])),
		kind: b[68], flags: b[69],
		data: b[recordSize : recordSize+int(n) : recordSize+int(n)],
	}
	return int(n) <= r.length || r.kind == kindBound
}

// owner is the part of struct conn that says who bound a socket.
type owner struct {
	listener uint64 // socket cookie
	boundNS  uint64 // boot time
	cgroup   uint64 // id
	netns    uint64 // cookie
	tgid     uint32
	uid      uint32
}

func decodeOwner(b []byte) (owner, bool) {
	if len(b) != connSize {
		return owner{}, false
	}
	e := binary.NativeEndian
	return owner{e.Uint64(b), e.Uint64(b[8:]), e.Uint64(b[16:]), e.Uint64(b[24:]), e.Uint32(b[32:]), e.Uint32(b[36:])}, true
}

func (o *owner) encode() []byte {
	b := make([]byte, connSize)
	e := binary.NativeEndian
	e.PutUint64(b, o.listener)
	e.PutUint64(b[8:], o.boundNS)
	e.PutUint64(b[16:], o.cgroup)
	e.PutUint64(b[24:], o.netns)
	e.PutUint32(b[32:], o.tgid)
	e.PutUint32(b[36:], o.uid)
	return b
}

// control is struct ctl of bpf/observe.bpf.c, shared with the programs.
type control struct {
	armed, full     *atomic.Uint32
	lost, watchLost *atomic.Uint64
}

func controlIn(w *bpfring.Words) control {
	return control{armed: w.Uint32(0), full: w.Uint32(4), lost: w.Uint64(8), watchLost: w.Uint64(16)}
}
