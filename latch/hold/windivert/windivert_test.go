// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/latch/hold"
	"holdfast/latch/hold/packets"
)

// world is a hold on a played machine.
type world struct {
	*testing.T
	d       *fakeDriver
	h       *Hold
	records []hold.Record
	n       int // packets injected so far
}

func newWorld(t *testing.T, o Options) *world {
	d := newFake()
	handle, err := OpenHandle(d)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(handle, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Detach() })
	return &world{T: t, d: d, h: h}
}

// play gives a packet to the filter and returns what was injected since, of
// which there are want.
func (w *world) play(b []byte, a Address, want int) []fakePacket {
	w.Helper()
	w.d.f.packet(b, a)
	return w.injected(want)
}

func (w *world) injected(want int) []fakePacket {
	w.Helper()
	if want == 0 { // what comes after it is judged after it
		w.d.f.packet(udp(local, resolver, "marker"), outward)
		want = 1
		got := w.injected(1)
		if p, _ := packets.Parse(got[0].b); p.Dst != resolver {
			w.Errorf("%+v was injected, expected nothing", p)
		}
		return nil
	}
	all := w.d.f.settled(w.T, w.n+want)
	out := all[w.n:]
	if len(out) != want {
		w.Errorf("%d packets were injected, expected %d", len(out), want)
	}
	w.n = len(all)
	w.h.Drain(func(r *hold.Record) { c := *r; c.Data = bytes.Clone(r.Data); w.records = append(w.records, c) })
	return out
}

var resolver = netip.MustParseAddrPort("192.0.2.53:53")

var withResolver = []Plain{{Prefix: netip.PrefixFrom(resolver.Addr(), 32), Port: 53, UDP: true}}

// toHello plays a connection up to its ClientHello.
func (w *world) toHello() {
	w.Helper()
	w.play(tcp(local, remote, syn, isn, 0, ""), outward, 1)
	w.play(tcp(remote, local, syn|ack, base-1, isn+1, ""), inward, 1)
	got := w.play(tcp(local, remote, ack, isn+1, base, record(1, 300)), outward, 1)
	if !got[0].a.Outbound || !bytes.HasSuffix(got[0].b, []byte(record(1, 300))) {
		w.Fatal("the ClientHello did not leave as it was")
	}
	if r := w.records[0]; r.Kind != hold.Outbound || string(r.Data) != record(1, 300) || r.Local != local || r.Remote != remote {
		w.Fatalf("%+v", r)
	}
}

func TestOpens(t *testing.T) {
	w := newWorld(t, Options{Plain: withResolver})
	if d := w.d; d.filter != Filter || d.layer != LayerNetwork || d.priority != -30000 || d.flags != 0 {
		t.Errorf("opened with %+v", d)
	}
	if p := w.d.f.params; p[QueueLength] != 16384 || p[QueueSize] != 32<<20 {
		t.Errorf("queue: %v", p)
	}
	w.toHello()
	sh := record(2, 1200)
	w.play(tcp(remote, local, ack, base, isn+301, sh), inward, 0) // held
	last := w.records[len(w.records)-1]
	if last.Kind != hold.Inbound || string(last.Data) != sh {
		t.Fatalf("%+v", last)
	}
	w.h.Release([]hold.Verdict{{ID: last.ID, End: base + 1200, Examined: 1}})
	if got := w.injected(1); got[0].a.Outbound || !bytes.HasSuffix(got[0].b, []byte(sh)) || got[0].a.Interface != 7 {
		t.Errorf("%+v", got)
	}
	w.play(tcp(local, remote, ack, isn+301, base+1199, "secret"), outward, 0) // TCP has not taken all
	w.play(tcp(local, remote, ack, isn+301, base+1200, "request"), outward, 1)
	if r := w.records[len(w.records)-1]; r.Kind != hold.Released {
		t.Fatalf("%+v", r)
	}
	if l := w.h.Live(); len(l) != 1 || l[0] != [2]netip.AddrPort{local, remote} {
		t.Errorf("live: %v", l)
	}
	// No mark tells the driver: its packets still come here, and pass both ways.
	w.play(tcp(remote, local, ack, base+1200, isn+308, "answer"), inward, 1)
	w.play(tcp(local, remote, ack, isn+308, base+1206, "more"), outward, 1)
	w.play(tcp(local, remote, ack|packets.FlagFIN, isn+312, base+1206, ""), outward, 1)
	if l := w.h.Live(); len(l) != 0 {
		t.Errorf("live after its end: %v", l)
	}
	// The same ports again: another connection, held from its start.
	w.play(tcp(local, remote, syn, isn+9000, 0, ""), outward, 1)
	w.play(tcp(local, remote, ack, isn+9001, base, "GET /"), outward, 0)
}

