// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"time"
)

// Session is a session that the watcher saw.
type Session struct {
	Binder [32]byte // of the server's role, grade hello
	Seen   time.Time
	Data   any // the watcher's own
}

// Options of a Ledger. Zero values take the default.
type Options struct {
	Deadline time.Duration // from when a session was seen until it must be confirmed; default 11 s
	Keep     time.Duration // how long a manifest's unknown sessions and a late session are remembered; default Deadline
	Sessions int           // that wait at once; default 65,536
}

// Verdict is what became of a session.
type Verdict string

// Verdicts. All but Confirmed are alarms.
const (
	Confirmed   Verdict = "confirmed"
	Unconfirmed Verdict = "unconfirmed" // no manifest listed it before the deadline
	Late        Verdict = "late"        // a manifest listed it after that: it was alarmed before
	Repeated    Verdict = "repeated"    // seen twice: two connections with the same hellos
	Full        Verdict = "ledger-full" // more sessions than the ledger takes
)

// Outcome is a verdict about one session.
type Outcome struct {
	Session *Session
	Verdict Verdict
	Claims  []byte // of Confirmed and Late
	Number  uint64
	Tag     any // as given to Cover
}

// Fault is what is wrong with a manifest that its report signs.
type Fault string

// Faults. The first three make the manifest count for nothing.
const (
	Replayed   Fault = "manifest-replayed"   // an old number with the same or a forgotten content
	Equivocal  Fault = "manifest-equivocal"  // a second content for a number: proof that the agent signs two histories
	Unlinked   Fault = "manifest-unlinked"   // the next number, but not after the content that was seen before
	Gap        Fault = "manifest-gap"        // numbers are missing: their sessions will stay unconfirmed
	NoSessions Fault = "manifest-no-session" // it lists nothing
)

// maxHeads and maxInstances bound what is remembered of the chains.
const (
	maxHeads     = 1024
	maxInstances = 64
)

type chain struct {
	last  uint64
	heads map[uint64][32]byte
}

// known is a manifest's session that no session of ours matched yet.
type known struct {
	claims []byte
	number uint64
	at     time.Time
	tag    any
}

// Ledger is the watcher's end. Not safe for concurrent use.
type Ledger struct {
	o       Options
	waiting map[[32]byte]*Session
	order   []*Session            // by time seen
	late    map[[32]byte]*Session // alarmed already
	lates   []*Session
	known   map[[32]byte]known
	recent  [][][32]byte // binders of recent manifests, to forget in order
	at      []time.Time
	chains  map[[16]byte]*chain
}

// NewLedger makes an empty ledger.
func NewLedger(o Options) *Ledger {
	if o.Deadline <= 0 {
		o.Deadline = 11 * time.Second
	}
	if o.Keep <= 0 {
		o.Keep = o.Deadline
	}
	if o.Sessions <= 0 {
		o.Sessions = 1 << 16
	}
	return &Ledger{o: o, waiting: map[[32]byte]*Session{}, late: map[[32]byte]*Session{}, known: map[[32]byte]known{}, chains: map[[16]byte]*chain{}}
}

// Waiting is the number of sessions that are not decided.
func (l *Ledger) Waiting() int { return len(l.waiting) }

// Saw takes a session. The outcome is nil while it waits.
func (l *Ledger) Saw(s *Session) *Outcome {
	if k, ok := l.known[s.Binder]; ok {
		delete(l.known, s.Binder)
		return &Outcome{Session: s, Verdict: Confirmed, Claims: k.claims, Number: k.number, Tag: k.tag}
	}
	if l.waiting[s.Binder] != nil || l.late[s.Binder] != nil {
		return &Outcome{Session: s, Verdict: Repeated}
	}
	if len(l.waiting) >= l.o.Sessions {
		return &Outcome{Session: s, Verdict: Full}
	}
	l.waiting[s.Binder] = s
	l.order = append(l.order, s)
	return nil
}

// Check says whether a manifest whose report was verified over head continues
// its agent's chain. With Gap or no fault it is remembered and counts.
func (l *Ledger) Check(m *Manifest, head [32]byte) Fault {
	if m.Sessions() == 0 {
		return NoSessions
	}
	c := l.chains[m.Instance]
	if c == nil {
		if len(l.chains) >= maxInstances { // agents that started again long ago
			clear(l.chains)
		}
		c = &chain{heads: map[uint64][32]byte{}}
		l.chains[m.Instance] = c
		c.last = m.Number - 1 // whatever comes first begins what this watcher sees
		if m.Number > 1 {
			c.heads[c.last] = m.Previous
		}
	}
	if m.Number <= c.last {
		if h, ok := c.heads[m.Number]; ok && h != head {
			return Equivocal
		}
		return Replayed
	}
	fault := Fault("")
	if m.Number != c.last+1 {
		fault = Gap
	} else if h, ok := c.heads[c.last]; ok && h != m.Previous {
		return Unlinked
	}
	c.heads[m.Number], c.last = head, m.Number
	delete(c.heads, m.Number-maxHeads)
	return fault
}

// Cover takes the sessions of a manifest that Check let count, and returns the
// outcome of those that this watcher saw. tag is the caller's, for outcomes now
// and later.
func (l *Ledger) Cover(m *Manifest, now time.Time, tag any) (out []Outcome) {
	var rest [][32]byte
	for i := range m.Groups {
		g := &m.Groups[i]
		for raw := g.Binders; len(raw) >= 32; raw = raw[32:] {
			b := [32]byte(raw[:32])
			if s := l.waiting[b]; s != nil {
				delete(l.waiting, b)
				v := Confirmed
				if now.Sub(s.Seen) > l.o.Deadline {
					v = Late
				}
				out = append(out, Outcome{s, v, g.Claims, m.Number, tag})
			} else if s := l.late[b]; s != nil {
				delete(l.late, b)
				out = append(out, Outcome{s, Late, g.Claims, m.Number, tag})
			} else {
				l.known[b] = known{g.Claims, m.Number, now, tag}
				rest = append(rest, b)
			}
		}
	}
	l.recent, l.at = append(l.recent, rest), append(l.at, now)
	return out
}

// Expire returns the sessions whose deadline has passed, and forgets what is
// old.
func (l *Ledger) Expire(now time.Time) (out []Outcome) {
	for len(l.order) > 0 {
		s := l.order[0]
		if l.waiting[s.Binder] == s {
			if now.Sub(s.Seen) <= l.o.Deadline {
				break
			}
			delete(l.waiting, s.Binder)
			l.late[s.Binder] = s
			l.lates = append(l.lates, s)
			out = append(out, Outcome{Session: s, Verdict: Unconfirmed})
		}
		l.order[0] = nil
		l.order = l.order[1:]
	}
	for len(l.lates) > 0 && now.Sub(l.lates[0].Seen) > l.o.Deadline+l.o.Keep {
		if s := l.lates[0]; l.late[s.Binder] == s {
			delete(l.late, s.Binder)
		}
		l.lates[0] = nil
		l.lates = l.lates[1:]
	}
	for len(l.recent) > 0 && now.Sub(l.at[0]) > l.o.Keep {
		for _, b := range l.recent[0] {
			if k, ok := l.known[b]; ok && k.at.Equal(l.at[0]) {
				delete(l.known, b)
			}
		}
		l.recent[0] = nil
		l.recent, l.at = l.recent[1:], l.at[1:]
	}
	return out
}
