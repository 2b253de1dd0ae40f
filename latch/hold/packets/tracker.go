// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"net/netip"
	"time"

	"holdfast/latch/hold"
	"holdfast/latch/tlshello"
)

// state of a connection that is not open.
type state uint8

const (
	begun     state = iota // the client's SYN was seen, no payload has left
	hello                  // the ClientHello, or a part of it, has left
	delivered              // released: what was verified is on its way to the client
	shut                   // denied or refused: nothing passes any more
	opened                 // whatever comes passes
)

const (
	maxKept   = 64 // packets of one connection in the kernel's queue
	maxEarly  = 8  // small outgoing segments that wait for the head of a record
	maxStrays = 20 // records a second about packets that belong to no connection
	headBytes = 11 // of a record that tell a ClientHello
	forgetNew = time.Minute
	// linger is how long an open connection is kept for packets that were queued
	// before the one that opened it was on its way.
	linger    = 2 * time.Second
	forgetOld = 3 * time.Minute
	// idleOpen is how long an open connection may be silent where nobody but the
	// tracker knows that it is open. Its next packet shuts it.
	idleOpen = 12 * time.Hour
)

// key names a connection as the packets show it.
type key struct{ client, server netip.AddrPort }

// flow is one connection that is not open.
type flow struct {
	key
	id    hold.ID
	state state
	since time.Time

	isn    uint32 // of the client's SYN
	first  uint32 // of the client's payload: isn + 1
	copied uint32 // after the last byte that was copied and let out
	end    uint32 // after the last byte that may leave
	second uint8  // 1: CCS before the second hello has left, 2: second hello begun
	early  []early
	spoke  bool // the server of a clear protocol spoke first

	base   uint32 // of the server's payload
	count  uint32 // inbound segments that were copied
	in     tlshello.Assembler
	retry  uint32 // bytes of the server's stream that a HelloRetryRequest takes; 0: none was seen
	kept   []kept // inbound packets in the kernel's queue, in order of arrival
	proved uint32 // of a delivered flow: sequence number after the verified bytes
	sent   uint32 // after the furthest inbound byte that was delivered in order

	link uint64    // where the client's packets come from, in the adapter's words
	last time.Time // of a packet of an open connection
	fins uint8     // of an open connection: 1 the client's FIN was seen, 2 the server's, 4 a reset

	ack   uint32 // last acknowledgement of the client
	told  uint32 // reasons that were reported, one bit each
	reset bool   // refused: the next packet to the client becomes a reset
	noRST bool   // denied at its SYN: the client's kernel may try again without what was wrong
}

// early is an outgoing segment that is too short to be judged.
type early struct {
	id      uint32
	payload []byte
	p       Packet
}

type kept struct {
	id       uint32
	seq, len uint32
}

// Action is what happens to a queued packet.
type Action uint8

// The actions.
const (
	Drop Action = iota
	Pass        // it goes on; the connection stays held
	Open        // it goes on, and the connection is open from here on
)

// Verdict is the decision on one queued packet.
type Verdict struct {
	ID      uint32 // as Outbound or Inbound got it
	Act     Action
	Instead []byte // an IP packet that goes on in the queued one's place; nil: the packet itself
}

// Passing says how a destination passes.
type Passing uint8

// The ways to pass.
const (
	Gated  Passing = iota
	Clear          // unless it begins like TLS
	Always         // whatever it is
)

// tracker decides about queued packets. It makes no system call.
type tracker struct {
	flows   map[key]*flow
	byID    map[hold.ID]*flow
	late    []*flow // open ones, oldest first
	max     int
	most    int // open connections that are kept here; 0: the kernel's rules keep them
	opened  int // of them there are
	plain   func(netip.AddrPort) Passing
	accepts func(port uint16) bool // connections to this port of ours pass; nil: none do
	newID   func() hold.ID
	verdict []Verdict     // to be given to the kernel
	records []hold.Record // to be given to the gate
	told    []*flow       // whose client was told by a packet of the server's: now the server is due
	strayAt time.Time
	strays  int
	wake    bool       // a record that should not wait is among them
	inbound bool       // an Inbound record came
	counts  [32]uint64 // packets dropped, by reason
}

