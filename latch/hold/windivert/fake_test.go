// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	"holdfast/latch/hold/packets"
)

// fakeFilter plays one filter of the driver, after its documentation and
// sys/windivert.c: packets queue until they are read; a shutdown lets later ones
// pass; the last Close lets what is queued, and later ones, pass.
type fakeFilter struct {
	mu      sync.Mutex
	more    *sync.Cond
	queue   []fakePacket
	passed  []fakePacket // went on without a program
	sent    []fakePacket // were injected
	shut    bool
	handles int
	params  map[Param]uint64
	sendErr error
}

type fakePacket struct {
	b []byte
	a Address
}

type fakeHandle struct {
	f      *fakeFilter
	closed bool
}

// fakeDriver opens the filter and notes how.
type fakeDriver struct {
	f        *fakeFilter
	filter   string
	layer    Layer
	priority int16
	flags    uint64
	err      error
}

func newFake() *fakeDriver {
	f := &fakeFilter{params: map[Param]uint64{VersionMajor: 2, VersionMinor: 2}}
	f.more = sync.NewCond(&f.mu)
	return &fakeDriver{f: f}
}

func (d *fakeDriver) Open(filter string, l Layer, priority int16, flags uint64) (Handle, error) {
	if d.err != nil {
		return nil, d.err
	}
	d.filter, d.layer, d.priority, d.flags = filter, l, priority, flags
	d.f.handles++
	return &fakeHandle{f: d.f}, nil
}

// duplicate is a second handle to the same filter.
func (d *fakeDriver) duplicate() Handle {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	d.f.handles++
	return &fakeHandle{f: d.f}
}

// packet is one that the filter matches.
func (f *fakeFilter) packet(b []byte, a Address) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut || f.handles == 0 {
		f.passed = append(f.passed, fakePacket{b, a})
		return
	}
	f.queue = append(f.queue, fakePacket{b, a})
	f.more.Broadcast()
}

func (h *fakeHandle) Recv(buf []byte) (int, Address, error) {
	f := h.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) == 0 && !f.shut && !h.closed {
		f.more.Wait()
	}
	switch {
	case h.closed:
		return 0, Address{}, ErrnoAborted
	case len(f.queue) == 0:
		return 0, Address{}, ErrnoNoData
	}
	p := f.queue[0]
	f.queue = f.queue[1:]
	f.more.Broadcast()
	if len(p.b) > len(buf) {
		return 0, Address{}, ErrnoBufferTooSmall
	}
	return copy(buf, p.b), p.a, nil
}

func (h *fakeHandle) Send(b []byte, a *Address) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.closed {
		return ErrnoAborted
	}
	if h.f.sendErr != nil {
		return h.f.sendErr
	}
	h.f.sent = append(h.f.sent, fakePacket{append([]byte(nil), b...), *a})
	h.f.more.Broadcast()
	return nil
}

func (h *fakeHandle) Set(p Param, v uint64) error {
	limits := map[Param][2]uint64{QueueLength: {32, 16384}, QueueTime: {100, 16000}, QueueSize: {65535, 33554432}}
	if l, ok := limits[p]; !ok || v < l[0] || v > l[1] {
		return ErrnoInvalidParameter
	}
	h.f.params[p] = v
	return nil
}

func (h *fakeHandle) Get(p Param) (uint64, error) { return h.f.params[p], nil }

func (h *fakeHandle) ShutdownRecv() error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.f.shut = true
	h.f.more.Broadcast()
	return nil
}

func (h *fakeHandle) Close() error {
	f := h.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.closed {
		return Errno(6)
	}
	h.closed = true
	if f.handles--; f.handles == 0 {
		f.passed = append(f.passed, f.queue...)
		f.queue = nil
	}
	f.more.Broadcast()
	return nil
}

// settled waits until the reader took all packets and n were injected in all.
func (f *fakeFilter) settled(t *testing.T, n int) []fakePacket {
	t.Helper()
	end := time.AfterFunc(20*time.Second, func() { f.more.Broadcast() })
	defer end.Stop()
	start := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) > 0 || len(f.sent) < n {
		if time.Since(start) > 19*time.Second {
			t.Fatalf("%d packets were injected, expected %d; %d are queued", len(f.sent), n, len(f.queue))
		}
		f.more.Wait()
	}
	return append([]fakePacket(nil), f.sent...)
}

var (
	local  = netip.MustParseAddrPort("192.0.2.2:50000")
	remote = netip.MustParseAddrPort("198.51.100.7:443")
)

var base = uint32(0xfffffff0) // wraps around soon

const (
	isn = uint32(1000)
	syn = packets.FlagSYN
	ack = packets.FlagACK
)

// tcp makes a packet with right checksums, IPv4 or IPv6 as the ends are.
func tcp(from, to netip.AddrPort, flags byte, seq, acked uint32, payload string) []byte {
	t := make([]byte, 20, 20+len(payload))
	binary.BigEndian.PutUint16(t, from.Port())
	binary.BigEndian.PutUint16(t[2:], to.Port())
	binary.BigEndian.PutUint32(t[4:], seq)
	binary.BigEndian.PutUint32(t[8:], acked)
	t[12], t[13] = 5<<4, flags
	b := ip(6, from.Addr(), to.Addr(), append(t, payload...))
	packets.FixChecksums(b)
	return b
}

func ip(proto byte, from, to netip.Addr, payload []byte) []byte {
	var b []byte
	if from.Is4() {
		b = make([]byte, 20)
		b[0], b[8], b[9] = 0x45, 64, proto
		binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
		copy(b[12:], from.AsSlice())
		copy(b[16:], to.AsSlice())
	} else {
		b = make([]byte, 40)
		b[0], b[6], b[7] = 0x60, proto, 64
		binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
		copy(b[8:], from.AsSlice())
		copy(b[24:], to.AsSlice())
	}
	return append(b, payload...)
}

func udp(from, to netip.AddrPort, payload string) []byte {
	u := make([]byte, 8)
	binary.BigEndian.PutUint16(u, from.Port())
	binary.BigEndian.PutUint16(u[2:], to.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(8+len(payload)))
	b := ip(17, from.Addr(), to.Addr(), append(u, payload...))
	packets.FixChecksums(b)
	return b
}

// record looks like a TLS record with one handshake message of n bytes in all.
func record(kind byte, n int) string {
	b := make([]byte, n)
	b[0], b[1], b[2], b[3], b[4] = 0x16, 3, 1, byte((n-5)>>8), byte(n-5)
	b[5], b[7], b[8], b[9] = kind, byte((n-9)>>8), byte(n-9), 3
	for i := 11; i < n; i++ {
		b[i] = byte(i * int(kind))
	}
	return string(b)
}

var (
	outward = Address{Outbound: true, IPChecksum: true, TCPChecksum: true, UDPChecksum: true, Interface: 7, Subinterface: 3}
	inward  = Address{IPChecksum: true, TCPChecksum: true, UDPChecksum: true, Interface: 7, Subinterface: 3}
)
