// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"holdfast/latch/tlshello"
)

// encode is the inverse of decode, for a record of n copied bytes.
func encode(r *record) []byte {
	b := make([]byte, recordSize, recordSize+len(r.data))
	e := binary.NativeEndian
	e.PutUint64(b, r.cookie)
	e.PutUint64(b[8:], r.listener)
	l, m := r.local.Addr().As16(), r.remote.Addr().As16()
	copy(b[16:], l[:])
	copy(b[32:], m[:])
	e.PutUint32(b[48:], r.seq)
	e.PutUint32(b[52:], r.base)
	e.PutUint32(b[56:], uint32(r.length))
	e.PutUint32(b[60:], uint32(len(r.data)))
	e.PutUint16(b[64:], r.local.Port())
	e.PutUint16(b[66:], r.remote.Port())
	b[68], b[69] = r.kind, r.flags
	return append(b, r.data...)
}

// FuzzRecord: whatever lies in the ring is refused or means what its encoding
// says.
func FuzzRecord(f *testing.F) {
	o := owner{listener: 1, boundNS: 2, cgroup: 3, netns: 4, tgid: 5, uid: 6}
	f.Add(encode(&record{cookie: 1, kind: kindBound, data: o.encode()}))
	f.Add(encode(&record{cookie: 1, listener: 2, seq: 3, base: 4, length: 9, kind: kindIn, flags: flagLost, data: []byte("abc")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r record
		if !decode(b, &r) {
			return
		}
		want := bytes.Clone(b[:recordSize+len(r.data)]) // the ring rounds sizes up
		want[70], want[71] = 0, 0                       // padding
		if got := encode(&r); !bytes.Equal(got, want) {
			t.Fatalf("%x\nmeans %+v, which encodes to\n%x", want, r, got)
		}
		if own, ok := decodeOwner(r.data); ok {
			if again, _ := decodeOwner(own.encode()); again != own {
				t.Fatalf("owner %+v encodes to %+v", own, again)
			}
		}
	})
}

// FuzzForeign: a hello that arrives is remembered, however it is cut, repeated
// and overlapped, and whatever else arrives never breaks anything.
func FuzzForeign(f *testing.F) {
	share := bytes.Repeat([]byte{7}, 32)
	hello := serverHello(&tlshello.ClientHello{SessionID: make([]byte, 32)}, share)
	f.Add(hello, []byte{1, 2, 3, 200})
	f.Add(append([]byte{0x14, 3, 3, 0, 1, 1}, hello...), []byte{50})
	f.Fuzz(func(t *testing.T, noise, cuts []byte) {
		now := time.Unix(1000, 0)
		never := func([]byte) bool { return false }
		random := hello[11:43]

		fo := newForeign()
		for at, i := 0, 0; at < len(hello); i++ { // in order, cut at will, each piece twice
			n := 1
			if len(cuts) > 0 {
				n = 1 + int(cuts[i%len(cuts)])
			}
			n = min(n, len(hello)-at)
			for range 2 {
				fo.watch(&record{cookie: 1, kind: kindWatch, base: 100, seq: 100 + uint32(at), length: n, data: hello[at : at+n]}, now, never)
			}
			at += n
		}
		if !fo.known.has(share) || !fo.known.has(random) {
			t.Fatal("a hello in pieces was not remembered")
		}
		// Noise before it in another stream, and as the first copy of this one: the
		// last copy is read too.
		fo = newForeign()
		fo.watch(&record{cookie: 2, kind: kindWatch, flags: flagEnds, data: noise, length: len(noise)}, now, never)
		fo.watch(&record{cookie: 1, kind: kindWatch, base: 100, seq: 100, data: noise, length: len(noise)}, now, never)
		fo.watch(&record{cookie: 1, kind: kindWatch, base: 100, seq: 100, data: hello, length: len(hello)}, now, never)
		if !fo.known.has(share) || !fo.known.has(random) {
			t.Fatal("a hello that overlaps with something else was not remembered")
		}
	})
}

func TestWindow(t *testing.T) {
	w := newWindow(3)
	now := time.Unix(1000, 0)
	for _, s := range []string{"a", "b", "c"} {
		if !w.add([]byte(s)) {
			t.Fatal("not full yet")
		}
	}
	if w.add([]byte("d")) || w.has([]byte("d")) {
		t.Error("a full generation took another entry")
	}
	w.turn(now)
	if !w.add([]byte("d")) || !w.has([]byte("a")) || !w.has([]byte("d")) {
		t.Error("after one turn both generations must be known")
	}
	w.turn(now)
	if w.has([]byte("a")) || !w.has([]byte("d")) {
		t.Error("after two turns the first generation must be gone")
	}
}

// TestForeignBounds: more hellos or streams than there is room for make the
// observer blind, not forgetful.
func TestForeignBounds(t *testing.T) {
	never := func([]byte) bool { return false }
	now := time.Unix(1000, 0)
	fo := newForeign()
	fo.tick(now, 0)
	for i := range foreignStreams + 1 {
		fo.watch(&record{cookie: uint64(i), base: 1, seq: 1, data: []byte{0x16}, length: 1, kind: kindWatch}, now, never)
	}
	if !now.Before(fo.blind) || len(fo.order) != foreignStreams {
		t.Errorf("blind until %v with %d streams, want a minute with %d", fo.blind, len(fo.order), foreignStreams)
	}
	fo = newForeign()
	fo.known.limit = 10
	share := make([]byte, 32)
	for i := range 6 {
		share[0] = byte(i)
		fo.watch(&record{kind: kindWatch, flags: flagEnds, data: serverHello(&tlshello.ClientHello{}, share)}, now, never)
	}
	if !now.Before(fo.blind) {
		t.Error("a full table did not make it blind")
	}
	fo = newForeign()
	fo.tick(now, 1)
	if !now.Before(fo.blind) || fo.blind.Sub(now) != foreignWindow {
		t.Error("a lost copy did not make it blind")
	}
	fo.tick(now.Add(foreignWindow), 1)
	if now.Add(foreignWindow).Before(fo.blind) {
		t.Error("blind for longer than the window")
	}
}
