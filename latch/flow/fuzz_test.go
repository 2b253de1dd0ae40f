// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"math/rand/v2"
	"testing"
	"time"
)

// world drives a table with three connections and two agents by single bytes.
type world struct {
	t     testing.TB
	table *Table
	rules *rules
	list  []recorded
	now   time.Time
	wires [3]wire
	given [3]uint32   // count of the last inbound copy that was given
	judge map[ID]bool // connections that the judge accepted
}

func newWorld(t testing.TB, list []recorded, r *rules) *world {
	w := &world{t: t, rules: r, list: list, now: t0, judge: map[ID]bool{}}
	w.table = New(Options{Connections: 2, Deadline: time.Second, AgentWait: 300 * time.Millisecond}, w)
	for i := range w.wires {
		w.wires[i] = wire{t: w.table, id: ID{uint64(i), 1}}
	}
	return w
}

func (w *world) Service(name []byte) *Service { return w.rules.Service(name) }

func (w *world) Judge(j *Judgment) (Reason, string) {
	r, d := w.rules.Judge(j)
	if r == "" {
		w.judge[j.ID] = true
	}
	return r, d
}

// step carries out one operation.
func (w *world) step(op, arg byte) {
	i := int(arg) % 3
	x, s := &w.wires[i], &w.list[i]
	x.now = w.now
	switch op %= 14; op {
	case 0:
		x.out(0, s.chunks[0].data)
	case 1:
		x.in(0, s.server)
	case 2:
		x.in(0, s.server[:int(arg)])
	case 3:
		x.out(0, s.client)
	case 4:
		w.table.Session(w.now, int(arg>>4)%3, s.ev)
	case 5:
		bad := *s.ev
		bad.Index = uint64(arg)
		w.table.Session(w.now, int(arg>>4)%3, &bad)
	case 6:
		w.table.AgentUp(w.now, int(arg)%3)
	case 7:
		w.table.AgentLost(w.now, int(arg)%3, AgentLost, "")
	case 8:
		w.table.AgentRefused(w.now, int(arg>>4)%3, s.ch, NotObserved, "")
	case 9:
		w.table.Retry(w.now, x.id, []Reason{Unexamined, ReleaseFailed}[arg>>7])
	case 10:
		w.table.Closed(x.id)
		x.id.Nonce++
		x.count = 0
	case 11:
		forged := append([]byte{}, s.server...)
		forged[int(arg)%100] ^= 0x10
		x.in(0, forged)
	case 12:
		w.now = w.now.Add(time.Duration(arg) * time.Millisecond)
	case 13:
		x.count++ // a copy that is lost
	}
	if op == 1 || op == 2 || op == 11 {
		w.given[i] = x.count
	}
	w.check()
}

// check flushes and looks at what must always hold.
func (w *world) check() {
	o := w.table.Flush(w.now)
	for _, r := range o.Release {
		if !w.judge[r.ID] {
			w.t.Fatalf("released without a judgment: %+v", r)
		}
		i := r.ID.Cookie
		if r.Examined != w.given[i] || r.End != serverBase+uint32(w.list[i].end) {
			w.t.Fatalf("released %+v with %d segments", r, w.given[i])
		}
	}
	refused := map[ID]bool{}
	for _, r := range o.Refuse {
		if refused[r.ID] && r.Reason != TableFull || !r.Reason.Known() {
			w.t.Fatalf("refused %+v", r)
		}
		refused[r.ID] = true
	}
	for _, r := range o.Release {
		if refused[r.ID] {
			w.t.Fatal("released and refused at once")
		}
	}
	o.Reset()
	sum, n := 0, 0
	for _, c := range w.table.count {
		sum += c
	}
	var last time.Time
	for c := w.table.old; c != nil; c = c.next {
		n++
		if c.deadline.Before(last) || w.table.conns[c.id] != c {
			w.t.Fatal("the list is out of order")
		}
		last = c.deadline
		if (c.w == nil) != c.state.final() {
			w.t.Fatalf("state %v with work %v", c.state, c.w != nil)
		}
	}
	if sum != n || n != len(w.table.conns) || n > 2 || len(w.table.byCH) > n || len(w.table.due) > n {
		w.t.Fatalf("%d by state, %d in the list, %d in the map, %d by hello, %d due", sum, n, len(w.table.conns), len(w.table.byCH), len(w.table.due))
	}
	if next := w.table.Next(); next.IsZero() != (n == 0) {
		w.t.Fatalf("next %v with %d held", next, n)
	}
}

func FuzzTable(f *testing.F) {
	r := newRules()
	list := recordings(f, r)
	f.Add([]byte{6, 0, 0, 0, 1, 0, 4, 0, 9, 0, 12, 50})
	f.Add([]byte{6, 1, 4, 16, 3, 1, 4, 17, 1, 1, 11, 1, 9, 1, 10, 1, 3, 1, 1, 1, 4, 17})
	f.Fuzz(func(t *testing.T, ops []byte) {
		w := newWorld(t, list, r)
		for ops = ops[:min(len(ops), 400)]; len(ops) > 1; ops = ops[2:] {
			w.step(ops[0], ops[1])
		}
	})
}

// TestRandomOperations runs the fuzz target's world on random bytes.
func TestRandomOperations(t *testing.T) {
	r := newRules()
	list := recordings(t, r)
	rng := rand.New(rand.NewPCG(7, 8))
	released := 0
	for range rounds(3000, 50_000) {
		w := newWorld(t, list, r)
		for range 60 {
			w.step(byte(rng.Uint32()), byte(rng.Uint32()))
		}
		released += len(w.judge)
	}
	if released < 100 {
		t.Errorf("only %d releases: the test shows little", released)
	}
}
