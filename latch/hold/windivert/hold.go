// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/latch/hold"
	"holdfast/latch/hold/packets"
)

// Plain is a destination that is not gated.
type Plain struct {
	Prefix netip.Prefix
	Port   uint16 // 0: any
	UDP    bool   // UDP; otherwise TCP
	TLS    bool   // TLS is not gated either
}

func (p *Plain) match(udp bool, a netip.AddrPort) bool {
	return p.UDP == udp && (p.Port == 0 || p.Port == a.Port()) && p.Prefix.Contains(a.Addr())
}

// Options of Open.
type Options struct {
	Plain []Plain
	// Accept are local ports whose accepted connections pass.
	Accept []uint16
	// Connections is the most connections that are not open at once, Opened the
	// most that are; 0 means 65,536.
	Connections, Opened int
	// Held is the most bytes of packets that wait for a verdict; more are dropped.
	// 0 means 64 MiB.
	Held int
}

// Hold is the adapter. It implements hold.Hold.
type Hold struct {
	*packets.Queue
	o    Options
	h    Handle
	done chan struct{} // the reader has ended

	deaf atomic.Bool   // what is read is dropped
	lost atomic.Uint64 // packets that could not be read or injected

	mu    sync.Mutex
	next  uint32
	wait  map[uint32]*waiting
	bytes int
	own   map[ownKey]int
}

var _ hold.Hold = (*Hold)(nil)

// waiting is a packet without a verdict.
type waiting struct {
	b []byte
	a Address
}

// ownKey names a connection of this process: its local port and its peer.
type ownKey struct {
	port uint16
	peer netip.AddrPort
}

// Open starts to judge what the handle of OpenHandle diverts. Connections that
// are there already are shut, unless a port of Accept was theirs. It takes the
// handle over.
func Open(h Handle, o Options) (*Hold, error) {
	for _, p := range o.Plain {
		if !p.Prefix.IsValid() || p.Prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("plain destination: prefix %v is not valid", p.Prefix)
		}
	}
	for _, n := range []*int{&o.Connections, &o.Opened} {
		if *n <= 0 {
			*n = 1 << 16
		}
	}
	if o.Held <= 0 {
		o.Held = 64 << 20
	}
	x := &Hold{o: o, h: h, done: make(chan struct{}), wait: map[uint32]*waiting{}, own: map[ownKey]int{}}
	x.Queue = packets.New(packets.Options{Connections: o.Connections, Opened: o.Opened, Passing: x.passing,
		Accepts: func(p uint16) bool { return slices.Contains(o.Accept, p) }, Carry: x.carry, Reset: x.reset})
	go x.read()
	return x, nil
}

func (h *Hold) passing(a netip.AddrPort) packets.Passing {
	out := packets.Gated
	for i := range h.o.Plain {
		if p := &h.o.Plain[i]; p.match(false, a) {
			if p.TLS {
				return packets.Always
			}
			out = packets.Clear
		}
	}
	return out
}

// badReads is how many reads in a row may fail.
const badReads = 1000

// read takes packets until the handle is shut down.
func (h *Hold) read() {
	defer close(h.done)
	buf := make([]byte, maxPacket)
	for bad := 0; ; {
		n, a, err := h.h.Recv(buf)
		switch {
		case errors.Is(err, ErrnoNoData), errors.Is(err, ErrnoAborted):
			return
		case err != nil:
			h.lost.Add(1) // it is dropped
			if bad++; bad >= badReads {
				slog.Error("WinDivert cannot be read any more; nothing passes", "error", err)
				h.Interrupt()
				return
			}
		case h.deaf.Load():
		default:
			bad = 0
			h.take(buf[:n], &a)
		}
	}
}

// take judges one diverted packet. The bytes are the caller's.
func (h *Hold) take(b []byte, a *Address) {
	p, why := packets.Parse(b)
	if a.Loopback || h.isOwn(&p, a.Outbound) || a.Outbound && h.free(b, &p, why) {
		h.inject(b, a)
		return
	}
	id, ok := h.keep(b, a)
	if !ok {
		h.lost.Add(1)
		return
	}
	if a.Outbound {
		h.Outbound(id, b, uint64(a.Interface)|uint64(a.Subinterface)<<32)
	} else {
		h.Inbound(id, b)
	}
}

