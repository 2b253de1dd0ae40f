// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"crypto/sha256"
	"time"

	"holdfast/latch/binder"
)

// MaxPath is the most siblings of an inclusion path.
const MaxPath = 20

// Session is an agent's statement where a session stands in a report's tree.
// Nothing in it is trusted.
type Session struct {
	CH     [32]byte // as announced
	Report uint64   // number of the report on the agent's channel
	Index  uint64   // of the leaf
	Size   uint64   // leaves of the tree, from the report
	Path   [][32]byte
	Claims []byte
}

// evidence is a Session that is kept, in memory of our own.
type evidence struct {
	agent               int
	report, index, size uint64
	path                [][32]byte
	claims              []byte
}

// AgentUp says that agent i (0 to 63) is connected. Held connections that it
// may vouch for are announced to it.
func (t *Table) AgentUp(now time.Time, i int) {
	bit := uint64(1) << i
	t.up |= bit
	for c := t.old; c != nil; c = c.next {
		if (c.state == Answer || c.state == Evidence) && c.service.Agents&bit != 0 && c.asked&bit == 0 {
			t.ask(c, bit)
		}
	}
}

// AgentLost says that the connection to agent i ended; r is AgentLost, or what
// the agent did wrong. Who waits for this agent alone is refused.
func (t *Table) AgentLost(now time.Time, i int, r Reason, detail string) {
	bit := uint64(1) << i
	t.up &^= bit
	for c := t.old; c != nil; c = c.next {
		if (c.state == Answer || c.state == Evidence) && c.asked&bit != 0 && !c.answered(i) {
			t.without(now, c, i, r, detail)
		}
	}
}

// AgentRefused says that agent i refuses a session. Codes that are not in the
// vocabulary are kept as they came.
func (t *Table) AgentRefused(now time.Time, i int, ch [32]byte, r Reason, detail string) {
	if c := t.byCH[ch]; c != nil && (c.state == Answer || c.state == Evidence) && c.asked&(1<<i) != 0 {
		if r == "" {
			r = AgentProtocol
		}
		if t.o.Open&(1<<i) != 0 {
			c.hear(r, detail)
			return
		}
		t.without(now, c, i, r, detail)
	}
}

// without notes that agent i will not help, and refuses when none is left.
// NotObserved is what every agent but the right one says, so any other reason
// tells more.
func (t *Table) without(now time.Time, c *conn, i int, r Reason, detail string) {
	c.asked &^= 1 << i
	c.hear(r, detail)
	if c.asked == 0 {
		t.refuse(now, c, c.last, c.detail)
	}
}

// OwnFailed says that this machine could not have its own leaf attested, so
// that the server of a mutual session will not answer.
func (t *Table) OwnFailed(now time.Time, ch [32]byte, detail string) {
	if c := t.byCH[ch]; c != nil && (c.state == Answer || c.state == Evidence) {
		t.refuse(now, c, OwnReporter, detail)
	}
}

// hear keeps the most telling reason for the case that nothing better comes.
func (c *conn) hear(r Reason, detail string) {
	if c.last == "" || c.last == NotObserved {
		c.last, c.detail = r, detail
	}
}

// maxOpen is how many statements of an open agent are kept for a connection
// whose ServerHello is awaited; newer ones push out older ones.
const maxOpen = 4

// Session takes an agent's statement. It is judged at once, or as soon as the
// ServerHello is there.
func (t *Table) Session(now time.Time, agent int, s *Session) {
	c := t.byCH[s.CH]
	if c == nil || c.state != Answer && c.state != Evidence || c.asked&(1<<agent) == 0 {
		return // decided, or nobody asked
	}
	open := t.o.Open&(1<<agent) != 0
	if !open && c.answered(agent) {
		return // said before
	}
	if len(s.Path) > MaxPath || len(s.Claims) > binder.MaxClaims {
		if open {
			c.hear(AgentProtocol, "the path or the claims are too long")
			return
		}
		t.without(now, c, agent, AgentProtocol, "the path or the claims are too long")
		return
	}
	if open {
		c.makeRoom(agent)
	}
	n := len(c.evidence)
	if n < cap(c.evidence) {
		c.evidence = c.evidence[:n+1]
	} else {
		c.evidence = append(c.evidence, evidence{})
	}
	e := &c.evidence[n]
	e.agent, e.report, e.index, e.size = agent, s.Report, s.Index, s.Size
	e.path, e.claims = append(e.path[:0], s.Path...), append(e.claims[:0], s.Claims...)
	if c.state == Answer {
		t.out.WantInbound = true
		return
	}
	t.decide(now, c, e)
	c.evidence = c.evidence[:0]
}

// answered reports whether evidence of this agent waits.
func (c *conn) answered(agent int) bool {
	for i := range c.evidence {
		if c.evidence[i].agent == agent {
			return true
		}
	}
	return false
}

// makeRoom drops the oldest statement of an open agent when maxOpen are kept.
func (c *conn) makeRoom(agent int) {
	n, oldest := 0, -1
	for i := range c.evidence {
		if c.evidence[i].agent == agent {
			if n++; oldest < 0 {
				oldest = i
			}
		}
	}
	if n >= maxOpen {
		e := c.evidence[oldest]
		copy(c.evidence[oldest:], c.evidence[oldest+1:])
		c.evidence[len(c.evidence)-1] = e // its memory is used again
		c.evidence = c.evidence[:len(c.evidence)-1]
	}
}

// decide judges evidence for a connection whose hellos are complete.
func (t *Table) decide(now time.Time, c *conn, e *evidence) {
	if r, detail := t.judge(c, e); r != "" {
		if t.o.Open&(1<<e.agent) != 0 {
			c.hear(r, detail)
			return
		}
		t.without(now, c, e.agent, r, detail)
		return
	}
	c.agent, c.report, c.last = e.agent, e.report, ""
	t.move(c, Proved)
	t.due = append(t.due, c)
}

func (t *Table) judge(c *conn, e *evidence) (Reason, string) {
	if _, err := binder.ParseClaims(e.claims); err != nil {
		return ClaimsInvalid, err.Error()
	}
	leaf := binder.Leaf(c.binder, sha256.Sum256(e.claims))
	root, err := binder.RootFromPath(leaf, e.index, e.size, e.path)
	if err != nil {
		return PathInvalid, err.Error()
	}
	ch, _ := c.w.x.Hello()
	if ch == nil {
		return Malformed, "the hellos are not complete"
	}
	t.j = Judgment{ID: c.id, Service: c.service, Agent: e.agent, Report: e.report, Root: root, Claims: e.claims,
		ServerName: ch.ServerName, Group: c.group, CipherSuite: c.suite, Resumed: c.resumed, Grade: c.service.Grade}
	return t.rules.Judge(&t.j)
}
