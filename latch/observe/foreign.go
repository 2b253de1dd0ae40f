// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"time"

	"holdfast/latch/tlshello"
)

// Bounds of the watch for foreign hellos.
const (
	foreignWindow  = time.Minute // an entry lives one to two windows
	foreignEntries = 1 << 18     // per window, two per hello
	foreignStreams = 4096        // inbound streams followed at once, those in pieces
	streamMax      = 8192        // bytes of such a stream: WATCH_MAX
	streamAge      = foreignWindow
)

// foreign knows the shares and randoms of the ServerHellos that entered the
// machine. A lost copy or a full table makes it blind for a window: then
// everything is refused.
type foreign struct {
	known   window
	blind   time.Time // until then
	lost    uint64    // of control.watchLost that is accounted for
	streams map[uint64]*stream
	order   []*stream
	hello   tlshello.ServerHello
}

// stream is an inbound stream in pieces. Two segments may differ where they
// overlap, and which one TCP keeps is not known here, so both readings are
// kept: the first and the last copy of each byte.
type stream struct {
	cookie      uint64
	base        uint32
	first, last []byte
	have        []bool
	started     time.Time
}

func newForeign() foreign {
	return foreign{known: newWindow(foreignEntries), streams: map[uint64]*stream{}}
}

// tick moves the window; called once per Poll.
func (f *foreign) tick(now time.Time, lost uint64) {
	if lost != f.lost {
		f.lost = lost
		f.blind = now.Add(foreignWindow)
	}
	if now.Sub(f.known.turned) >= foreignWindow {
		f.known.turn(now)
	}
	for len(f.order) > 0 && now.Sub(f.order[0].started) >= streamAge {
		f.forget()
	}
}

// forget drops the oldest stream.
func (f *foreign) forget() {
	s := f.order[0]
	f.order[0] = nil
	f.order = f.order[1:]
	if f.streams[s.cookie] == s {
		delete(f.streams, s.cookie)
	}
}

// watch takes a record of an inbound stream. local says whether a share left
// this machine from a protected listener: its own client on this machine
// receives it then, which proves nothing.
func (f *foreign) watch(r *record, now time.Time, local func(share []byte) bool) {
	if r.flags&flagEnds != 0 { // one packet with the whole record
		if len(r.data) >= 5 {
			f.scan(r.data, now, local)
		}
		return
	}
	s := f.streams[r.cookie]
	if s == nil || s.base != r.base {
		if len(f.order) >= foreignStreams {
			f.forget()
			f.blind = now.Add(foreignWindow)
		}
		s = &stream{cookie: r.cookie, base: r.base, started: now}
		f.streams[r.cookie] = s
		f.order = append(f.order, s)
	}
	off := int(int32(r.seq - s.base))
	data := r.data
	if off < 0 {
		data = data[min(-off, len(data)):]
		off = 0
	}
	if off >= streamMax || len(data) == 0 {
		return
	}
	data = data[:min(len(data), streamMax-off)]
	if end := off + len(data); end > len(s.have) {
		grow := end - len(s.have)
		s.first = append(s.first, make([]byte, grow)...)
		s.last = append(s.last, make([]byte, grow)...)
		s.have = append(s.have, make([]bool, grow)...)
	}
	same := true
	for i, c := range data {
		if !s.have[off+i] {
			s.first[off+i], s.have[off+i] = c, true
		} else if s.first[off+i] != c {
			same = false
		}
		s.last[off+i] = c
	}
	n := 0
	for n < len(s.have) && s.have[n] {
		n++
	}
	f.scan(s.first[:n], now, local)
	if !same || string(s.first[:n]) != string(s.last[:n]) {
		f.scan(s.last[:n], now, local)
	}
}

// scan notes each ServerHello at the beginning of a stream, retry requests and
// compatibility records before it included.
func (f *foreign) scan(b []byte, now time.Time, local func([]byte) bool) {
	var hs []byte // handshake bytes, when they are spread over records
	for len(b) >= 5 {
		n := int(b[3])<<8 | int(b[4])
		if b[0] == 0x14 && len(b) >= 5+n {
			b = b[5+n:]
			continue
		}
		if b[0] != 0x16 {
			break
		}
		part := b[5:min(len(b), 5+n)]
		if hs == nil {
			hs = part
		} else {
			hs = append(hs[:len(hs):len(hs)], part...)
		}
		if len(b) < 5+n {
			break
		}
		b = b[5+n:]
	}
	for len(hs) >= 4+2+32 {
		n := 4 + (int(hs[1])<<16 | int(hs[2])<<8 | int(hs[3]))
		if hs[0] == 2 {
			f.note(hs[:min(n, len(hs))], len(hs) >= n, now, local)
		}
		if len(hs) < n {
			return
		}
		hs = hs[n:]
	}
}

// note enters the random, and the share if the message is complete.
func (f *foreign) note(msg []byte, whole bool, now time.Time, local func([]byte) bool) {
	ok := true
	if whole && f.hello.Parse(msg) == nil && !f.hello.Retry {
		if local(f.hello.Share) {
			return
		}
		ok = f.known.add(f.hello.Share)
	}
	if !f.known.add(msg[6:38]) || !ok {
		f.blind = now.Add(foreignWindow)
	}
}
