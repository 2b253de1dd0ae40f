// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An attacker owns the wire: it sees each ClientHello arrive and answers in
// the server's name by raw packets.
type attacker struct {
	raw   int
	seqs  map[netip.AddrPort]uint32 // client -> first byte of the server's stream
	tries atomic.Int64
}

// answer builds an IPv4 packet with a segment from the server.
func answer(src, dst netip.AddrPort, seq, ack uint32, payload []byte, badSum bool) []byte {
	b := make([]byte, 40+len(payload))
	b[0], b[6], b[8], b[9] = 0x45, 0x40, 64, 6
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	s, d := src.Addr().As4(), dst.Addr().As4()
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	t := b[20:]
	binary.BigEndian.PutUint16(t, src.Port())
	binary.BigEndian.PutUint16(t[2:], dst.Port())
	binary.BigEndian.PutUint32(t[4:], seq)
	binary.BigEndian.PutUint32(t[8:], ack)
	t[12], t[13], t[14] = 5<<4, 0x18, 0x40
	copy(t[20:], payload)
	sum := partial(b[12:20], uint32(6+len(t)))
	sum = partial(t[:len(t)&^1], sum)
	if len(t)%2 == 1 {
		sum += uint32(t[len(t)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	c := ^uint16(sum)
	if badSum {
		c ^= 0x5555
	}
	binary.BigEndian.PutUint16(t[16:], c)
	return b
}

// TestDecoy is the timed attack of rule (a): a genuine ServerHello that the
// client's TCP will drop, then a forged one timed into the moment between the
// gate's look and its release. The counter "unexamined" counts the kicks that
// only the count of segments stopped: each would have opened the door.
func TestDecoy(t *testing.T) {
	tries := 10000
	if testing.Short() {
		tries = 1000
	}
	if s := os.Getenv("HOLDFAST_DECOY_TRIES"); s != "" {
		tries, _ = strconv.Atoi(s)
	}
	l := newLab(t, Options{}, func(c *testConn, now time.Time) action {
		if c.clash {
			return actRefuse
		}
		if r, ok := c.record(); ok {
			if string(r) == string(aServerHello(100, 1)) {
				return actRelease // "the evidence is there"
			}
			return actRefuse
		}
		return actNothing
	})
	var leaked atomic.Int64
	ln := l.listen(at)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(4 * time.Second))
				b := make([]byte, 4096)
				var got []byte
				for {
					n, err := c.Read(b)
					got = append(got, b[:n]...)
					if strings.Contains(string(got), "SECRET") {
						leaked.Add(1)
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	a := &attacker{seqs: map[netip.AddrPort]uint32{}}
	var sniff int
	in(t, l.server, func() (err error) {
		if a.raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
			return err
		}
		dev, err := net.InterfaceByName("v1")
		if err != nil {
			return err
		}
		if sniff, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		unix.SetsockoptInt(sniff, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		return errors.Join(unix.SetsockoptTimeval(sniff, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000}),
			unix.Bind(sniff, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: dev.Index}))
	})
	var quit atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.run(sniff, &quit)
	}()
	defer func() {
		quit.Store(true)
		<-done
		unix.Close(sniff)
		unix.Close(a.raw)
	}()
	out, err := wait(t, l.helper("many", at, strconv.Itoa(tries), "12"), 5*time.Minute)
	if err != nil {
		t.Errorf("%v %s", err, out)
	}
	c := l.counters()
	t.Logf("%d tries; counters %v", a.tries.Load(), c)
	if n := a.tries.Load(); n < int64(tries)*9/10 {
		t.Errorf("only %d of %d tries were made", n, tries)
	}
	if leaked.Load() != 0 || c["released"] != 0 {
		t.Errorf("%d secrets leaked, %d connections opened", leaked.Load(), c["released"])
	}
	if c["unexamined"] == 0 || c["not-taken"] == 0 {
		t.Errorf("counters %v: the attack never hit the window, so it proves nothing", c)
	}
}

func (a *attacker) run(sniff int, quit *atomic.Bool) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<16)
	to := &unix.SockaddrInet4{Addr: [4]byte{10, 77, 0, 1}}
	type shot struct {
		at     time.Time
		packet []byte
	}
	var late []shot
	fire := func(now time.Time) {
		rest := late[:0]
		for _, s := range late {
			if now.Before(s.at) {
				rest = append(rest, s)
				continue
			}
			unix.Sendto(a.raw, s.packet, 0, to)
		}
		late = rest
	}
	for !quit.Load() {
		flags := 0
		if len(late) > 0 {
			flags = unix.MSG_DONTWAIT
		}
		n, _, err := unix.Recvfrom(sniff, b, flags)
		fire(time.Now())
		if err != nil {
			continue
		}
		s, ok := parseSegment(b[:n])
		if !ok {
			continue
		}
		switch {
		case s.src.Port() == 443 && s.flags&0x12 == 0x12:
			a.seqs[s.dst] = s.seq + 1
		case s.dst.Port() == 443 && len(s.payload) > 0:
			seq, ok := a.seqs[s.src]
			if !ok {
				continue
			}
			delete(a.seqs, s.src)
			a.tries.Add(1)
			ack := s.seq + uint32(len(s.payload))
			unix.Sendto(a.raw, answer(s.dst, s.src, seq, ack, aServerHello(100, 1), true), 0, to)
			late = append(late, shot{time.Now().Add(time.Duration(rng.IntN(500)) * time.Microsecond), answer(s.dst, s.src, seq, ack, aServerHello(100, 2), false)})
		}
	}
}
