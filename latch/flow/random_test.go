// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"holdfast/latch/tlshello"
)

// segment is a piece of one direction on its way to the table.
type segment struct {
	out  bool
	off  int
	data []byte
	cut  int // bytes that the copy lacks at its end
}

// network cuts a recording into segments at random, repeats and reorders some.
type network struct{ r *rand.Rand }

func (n network) cut(out bool, b []byte) (list []segment) {
	most := []int{1, 3, 40, 536, 1460, 1 << 16}[n.r.IntN(6)]
	if most < 40 && len(b) > 600 {
		most = 40 // a thousand one-byte segments are tested below
	}
	for off := 0; off < len(b); {
		k := min(1+n.r.IntN(most), len(b)-off)
		list = append(list, segment{out: out, off: off, data: b[off : off+k]})
		off += k
	}
	for i := n.r.IntN(3); i > 0; i-- { // retransmissions with other borders
		off := n.r.IntN(len(b))
		k := 1 + n.r.IntN(min(1500, len(b)-off))
		list = append(list, segment{out: out, off: off, data: b[off : off+k]})
	}
	return list
}

// shuffle reorders: not at all, a little, or fully.
func (n network) shuffle(list []segment) {
	switch n.r.IntN(3) {
	case 1:
		for i := 0; i+1 < len(list); i += 1 + n.r.IntN(3) {
			list[i], list[i+1] = list[i+1], list[i]
		}
	case 2:
		n.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
}

// merge interleaves the two directions and keeps the order within each.
func (n network) merge(a, b []segment) (list []segment) {
	for len(a)+len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && n.r.IntN(len(a)+len(b)) < len(a) {
			list, a = append(list, a[0]), a[1:]
		} else {
			list, b = append(list, b[0]), b[1:]
		}
	}
	return list
}

func (w *wire) give(s segment) {
	if s.out {
		w.out(s.off, s.data)
		return
	}
	if s.cut == 0 {
		w.in(s.off, s.data)
		return
	}
	w.count++
	w.t.Packet(w.now, &Packet{ID: w.id, Seq: serverBase + uint32(s.off), Base: serverBase, Count: w.count,
		Len: uint32(len(s.data)), Data: s.data[:max(0, len(s.data)-s.cut)]})
}

// rounds is how many random connections a test tries.
func rounds(quick, full int) int {
	if os.Getenv("HOLDFAST_TEST_FULL") == "1" {
		return full
	}
	return quick
}

type recorded struct {
	*session
	end int // of the ServerHello's record
	ev  *Session
}

func recordings(t testing.TB, r *rules) (list []recorded) {
	for _, name := range good {
		s := load(t, name)
		var x tlshello.Exchange
		x.Client(s.client)
		if err := x.Server(s.server); err != nil || x.Phase() != tlshello.Complete {
			t.Fatalf("%s: %v, %v", name, err, x.Phase())
		}
		list = append(list, recorded{s, x.ServerEnd(), r.evidenceFor(s)})
	}
	return list
}

// TestRandomSegments: however a genuine connection is cut, repeated and
// reordered, it is released exactly once, with every segment examined.
func TestRandomSegments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	n, rules := network{rng}, newRules()
	list := recordings(t, rules)
	w := start(rules)
	for i := range rounds(60_000, 400_000) {
		s := &list[rng.IntN(len(list))]
		a, b := n.cut(true, s.client), n.cut(false, s.server)
		n.shuffle(a)
		n.shuffle(b)
		all := n.merge(a, b)
		at := rng.IntN(len(all) + 1)
		w.id.Nonce++
		w.count = 0
		released := 0
		for j := 0; j <= len(all); j++ {
			if j == at {
				w.t.Session(w.now, 0, s.ev) // before the announcement it is nobody's
			}
			if j < len(all) {
				w.give(all[j])
			}
			if rng.IntN(4) == 0 || j == len(all) {
				o := w.flush()
				if len(o.Refuse) != 0 {
					t.Fatalf("round %d, %s: refused %+v", i, s.name, o.Refuse)
				}
				for _, x := range o.Release {
					if x.Examined != w.count || x.End != serverBase+uint32(s.end) || x.ID != w.id {
						t.Fatalf("round %d, %s: %+v, %d segments", i, s.name, x, w.count)
					}
					released++
				}
				o.Reset()
			}
		}
		if released == 0 { // the evidence came before the announcement: say it again
			w.t.Session(w.now, 0, s.ev)
			o := w.flush()
			released = len(o.Release)
			o.Reset()
		}
		if released != 1 || len(w.t.byCH) != 1 {
			t.Fatalf("round %d, %s: released %d times, %v", i, s.name, released, w.t)
		}
		w.t.Released(w.id)
		if w.t.Len() != 0 || len(w.t.byCH) != 0 {
			t.Fatalf("round %d: left over: %v", i, w.t)
		}
	}
}