// free reports whether an outgoing packet passes whatever it says: UDP to a
// plain destination, and what the system's own stack sends (errors, neighbour
// discovery, group reports), for which a program would have to be administrator.
func (h *Hold) free(b []byte, p *packets.Packet, why hold.Reason) bool {
	if why == hold.ReasonNone && p.Proto == packets.ProtoUDP {
		return slices.ContainsFunc(h.o.Plain, func(x Plain) bool { return x.match(true, p.Dst) })
	}
	return why != hold.ReasonNone && control(b)
}

// control recognizes ICMP and ICMPv6 messages of the stack (RFC 792, RFC 4443,
// RFC 4861, RFC 3810) and IGMP. Echo is none: any program can put bytes there.
func control(b []byte) bool {
	switch {
	case len(b) > 20 && b[0]>>4 == 4 && b[6]&0x3f == 0 && b[7] == 0:
		l4 := int(b[0]&15) * 4
		if b[9] == 2 {
			return true
		}
		return b[9] == 1 && l4 >= 20 && len(b) > l4 && slices.Contains([]byte{3, 11, 12}, b[l4])
	case len(b) > 40 && b[0]>>4 == 6:
		next, at := b[6], 40
		if next == 0 && len(b) > 48 && b[41] == 0 { // hop-by-hop options, as group reports have them
			next, at = b[40], 48
		}
		if next != 58 || len(b) <= at {
			return false
		}
		t := b[at]
		return t >= 1 && t <= 4 || t >= 130 && t <= 137 || t == 143
	}
	return false
}

// keep stores a packet until its verdict.
func (h *Hold) keep(b []byte, a *Address) (id uint32, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bytes+len(b) > h.o.Held {
		return 0, false
	}
	for {
		h.next++
		if h.wait[h.next] == nil {
			break
		}
	}
	h.bytes += len(b)
	h.wait[h.next] = &waiting{append([]byte(nil), b...), *a}
	return h.next, true
}

// carry is called with the queue's lock held.
func (h *Hold) carry(list []packets.Verdict) {
	for _, v := range list {
		h.mu.Lock()
		w := h.wait[v.ID]
		if w != nil {
			delete(h.wait, v.ID)
			h.bytes -= len(w.b)
		}
		h.mu.Unlock()
		switch {
		case w == nil || v.Act == packets.Drop:
		case v.Instead != nil:
			a := w.a
			a.IPChecksum, a.TCPChecksum = true, true
			h.inject(v.Instead, &a)
		default:
			h.inject(w.b, &w.a)
		}
	}
}

// inject lets a packet go on, with checksums that are right: the driver leaves
// open those that a network card was to make, and such packets get lost on some
// ways.
func (h *Hold) inject(b []byte, a *Address) {
	if !a.IPChecksum || !a.TCPChecksum && !a.UDPChecksum {
		if packets.FixChecksums(b) {
			a.IPChecksum, a.TCPChecksum, a.UDPChecksum = true, true, true
		}
	}
	if err := h.h.Send(b, a); err != nil {
		if h.lost.Add(1) == 1 || !errors.Is(err, ErrnoHostUnreachable) {
			slog.Warn("WinDivert: a packet could not be injected", "error", err)
		}
	}
}

// reset injects an RST to the program of this machine or to the server.
func (h *Hold) reset(b []byte, to packets.Side, link uint64) error {
	a := Address{Outbound: to == packets.Server, IPv6: b[0]>>4 == 6, IPChecksum: true, TCPChecksum: true, UDPChecksum: true,
		Interface: uint32(link), Subinterface: uint32(link >> 32)}
	return h.h.Send(b, &a)
}

// Sweep implements hold.Hold.
func (h *Hold) Sweep() error {
	h.Queue.Sweep()
	return nil
}

// Counters returns how many packets were dropped, by reason, and how many could
// not be read, kept or injected.
func (h *Hold) Counters() map[string]uint64 {
	out := h.Queue.Counters()
	out["lost"] = h.lost.Load()
	return out
}

// Close implements hold.Hold: from now on everything that is diverted is
// dropped, while this process and its guard live.
func (h *Hold) Close() error {
	h.deaf.Store(true)
	h.Queue.Close()
	h.mu.Lock()
	clear(h.wait)
	h.bytes = 0
	h.mu.Unlock()
	return nil
}

// Detach opens the machine: programs then send without a gate. What was held is
// dropped first.
func (h *Hold) Detach() error {
	h.Close()
	err := h.h.ShutdownRecv() // the reader drops the rest and ends
	if err == nil {
		select {
		case <-h.done:
		case <-time.After(10 * time.Second):
			err = errors.New("WinDivert: the queue did not end")
		}
	}
	return errors.Join(err, h.h.Close())
}
