// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"holdfast/latch/binder"
	"holdfast/latch/flow"
	"holdfast/latch/proxyproto"
	"holdfast/latch/tlshello"
)

// Bounds of what is kept for connections that have not got their ServerHello.
const (
	maxTracks  = 16384
	maxEarly   = 256 // first data that came before the accepted socket existed
	trackAge   = 10 * time.Second
	inWindow   = 65536 // IN_MAX
	outWindow  = 5 + 16384
	keepTracks = 1024 // spare ones
)

// track is a connection whose hellos are being collected.
type track struct {
	cookie            uint64
	started           time.Time
	older, newer      *track // in order of start
	inBased, outBased bool
	done              bool // the event is out; what still comes is ignored
	lost              bool
	err               error          // of the assemblers
	skip              int            // bytes of the PROXY header before the client's hello
	from              netip.AddrPort // the client, as that header says
	in, out           tlshello.Assembler
	ex                tlshello.Exchange
}

// early is data that the kernel gave to the listener, since it came with the
// ACK that ends the TCP handshake.
type early struct {
	listener uint64
	remote   netip.AddrPort
	seq      uint32
	length   int
	data     []byte
	at       time.Time
}

// tracker turns records into events.
type tracker struct {
	o       *Observer
	all     map[uint64]*track
	first   *track // oldest
	last    *track
	spare   []*track
	early   []early
	shares  window
	foreign foreign
	stats   Stats
	busy    time.Time // when a session was last told of
	dst     []Event
	r       record
}

func (t *tracker) init(o *Observer, shares int) {
	t.o = o
	t.all = map[uint64]*track{}
	t.shares = newWindow(shares)
	t.foreign = newForeign()
}

func (t *tracker) poll(dst []Event, now time.Time) []Event {
	t.dst = dst
	t.foreign.tick(now, t.o.ctl.watchLost.Load())
	for t.first != nil && (now.Sub(t.first.started) > trackAge || len(t.all) > maxTracks) {
		t.drop(t.first)
	}
	for len(t.early) > 0 && now.Sub(t.early[0].at) > trackAge {
		t.early = t.early[1:]
	}
	t.o.ring.Drain(t.o.ring.End(), func(b []byte) {
		if decode(b, &t.r) {
			t.record(&t.r, now)
		}
	})
	dst, t.dst = t.dst, nil
	return dst
}

// drop forgets a connection and keeps its memory for the next.
func (t *tracker) drop(c *track) {
	delete(t.all, c.cookie)
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		t.first = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		t.last = c.older
	}
	c.older, c.newer = nil, nil
	if len(t.spare) < keepTracks {
		t.spare = append(t.spare, c)
	}
}

func (t *tracker) track(r *record, now time.Time) *track {
	if c := t.all[r.cookie]; c != nil {
		return c
	}
	var c *track
	if n := len(t.spare); n > 0 {
		c, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		c = new(track)
	}
	c.cookie, c.started = r.cookie, now
	c.inBased, c.outBased, c.done, c.lost, c.err = false, false, false, false, nil
	c.skip, c.from = 0, netip.AddrPort{}
	c.ex.Reset()
	t.all[r.cookie] = c
	if c.older = t.last; c.older != nil {
		c.older.newer = c
	} else {
		t.first = c
	}
	t.last = c
	return c
}

func (t *tracker) record(r *record, now time.Time) {
	switch r.kind {
	case kindBound:
		if own, ok := decodeOwner(r.data); ok {
			t.o.reg.add(own, netip.AddrPortFrom(r.local.Addr(), r.local.Port()), false)
		}
	case kindUnbound:
		t.o.reg.remove(r.cookie)
	case kindListenerIn:
		if len(t.early) >= maxEarly {
			t.early = t.early[1:]
		}
		t.early = append(t.early, early{r.listener, r.remote, r.seq, r.length, append([]byte(nil), r.data...), now})
	case kindIn, kindOut:
		t.segment(t.track(r, now), r, now)
	case kindClosed:
		if c := t.all[r.cookie]; c != nil {
			t.drop(c)
		}
		t.dst = append(t.dst, Event{Kind: Closed, Cookie: r.cookie})
	case kindWatch:
		t.foreign.watch(r, now, t.shares.has)
	}
}

// segment adds a copied packet to its connection and, if the server spoke,
// looks how far the hellos are.
func (t *tracker) segment(c *track, r *record, now time.Time) {
	if c.done {
		return
	}
	c.lost = c.lost || r.flags&flagLost != 0
	if r.kind == kindIn {
		if !c.inBased {
			c.inBased = true
			c.in.Reset(r.base, inWindow)
			t.takeEarly(c, r)
		}
		c.add(&c.in, r.seq, r.data, r.length)
		return
	}
	if !c.outBased {
		c.outBased = true
		c.out.Reset(r.base, outWindow)
	}
	if !c.inBased {
		c.inBased = t.takeEarly(c, r)
	}
	c.add(&c.out, r.seq, r.data, r.length)
	if c.inBased {
		b := c.in.Bytes()
		if len(t.o.proxy) > 0 {
			b = t.proxied(c, r.local, b)
		}
		c.fail(c.ex.Client(b))
	}
	if c.err == nil {
		c.fail(c.ex.Server(c.out.Bytes()))
	}
	if c.err == nil && c.ex.Phase() != tlshello.Complete && r.flags&flagEnds == 0 && !c.lost {
		return
	}
	t.finish(c, r, now)
	if c.done = true; r.flags&flagEnds != 0 {
		t.drop(c)
	}
}

