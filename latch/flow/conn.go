// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"errors"
	"net/netip"
	"time"

	"holdfast/latch/binder"
	"holdfast/latch/tlshello"
)

// conn is one entry of the table. What is large hangs in work, which is
// recycled as soon as the connection is decided.
type conn struct {
	id            ID
	state         State
	local, remote netip.AddrPort
	since         time.Time
	deadline      time.Time
	prev, next    *conn

	service *Service
	ch      [32]byte
	asked   uint64 // agents that may still answer
	last    Reason // the most telling refusal of an agent so far
	detail  string

	examined, counted uint32 // inbound segments: given to us, counted by the adapter
	end               uint32
	binder            [32]byte
	own               [32]byte // grade Mutual: leaf of this side's evidence
	group, suite      uint16
	resumed           bool

	evidence []evidence // that waits for the ServerHello, one of each agent at most
	agent    int        // whose evidence was good
	report   uint64

	retryAt     time.Time
	retryReason Reason
	pause       time.Duration
	tries       int
	sent        uint32 // examined in the last release

	w *work
}

// work is the memory that examining hellos takes: about 10 KB in use.
type work struct {
	x       tlshello.Exchange
	out, in tlshello.Assembler
	haveOut bool
	haveIn  bool
	outBase uint32
	inBase  uint32
}

// maxSpare is how much memory of decided connections is kept for the next
// ones: about 10 MB after a flood.
const maxSpare = 1024

func (t *Table) add(now time.Time, id ID, local, remote netip.AddrPort) *conn {
	if len(t.conns) >= t.o.Connections {
		t.out.Refuse = append(t.out.Refuse, Refusal{ID: id, Reason: TableFull, Local: local, Remote: remote})
		return nil
	}
	var c *conn
	if n := len(t.free); n > 0 {
		c, t.free = t.free[n-1], t.free[:n-1]
	} else {
		c = new(conn)
	}
	*c = conn{id: id, local: local, remote: remote, since: now, deadline: now.Add(t.o.Deadline), pause: t.o.RetryPause,
		evidence: c.evidence[:0], prev: t.young}
	if n := len(t.spare); n > 0 {
		c.w, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		c.w = new(work)
	}
	c.w.x.Reset()
	c.w.haveOut, c.w.haveIn = false, false
	if t.young != nil {
		t.young.next = c
	} else {
		t.old = c
	}
	t.young = c
	t.conns[id] = c
	t.count[Hello]++
	return c
}

func (t *Table) move(c *conn, s State) {
	t.count[c.state]--
	t.count[s]++
	c.state = s
}

// settle gives back the memory of a connection that is decided.
func (t *Table) settle(c *conn) {
	if t.byCH[c.ch] == c {
		delete(t.byCH, c.ch)
	}
	if c.w != nil {
		if len(t.spare) < maxSpare {
			t.spare = append(t.spare, c.w)
		}
		c.w = nil
	}
}

func (t *Table) remove(c *conn) {
	t.settle(c)
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		t.old = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		t.young = c.prev
	}
	delete(t.conns, c.id)
	t.count[c.state]--
	for i := range t.due { // rare: closed or timed out while due
		if t.due[i] == c {
			t.due = append(t.due[:i], t.due[i+1:]...)
			break
		}
	}
	c.prev, c.next = nil, nil
	if len(t.free) < maxSpare {
		t.free = append(t.free, c)
	}
}

func (t *Table) refuse(now time.Time, c *conn, r Reason, detail string) {
	if c.state.final() {
		return
	}
	f := Refusal{ID: c.id, Reason: r, Detail: detail, Local: c.local, Remote: c.remote, Held: now.Sub(c.since)}
	if c.w != nil {
		if h := c.w.x.First(); h != nil {
			f.Service = string(h.ServerName)
		}
	}
	t.out.Refuse = append(t.out.Refuse, f)
	t.move(c, Refused)
	t.settle(c)
}

// late is the reason for a connection whose deadline has passed: what it
// waited for.
func (c *conn) late() (Reason, string) {
	switch {
	case c.counted != c.examined:
		return LostCopy, "a segment that the adapter counted was never handed over"
	case c.tries > 0 && c.retryReason != "":
		return c.retryReason, "the release was tried until the deadline"
	case c.tries > 0:
		return ReleaseFailed, "the adapter did not confirm the release"
	case c.last != "":
		return c.last, c.detail
	case c.state == Hello:
		return Deadline, "the ClientHello did not become complete"
	case c.state == Answer && c.asked != 0:
		return Deadline, "the ServerHello did not come"
	case c.asked == 0:
		return NoAgent, ""
	}
	return Deadline, "the agent sent no evidence"
}

func (t *Table) outbound(now time.Time, c *conn, p *Packet) {
	w := c.w
	if !w.haveOut {
		w.haveOut, w.outBase = true, p.Base
		w.out.Reset(p.Base, ClientWindow)
	}
	if p.Base != w.outBase {
		t.refuse(now, c, Malformed, "the adapter named two starts of the client's stream")
		return
	}
	if err := w.out.Add(p.Seq, p.Data, int(p.Len)); err != nil {
		t.hello(now, c, err)
		return
	}
	err := w.x.Client(w.out.Bytes())
	if err == nil && !w.out.Examined(len(w.out.Bytes())) {
		t.refuse(now, c, Unexamined, "the copy of the client's hello was cut")
		return
	}
	t.advance(now, c, err)
}

