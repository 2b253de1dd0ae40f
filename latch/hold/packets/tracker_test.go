// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"holdfast/latch/hold"
)

var (
	clientEnd = netip.MustParseAddrPort("10.0.0.1:40000")
	serverEnd = netip.MustParseAddrPort("10.0.1.2:443")
)

// segment makes a TCP packet.
func segment(from, to netip.AddrPort, flags byte, seq, ack uint32, opts, payload []byte) []byte {
	b := make([]byte, 20, 40+len(opts)+len(payload))
	b[0], b[8], b[9] = 0x45, 64, ProtoTCP
	binary.BigEndian.PutUint16(b[2:], uint16(40+len(opts)+len(payload)))
	s, d := from.Addr().As4(), to.Addr().As4()
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	t := make([]byte, 20)
	binary.BigEndian.PutUint16(t, from.Port())
	binary.BigEndian.PutUint16(t[2:], to.Port())
	binary.BigEndian.PutUint32(t[4:], seq)
	binary.BigEndian.PutUint32(t[8:], ack)
	t[12], t[13] = byte(5+len(opts)/4)<<4, flags
	return append(append(append(b, t...), opts...), payload...)
}

// bench is a tracker with the kernel's queue played by a map.
type bench struct {
	t        *testing.T
	tr       *tracker
	now      time.Time
	next     uint32
	queue    map[uint32][]byte // packets without a verdict
	toServer [][]byte          // payloads that left
	toClient []segmentOf       // payloads that were delivered, in order
	open     bool
	records  []hold.Record
}

type segmentOf struct {
	seq  uint32
	data []byte
}

func newBench(t *testing.T) *bench {
	n := uint64(0)
	return &bench{t: t, now: time.Unix(1, 0), queue: map[uint32][]byte{},
		tr: newTracker(&Options{Connections: 8, Passing: func(netip.AddrPort) Passing { return Gated }}, func() hold.ID { n++; return hold.ID{Cookie: n, Nonce: n} })}
}

// out and in give packets to the tracker and carry its verdicts out.
func (b *bench) out(flags byte, seq, ack uint32, payload string) {
	b.put(segment(clientEnd, serverEnd, flags, seq, ack, nil, []byte(payload)), true)
}
func (b *bench) in(seq uint32, payload string) {
	b.put(segment(serverEnd, clientEnd, FlagACK, seq, 0, nil, []byte(payload)), false)
}

func (b *bench) put(pkt []byte, out bool) {
	if b.open {
		return // the rules let it pass
	}
	b.next++
	b.queue[b.next] = pkt
	if out {
		b.tr.outbound(b.next, pkt, 0, b.now)
	} else {
		b.tr.fromServer(b.next, pkt, b.now)
	}
	b.settle()
}

func (b *bench) settle() {
	for _, v := range b.tr.verdict {
		pkt, ok := b.queue[v.ID]
		if !ok {
			b.t.Fatalf("two verdicts for packet %d", v.ID)
		}
		delete(b.queue, v.ID)
		if v.Act == Drop {
			continue
		}
		if v.Instead != nil {
			pkt = v.Instead
		}
		p, _ := Parse(pkt)
		if p.Src == clientEnd {
			b.toServer = append(b.toServer, p.Payload)
		} else {
			b.toClient = append(b.toClient, segmentOf{p.seq, p.Payload})
		}
		b.open = b.open || v.Act == Open
	}
	b.tr.verdict = b.tr.verdict[:0]
	b.records = append(b.records, b.tr.records...)
	b.tr.records = nil
}

func (b *bench) sent() string { return string(bytes.Join(b.toServer, nil)) }

func (b *bench) release(end, examined uint32) {
	id := b.records[0].ID
	b.tr.release(hold.Verdict{ID: id, End: end, Examined: examined}, b.now)
	b.settle()
}

func (b *bench) last() hold.Record {
	if len(b.records) == 0 {
		return hold.Record{}
	}
	return b.records[len(b.records)-1]
}

const (
	isn  = uint32(0xfffffff0) // wraps around soon
	base = uint32(0xffffff00)
)

