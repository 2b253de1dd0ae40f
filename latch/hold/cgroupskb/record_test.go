// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"bytes"
	"net/netip"
	"testing"

	"holdfast/latch/hold"
)

// encode is the inverse of decode, as the program writes records.
func encode(r *rec) []byte {
	b := make([]byte, recSize, recSize+len(r.data))
	nativeEndian.PutUint64(b, r.id.Cookie)
	nativeEndian.PutUint64(b[8:], r.id.Nonce)
	nativeEndian.PutUint64(b[16:], r.netns)
	l, m := r.local.Addr().As16(), r.remote.Addr().As16()
	copy(b[24:], l[:])
	copy(b[40:], m[:])
	for i, v := range []uint32{r.seq, r.base, r.count, r.len, uint32(len(r.data)), r.ack, r.nxt, r.ifindex} {
		nativeEndian.PutUint32(b[56+4*i:], v)
	}
	for i, v := range []uint16{r.local.Port(), r.remote.Port(), r.window} {
		nativeEndian.PutUint16(b[88+2*i:], v)
	}
	b[94], b[95] = r.kind, r.reason
	return append(b, r.data...)
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(&rec{
		id: hold.ID{Cookie: 1, Nonce: 2}, netns: 3, local: netip.MustParseAddrPort("10.0.0.1:1234"), remote: netip.MustParseAddrPort("[2001:db8::1]:443"),
		seq: 4, base: 5, count: 6, len: 7, ack: 8, nxt: 9, ifindex: 10, window: 11, kind: 2, data: []byte("data"),
	}))
	f.Add(make([]byte, recSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r rec
		if !decode(b, &r) {
			return
		}
		if got := encode(&r); !bytes.Equal(got, b[:len(got)]) {
			t.Errorf("encode(decode(b)) differs\n% x\n% x", got, b)
		}
	})
}

func TestKickChecksum(t *testing.T) {
	for _, a := range [][2]string{{"10.0.0.1:40000", "10.0.0.2:443"}, {"[fd77::1]:40001", "[fd77::2]:443"}} {
		k := kick{id: hold.ID{Cookie: 0x1122334455667788, Nonce: 0x99aabbccddeeff00}, local: netip.MustParseAddrPort(a[0]), remote: netip.MustParseAddrPort(a[1]), seq: 1, ack: 2, window: 3, end: 4, examined: 5}
		b := make([]byte, 200)
		n := k.encode(b)
		ip := 20
		if n == kickSize6 {
			ip = 40
		}
		from := 12
		if ip == 40 {
			from = 8
		}
		s := partial(b[from:n], 6+kickTCP) // pseudo header and segment: all ones when right
		for s>>16 != 0 {
			s = s&0xffff + s>>16
		}
		if s != 0xffff {
			t.Errorf("%s: checksum does not fold to ffff but to %04x", a[0], s)
		}
	}
}

// A released connection whose push is never confirmed is forgotten at the
// second Sweep; one that waits for its verdict is not.
func TestForgetPushed(t *testing.T) {
	h := &Hold{peers: map[hold.ID]*peer{}, max: 10}
	waiting, pushed := hold.ID{Cookie: 1}, hold.ID{Cookie: 2}
	for _, id := range []hold.ID{waiting, pushed} {
		h.take(&rec{kind: uint8(hold.Outbound), id: id})
	}
	h.take(&rec{kind: uint8(hold.Released), id: pushed, nxt: 1})
	h.forgetPushed()
	if h.Waiting() != 2 {
		t.Fatalf("%d peers after the first sweep, want 2", h.Waiting())
	}
	h.forgetPushed()
	h.forgetPushed()
	if h.Waiting() != 1 || h.peers[waiting] == nil {
		t.Errorf("%d peers left, want the one that waits", h.Waiting())
	}
}
