// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/latch/tlshello"
	"holdfast/test/netns"
)

// A capture keeps what arrives at a machine: the ground truth of what has left
// the client.
type capture struct {
	fd   int
	mu   sync.Mutex
	list []packet
	done chan struct{}
}

type packet struct {
	proto    uint8
	src, dst netip.AddrPort
	seq      uint32
	flags    uint8
	mptcp    bool
	window   uint16
	payload  []byte
	at       time.Time
}

// watch captures what arrives at the server's machine from the client's.
func watch(t testing.TB, ns *netns.Namespace) *capture {
	t.Helper()
	c := &capture{done: make(chan struct{})}
	err := ns.Do(func() (err error) {
		all := uint16(unix.ETH_P_ALL)
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all<<8|all>>8))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20)
	unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20000})
	stop := make(chan struct{})
	go func() {
		defer close(c.done)
		b := make([]byte, 1<<16)
		for {
			n, from, err := unix.Recvfrom(c.fd, b, 0)
			if err != nil {
				select {
				case <-stop:
					return
				default:
					continue
				}
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
				continue
			}
			if p, ok := parse(b[:n]); ok {
				c.mu.Lock()
				c.list = append(c.list, p)
				c.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-c.done; unix.Close(c.fd) })
	return c
}

func parse(b []byte) (p packet, ok bool) {
	p.at = time.Now()
	var src, dst netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		n := int(b[0]&15) * 4
		total := int(binary.BigEndian.Uint16(b[2:]))
		if total < n || total > len(b) {
			return p, false
		}
		p.proto = b[9]
		src, _ = netip.AddrFromSlice(b[12:16])
		dst, _ = netip.AddrFromSlice(b[16:20])
		b = b[n:total]
	case len(b) >= 40 && b[0]>>4 == 6:
		p.proto = b[6]
		src, _ = netip.AddrFromSlice(b[8:24])
		dst, _ = netip.AddrFromSlice(b[24:40])
		b = b[40:min(len(b), 40+int(binary.BigEndian.Uint16(b[4:])))]
	default:
		return p, false
	}
	if p.proto != unix.IPPROTO_TCP {
		if p.proto == unix.IPPROTO_UDP && len(b) >= 8 {
			p.src, p.dst = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b)), netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:]))
			b = b[8:]
		}
		p.payload = append([]byte{}, b...)
		return p, true
	}
	if len(b) < 20 || len(b) < int(b[12]>>4)*4 {
		return p, false
	}
	p.src, p.dst = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b)), netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:]))
	p.seq, p.flags, p.window = binary.BigEndian.Uint32(b[4:]), b[13], binary.BigEndian.Uint16(b[14:])
	end := int(b[12]>>4) * 4
	for o := b[20:end]; len(o) > 1 && o[0] != 0; {
		n := 1
		if o[0] != 1 {
			n = max(int(o[1]), 2)
		}
		p.mptcp = p.mptcp || o[0] == 30
		o = o[min(n, len(o)):]
	}
	p.payload = append([]byte{}, b[end:]...)
	return p, true
}

func (c *capture) packets() []packet {
	time.Sleep(60 * time.Millisecond) // what is on its way
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]packet(nil), c.list...)
}

func (c *capture) forget() {
	c.packets()
	c.mu.Lock()
	c.list = nil
	c.mu.Unlock()
}

// streams returns what each connection to one of the ports has sent, in order,
// by its client's end.
func (c *capture) streams(t testing.TB, ports ...uint16) map[netip.AddrPort][]byte {
	t.Helper()
	asm := map[netip.AddrPort]*tlshello.Assembler{}
	for _, p := range c.packets() {
		ours := false
		for _, port := range ports {
			ours = ours || p.dst.Port() == port
		}
		if p.proto != unix.IPPROTO_TCP || !ours {
			continue
		}
		a := asm[p.src]
		if p.flags&2 != 0 { // SYN
			a = new(tlshello.Assembler)
			a.Reset(p.seq+1, 1<<20)
			asm[p.src] = a
			p.seq++
		}
		if a == nil || len(p.payload) == 0 {
			continue
		}
		if err := a.Add(p.seq, p.payload, len(p.payload)); err != nil {
			t.Errorf("capture: %v", err)
		}
	}
	out := map[netip.AddrPort][]byte{}
	for k, a := range asm {
		out[k] = append([]byte{}, a.Bytes()...)
	}
	return out
}

// onlyHellos says what of a client's stream is no ClientHello: the bytes that
// must not have left.
func onlyHellos(b []byte) error {
	for i := 0; len(b) > 0; i++ {
		if len(b) < 5 {
			return fmt.Errorf("%d bytes of a record", len(b))
		}
		n := 5 + int(b[3])<<8 + int(b[4])
		switch {
		case n > len(b):
			return fmt.Errorf("record %d is cut", i)
		case b[0] == 22 && n > 9 && b[5] == 1: // ClientHello
		case b[0] == 20 && n == 6 && i > 0: // change_cipher_spec before a second one
		default:
			return fmt.Errorf("record %d of type %d and %d bytes", i, b[0], n)
		}
		b = b[n:]
	}
	return nil
}
