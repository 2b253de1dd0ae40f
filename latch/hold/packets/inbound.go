// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"time"

	"holdfast/latch/hold"
)

// What comes from the server.

// fromServer takes a packet to a client.
func (t *tracker) fromServer(id uint32, b []byte, now time.Time) {
	p, why := Parse(b)
	if why != hold.ReasonNone || p.Proto != ProtoTCP {
		t.dropped(id, hold.ReasonPacket) // not understood: the client must not see it
		return
	}
	pl := t.plain(p.Src)
	if pl == Always {
		t.say(id, Pass)
		return
	}
	f := t.flows[key{p.Dst, p.Src}]
	switch {
	case f == nil && p.Flags&(FlagSYN|FlagACK) == FlagSYN && t.accepts != nil && t.accepts(p.Dst.Port()) && t.room():
		// One that a listener of this machine may accept.
		if f = t.add(key{p.Dst, p.Src}, now); f == nil {
			t.dropped(id, hold.ReasonLostCopy)
			return
		}
		t.open(f, now)
		t.say(id, Pass)
		return
	case f == nil:
		t.unknown(id, &p)
		return
	case f.state == shut:
		t.instead(f, id)
		return
	case f.state == opened:
		t.passed(f, &p, 2, now)
		t.say(id, Pass)
		return
	case p.Flags&FlagURG != 0:
		if pl == Clear && f.state == begun {
			t.say(id, Pass)
			return
		}
		// Urgent data is taken out of what the program reads.
		t.deny(f, id, hold.ReasonUrgent, now)
		return
	case p.Size == 0:
		t.say(id, Pass)
		return
	case f.state == begun && pl == Clear:
		f.spoke = true
		t.say(id, Pass)
		return
	case f.state == begun:
		t.deny(f, id, hold.ReasonServerFirst, now)
		return
	}
	t.inboundPayload(f, id, &p, now)
}

// unknown takes a packet from the server of a connection that is not known: one
// that a gate held or had open that is dead now, or one from before the gate.
// Where every open connection is kept here its client waits in vain; what the
// server tries again is what the client's TCP expects next, so that a reset in
// its place is taken.
func (t *tracker) unknown(id uint32, p *Packet) {
	if t.most == 0 || p.Size == 0 || p.Flags&(FlagSYN|FlagRST) != 0 {
		t.dropped(id, hold.ReasonNotFromSYN)
		return
	}
	t.counts[hold.ReasonNotFromSYN]++
	t.verdict = append(t.verdict, Verdict{ID: id, Act: Pass, Instead: encodeReset(p.Src, p.Dst, p.seq, p.ack)})
}

func (t *tracker) inboundPayload(f *flow, id uint32, p *Packet, now time.Time) {
	from := int64(int32(p.seq - f.base))
	for _, k := range f.kept {
		if k.seq == p.seq && k.len == uint32(p.Size) && from >= hold.Window {
			t.dropped(id, hold.ReasonNone) // the server tried again; the first one waits
			return
		}
	}
	near := from < hold.Window
	room := int64(max(0, hold.Window-max(from, 0)))
	data := p.Payload
	if from < 0 {
		data = data[min(int64(len(data)), -from):]
	}
	data = data[:min(int64(len(data)), room)]
	if need := min(int64(p.Size)+min(from, 0), room); near && int64(len(data)) < need {
		t.deny(f, id, hold.ReasonLostCopy, now) // the queue cut what must be examined
		return
	}
	again := false
	if near {
		seq := p.seq
		if from < 0 {
			seq = f.base
		}
		before := len(f.in.Bytes())
		err := f.in.Add(seq, data, len(data))
		again = err == nil && from >= 0 && from+int64(len(data)) <= int64(before) && int64(p.Size) == int64(len(data))
		if err != nil {
			// Another version of bytes that were there: never delivered. The gate
			// sees by the copy what differs.
			if f.state == hello {
				t.copyIn(f, p, now)
			}
			t.deny(f, id, hold.ReasonUnexamined, now)
			return
		}
	}
	if f.state == delivered {
		t.say(id, Pass)
		return
	}
	if again {
		for _, k := range f.kept {
			if int32(p.seq-k.seq) >= 0 && int32(p.seq+uint32(p.Size)-k.seq-k.len) <= 0 {
				t.dropped(id, hold.ReasonNone)
				return
			}
		}
		// Delivered before (a HelloRetryRequest), and lost on the way.
		t.copyIn(f, p, now)
		t.say(id, Pass)
		return
	}
	if len(f.kept) >= maxKept {
		t.dropped(id, hold.ReasonNone)
		return
	}
	if near {
		t.copyIn(f, p, now)
	}
	f.kept = append(f.kept, kept{id, p.seq, uint32(p.Size)})
	t.deliverPlain(f)
}

// copyIn gives the gate a copy of an inbound segment.
func (t *tracker) copyIn(f *flow, p *Packet, now time.Time) {
	f.count++
	r := t.record(f, hold.Inbound, hold.ReasonNone, now)
	r.Seq, r.Base, r.Count, r.Len = p.seq, f.base, f.count, uint32(p.Size)
	n := min(len(p.Payload), max(0, hold.Window-int(int32(p.seq-f.base))))
	r.Data = append([]byte(nil), p.Payload[:n]...)
}

// deliverPlain delivers what the client must have to go on or to end: a
// HelloRetryRequest, or an alert in place of a hello. No packet with a byte
// behind that goes along.
func (t *tracker) deliverPlain(f *flow) {
	if f.retry == 0 {
		f.retry = retryLength(f.in.Bytes())
	}
	n := f.retry
	if b := f.in.Bytes()[n:]; len(b) >= 7 && string(b[:1]) == "\x15" && b[1] == 3 && b[3] == 0 && b[4] == 2 {
		n += 7
	}
	rest := f.kept[:0]
	for _, k := range f.kept {
		if int32(k.seq+k.len-f.base) <= int32(n) {
			t.say(k.id, Pass)
		} else {
			rest = append(rest, k)
		}
	}
	f.kept = rest
}

// retryRandom marks a HelloRetryRequest (RFC 8446, section 4.1.3).
const retryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// retryLength is the number of bytes that a HelloRetryRequest at the start of
// the stream takes, with change_cipher_spec records behind it; 0 if there is none.
func retryLength(b []byte) uint32 {
	if len(b) < 43 || b[0] != 0x16 || b[1] != 3 || b[5] != 2 || string(b[11:43]) != retryRandom {
		return 0
	}
	n := 5 + int(b[3])<<8 + int(b[4])
	if msg := 5 + 4 + int(b[6])<<16 + int(b[7])<<8 + int(b[8]); msg != n || n > len(b) {
		return 0
	}
	for len(b) >= n+6 && string(b[n:n+6]) == "\x14\x03\x03\x00\x01\x01" {
		n += 6
	}
	return uint32(n)
}
