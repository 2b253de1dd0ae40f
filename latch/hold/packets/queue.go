// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"holdfast/latch/hold"
)

// Options of New.
type Options struct {
	// Connections is the most connections that are not open at once.
	Connections int
	// Opened is the most open connections. 0: the adapter's rules know which are
	// open, so that they are forgotten here after a moment; or else they are kept
	// until they end, and no more are opened than this.
	Opened int
	// Passing says how a destination passes.
	Passing func(netip.AddrPort) Passing
	// Accepts reports whether connections that others open to a local port pass.
	// nil: none do. It matters only if Opened is not 0.
	Accepts func(port uint16) bool
	// Carry hands verdicts to the kernel, in order. It is called with the lock held.
	Carry func([]Verdict)
	// Reset sends an RST segment, an IP packet of 40 or 60 bytes, from one end to
	// the other. Link is what Outbound said of the connection's latest packet. It
	// is called with the lock held.
	Reset func(packet []byte, to Side, link uint64) error
}

// Side is an end of a connection.
type Side uint8

// The ends.
const (
	Client Side = iota
	Server
)

// Queue decides about queued packets. Its methods may be called by several
// goroutines. Those named after methods of hold.Hold do what is said there.
type Queue struct {
	o Options

	mu     sync.Mutex
	t      *tracker
	spare  []hold.Record
	want   bool
	closed bool
	signal chan struct{}
	quit   chan struct{}
}

// New makes a Queue.
func New(o Options) *Queue {
	q := &Queue{o: o, signal: make(chan struct{}, 1), quit: make(chan struct{})}
	q.t = newTracker(&q.o, newID)
	return q
}

func newID() hold.ID {
	var b [16]byte
	rand.Read(b[:])
	return hold.ID{Cookie: binary.NativeEndian.Uint64(b[:]), Nonce: binary.NativeEndian.Uint64(b[8:])}
}

// Outbound takes a queued IP packet from a client. The id names it in verdicts.
func (q *Queue) Outbound(id uint32, packet []byte, link uint64) {
	q.packet(func(now time.Time) { q.t.outbound(id, packet, link, now) })
}

// Inbound takes a queued IP packet to a client.
func (q *Queue) Inbound(id uint32, packet []byte) {
	q.packet(func(now time.Time) { q.t.fromServer(id, packet, now) })
}

// Drop drops a queued packet unseen.
func (q *Queue) Drop(id uint32) { q.packet(func(time.Time) { q.t.say(id, Drop) }) }

// Stray drops a queued packet that belongs to no connection, and reports it.
func (q *Queue) Stray(id uint32, p *Packet, why hold.Reason) {
	q.packet(func(now time.Time) { q.t.stray(id, p, why, now) })
}

func (q *Queue) packet(decide func(now time.Time)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	decide(time.Now())
	q.send()
	if q.t.wake || q.want && q.t.inbound {
		q.want = false
		q.notify()
	}
}

func (q *Queue) notify() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// send carries verdicts and the resets that go with them.
func (q *Queue) send() {
	for _, f := range q.t.told {
		q.tellServer(f)
	}
	q.t.told = q.t.told[:0]
	if len(q.t.verdict) > 0 {
		q.o.Carry(q.t.verdict)
		clear(q.t.verdict)
		q.t.verdict = q.t.verdict[:0]
	}
}

func (q *Queue) tellServer(f *flow) {
	if err := q.o.Reset(encodeReset(f.client, f.server, f.copied, f.ack), Server, f.link); err != nil {
		slog.Warn("reset of a refused connection", "error", err)
	}
}

// Wait is that of hold.Hold.
func (q *Queue) Wait(deadline time.Time) error {
	var c <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		c = t.C
	}
	select {
	case <-q.quit:
		return net.ErrClosed
	default:
	}
	select {
	case <-q.signal:
	case <-c:
	case <-q.quit:
		return net.ErrClosed
	}
	return nil
}

// WantInbound is that of hold.Hold.
func (q *Queue) WantInbound() {
	q.mu.Lock()
	q.want = true
	if q.t.inbound {
		q.want = false
		q.notify()
	}
	q.mu.Unlock()
}

// Drain is that of hold.Hold.
func (q *Queue) Drain(fn func(*hold.Record)) error {
	q.mu.Lock()
	list := q.t.records
	q.t.records, q.spare = q.spare[:0], nil
	q.t.wake, q.t.inbound = false, false
	q.mu.Unlock()
	for i := range list {
		fn(&list[i])
	}
	clear(list)
	q.mu.Lock()
	q.spare = list[:0]
	q.mu.Unlock()
	return nil
}

// Release is that of hold.Hold.
func (q *Queue) Release(batch []hold.Verdict) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return net.ErrClosed
	}
	now := time.Now()
	for _, v := range batch {
		q.t.release(v, now)
	}
	q.send()
	return nil
}

// answerWait is how long a refused connection waits for an answer of the
// server's before the server is told.
const answerWait = 200 * time.Millisecond

// Refuse is that of hold.Hold: both ends get a reset. Where the client knows the
// server by another address (destination NAT) the one that is made here does not
// reach it; a packet of the server's does, which is turned into a reset.
func (q *Queue) Refuse(batch []hold.ID) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all error
	for _, id := range batch {
		f := q.t.byID[id]
		if f == nil {
			continue
		}
		q.t.refuse(f)
		if f.noRST || q.closed {
			continue
		}
		all = errors.Join(all, q.o.Reset(encodeReset(f.server, f.client, f.next(), f.copied), Client, f.link))
		if f.reset { // the server's answer may still come, and carry the client's reset
			time.AfterFunc(answerWait, func() { q.answerLate(f) })
		}
	}
	if !q.closed {
		q.send()
	}
	return all
}

func (q *Queue) answerLate(f *flow) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed && f.reset {
		f.reset = false
		q.tellServer(f)
	}
}

// Sweep forgets what has ended without a word.
func (q *Queue) Sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.t.sweep(time.Now())
		q.send()
	}
}

// Counters returns how many packets were dropped, by the reason's code.
func (q *Queue) Counters() map[string]uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[string]uint64{}
	for r, n := range q.t.counts {
		if n > 0 {
			out[hold.Reason(r).Code()] += n
		}
	}
	return out
}

// Waiting returns how many connections are not open.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.t.flows) - q.t.opened
}

// Live returns the ends, client first, of the open connections that are kept.
func (q *Queue) Live() [][2]netip.AddrPort {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out [][2]netip.AddrPort
	for k, f := range q.t.flows {
		if f.state == opened && f.fins == 0 {
			out = append(out, [2]netip.AddrPort{k.client, k.server})
		}
	}
	return out
}

// Interrupt is that of hold.Hold.
func (q *Queue) Interrupt() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.quit:
	default:
		close(q.quit)
	}
	return nil
}

// Close ends all decisions, so that nothing is carried any more, and reports
// whether this call was the first.
func (q *Queue) Close() bool {
	q.Interrupt()
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.closed
	q.closed = true
	return !was
}