func newTracker(o *Options, newID func() hold.ID) *tracker {
	return &tracker{flows: map[key]*flow{}, byID: map[hold.ID]*flow{}, max: o.Connections, most: o.Opened, plain: o.Passing, accepts: o.Accepts, newID: newID}
}

func (t *tracker) say(id uint32, a Action) { t.verdict = append(t.verdict, Verdict{ID: id, Act: a}) }

func (t *tracker) record(f *flow, k hold.Kind, r hold.Reason, now time.Time) *hold.Record {
	t.records = append(t.records, hold.Record{Kind: k, Reason: r, ID: f.id, Local: f.client, Remote: f.server, At: now})
	if k != hold.Inbound {
		t.wake = true
	} else {
		t.inbound = true
	}
	return &t.records[len(t.records)-1]
}

// deny drops a packet, tells the gate once per reason, and shuts the flow.
func (t *tracker) deny(f *flow, id uint32, r hold.Reason, now time.Time) {
	t.counts[r]++
	t.say(id, Drop)
	t.discard(f)
	f.state = shut
	if f.told&(1<<r) == 0 {
		f.told |= 1 << r
		t.record(f, hold.Denied, r, now)
	}
}

// dropped drops a packet that TCP may send again.
func (t *tracker) dropped(id uint32, r hold.Reason) {
	t.counts[r]++
	t.say(id, Drop)
}

// discard drops what is queued of a flow.
func (t *tracker) discard(f *flow) {
	for _, k := range f.kept {
		t.say(k.id, Drop)
	}
	for _, e := range f.early {
		t.say(e.id, Drop)
	}
	f.kept, f.early = nil, nil
}

func (t *tracker) add(k key, now time.Time) *flow {
	if old := t.flows[k]; old != nil {
		t.remove(old)
	}
	if len(t.flows)-t.opened >= t.max {
		return nil
	}
	f := &flow{key: k, id: t.newID(), since: now}
	t.flows[k], t.byID[f.id] = f, f
	return f
}

func (t *tracker) remove(f *flow) {
	t.discard(f)
	delete(t.byID, f.id)
	if t.flows[f.key] == f {
		delete(t.flows, f.key)
		if f.state == opened && t.most > 0 {
			t.opened--
		}
	}
}

// stray reports what belongs to no connection that could be released.
func (t *tracker) stray(id uint32, p *Packet, r hold.Reason, now time.Time) {
	t.dropped(id, r)
	if now.Sub(t.strayAt) > time.Second {
		t.strayAt, t.strays = now, 0
	}
	if t.strays++; t.strays <= maxStrays { // enough for a log, and no flood
		t.records = append(t.records, hold.Record{Kind: hold.Denied, Reason: r, ID: t.newID(), Local: p.Src, Remote: p.Dst, At: now})
		t.wake = true
	}
}