func (t *Table) inbound(now time.Time, c *conn, p *Packet) {
	w := c.w
	c.examined++
	c.counted = max(c.counted, p.Count)
	if !w.haveIn {
		w.haveIn, w.inBase = true, p.Base
		w.in.Reset(p.Base, Window)
	}
	if p.Base != w.inBase {
		t.refuse(now, c, Malformed, "the adapter named two starts of the server's stream")
		return
	}
	if c.examined > c.counted {
		t.refuse(now, c, LostCopy, "more copies than the adapter counted")
		return
	}
	if err := w.in.Add(p.Seq, p.Data, int(p.Len)); err != nil {
		t.hello(now, c, err)
		return
	}
	err := w.x.Server(w.in.Bytes())
	if err == nil && w.x.Phase() != tlshello.Complete && len(w.in.Bytes()) == Window {
		t.refuse(now, c, HelloTooLarge, "the ServerHello does not end within the first 4096 bytes")
		return
	}
	t.advance(now, c, err)
}

// hello refuses for an error of the hello reader, or ends for an alert.
func (t *Table) hello(now time.Time, c *conn, err error) {
	var a *tlshello.Alert
	if errors.As(err, &a) {
		if c.state != Proved && c.state != Releasing {
			t.move(c, Ended)
			t.settle(c)
		}
		return
	}
	t.refuse(now, c, Reason(tlshello.CodeOf(err)), err.Error())
}

// advance moves on as far as the hellos allow.
func (t *Table) advance(now time.Time, c *conn, err error) {
	x := &c.w.x
	// The first ClientHello alone decides whether there is a policy: the most
	// useful reason, so it goes before later faults.
	if c.state == Hello {
		if first := x.First(); first != nil {
			if !t.announce(now, c, first) {
				return
			}
		}
	}
	if err != nil {
		t.hello(now, c, err)
		return
	}
	if x.Phase() != tlshello.Complete {
		return
	}
	if !c.w.in.Examined(x.ServerEnd()) {
		t.refuse(now, c, Unexamined, "a segment of the ServerHello arrived without its copy")
		return
	}
	if c.state == Answer {
		t.complete(now, c)
	}
}

// announce chooses the service and tells its agents. It reports false when the
// connection was refused.
func (t *Table) announce(now time.Time, c *conn, first *tlshello.ClientHello) bool {
	if first.ServerName == nil {
		t.refuse(now, c, NoName, "")
		return false
	}
	if c.service = t.rules.Service(first.ServerName); c.service == nil {
		t.refuse(now, c, NoPolicyForName, "")
		return false
	}
	if first.ECH && !c.service.ECH {
		t.refuse(now, c, ECH, "")
		return false
	}
	ch := c.w.x.ClientHelloDigest()
	if t.byCH[ch] != nil {
		t.refuse(now, c, DuplicateHello, "")
		return false
	}
	c.ch = ch
	t.byCH[ch] = c
	t.move(c, Answer)
	t.ask(c, c.service.Agents&t.up)
	return true
}

func (t *Table) ask(c *conn, agents uint64) {
	if agents == 0 {
		t.lonely = append(t.lonely, c)
		return
	}
	c.asked |= agents
	if c.service.Grade == binder.Mutual {
		t.mutuals = true
		if c.state == Evidence { // an agent that came later
			t.out.Attest = append(t.out.Attest, Attest{CH: c.ch, Leaf: c.own, Agents: agents})
		}
	}
	t.out.Announce = append(t.out.Announce, Announce{ID: c.id, Agents: agents, CH: c.ch, Random: c.w.x.First().Random, Grade: c.service.Grade})
}

// complete takes what the decision needs from the complete hellos.
func (t *Table) complete(now time.Time, c *conn) {
	ch, sh := c.w.x.Hello()
	transcript, ok := c.w.x.Transcript()
	if sh == nil || !ok {
		t.refuse(now, c, Malformed, "the hellos are not complete")
		return
	}
	if sh.PSK && !c.service.Resumption {
		t.refuse(now, c, Resumption, "")
		return
	}
	c.group, c.suite, c.resumed = sh.Group, sh.CipherSuite, sh.PSK
	c.end = c.w.in.Seq(c.w.x.ServerEnd())
	if c.service.Grade == binder.Mutual {
		if !t.mutual(now, c, ch, sh, transcript) {
			return
		}
	} else {
		c.binder = binder.Compute(binder.Server, c.service.Grade, sh.Group, sh.Share, transcript)
	}
	t.move(c, Evidence)
	for i := 0; i < len(c.evidence) && c.state == Evidence; i++ {
		t.decide(now, c, &c.evidence[i])
	}
	c.evidence = c.evidence[:0]
}

// mutual computes both binders of a mutual session and has this side's
// attested. It reports false when the connection was refused.
func (t *Table) mutual(now time.Time, c *conn, ch *tlshello.ClientHello, sh *tlshello.ServerHello, transcript [32]byte) bool {
	share := ch.Share(sh.Group)
	if share == nil {
		t.refuse(now, c, GroupNotOffered, "the client's hello has no share of the group that the server chose")
		return false
	}
	core := binder.MutualCore(sh.Group, share, sh.Share, transcript)
	c.own = binder.Leaf(binder.MutualClient(core), c.service.Claims)
	c.binder = binder.MutualServer(core, c.own)
	if c.asked != 0 {
		t.out.Attest = append(t.out.Attest, Attest{CH: c.ch, Leaf: c.own, Agents: c.asked})
	}
	return true
}

// lonely reports whether c waits for an agent to connect.
func (c *conn) lonely() bool { return c.asked == 0 && (c.state == Answer || c.state == Evidence) }
