// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"holdfast/latch/hold"
)

var nativeEndian = binary.NativeEndian

// maxPushes bounds how often a released connection's queue is pushed when the
// kick did not fit what TCP had received meanwhile. Without a push TCP goes on
// by itself with the next segment from the peer.
const maxPushes = 3

// peer is what a kick or a reset needs of one waiting connection.
type peer struct {
	local, remote netip.AddrPort
	netns         uint64
	ifindex       uint32
	end           uint32 // after the furthest inbound byte that was copied
	ack           uint32 // highest acknowledgement of the peer
	window        uint16
	heard         bool // end, ack and window are set
	verdict       hold.Verdict
	seq           uint32 // of the last kick
	pushes        uint8
	stale         bool // was pushed before the last Sweep
}

// Wait implements hold.Hold.
func (h *Hold) Wait(deadline time.Time) error {
	if h.again.Load() {
		if soon := time.Now().Add(100 * time.Microsecond); deadline.IsZero() || soon.Before(deadline) {
			deadline = soon
		}
	}
	return h.wait.until(h, deadline)
}

// Interrupt implements hold.Hold.
func (h *Hold) Interrupt() error { h.wait.interrupt(); return nil }

// WantInbound implements hold.Hold.
func (h *Hold) WantInbound() {
	h.words.Uint32(wordIn).Store(1)
	if !h.in.Empty() { // before the programs could see that
		h.wait.p.Wake()
	}
}

// Drain implements hold.Hold. It reads the inbound ring only up to where it
// was before the outbound ring was read, so that a hello precedes its answer.
func (h *Hold) Drain(fn func(*hold.Record)) error {
	now := time.Now()
	var r rec
	var out hold.Record
	h.again.Store(false)
	each := func(b []byte) {
		if decode(b, &r) && h.take(&r) {
			out = hold.Record{
				Kind: hold.Kind(r.kind), Reason: hold.Reason(r.reason), ID: r.id, Local: r.local, Remote: r.remote,
				Seq: r.seq, Base: r.base, Count: r.count, Len: r.len, Data: r.data, At: now,
			}
			fn(&out)
		}
	}
	to := h.in.End()
	if !h.out.Drain(h.out.End(), each) || !h.in.Drain(to, each) {
		h.again.Store(true)
	}
	if len(h.pushes) == 0 {
		return nil
	}
	list := h.pushes
	h.pushes = h.pushes[:0]
	err := h.kick(list)
	return err
}

// take keeps what kicks need and says whether the gate gets the record.
func (h *Hold) take(r *rec) bool {
	p := h.peers[r.id]
	switch hold.Kind(r.kind) {
	case hold.Outbound:
		return p != nil || h.add(r)
	case hold.Denied:
		switch hold.Reason(r.reason) {
		case hold.ReasonUDP, hold.ReasonProtocol, hold.ReasonPacket: // no connection to reset: the sender got EPERM
			return true
		}
		return p != nil || h.add(r)
	case hold.Inbound:
		if p == nil {
			return true // of a connection that an earlier gate held
		}
		if end := r.seq + r.len; !p.heard || int32(end-p.end) > 0 {
			p.end = end
		}
		if !p.heard || int32(r.ack-p.ack) >= 0 {
			p.ack, p.window = r.ack, r.window
		}
		p.heard = true
		return true
	case hold.Retry:
		return p != nil
	case hold.Released:
		if p == nil {
			return false
		}
		first := p.pushes == 0
		if int32(r.nxt-p.seq) > 0 && p.pushes < maxPushes {
			p.pushes++
			p.end = r.nxt
			h.pushes = append(h.pushes, r.id)
		} else {
			delete(h.peers, r.id)
		}
		return first
	}
	return false
}

func (h *Hold) add(r *rec) bool {
	if len(h.peers) >= h.max {
		return false
	}
	if r.netns != 0 {
		// Now, while its process is there: a reset must reach the socket also
		// when the process has ended. An unknown namespace is an error later.
		h.ns.find(r.netns, r.id, r.local, r.remote)
	}
	h.peers[r.id] = &peer{local: r.local, remote: r.remote, netns: r.netns, ifindex: r.ifindex}
	return true
}

// Release implements hold.Hold.
func (h *Hold) Release(batch []hold.Verdict) error {
	list := h.kicks[:0]
	for _, v := range batch {
		if p := h.peers[v.ID]; p != nil && p.heard {
			p.verdict = v
			list = append(list, v.ID)
		}
	}
	h.kicks = list
	return h.kick(list)
}

// kick sends one segment per connection: one system call per address family,
// network namespace and 256 connections.
func (h *Hold) kick(list []hold.ID) error {
	var all error
	for _, id := range list {
		p := h.peers[id]
		if p == nil {
			continue
		}
		n, err := h.ns.find(p.netns, id, p.local, p.remote)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		s := n.kick4
		if !p.local.Addr().Is4() {
			if s = n.kick6; s == nil {
				continue
			}
		}
		if p.seq = p.end; int32(p.verdict.End-p.seq) > 0 {
			p.seq = p.verdict.End
		}
		k := kick{id: id, local: p.local, remote: p.remote, seq: p.seq, ack: p.ack, window: p.window, end: p.verdict.End, examined: p.verdict.Examined}
		if err := s.add(&k, p.ifindex); err != nil {
			all = errors.Join(all, err)
		}
	}
	for _, n := range h.ns.known {
		for _, s := range []*sender{n.kick4, n.kick6} {
			if s != nil && s.n > 0 {
				if err := s.flush(); err != nil {
					all = errors.Join(all, err)
				}
			}
		}
	}
	return all
}

// Refuse implements hold.Hold.
func (h *Hold) Refuse(batch []hold.ID) error {
	var all error
	for _, id := range batch {
		p := h.peers[id]
		if p == nil {
			continue
		}
		delete(h.peers, id)
		n, err := h.ns.find(p.netns, id, p.local, p.remote)
		if err == nil {
			_, err = n.diag.Destroy(id.Cookie, p.local, p.remote, p.ifindex)
		}
		if err != nil {
			all = errors.Join(all, err)
		}
	}
	return all
}

// Sweep lets go of network namespaces that have no gated process any more, and
// of released connections whose last push was never confirmed: the socket was
// closed meanwhile. Call it now and then, as the other methods: one at a time.
func (h *Hold) Sweep() error {
	h.forgetPushed()
	return h.ns.scan()
}

func (h *Hold) forgetPushed() {
	for id, p := range h.peers {
		if p.stale {
			delete(h.peers, id)
		}
		p.stale = p.pushes > 0
	}
}

// Waiting returns how many connections wait for a verdict.
func (h *Hold) Waiting() int { return len(h.peers) }