// outbound takes a packet from a client. Link says where it came from, in the
// adapter's words.
func (t *tracker) outbound(id uint32, b []byte, link uint64, now time.Time) {
	t.expire(now)
	p, why := Parse(b)
	if why != hold.ReasonNone {
		t.stray(id, &p, why, now)
		return
	}
	if p.Proto == ProtoUDP {
		t.stray(id, &p, hold.ReasonUDP, now)
		return
	}
	pl := t.plain(p.Dst)
	if pl == Always {
		t.say(id, Pass)
		return
	}
	k := key{p.Src, p.Dst}
	f := t.flows[k]
	if p.Flags&(FlagSYN|FlagACK) == FlagSYN {
		t.syn(id, k, &p, link, now)
		return
	}
	if f != nil {
		f.link = link
	}
	if f != nil && f.state == opened {
		t.passed(f, &p, 1, now)
		if p.Size > 0 {
			t.say(id, Open)
			return
		}
	}
	if p.Size == 0 { // flags that the rules leave to us
		t.say(id, Pass)
		return
	}
	if f == nil {
		if f = t.add(k, now); f == nil {
			t.dropped(id, hold.ReasonLostCopy)
			return
		}
		f.copied, f.end, f.ack, f.first, f.link = p.seq, p.seq, p.ack, p.seq, link
		t.deny(f, id, hold.ReasonNotFromSYN, now)
		return
	}
	f.ack = p.ack
	switch f.state {
	case shut:
		t.dropped(id, hold.ReasonNone)
	case begun:
		t.begins(f, id, &p, pl, now)
	case hello:
		t.continues(f, id, &p, now)
	case delivered:
		switch {
		case int32(p.seq-f.copied) < 0: // the ClientHello again
			t.say(id, Pass)
		case int32(p.ack-f.proved) >= 0: // TCP has taken what was verified
			if !t.room() {
				t.deny(f, id, hold.ReasonLostCopy, now)
				return
			}
			t.say(id, Open)
			t.record(f, hold.Released, hold.ReasonNone, now)
			t.open(f, now)
		default:
			t.dropped(id, hold.ReasonNotTaken)
		}
	}
}

// room reports whether one more connection can be open.
func (t *tracker) room() bool { return t.most == 0 || t.opened < t.most }

// open keeps a connection that was just opened: for a moment where the kernel's
// rules have it from here on, or else until it ends. There must be room.
func (t *tracker) open(f *flow, now time.Time) {
	t.discard(f)
	f.state, f.since, f.last, f.in = opened, now, now, tlshello.Assembler{}
	if t.most == 0 {
		t.late = append(t.late, f)
		return
	}
	t.opened++
}

// passed notes a packet of an open connection; side is 1 for the client's, 2 for
// the server's.
func (t *tracker) passed(f *flow, p *Packet, side uint8, now time.Time) {
	f.last = now
	if p.Flags&FlagFIN != 0 {
		f.fins |= side
	}
	if p.Flags&FlagRST != 0 {
		f.fins |= 4
	}
}

// over reports whether an open connection that was silent for that long can be
// forgotten. A reset may be forged, so that its connection stays a while.
func (f *flow) over(silent time.Duration) bool {
	return silent > idleOpen || silent > forgetOld && (f.fins == 3 || f.fins >= 4)
}

// expire forgets open connections whose moment is over.
func (t *tracker) expire(now time.Time) {
	for len(t.late) > 0 && now.Sub(t.late[0].since) > linger {
		if f := t.late[0]; f.state == opened {
			t.remove(f)
		}
		t.late[0] = nil
		t.late = t.late[1:]
	}
}

func (t *tracker) syn(id uint32, k key, p *Packet, link uint64, now time.Time) {
	f := t.add(k, now)
	if f == nil {
		t.dropped(id, hold.ReasonLostCopy)
		return
	}
	f.isn, f.link = p.seq, link
	f.first, f.copied, f.end = p.seq+1, p.seq+1, p.seq+1
	switch {
	case p.Size > 0:
		f.noRST = true
		t.deny(f, id, hold.ReasonSYNData, now)
	case p.mptcp:
		f.noRST = true
		t.deny(f, id, hold.ReasonMPTCP, now)
	default:
		t.say(id, Pass)
	}
}