// proxied cuts the PROXY header off the client's stream b, where one is
// configured.
func (t *tracker) proxied(c *track, local netip.AddrPort, b []byte) []byte {
	if c.skip == 0 {
		if !matches(t.o.proxy, local) {
			return b
		}
		h, n, err := proxyproto.Parse(b)
		if err != nil {
			if !errors.Is(err, proxyproto.ErrMore) {
				c.fail(err)
			}
			return nil
		}
		c.skip, c.from = n, h.Src
	}
	return b[c.skip:]
}

func (c *track) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *track) add(a *tlshello.Assembler, seq uint32, data []byte, length int) {
	// The last record of a stream is cut at the end of the hello: what follows
	// does not matter, so it is not called missing.
	c.fail(a.Add(seq, data, length))
}

// takeEarly gives c the data that came before its socket existed.
func (t *tracker) takeEarly(c *track, r *record) bool {
	found := false
	for i := 0; i < len(t.early); {
		e := &t.early[i]
		if e.listener != r.listener || e.remote != r.remote {
			i++
			continue
		}
		if !found && r.kind == kindOut {
			c.in.Reset(e.seq, inWindow)
		}
		found = true
		c.add(&c.in, e.seq, e.data, e.length)
		t.early = append(t.early[:i], t.early[i+1:]...)
	}
	return found
}

// finish emits the one event of a connection.
func (t *tracker) finish(c *track, r *record, now time.Time) {
	first := c.ex.First()
	if first == nil {
		if alert := (*tlshello.Alert)(nil); !errors.As(c.err, &alert) {
			t.stats.Unread++
		}
		return
	}
	e := Event{Kind: Hello, Cookie: c.cookie, CH: c.ex.ClientHelloDigest(), Random: first.Random,
		Local: r.local, Remote: r.remote, Listener: t.o.reg.all[r.listener]}
	refuse := func(reason flow.Reason, detail string) {
		if e.Refusal == "" {
			e.Refusal, e.Detail = reason, detail
		}
	}
	if c.from.IsValid() {
		e.Remote = c.from
	}
	ch, sh := c.ex.Hello()
	if alert := (*tlshello.Alert)(nil); errors.As(c.err, &alert) {
		return // the server refused the handshake, which the client sees too
	}
	t.stats.Hellos++
	t.busy = now
	if c.lost {
		refuse(flow.AgentLostCopy, "the ring from the kernel was full")
	}
	if c.err != nil {
		refuse(flow.Reason(tlshello.CodeOf(c.err)), c.err.Error())
	}
	if sh == nil {
		refuse(flow.AgentHello, fmt.Sprintf("the server's first record ended, expected the hellos to be complete, the state is %s", c.ex.Phase()))
	} else {
		e.Group, e.Suite, e.Resumed = sh.Group, sh.CipherSuite, sh.PSK
		t.fresh(sh, now, refuse)
		transcript, _ := c.ex.Transcript()
		e.BinderHello = binder.Compute(binder.Server, binder.Hello, sh.Group, sh.Share, transcript)
		if len(t.o.both) > 0 && matches(t.o.both, r.local) {
			e.ServerName = string(first.ServerName)
			e.Core = binder.MutualCore(sh.Group, ch.Share(sh.Group), sh.Share, transcript)
		}
		e.BinderShare = binder.Compute(binder.Server, binder.Share, sh.Group, sh.Share, [sha256.Size]byte{})
	}
	switch {
	case !t.o.Protects(r.local):
		refuse(flow.NotProtected, r.local.String())
	case e.Listener == nil:
		refuse(flow.UnknownIdentity, "the listener was bound before the agent started, or too many sockets were bound since")
	}
	if e.Refusal != "" {
		t.stats.Refused++
		e.BinderHello, e.BinderShare = [32]byte{}, [32]byte{}
	}
	t.dst = append(t.dst, e)
}

// fresh refuses what was seen before, and remembers the share.
func (t *tracker) fresh(sh *tlshello.ServerHello, now time.Time, refuse func(flow.Reason, string)) {
	switch {
	case t.foreign.known.has(sh.Share) || t.foreign.known.has(sh.Random[:]):
		refuse(flow.ForeignHello, "")
	case t.shares.has(sh.Share):
		refuse(flow.ShareReused, "")
	case now.Before(t.foreign.blind):
		refuse(flow.AgentLostCopy, "copies of inbound hellos were lost within the last minute, so that this one cannot be told from a foreign one")
	}
	if !t.shares.add(sh.Share) {
		t.shares.turn(now)
		t.shares.add(sh.Share)
	}
}