// aHello is a record that looks like a ClientHello of n bytes.
func aHello(n int) string {
	b := make([]byte, n)
	b[0], b[1], b[2], b[3], b[4] = 0x16, 3, 1, byte((n-5)>>8), byte(n-5)
	b[5], b[7], b[8], b[9] = 1, byte((n-9)>>8), byte(n-9), 3
	return string(b)
}

func serverHello(n int) string {
	b := []byte(aHello(n))
	b[5] = 2
	for i := 11; i < n; i++ {
		b[i] = byte(i * 7)
	}
	return string(b)
}

func retryRequest() string {
	b := []byte(serverHello(90))
	copy(b[11:], retryRandom)
	return string(b)
}

// begin plays a connection up to its ClientHello.
func begin(t *testing.T) *bench {
	b := newBench(t)
	b.out(FlagSYN, isn, 0, "")
	b.out(FlagACK, isn+1, base, aHello(300))
	if b.sent() != aHello(300) || b.last().Kind != hold.Outbound || b.last().Base != isn+1 {
		t.Fatalf("the hello did not leave: %d bytes, %+v", len(b.sent()), b.last())
	}
	return b
}

func afterHello() uint32 { return add(isn, 301) }

func end(n uint32) uint32 { return add(base, n) }

func add(a, b uint32) uint32 { return a + b }

func TestRelease(t *testing.T) {
	b := begin(t)
	sh := serverHello(1200)
	b.in(base, sh)
	b.in(end(1200), "encrypted")
	b.release(end(1200), 1)
	if b.last().Kind != hold.Retry || b.last().Reason != hold.ReasonUnexamined || len(b.toClient) != 0 {
		t.Fatalf("released with one segment examined of two: %+v", b.last())
	}
	b.release(end(1300), 2)
	if b.last().Reason != hold.ReasonNotTaken {
		t.Fatalf("released beyond what came: %+v", b.last())
	}
	b.release(end(1200), 2)
	if len(b.toClient) != 2 || b.open {
		t.Fatalf("%d packets delivered, open %v", len(b.toClient), b.open)
	}
	// The client has not acknowledged the hello: its bytes do not leave.
	b.out(FlagACK, afterHello(), end(1199), "secret")
	if b.open || b.sent() != aHello(300) {
		t.Fatal("opened before the client's TCP took what was verified")
	}
	// Another version of the verified bytes is not delivered any more.
	forged := []byte(sh)
	forged[100] ^= 1
	b.in(base, string(forged))
	if len(b.toClient) != 2 {
		t.Fatal("a forged hello was delivered after the release")
	}
}

func TestOpens(t *testing.T) {
	b := begin(t)
	b.in(base, serverHello(120))
	b.release(end(120), 1)
	b.in(base, serverHello(120)) // lost on the way to the client, and sent again
	if len(b.toClient) != 2 {
		t.Fatalf("%d packets delivered, expected the retransmission too", len(b.toClient))
	}
	b.out(FlagACK, afterHello(), end(120), "request")
	if !b.open || b.sent() != aHello(300)+"request" || b.last().Kind != hold.Released {
		t.Fatalf("open %v, %+v", b.open, b.last())
	}
	// A packet that was queued before the mark was there follows.
	b.open = false
	b.out(FlagACK, afterHello()+7, end(120), " more")
	if b.sent() != aHello(300)+"request more" {
		t.Error("what was queued at the moment of the release was dropped")
	}
	b.open = false
	b.now = b.now.Add(2 * linger)
	b.out(FlagACK, afterHello()+12, end(120), "mark lost")
	if b.open || b.last().Reason != hold.ReasonNotFromSYN {
		t.Error("a connection without its mark passes for ever")
	}
}

func TestForgedSegmentShuts(t *testing.T) {
	b := begin(t)
	sh := serverHello(200)
	b.in(base, sh)
	forged := []byte(sh)
	forged[150] ^= 1
	b.in(base, string(forged))
	b.release(end(200), 2)
	b.out(FlagACK, afterHello(), end(200), "secret")
	if len(b.toClient) != 0 || b.open || b.sent() != aHello(300) || len(b.queue) != 0 {
		t.Errorf("delivered %d, open %v, %d in the queue", len(b.toClient), b.open, len(b.queue))
	}
}

