// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"
	"net/netip"
	"time"

	"holdfast/latch/binder"
)

// ID names one connection: the kernel's socket cookie and a random number that
// is new for each connection attempt.
type ID struct{ Cookie, Nonce uint64 }

// A Service is what the configuration says about one server name.
type Service struct {
	Name       string       // for logs
	Grade      binder.Grade // that the agent is asked for and the binder is computed with
	Resumption bool         // accept psk_dhe_ke: a resumed session with a fresh share
	// ECH accepts a hello with encrypted_client_hello. Whoever controls DNS can
	// make a client show any name in the clear, and so choose the policy: only
	// right where every service has the same one. (Browsers also send the
	// extension without meaning it; nobody outside can tell.)
	ECH    bool
	Agents uint64 // bit i: agent i may vouch for this service
	// Claims is the digest of this machine's own claims, for grade Mutual: the
	// server attests that it accepted them.
	Claims [32]byte
	Data   any // the gate's own, handed to the Judge
}

// Judgment is a session whose leaf fits a report: what the Judge has to decide
// about. Slices are valid during the call only.
type Judgment struct {
	ID          ID
	Service     *Service
	Agent       int
	Report      uint64   // number of the report on the agent's channel
	Root        [32]byte // root of the report's tree that contains this session
	Claims      []byte   // canonical encoding; the leaf contains its digest
	ServerName  []byte
	Group       uint16
	CipherSuite uint16
	Resumed     bool
	Grade       binder.Grade
}

// Rules is what the gate knows and the table does not.
type Rules interface {
	// Service returns the entry for a server name in lower case, nil when there is none.
	Service(name []byte) *Service
	// Judge verifies that the report signs the root and that the policy accepts
	// report, claims and session. An empty reason accepts. It is called in
	// Session or Packet, by the goroutine that called these.
	Judge(j *Judgment) (r Reason, detail string)
}

// Options are the limits of a Table. Zero values mean the defaults.
type Options struct {
	Connections int           // held at a time, 4096
	Deadline    time.Duration // from the first copy to the release, 5 s
	AgentWait   time.Duration // how long a connection waits for an agent to connect, 2 s
	RetryPause  time.Duration // first pause after a release that was not carried out, 500 µs; doubles up to 50 ms
	// Open are agents (bit i: agent i) that are a rendezvous: anybody may speak
	// there. Bad evidence or a refusal from there ends nothing; the connection
	// waits on for good evidence until its deadline.
	Open uint64
}

// Window is how many bytes at the start of the server's stream are examined;
// the ServerHello must end within it. ClientWindow is the same for the client.
const (
	Window       = 4096
	ClientWindow = 1 << 14
)

// Table holds the gated connections that are not open yet.
type Table struct {
	o     Options
	rules Rules
	conns map[ID]*conn
	byCH  map[[32]byte]*conn
	up    uint64 // agents connected
	old   *conn  // list in order of creation, so of deadlines
	young *conn
	due   []*conn // Proved
	// lonely have no agent to ask yet. Like due it may hold entries that moved
	// on; Flush drops them.
	lonely []*conn
	out    Output
	free   []*conn // recycled
	spare  []*work
	count  [states]int
	j      Judgment
	// mutuals says that sessions of grade Mutual were seen: their evidence of
	// this side waits for the ServerHello, so inbound copies must wake the gate.
	mutuals bool
}

// New makes an empty table.
func New(o Options, rules Rules) *Table {
	if o.Connections == 0 {
		o.Connections = 4096
	}
	if o.Deadline == 0 {
		o.Deadline = 5 * time.Second
	}
	if o.AgentWait == 0 {
		o.AgentWait = 2 * time.Second
	}
	if o.RetryPause == 0 {
		o.RetryPause = 500 * time.Microsecond
	}
	return &Table{o: o, rules: rules, conns: make(map[ID]*conn), byCH: make(map[[32]byte]*conn)}
}

// Packet is a copy of one segment with payload.
type Packet struct {
	ID       ID
	Outbound bool
	Seq      uint32 // of the first payload byte
	Base     uint32 // of the first byte of this direction's stream
	Count    uint32 // inbound: number of inbound segments so far, this one included
	Len      uint32 // payload bytes on the wire, at least len(Data)
	Data     []byte
	Local    netip.AddrPort // for messages
	Remote   netip.AddrPort
}

