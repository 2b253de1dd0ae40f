// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nfqueue

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"

	"holdfast/latch/hold/packets"
)

// marks are the values that rules and verdicts share.
type marks struct {
	pass    uint32 // of a packet that this process let pass
	release uint32 // of the packet that opens its connection
	open    uint32 // of an open connection (connection mark)
}

// rules are the two tables of a scope.
type rules struct {
	name    string // of the scope
	queue   uint16
	compat  bool // this kernel has no queue statement, but the NFQUEUE target
	devices []string
	plain   []Plain
	marks   marks
}

// Chain priorities: after connection tracking (-200), where the table mangle
// stands (-150); the guard comes right behind.
const (
	priorityQueue = -150
	priorityGuard = -149
)

func (r *rules) table() string { return "holdfast_" + r.name }
func (r *rules) guard() string { return "holdfast_" + r.name + "_guard" }

// A chain of a table. Base chains have a hook.
type chain struct {
	name     string
	hook     int // -1: none
	priority int32
	rules    [][]expr.Any
}

// chains are the contents of the queueing table, or of the guard.
func (r *rules) chains(guard bool) []chain {
	priority := int32(priorityQueue)
	if guard {
		priority = priorityGuard
	}
	base := func(name string, hook int, from, to bool) chain {
		c := chain{name: name, hook: hook, priority: priority}
		for _, d := range r.devices {
			if from {
				c.rules = append(c.rules, rule(device(expr.MetaKeyIIFNAME, d), jump("outbound")))
			}
			if to {
				c.rules = append(c.rules, rule(device(expr.MetaKeyOIFNAME, d), jump("inbound")))
			}
		}
		return c
	}
	return []chain{
		{name: "outbound", hook: -1, rules: r.outbound(guard)},
		{name: "inbound", hook: -1, rules: r.inbound(guard)},
		base("forward", unix.NF_INET_FORWARD, true, true),
		base("input", unix.NF_INET_LOCAL_IN, true, false),
		base("output", unix.NF_INET_LOCAL_OUT, false, true),
	}
}

// held ends a chain: to the queue, or, in the guard, away unless it was passed.
func (r *rules) held(guard bool) [][]expr.Any {
	if !guard {
		return [][]expr.Any{rule(ctInvalid(), verdictOf(expr.VerdictDrop)), rule(r.toQueue())}
	}
	return [][]expr.Any{
		rule(mark(r.marks.pass), setMark(0), verdictOf(expr.VerdictReturn)),
		rule(verdictOf(expr.VerdictDrop)),
	}
}

// outbound judges what comes from a client.
func (r *rules) outbound(guard bool) (out [][]expr.Any) {
	syn := tcpFlags(packets.FlagSYN|packets.FlagACK, packets.FlagSYN)
	out = append(out,
		// The mark of an open connection outlives a reset: a new SYN clears it.
		rule(l4(packets.ProtoTCP), syn, ctMark(r.marks.open), setCTMark(0)),
		rule(l4(packets.ProtoTCP), ctMark(r.marks.open), verdictOf(expr.VerdictReturn)))
	if guard {
		out = append(out, rule(l4(packets.ProtoTCP), mark(r.marks.release), setCTMark(r.marks.open), setMark(0), verdictOf(expr.VerdictReturn)))
	}
	for _, p := range r.plain {
		if p.UDP || p.TLS {
			out = append(out, rule(p.match(true), verdictOf(expr.VerdictReturn)))
		}
	}
	// Neighbour discovery and listener reports between a client and this router
	// (RFC 4861, 2710): the router does not forward them, and without them there is no IPv6.
	for t := 130; t <= 143; t++ {
		if t <= 137 || t == 143 {
			out = append(out, rule(l4(unix.IPPROTO_ICMPV6), hopLimit(255), transport(0, 1, []byte{byte(t)}), verdictOf(expr.VerdictReturn)))
		}
	}
	out = append(out, noPayload(tcpFlagsNot(packets.FlagSYN|packets.FlagACK, packets.FlagSYN))...)
	return append(out, r.held(guard)...)
}

// inbound judges what goes to a client.
func (r *rules) inbound(guard bool) (out [][]expr.Any) {
	out = append(out,
		rule(l4Not(packets.ProtoTCP), verdictOf(expr.VerdictReturn)),
		rule(ctMark(r.marks.open), verdictOf(expr.VerdictReturn)))
	for _, p := range r.plain {
		if p.TLS && !p.UDP {
			out = append(out, rule(p.match(false), verdictOf(expr.VerdictReturn)))
		}
	}
	out = append(out, noPayload(tcpFlags(packets.FlagURG, 0))...)
	return append(out, r.held(guard)...)
}