// begins takes the first payload of a connection.
func (t *tracker) begins(f *flow, id uint32, p *Packet, pl Passing, now time.Time) {
	if len(p.Payload) < p.Size && len(p.Payload) < hold.MaxClientHello {
		t.deny(f, id, hold.ReasonPacket, now)
		return
	}
	at := f.first
	var head []byte
	for _, e := range f.early {
		head = append(head, e.payload...)
		at += uint32(len(e.payload))
	}
	if p.seq != at {
		if int32(p.seq-at) < 0 && len(f.early) > 0 {
			t.dropped(id, hold.ReasonNone) // again what already waits
		} else if len(f.early) > 0 {
			t.dropped(id, hold.ReasonNone) // a gap: TCP sends it again
		} else {
			t.deny(f, id, hold.ReasonNotFromSYN, now)
		}
		return
	}
	head = append(head, p.Payload[:min(len(p.Payload), headBytes)]...)
	if pl == Clear && (head[0] != 0x16 || len(head) > 1 && head[1] != 3) {
		for _, e := range f.early {
			t.say(e.id, Pass)
		}
		f.early = nil
		if !t.room() {
			t.deny(f, id, hold.ReasonLostCopy, now)
			return
		}
		t.say(id, Open)
		t.open(f, now)
		return
	}
	if f.spoke { // the server spoke in the clear, and now this looks like TLS
		t.deny(f, id, hold.ReasonServerFirst, now)
		return
	}
	total := at - f.first + uint32(p.Size)
	if len(head) < headBytes {
		if prefix := helloPrefix(head); !prefix || len(f.early) >= maxEarly {
			t.deny(f, id, hold.ReasonNotTLS, now)
			return
		}
		e := early{id: id, payload: append([]byte(nil), p.Payload...), p: *p}
		e.p.Payload = e.payload
		f.early = append(f.early, e)
		return
	}
	n := helloLength(head)
	switch {
	case n == 0:
		t.deny(f, id, hold.ReasonNotTLS, now)
		return
	case n > hold.MaxClientHello:
		t.deny(f, id, hold.ReasonTooLong, now)
		return
	case total > n:
		t.deny(f, id, hold.ReasonEarlyBytes, now)
		return
	}
	f.state = hello
	f.end = f.first + n
	f.base = p.ack
	f.in.Reset(f.base, hold.Window)
	for _, e := range f.early {
		t.out(f, e.id, &e.p, now)
	}
	f.early = nil
	t.out(f, id, p, now)
}

// out lets a piece of a ClientHello leave, with a copy.
func (t *tracker) out(f *flow, id uint32, p *Packet, now time.Time) {
	r := t.record(f, hold.Outbound, hold.ReasonNone, now)
	r.Seq, r.Base, r.Len = p.seq, f.first, uint32(p.Size)
	r.Data = append([]byte(nil), p.Payload...)
	f.copied = p.seq + uint32(p.Size)
	t.say(id, Pass)
}

// continues takes payload behind the start of the ClientHello: the rest of it,
// or, after a HelloRetryRequest, the second one with its change_cipher_spec.
func (t *tracker) continues(f *flow, id uint32, p *Packet, now time.Time) {
	last := p.seq + uint32(p.Size)
	if len(p.Payload) < p.Size {
		t.dropped(id, hold.ReasonPacket)
		return
	}
	if int32(p.seq-f.first) >= 0 && int32(last-f.end) <= 0 {
		switch {
		case int32(last-f.copied) <= 0:
			t.say(id, Pass)
		case p.seq == f.copied:
			t.out(f, id, p, now)
		default:
			t.dropped(id, hold.ReasonNone)
		}
		return
	}
	skip := uint32(0)
	b := p.Payload
	switch {
	case f.copied == f.end && p.seq == f.end && f.second == 0 && f.retry == 0:
		// Behind a whole ClientHello, before any answer: early data.
		t.deny(f, id, hold.ReasonEarlyBytes, now)
		return
	case f.copied != f.end && int32(p.seq-f.end) < 0 && int32(last-f.end) > 0:
		t.deny(f, id, hold.ReasonEarlyBytes, now)
		return
	case f.retry == 0 || f.second == 2 || f.copied != f.end || p.seq != f.end:
		t.dropped(id, hold.ReasonNone)
		return
	}
	if f.second == 0 && b[0] == 0x14 {
		if len(b) < 6 || string(b[:6]) != "\x14\x03\x03\x00\x01\x01" {
			t.dropped(id, hold.ReasonNone)
			return
		}
		if len(b) == 6 { // Go sends it alone. It reveals nothing.
			f.second = 1
			f.end = last
			t.out(f, id, p, now)
			return
		}
		skip = 6
	}
	if len(b) < int(skip)+headBytes {
		t.dropped(id, hold.ReasonNone)
		return
	}
	n := helloLength(b[skip:])
	if n == 0 || n > hold.MaxClientHello-6 || uint32(p.Size) > skip+n {
		t.dropped(id, hold.ReasonNone)
		return
	}
	f.second = 2
	f.end = p.seq + skip + n
	t.out(f, id, p, now)
}