// Packet takes a copy. Outbound bytes have left already: the adapter lets hello
// messages pass and nothing else.
func (t *Table) Packet(now time.Time, p *Packet) {
	c := t.conns[p.ID]
	if c == nil {
		if c = t.add(now, p.ID, p.Local, p.Remote); c == nil {
			return
		}
	}
	if c.state.final() {
		return
	}
	if p.Outbound {
		t.outbound(now, c, p)
	} else {
		t.inbound(now, c, p)
	}
}

// Denied takes the adapter's word that a connection can never be released.
func (t *Table) Denied(now time.Time, id ID, local, remote netip.AddrPort, r Reason) {
	c := t.conns[id]
	if c == nil {
		if c = t.add(now, id, local, remote); c == nil {
			return
		}
	}
	t.refuse(now, c, r, "")
}

// Retry takes the adapter's word that a Release was not carried out; r is
// Unexamined when segments came that had not been examined, else ReleaseFailed.
func (t *Table) Retry(now time.Time, id ID, r Reason) {
	c := t.conns[id]
	if c == nil || c.state != Releasing {
		return
	}
	t.move(c, Proved)
	c.retryReason = r
	c.retryAt = now.Add(c.pause)
	c.pause = min(2*c.pause, 50*time.Millisecond)
	t.due = append(t.due, c)
}

// Released takes the adapter's word that the connection is open.
func (t *Table) Released(id ID) { t.Closed(id) }

// Closed forgets a connection, whatever its state.
func (t *Table) Closed(id ID) {
	if c := t.conns[id]; c != nil {
		t.remove(c)
	}
}

// Flush applies the clock and returns what is to be done, gathered since the
// gate last emptied it with [Output.Reset]. now must not go back; use a
// monotonic clock.
func (t *Table) Flush(now time.Time) *Output {
	for c := t.old; c != nil && !now.Before(c.deadline); c = t.old {
		if c.state.final() {
			if c.state == Ended {
				t.out.Drop = append(t.out.Drop, c.id)
			}
			t.remove(c)
			continue
		}
		r, detail := c.late()
		t.refuse(now, c, r, detail)
		t.remove(c)
	}
	keep := t.lonely[:0]
	for _, c := range t.lonely {
		switch {
		case !c.lonely():
		case now.Sub(c.since) >= t.o.AgentWait:
			t.refuse(now, c, NoAgent, "")
		default:
			keep = append(keep, c)
		}
	}
	clear(t.lonely[len(keep):])
	t.lonely = keep
	t.release(now)
	if t.mutuals && t.count[Answer] > 0 {
		t.out.WantInbound = true
	}
	return &t.out
}

// release gives out what is due. A connection of which a counted segment has
// not been examined waits.
func (t *Table) release(now time.Time) {
	keep := t.due[:0]
	for _, c := range t.due {
		switch {
		case c.state != Proved: // refused or closed since
		case c.examined != c.counted || now.Before(c.retryAt) && !(c.retryReason == Unexamined && c.examined > c.sent):
			keep = append(keep, c)
		default:
			t.out.Release = append(t.out.Release, Release{ID: c.id, End: c.end, Examined: c.examined, Held: now.Sub(c.since),
				Agent: c.agent, Report: c.report, Tries: c.tries})
			c.tries++
			c.sent = c.examined
			t.move(c, Releasing)
		}
	}
	clear(t.due[len(keep):])
	t.due = keep
}

// Reset empties the output, after the gate has acted on it.
func (o *Output) Reset() {
	clear(o.Refuse)
	*o = Output{Announce: o.Announce[:0], Attest: o.Attest[:0], Release: o.Release[:0], Refuse: o.Refuse[:0], Drop: o.Drop[:0]}
}

// Next returns when Flush must be called at the latest; the zero time when
// nothing is held.
func (t *Table) Next() time.Time {
	if t.old == nil {
		return time.Time{}
	}
	at := t.old.deadline
	for _, c := range t.lonely {
		if w := c.since.Add(t.o.AgentWait); w.Before(at) && c.lonely() {
			at = w
		}
	}
	for _, c := range t.due {
		if c.retryAt.Before(at) && c.examined == c.counted {
			at = c.retryAt
		}
	}
	return at
}

// RefuseAll refuses everything that is held, as when the gate stops.
func (t *Table) RefuseAll(now time.Time, r Reason) {
	for c := t.old; c != nil; c = c.next {
		if !c.state.final() {
			t.refuse(now, c, r, "")
		}
	}
}

// Len returns the number of entries; In those in one state.
func (t *Table) Len() int       { return len(t.conns) }
func (t *Table) In(s State) int { return t.count[s] }
func (t *Table) String() string { return fmt.Sprintf("%d held: %v", len(t.conns), t.count) }