func TestRetry(t *testing.T) {
	b := begin(t)
	ccs := "\x14\x03\x03\x00\x01\x01"
	b.in(base, retryRequest()+ccs)
	if len(b.toClient) != 1 {
		t.Fatal("the HelloRetryRequest was not delivered")
	}
	b.out(FlagACK, afterHello(), end(96), ccs+aHello(200))
	if b.sent() != aHello(300)+ccs+aHello(200) {
		t.Fatalf("second hello: %d bytes left", len(b.sent()))
	}
	b.out(FlagACK, afterHello()+206, end(96), aHello(100)) // a third
	b.out(FlagACK, afterHello()+206, end(96), "secret")
	if b.sent() != aHello(300)+ccs+aHello(200) {
		t.Fatal("more than two hellos left")
	}
	b.in(end(96), serverHello(150))
	if len(b.toClient) != 1 {
		t.Fatal("the ServerHello was delivered before the release")
	}
	b.release(end(246), 2)
	b.out(FlagACK, afterHello()+206, end(246), "request")
	if !b.open {
		t.Error("not opened")
	}
}

// A retry request with other bytes behind it stays in the queue.
func TestRetryWithMore(t *testing.T) {
	b := begin(t)
	b.in(base, retryRequest()+"\x16\x03\x03")
	if len(b.toClient) != 0 {
		t.Error("delivered")
	}
}

func TestAlertDelivered(t *testing.T) {
	b := begin(t)
	b.in(base, "\x15\x03\x03\x00\x02\x02\x28")
	if len(b.toClient) != 1 {
		t.Error("the server's alert was kept from the client")
	}
	b.out(FlagACK, afterHello(), end(7), "secret")
	if b.open || b.sent() != aHello(300) {
		t.Error("opened by an alert")
	}
}

func TestDeniedFlows(t *testing.T) {
	mp := []byte{30, 4, 0, 0}
	for _, tc := range []struct {
		name string
		play func(*bench)
		want hold.Reason
	}{
		{"not TLS", func(b *bench) { b.out(FlagSYN, isn, 0, ""); b.out(FlagACK, isn+1, base, "GET / HTTP/1.1\r\n") }, hold.ReasonNotTLS},
		{"one byte that is not TLS", func(b *bench) { b.out(FlagSYN, isn, 0, ""); b.out(FlagACK, isn+1, base, "G") }, hold.ReasonNotTLS},
		{"early data", func(b *bench) { b.out(FlagSYN, isn, 0, ""); b.out(FlagACK, isn+1, base, aHello(300)+"x") }, hold.ReasonEarlyBytes},
		{"early data in the next segment", func(b *bench) {
			b.out(FlagSYN, isn, 0, "")
			b.out(FlagACK, isn+1, base, aHello(300))
			b.out(FlagACK, afterHello(), base, "x")
		}, hold.ReasonEarlyBytes},
		{"too long", func(b *bench) { b.out(FlagSYN, isn, 0, ""); b.out(FlagACK, isn+1, base, aHello(9000)[:1000]) }, hold.ReasonTooLong},
		{"data in the SYN", func(b *bench) { b.out(FlagSYN, isn, 0, aHello(300)) }, hold.ReasonSYNData},
		{"MPTCP", func(b *bench) { b.put(segment(clientEnd, serverEnd, FlagSYN, isn, 0, mp, nil), true) }, hold.ReasonMPTCP},
		{"no SYN", func(b *bench) { b.out(FlagACK, isn+1, base, aHello(300)) }, hold.ReasonNotFromSYN},
		{"gap", func(b *bench) { b.out(FlagSYN, isn, 0, ""); b.out(FlagACK, isn+2, base, aHello(300)) }, hold.ReasonNotFromSYN},
		{"server first", func(b *bench) {
			b.out(FlagSYN, isn, 0, "")
			b.in(base, "220 hello")
			b.out(FlagACK, isn+1, base, aHello(300))
		}, hold.ReasonServerFirst},
		{"urgent", func(b *bench) {
			b.out(FlagSYN, isn, 0, "")
			b.out(FlagACK, isn+1, base, aHello(300))
			b.put(segment(serverEnd, clientEnd, FlagACK|FlagURG, base, 0, nil, []byte("x")), false)
		}, hold.ReasonUrgent},
	} {
		b := newBench(t)
		tc.play(b)
		if r := b.last(); r.Kind != hold.Denied || r.Reason != tc.want {
			t.Errorf("%s: %+v, want %v", tc.name, r, tc.want)
		}
		sent := b.sent()
		b.out(FlagACK, afterHello(), base, "secret")
		if b.sent() != sent || b.open || len(b.queue) != 0 || (sent != "" && sent != aHello(300)) {
			t.Errorf("%s: sent %q, open %v, queued %d", tc.name, b.sent(), b.open, len(b.queue))
		}
	}
}