// TestRandomAttacks: a sequence with a decoy is never released. The decoys are
// what a relay can do to a passive copy.
func TestRandomAttacks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	n, rules := network{rng}, newRules()
	list := recordings(t, rules)
	w := start(rules)
	var hits [6]int
	for i := range rounds(60_000, 400_000) {
		s := &list[rng.IntN(len(list))]
		a, b := n.cut(true, s.client), n.cut(false, s.server)
		n.shuffle(a)
		kind := rng.IntN(len(hits))
		hits[kind]++
		switch kind {
		case 0: // a forged ServerHello beside the genuine one, anywhere in time
			off := rng.IntN(s.end)
			k := 1 + rng.IntN(s.end-off)
			forged := bytes.Clone(s.server[off : off+k])
			forged[rng.IntN(k)] ^= byte(1 + rng.IntN(255))
			b = append(b, segment{off: off, data: forged})
			n.shuffle(b)
			if rng.IntN(2) == 0 {
				b[0], b[len(b)-1] = b[len(b)-1], b[0]
			}
		case 1: // only the forged one
			forged := bytes.Clone(s.server)
			forged[rng.IntN(s.end)] ^= byte(1 + rng.IntN(255))
			b = n.cut(false, forged)
			n.shuffle(b)
		case 2: // the copy of a segment of the ServerHello is short
			j := rng.IntN(len(b))
			for b[j].off >= s.end {
				j = rng.IntN(len(b))
			}
			b[j].cut = len(b[j].data) - rng.IntN(min(len(b[j].data), s.end-b[j].off))
			n.shuffle(b)
		case 3: // the record holds more than the ServerHello
			start := s.end - firstRecordEndingAt(s.server, s.end)
			forged := append(append(bytes.Clone(s.server[:s.end]), 8, 0, 0, 0), s.server[s.end:]...)
			k := s.end - start - 5 + 4
			forged[start+3], forged[start+4] = byte(k>>8), byte(k)
			b = n.cut(false, forged)
			n.shuffle(b)
		case 4: // one byte in front, so that the client reads something else
			forged := append(bytes.Clone(s.server[:1]), s.server...)
			b = n.cut(false, forged)
			n.shuffle(b)
		case 5: // a counted segment that never comes
			n.shuffle(b)
		}
		w.id.Nonce++
		w.count = 0
		if kind == 5 {
			w.count = uint32(1 + rng.IntN(3))
		}
		for _, x := range n.merge(a, b) {
			w.give(x)
			w.t.Session(w.now, 0, s.ev)
			if rng.IntN(6) == 0 {
				// What was released before the decoy arrived was right then:
				// the adapter opens only if the count is still the same.
				o := w.flush()
				for _, x := range o.Release {
					if kind != 0 && kind != 2 || x.Examined == uint32(len(b)) {
						t.Fatalf("round %d, %s, kind %d: released %+v", i, s.name, kind, x)
					}
					w.t.Retry(w.now, w.id, Unexamined)
				}
				o.Reset()
			}
		}
		w.now = w.now.Add(time.Millisecond)
		o := w.flush()
		if len(o.Release) != 0 {
			t.Fatalf("round %d, %s, kind %d: released", i, s.name, kind)
		}
		if kind == 0 && w.t.In(Refused) != 1 {
			t.Fatalf("round %d, %s: the decoy was not refused: %v", i, s.name, w.t)
		}
		o.Reset()
		w.t.Closed(w.id)
	}
	for kind, c := range hits {
		if c == 0 {
			t.Errorf("kind %d never tried", kind)
		}
	}
}

// firstRecordEndingAt returns the length of the record that ends at end.
func firstRecordEndingAt(b []byte, end int) int {
	for at := 0; at < end; {
		n := firstRecord(b[at:])
		if at+n == end {
			return n
		}
		at += n
	}
	panic("no record ends there")
}

// TestEveryCut cuts each direction in two at every byte, in both orders.
func TestEveryCut(t *testing.T) {
	rules := newRules()
	for _, s := range recordings(t, rules) {
		w := start(rules)
		try := func(segs ...segment) {
			w.id.Nonce++
			w.count = 0
			for _, x := range segs {
				w.give(x)
			}
			w.t.Session(w.now, 0, s.ev)
			o := w.flush()
			if len(o.Release) != 1 || len(o.Refuse) != 0 {
				t.Fatalf("%s: %+v", s.name, o)
			}
			o.Reset()
			w.t.Released(w.id)
		}
		c, v := segment{out: true, data: s.client}, segment{data: s.server}
		for i := 1; i < len(s.client); i++ {
			x, y := segment{out: true, data: s.client[:i]}, segment{out: true, off: i, data: s.client[i:]}
			try(x, y, v)
			try(y, x, v)
		}
		for i := 1; i < min(len(s.server), Window); i++ {
			x, y := segment{data: s.server[:i]}, segment{off: i, data: s.server[i:]}
			try(c, x, y)
			try(c, y, x)
		}
		var bytewise []segment
		for i := range s.end {
			bytewise = append(bytewise, segment{off: i, data: s.server[i : i+1]})
		}
		try(append([]segment{c}, bytewise...)...)
		for i, j := 0, len(bytewise)-1; i < j; i, j = i+1, j-1 {
			bytewise[i], bytewise[j] = bytewise[j], bytewise[i]
		}
		try(append([]segment{c}, bytewise...)...)
	}
}