// TestRefuse: both ends are reset, each on its side, with checksums.
func TestRefuse(t *testing.T) {
	for _, ends := range [][2]netip.AddrPort{{local, remote}, {netip.MustParseAddrPort("[2001:db8::2]:50000"), netip.MustParseAddrPort("[2001:db8::7]:443")}} {
		w := newWorld(t, Options{Plain: withResolver})
		c, s := ends[0], ends[1]
		w.play(tcp(c, s, syn, isn, 0, ""), outward, 1)
		w.play(tcp(c, s, ack, isn+1, base, record(1, 300)), outward, 1)
		w.play(tcp(s, c, ack, base, isn+301, record(2, 200)), inward, 0)
		w.h.Refuse([]hold.ID{w.records[0].ID})
		toClient, toServer := 0, 0
		for _, x := range w.injected(3) { // the one that is made, the one in the answer's place, the server's
			p, why := packets.Parse(x.b)
			if why != hold.ReasonNone || p.Flags&packets.FlagRST == 0 || p.Size != 0 {
				t.Errorf("%+v is no reset", p)
			}
			fixed := bytes.Clone(x.b)
			if packets.FixChecksums(fixed); !bytes.Equal(fixed, x.b) || !x.a.TCPChecksum || !x.a.IPChecksum {
				t.Error("checksums of the reset are wrong")
			}
			switch {
			case p.Dst == c && !x.a.Outbound && x.a.Interface == 7 && x.a.Subinterface == 3:
				toClient++
			case p.Dst == s && x.a.Outbound:
				toServer++
			}
		}
		if toClient != 2 || toServer != 1 {
			t.Errorf("%d to the client, %d to the server", toClient, toServer)
		}
		w.play(tcp(c, s, ack, isn+301, base+200, "secret"), outward, 0)
		w.play(tcp(s, c, ack, base+200, isn+301, "late"), inward, 0)
	}
}