// TestRefuseTellsTheClient: a packet of the server's carries the reset, once.
func TestRefuseTellsTheClient(t *testing.T) {
	for _, queued := range []bool{true, false} {
		b := begin(t)
		if queued {
			b.in(base, serverHello(100))
		}
		b.tr.refuse(b.tr.byID[b.records[0].ID])
		b.settle()
		if !queued {
			b.in(base, serverHello(100))
		}
		b.in(base, serverHello(100))
		if len(b.toClient) != 1 || len(b.toClient[0].data) != 0 || b.toClient[0].seq != base || len(b.queue) != 0 {
			t.Errorf("queued %v: %d packets to the client, %d in the queue", queued, len(b.toClient), len(b.queue))
		}
	}
}

// TestResetSums: both checksums of a reset are right, in IPv4 and IPv6.
func TestResetSums(t *testing.T) {
	b := encodeReset(serverEnd, clientEnd, 1, 2)
	if fold(partial(b[:20], 0)) != 0 || fold(partial(b[20:], partial(b[12:20], ProtoTCP+20))) != 0 {
		t.Errorf("%x", b)
	}
	b = encodeReset(netip.MustParseAddrPort("[2001:db8::1]:443"), netip.MustParseAddrPort("[2001:db8::2]:40000"), 0xfffffffe, 3)
	if fold(partial(b[40:], partial(b[8:40], ProtoTCP+20))) != 0 {
		t.Errorf("%x", b)
	}
	if p, why := Parse(b); why != hold.ReasonNone || p.Flags != FlagRST|FlagACK || p.seq != 0xfffffffe || p.ack != 3 || p.Size != 0 {
		t.Errorf("%+v %v", p, why)
	}
}

// TestPortReuse: a SYN makes a new connection of the same name, whose release
// is its own.
func TestPortReuseIsNew(t *testing.T) {
	b := begin(t)
	b.in(base, serverHello(100))
	first := b.records[0].ID
	b.out(FlagSYN, add(isn, 5000), 0, "")
	if len(b.queue) != 0 {
		t.Error("packets of the old connection are still queued")
	}
	b.out(FlagACK, add(isn, 5001), base, aHello(300))
	if b.last().ID == first {
		t.Error("the same identity for two connections")
	}
	b.tr.release(hold.Verdict{ID: first, End: end(100), Examined: 1}, b.now)
	b.settle()
	b.out(FlagACK, add(isn, 5301), end(100), "secret")
	if b.open {
		t.Error("the verdict on the old connection opened the new one")
	}
}

// TestSmallSegments: a ClientHello in segments of any size.
func TestSmallSegments(t *testing.T) {
	for size := 1; size < 30; size++ {
		b := newBench(t)
		b.out(FlagSYN, isn, 0, "")
		h := aHello(300)
		for at := 0; at < len(h); at += size {
			b.out(FlagACK, add(isn, 1+uint32(at)), base, h[at:min(len(h), at+size)])
		}
		switch {
		case size*(maxEarly+1) >= headBytes && b.sent() != h:
			t.Errorf("%d bytes a segment: %d bytes left", size, len(b.sent()))
		case size*(maxEarly+1) < headBytes && b.sent() != "":
			t.Errorf("%d bytes a segment: left without being judged", size)
		}
	}
}

