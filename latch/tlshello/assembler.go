// SPDX-License-Identifier: Apache-2.0

package tlshello

import "bytes"

// Assembler puts the TCP payload segments of one direction in order. It holds
// at most limit bytes, counted from the first byte of the stream, and refuses
// two segments that differ in any byte of that window: which of them a TCP
// receiver kept depends on its implementation and its timing.
//
// Segments may come in any order, repeat, overlap and wrap around 2^32. What
// lies before the first byte or behind the window cannot change the bytes in
// it, so it is counted and left alone. The zero value is of no use: call Reset.
type Assembler struct {
	base     uint32 // sequence number of the first byte: ISN + 1
	limit    int
	buf      []byte   // bytes [0, len(buf)) of the stream; valid where have says so
	have     []uint64 // bit i: byte i is there. Only kept from next on, and only while high > next
	next     int      // everything before is there
	high     int      // highest end of a segment
	unseen   int      // offset of the first byte that arrived without a copy
	segments uint32
	err      error
}

// Reset starts a stream whose first byte has sequence number base and of which
// the first limit bytes matter. Memory of an earlier use is kept.
func (a *Assembler) Reset(base uint32, limit int) {
	*a = Assembler{base: base, limit: limit, unseen: limit, buf: a.buf[:0], have: a.have[:0]}
}

// Add takes a segment: its sequence number, the copied start of its payload and
// the true payload length, at least len(payload). The returned error is sticky.
func (a *Assembler) Add(seq uint32, payload []byte, length int) error {
	if a.err != nil {
		return a.err
	}
	if length < len(payload) {
		a.err = fail(Malformed, "segment: %d bytes copied of a payload of %d", len(payload), length)
		return a.err
	}
	if length == 0 {
		return nil
	}
	a.segments++
	off := int(int32(seq - a.base))
	if off >= a.limit || off+length <= 0 {
		return nil
	}
	if end := off + len(payload); len(payload) < length && end < a.unseen {
		a.unseen = max(end, 0)
	}
	if off < 0 {
		payload = payload[min(-off, len(payload)):]
		off = 0
	}
	payload = payload[:min(len(payload), a.limit-off)]
	if len(payload) == 0 {
		return nil
	}
	a.err = a.put(off, payload)
	return a.err
}

// put stores p at off; 0 <= off and off+len(p) <= limit.
func (a *Assembler) put(off int, p []byte) error {
	end := off + len(p)
	if off < a.next { // repeats what is there in one piece
		n := min(end, a.next) - off
		if !bytes.Equal(a.buf[off:off+n], p[:n]) {
			return a.overlap(off)
		}
		if off, p = off+n, p[n:]; len(p) == 0 {
			return nil
		}
	}
	if end > len(a.buf) {
		a.buf = append(a.buf, make([]byte, end-len(a.buf))...)
	}
	if a.high <= a.next && off == a.next { // in order: the usual case
		copy(a.buf[off:], p)
		a.next, a.high = end, end
		return nil
	}
	for len(a.have)*64 < a.limit {
		a.have = append(a.have, 0)
	}
	for i, b := range p {
		w, bit := &a.have[(off+i)/64], uint64(1)<<((off+i)%64)
		if *w&bit != 0 && a.buf[off+i] != b {
			return a.overlap(off + i)
		}
		*w |= bit
		a.buf[off+i] = b
	}
	a.high = max(a.high, end)
	for a.next < a.high && a.have[a.next/64]&(1<<(a.next%64)) != 0 {
		a.next++
	}
	if a.next == a.high {
		clear(a.have)
	}
	return nil
}

func (a *Assembler) overlap(off int) error {
	return fail(Overlap, "segment at byte %d differs from an earlier one", off)
}

// Bytes returns the in-order beginning of the stream: every byte before the
// first gap. It is a view that the next Add may move.
func (a *Assembler) Bytes() []byte { return a.buf[:a.next] }

// Segments returns how many segments with payload were examined.
func (a *Assembler) Segments() uint32 { return a.segments }

// Examined reports whether every payload byte before offset end that was ever
// given to Add was given with its copy.
func (a *Assembler) Examined(end int) bool { return end <= a.next && end <= a.unseen }

// Seq returns the sequence number of offset off.
func (a *Assembler) Seq(off int) uint32 { return a.base + uint32(off) }