// helloLength is the length of the record at b, header included, if it holds
// exactly one ClientHello; else 0. len(b) >= headBytes.
func helloLength(b []byte) uint32 {
	rec := uint32(b[3])<<8 | uint32(b[4])
	msg := uint32(b[6])<<16 | uint32(b[7])<<8 | uint32(b[8])
	if b[0] != 0x16 || b[1] != 3 || b[2] > 4 || b[5] != 1 || msg+4 != rec || b[9] != 3 {
		return 0
	}
	return rec + 5
}

// helloPrefix says whether a few bytes can become the head of a ClientHello.
func helloPrefix(b []byte) bool {
	for i, c := range b {
		switch {
		case i == 0 && c != 0x16, i == 1 && c != 3, i == 2 && c > 4, i == 5 && c != 1, i == 9 && c != 3:
			return false
		}
	}
	return true
}

// release delivers what was verified.
func (t *tracker) release(v hold.Verdict, now time.Time) {
	f := t.byID[v.ID]
	if f == nil || f.state != hello && f.state != delivered {
		return
	}
	if f.state == delivered {
		return // under way
	}
	n := v.End - f.base
	switch {
	case f.copied != f.end || n == 0 || n > hold.Window || v.Examined != f.count:
		t.counts[hold.ReasonUnexamined]++
		t.record(f, hold.Retry, hold.ReasonUnexamined, now)
		return
	case int(n) > len(f.in.Bytes()):
		t.counts[hold.ReasonNotTaken]++
		t.record(f, hold.Retry, hold.ReasonNotTaken, now)
		return
	}
	f.state, f.proved, f.sent = delivered, v.End, f.base+uint32(len(f.in.Bytes()))
	for _, k := range f.kept {
		t.say(k.id, Pass)
		if end := k.seq + k.len; int32(k.seq-f.sent) <= 0 && int32(end-f.sent) > 0 {
			f.sent = end
		}
	}
	f.kept = nil
}

// next is what the client's TCP expects next of the server, as far as is known:
// a reset with another number would only be challenged (RFC 5961).
func (f *flow) next() uint32 {
	if f.state == delivered && int32(f.sent-f.ack) > 0 {
		return f.sent
	}
	return f.ack
}

// refuse shuts a connection and tells the client: a packet of the server's
// becomes a reset, since that passes every address translation on its way. If
// none waits, the next one that comes will do.
func (t *tracker) refuse(f *flow) {
	f.reset = !f.noRST
	if len(f.kept) > 0 {
		id := f.kept[0].id
		f.kept = f.kept[1:]
		t.instead(f, id)
	}
	t.discard(f)
	f.state = shut
}

// instead lets a reset go to the client in a packet's place.
func (t *tracker) instead(f *flow, id uint32) {
	if !f.reset {
		t.say(id, Drop)
		return
	}
	f.reset = false
	t.told = append(t.told, f)
	t.verdict = append(t.verdict, Verdict{ID: id, Act: Pass, Instead: encodeReset(f.server, f.client, f.next(), f.copied)})
}

// sweep forgets what has ended without a word.
func (t *tracker) sweep(now time.Time) {
	t.expire(now)
	for _, f := range t.flows {
		if f.state == opened && t.most > 0 {
			if f.over(now.Sub(f.last)) {
				t.remove(f)
			}
			continue
		}
		age := now.Sub(f.since)
		if age > forgetOld || age > forgetNew && (f.state == begun || f.state == shut) {
			t.remove(f)
		}
	}
}