// TestRandomNetwork: an adversary reorders, repeats, cuts and forges what the
// server sends, and a careless gate releases at random moments whatever is
// asked for. What is delivered of the first 4 KiB never has two versions, and
// the connection opens only after what was verified was delivered as verified.
func TestRandomNetwork(t *testing.T) {
	opened := 0
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := begin(t)
		n := 100 + r.IntN(1200)
		sh := serverHello(n)
		verified := ""
		for range 3 + r.IntN(12) {
			switch r.IntN(5) {
			case 0, 1:
				from := r.IntN(n)
				to := from + 1 + r.IntN(n-from)
				if r.IntN(3) == 0 {
					from, to = 0, n
				}
				x := []byte(sh[from:to])
				if r.IntN(8) == 0 {
					x[r.IntN(len(x))] ^= 1
				}
				b.in(end(uint32(from)), string(x))
			case 2:
				count := uint32(0)
				for _, x := range b.records {
					count = max(count, x.Count)
				}
				f := b.tr.byID[b.records[0].ID]
				if f != nil && f.state == hello {
					verified = string(f.in.Bytes())
				}
				b.release(end(uint32(n)), count)
			case 3:
				b.out(FlagACK, afterHello(), end(uint32(r.IntN(2*n))), "request")
			case 4:
				b.out(FlagACK, isn+1, base, aHello(300)) // again
			}
		}
		var seen [1400]int
		for i := range seen {
			seen[i] = -1
		}
		for _, s := range b.toClient {
			for i, c := range s.data {
				at := int(s.seq-base) + i
				if seen[at] >= 0 && seen[at] != int(c) {
					t.Fatalf("seed %d: two versions of byte %d were delivered", seed, at)
				}
				seen[at] = int(c)
			}
		}
		if b.open {
			opened++
			for i := range n {
				if seen[i] != int(verified[i]) {
					t.Fatalf("seed %d: open, but byte %d delivered is %d, verified %d", seed, i, seen[i], verified[i])
				}
			}
		} else if b.sent() != aHello(300) && len(b.sent())%300 != 0 {
			t.Fatalf("seed %d: %d bytes left of a connection that is not open", seed, len(b.sent()))
		}
	}
	if opened < 30 {
		t.Errorf("only %d of the connections opened: the test shows little", opened)
	}
}

// TestBounded: connections that nobody ends do not pile up.
func TestBounded(t *testing.T) {
	b := newBench(t)
	for i := range 100 {
		from := netip.AddrPortFrom(clientEnd.Addr(), uint16(1000+i))
		b.put(segment(from, serverEnd, FlagSYN, isn, 0, nil, nil), true)
	}
	if len(b.tr.flows) != b.tr.max || len(b.tr.byID) != b.tr.max {
		t.Errorf("%d connections, at most %d expected", len(b.tr.flows), b.tr.max)
	}
	b.tr.sweep(b.now.Add(2 * forgetNew))
	if len(b.tr.flows) != 0 || len(b.tr.byID) != 0 {
		t.Errorf("%d connections are left", len(b.tr.flows))
	}
}

func FuzzPacket(f *testing.F) {
	f.Add(segment(clientEnd, serverEnd, FlagSYN, 1, 0, []byte{2, 4, 5, 0xb4, 30, 4, 0, 0}, nil))
	f.Add(segment(clientEnd, serverEnd, FlagACK, 1, 2, nil, []byte(aHello(100))))
	six := append([]byte{0x60, 0, 0, 0, 0, 24, 6, 64}, make([]byte, 56)...)
	six[40+12] = 0x50
	f.Add(six)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, why := Parse(b)
		if why != hold.ReasonNone {
			if len(p.Payload) != 0 || p.Size != 0 {
				t.Errorf("%v, and yet a payload", why)
			}
			return
		}
		if p.Size < 0 || len(p.Payload) > p.Size || len(p.Payload) < p.Size && len(p.Payload)+20 > len(b) {
			t.Errorf("%d bytes of payload, %d on the wire, %d in all", len(p.Payload), p.Size, len(b))
		}
		if p.Proto == ProtoTCP && p.Src.Addr().Is4() {
			// What is read says what was sent.
			opts := b[40 : 20+int(b[32]>>4)*4]
			again := segment(p.Src, p.Dst, p.Flags, p.seq, p.ack, opts, p.Payload)
			q, why := Parse(again)
			if why != hold.ReasonNone || q.Src != p.Src || q.seq != p.seq || q.mptcp != p.mptcp || !bytes.Equal(q.Payload, p.Payload) {
				t.Errorf("%+v became %+v %v", p, q, why)
			}
		}
	})
}