// TestWhatPasses: what is not TCP of the scope.
func TestWhatPasses(t *testing.T) {
	four, six := local.Addr(), netip.MustParseAddr("2001:db8::2")
	fragment := tcp(local, remote, ack, 1, 1, "secret in a fragment")
	fragment[6] = 0x20 // more fragments
	hop := append([]byte{58, 0, 5, 2, 0, 0, 1, 0}, 143, 0, 0, 0)
	for _, c := range []struct {
		name string
		b    []byte
		a    Address
		pass bool
	}{
		{"DNS to the resolver", udp(local, resolver, "query"), outward, true},
		{"UDP elsewhere", udp(local, remote, "QUIC"), outward, false},
		{"UDP to the resolver's other port", udp(local, netip.AddrPortFrom(resolver.Addr(), 443), "QUIC"), outward, false},
		{"ICMP echo", ip(1, four, remote.Addr(), []byte{8, 0, 0, 0}), outward, false},
		{"ICMP unreachable", ip(1, four, remote.Addr(), []byte{3, 1, 0, 0}), outward, true},
		{"ICMPv6 echo", ip(58, six, six, []byte{128, 0, 0, 0}), outward, false},
		{"neighbour solicitation", ip(58, six, six, []byte{135, 0, 0, 0}), outward, true},
		{"MLD report", ip(0, six, six, hop), outward, true},
		{"GRE", ip(47, four, remote.Addr(), []byte("secret")), outward, false},
		{"a fragment", fragment, outward, false},
		{"rubbish", []byte{0x45, 0}, outward, false},
		{"TCP of before the gate", tcp(local, remote, ack, 5, 5, "secret"), outward, false},
		{"a bare FIN to it", tcp(remote, local, ack|packets.FlagFIN, 5, 5, ""), inward, false},
		{"somebody connects", tcp(remote, local, syn, 5, 0, ""), inward, false},
		{"somebody connects to an accepted port", tcp(remote, netip.AddrPortFrom(four, 3389), syn, 5, 0, ""), inward, true},
	} {
		w := newWorld(t, Options{Plain: withResolver, Accept: []uint16{3389}})
		want := 0
		if c.pass {
			want = 1
		}
		got := w.play(c.b, c.a, want)
		if c.pass && (!bytes.Equal(got[0].b, c.b) || got[0].a != c.a) {
			t.Errorf("%s: changed on its way", c.name)
		}
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
}

// TestUnknown: what a dead gate held does not hang: the server's next try
// becomes a reset, with the number that the client expects, and no byte of it.
func TestUnknown(t *testing.T) {
	w := newWorld(t, Options{Plain: withResolver})
	got := w.play(tcp(remote, local, ack, base, isn+301, record(2, 200)), inward, 1)
	want := tcp(remote, local, ack|packets.FlagRST, base, isn+301, "")
	p, why := packets.Parse(got[0].b)
	if why != hold.ReasonNone || p.Flags != packets.FlagRST|packets.FlagACK || p.Size != 0 || !bytes.Equal(got[0].b[20:32], want[20:32]) || got[0].a.Outbound {
		t.Errorf("%+v %x, expected a reset like %x", p, got[0].b, want)
	}
	if n := w.h.Counters()["not-gated"]; n != 1 {
		t.Errorf("%d counted", n)
	}
}

// TestAccepted: a listener's connection passes both ways; a client from the
// same port is held.
func TestAccepted(t *testing.T) {
	w := newWorld(t, Options{Plain: withResolver, Accept: []uint16{3389}})
	rdp := netip.AddrPortFrom(local.Addr(), 3389)
	w.play(tcp(remote, rdp, syn, 5, 0, ""), inward, 1)
	w.play(tcp(rdp, remote, syn|ack, 9, 6, ""), outward, 1)
	w.play(tcp(remote, rdp, ack, 6, 10, "hello"), inward, 1)
	w.play(tcp(rdp, remote, ack, 10, 11, "answer"), outward, 1)
	w.play(tcp(rdp, remote, syn, 100, 0, ""), outward, 1)
	w.play(tcp(rdp, remote, ack, 101, 12, "secret"), outward, 0)
}

// TestChecksums: those that a card was to make are made before the packet goes on.
func TestChecksums(t *testing.T) {
	w := newWorld(t, Options{Plain: withResolver})
	right := tcp(local, remote, syn, isn, 0, "")
	b := bytes.Clone(right)
	b[10], b[11], b[36], b[37] = 0xde, 0xad, 0xbe, 0xef
	a := outward
	a.IPChecksum, a.TCPChecksum, a.UDPChecksum = false, false, false
	if got := w.play(b, a, 1); !bytes.Equal(got[0].b, right) || !got[0].a.TCPChecksum {
		t.Errorf("%x", got[0].b)
	}
	if fixed := bytes.Clone(right); !packets.FixChecksums(fixed) || !bytes.Equal(fixed, right) {
		t.Error("right checksums were changed")
	}
	// RFC 1071 by hand: 192.0.2.2 to 192.0.2.53, UDP 50000 to 53, "q".
	u := udp(local, resolver, "q")
	if hex.EncodeToString(u[10:12]) != "f698" || hex.EncodeToString(u[26:28]) != "471e" {
		t.Errorf("UDP: %x", u)
	}
	if packets.FixChecksums(right[:30]) {
		t.Error("a cut packet got a checksum")
	}
}

// TestClosed: a hold that is closed or whose process died lets nothing pass
// while a second handle lives; the last one opens the machine.
func TestClosed(t *testing.T) {
	w := newWorld(t, Options{Plain: withResolver})
	guard := w.d.duplicate()
	w.toHello()
	w.play(tcp(remote, local, ack, base, isn+301, record(2, 200)), inward, 0)
	w.h.Close()
	w.d.f.packet(tcp(local, remote, ack, isn+301, base, "secret"), outward)
	w.d.f.packet(tcp(remote, local, ack, base, isn+301, record(2, 200)), inward)
	w.d.f.packet(udp(local, resolver, "query"), outward) // which an open hold lets pass
	if got := w.d.f.settled(t, w.n); len(got) != w.n {
		t.Error("passed a closed hold")
	}
	// The process dies: its handle is closed, the guard's is not.
	w.h.h.Close()
	w.d.f.packet(tcp(local, remote, ack, isn+301, base, "secret"), outward)
	if len(w.d.f.passed) != 0 || len(w.d.f.queue) != 1 {
		t.Errorf("%d passed without a gate, %d wait", len(w.d.f.passed), len(w.d.f.queue))
	}
	// An end in order: what waits is dropped, what comes then passes.
	if err := Discard(guard); err != nil {
		t.Error(err)
	}
	w.d.f.packet(tcp(local, remote, syn, 1, 0, ""), outward)
	if p := w.d.f.passed; len(p) != 1 || bytes.Contains(p[0].b, []byte("secret")) {
		t.Errorf("%d passed after the end, expected the one that came after it", len(p))
	}
}

func TestDetach(t *testing.T) {
	w := newWorld(t, Options{Plain: withResolver})
	w.toHello()
	if err := w.h.Detach(); err != nil {
		t.Fatal(err)
	}
	if w.d.f.handles != 0 || len(w.d.f.passed) != 0 {
		t.Errorf("%d handles are open, %d packets passed", w.d.f.handles, len(w.d.f.passed))
	}
	if err := w.h.Wait(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
}

// TestBounded: packets without a verdict do not fill the memory.
func TestBounded(t *testing.T) {
	w := newWorld(t, Options{Plain: withResolver, Held: 1000})
	w.toHello()
	for i := range 10 {
		w.d.f.packet(tcp(remote, local, ack, base+uint32(i*200), isn+301, record(2, 200)), inward)
	}
	w.injected(0)
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if w.h.bytes > 1000 || w.h.bytes < 700 || len(w.h.wait) != 4 {
		t.Errorf("%d bytes in %d packets wait, at most 1000 expected", w.h.bytes, len(w.h.wait))
	}
}

// TestOwn: the gate's own connection passes, and nobody else's to the same peer.
func TestOwn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newWorld(t, Options{Plain: withResolver})
	c, err := w.h.Dial(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, there := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
	w.play(tcp(here, there, ack, 1, 1, "announce"), outward, 1)
	w.play(tcp(there, here, ack, 1, 1, "evidence"), inward, 1)
	other := netip.AddrPortFrom(here.Addr(), here.Port()-1)
	w.play(tcp(other, there, ack, 1, 1, "secret"), outward, 0)
	w.play(tcp(here, remote, ack, 1, 1, "secret"), outward, 0)
	c.Close()
	w.play(tcp(here, there, ack|packets.FlagFIN, 9, 1, ""), outward, 1)
	l.Close()
	if _, err := w.h.Dial(context.Background(), "tcp", l.Addr().String()); err == nil {
		t.Error("connected to nobody")
	}
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if len(w.h.own) != 1 { // the closed one, for its last packets
		t.Errorf("own: %v", w.h.own)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{{ErrNoDLL, "beside holdfast.exe"}, {ErrnoAccessDenied, "administrator"}, {ErrnoFileNotFound, "WinDivert64.sys"}, {ErrnoBlocked, "security software"},
		{ErrnoBadSignature, "signature"}, {ErrnoOtherVersion, "another version"}, {ErrnoNotRegistered, "Base Filtering Engine"}, {Errno(4242), "error 4242"}} {
		d := newFake()
		d.err = c.err
		h, err := OpenHandle(d)
		if h != nil || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q in it", err, c.want)
		}
	}
	d := newFake()
	d.f.params[VersionMinor] = 1
	if h, err := OpenHandle(d); h != nil || err == nil || !strings.Contains(err.Error(), "2.1") || d.f.handles != 0 {
		t.Errorf("version 2.1: %v, %d handles", err, d.f.handles)
	}
	// An injection that fails loses the packet and nothing else.
	w := newWorld(t, Options{Plain: withResolver})
	w.d.f.mu.Lock()
	w.d.f.sendErr = ErrnoHostUnreachable
	w.d.f.mu.Unlock()
	w.d.f.packet(tcp(local, remote, syn, isn, 0, ""), outward)
	for w.h.Counters()["lost"] != 1 {
		time.Sleep(time.Millisecond)
	}
}

// golden is an inbound packet's address with every field, written after the
// header file: time, layer and event, flags, reserved, interface, subinterface.
const golden = "8877665544332211" + "0000" + "b5" + "00" + "00000000" + "0d000000" + "0e000000"

func TestAddress(t *testing.T) {
	want := Address{Timestamp: 0x1122334455667788, Sniffed: true, Loopback: true, IPv6: true, IPChecksum: true, UDPChecksum: true, Interface: 13, Subinterface: 14}
	var b [AddressSize]byte
	hex.Decode(b[:], []byte(golden))
	got, err := DecodeAddress(&b)
	if err != nil || got != want || got.Encode() != b {
		t.Errorf("%+v %v", got, err)
	}
	for i, f := range []func(*Address){
		func(a *Address) { a.Sniffed = true }, func(a *Address) { a.Outbound = true }, func(a *Address) { a.Loopback = true }, func(a *Address) { a.Impostor = true },
		func(a *Address) { a.IPv6 = true }, func(a *Address) { a.IPChecksum = true }, func(a *Address) { a.TCPChecksum = true }, func(a *Address) { a.UDPChecksum = true }} {
		var a Address
		f(&a)
		if e := a.Encode(); e[10] != 1<<i {
			t.Errorf("flag %d became %#x", i, e[10])
		}
	}
	b[8] = 2
	if a, err := DecodeAddress(&b); err == nil || a != (Address{}) {
		t.Error("the address of a flow was taken for a packet's")
	}
}

// TestFilter: the driver takes 256 tests.
func TestFilter(t *testing.T) {
	if n := len(strings.FieldsFunc(Filter, func(r rune) bool { return strings.ContainsRune(" !()", r) })); n > 64 {
		t.Errorf("%d words", n)
	}
	if strings.Count(Filter, "(") != strings.Count(Filter, ")") {
		t.Error("brackets")
	}
}

// child plays a gate.
type child struct {
	end   chan error
	ended atomic.Bool
}

func (c *child) Wait() error { return <-c.end }
func (c *child) End()        { c.ended.Store(true); c.end <- nil }
func (c *child) Kill()       { c.end <- errors.New("killed") }

// TestKeep: a gate that dies is started again; one that ends in order is not.
func TestKeep(t *testing.T) {
	defer func(d time.Duration) { firstPause = d }(firstPause)
	firstPause = time.Millisecond
	starts := 0
	err := Keep(context.Background(), func() (Child, error) {
		starts++
		c := &child{end: make(chan error, 1)}
		switch starts {
		case 1:
			return nil, errors.New("cannot start")
		case 2, 3:
			c.end <- errors.New("died")
		default:
			c.end <- nil
		}
		return c, nil
	})
	if err != nil || starts != 4 {
		t.Errorf("%v after %d starts", err, starts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var c child
	err = Keep(ctx, func() (Child, error) {
		c.end = make(chan error, 1)
		cancel()
		return &c, nil
	})
	if err != nil || !c.ended.Load() {
		t.Errorf("%v; asked to end: %v", err, c.ended.Load())
	}
}

// FuzzTake: whatever one packet says, no byte behind the ClientHello of a connection
// that was never released leaves.
func FuzzTake(f *testing.F) {
	f.Add(tcp(local, remote, syn, isn, 0, ""), true, byte(0))
	f.Add(tcp(local, remote, ack, isn+1, base, record(1, 300)), true, byte(1))
	f.Add(udp(local, resolver, "q"), true, byte(2))
	f.Add(ip(58, netip.MustParseAddr("2001:db8::2"), remote.Addr(), []byte{135, 0}), true, byte(3))
	f.Fuzz(func(t *testing.T, b []byte, out bool, bits byte) {
		d := newFake()
		handle, err := OpenHandle(d)
		if err != nil {
			t.Fatal(err)
		}
		h, err := Open(handle, Options{Plain: withResolver})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Detach()
		a := Address{Outbound: out, IPChecksum: bits&1 != 0, TCPChecksum: bits&2 != 0, UDPChecksum: bits&4 != 0}
		p, why := packets.Parse(b)
		h.take(slices.Clone(b), &a)
		d.f.mu.Lock()
		defer d.f.mu.Unlock()
		for _, s := range d.f.sent {
			q, _ := packets.Parse(s.b)
			if out && q.Proto == packets.ProtoTCP && q.Size > 0 && !strings.HasPrefix(string(q.Payload), "\x16\x03") {
				t.Errorf("%d bytes left: %+v", q.Size, q)
			}
			if out && q.Proto == packets.ProtoUDP && why == hold.ReasonNone && q.Dst != resolver {
				t.Errorf("UDP left to %v", q.Dst)
			}
			if why == hold.ReasonNone && (q.Src != p.Src || q.Dst != p.Dst || q.Size != p.Size) {
				t.Errorf("%+v became %+v", p, q)
			}
		}
	})
}