func rule(parts ...[]expr.Any) (out []expr.Any) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// noPayload returns from the chain for TCP segments without payload that match:
// the packet is as long as its headers. Headers with options of IPv4, or with
// extensions of IPv6, do not match.
func noPayload(match []expr.Any) (out [][]expr.Any) {
	for words := 5; words <= 15; words++ {
		for _, v := range []struct {
			version byte
			first   byte
			mask    byte
			size    int
		}{{4, 0x45, 0xff, 20}, {6, 0x60, 0xf0, 40}} {
			n := make([]byte, 4)
			binary.NativeEndian.PutUint32(n, uint32(v.size+4*words))
			out = append(out, rule(
				l4(packets.ProtoTCP),
				[]expr.Any{
					&expr.Meta{Key: expr.MetaKeyLEN, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: n},
					&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 0, Len: 1},
					&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{v.mask}, Xor: []byte{0}},
					&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{v.first}},
					&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 12, Len: 1},
					&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{0xf0}, Xor: []byte{0}},
					&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(words << 4)}},
				},
				match, verdictOf(expr.VerdictReturn)))
		}
	}
	return out
}

func l4(proto byte) []expr.Any    { return l4op(expr.CmpOpEq, proto) }
func l4Not(proto byte) []expr.Any { return l4op(expr.CmpOpNeq, proto) }
func l4op(op expr.CmpOp, proto byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: []byte{proto}}}
}

func device(k expr.MetaKey, name string) []expr.Any {
	b := make([]byte, 16) // IFNAMSIZ
	copy(b, name)
	return []expr.Any{&expr.Meta{Key: k, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: b}}
}

func jump(to string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: to}}
}
func verdictOf(k expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: k}} }

func hopLimit(n byte) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 7, Len: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{n}}}
}

func transport(off, n uint32, want []byte) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: off, Len: n}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: want}}
}

func tcpFlags(mask, want byte) []expr.Any    { return tcpFlagsOp(expr.CmpOpEq, mask, want) }
func tcpFlagsNot(mask, want byte) []expr.Any { return tcpFlagsOp(expr.CmpOpNeq, mask, want) }
func tcpFlagsOp(op expr.CmpOp, mask, want byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{mask}, Xor: []byte{0}},
		&expr.Cmp{Op: op, Register: 1, Data: []byte{want}},
	}
}

func word(v uint32) []byte {
	b := make([]byte, 4)
	binary.NativeEndian.PutUint32(b, v)
	return b
}

func mark(v uint32) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: word(v)}}
}

func setMark(v uint32) []expr.Any {
	return []expr.Any{&expr.Immediate{Register: 1, Data: word(v)}, &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1}}
}

func ctMark(v uint32) []expr.Any {
	return []expr.Any{&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: word(v)}}
}

func setCTMark(v uint32) []expr.Any {
	return []expr.Any{&expr.Immediate{Register: 1, Data: word(v)}, &expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true}}
}

// ctInvalid matches what connection tracking could not place: a wrong checksum,
// a segment outside of the window.
func ctInvalid() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: word(1), Xor: word(0)}, // NF_CT_STATE_INVALID_BIT
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: word(0)},
	}
}

// toQueue never bypasses: without a listener the packet is dropped.
func (r *rules) toQueue() []expr.Any {
	if !r.compat {
		return []expr.Any{&expr.Queue{Num: r.queue, Total: 1}}
	}
	info := make(xt.Unknown, 6) // struct xt_NFQ_info_v3: number, count, flags
	binary.NativeEndian.PutUint16(info, r.queue)
	binary.NativeEndian.PutUint16(info[2:], 1)
	return []expr.Any{&expr.Target{Name: "NFQUEUE", Rev: 3, Info: &info}}
}

// Plain is a destination that is not gated, as hold/cgroupskb has it.
type Plain struct {
	Prefix netip.Prefix
	Port   uint16 // 0: any
	UDP    bool   // of a resolver; otherwise TCP
	TLS    bool   // TLS is not gated either
}

// match matches packets to the destination, or (far false) from it.
func (p Plain) match(to bool) (out []expr.Any) {
	family, off, n, port := byte(unix.NFPROTO_IPV4), uint32(16), uint32(4), uint32(2)
	if p.Prefix.Addr().Is6() {
		family, off, n = unix.NFPROTO_IPV6, 24, 16
	}
	if !to {
		off, port = off-n, 0
	}
	proto := byte(packets.ProtoTCP)
	if p.UDP {
		proto = packets.ProtoUDP
	}
	mask := make([]byte, n)
	for i := range p.Prefix.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	out = append(out, &expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}})
	out = append(out, l4(proto)...)
	out = append(out,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: off, Len: n},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: n, Mask: mask, Xor: make([]byte, n)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Prefix.Masked().Addr().AsSlice()})
	if p.Port != 0 {
		out = append(out, transport(port, 2, binary.BigEndian.AppendUint16(nil, p.Port))...)
	}
	return out
}

func (p Plain) check() error {
	if !p.Prefix.IsValid() || p.Prefix.Addr().Is4In6() {
		return fmt.Errorf("plain destination: prefix %v is not valid", p.Prefix)
	}
	return nil
}
