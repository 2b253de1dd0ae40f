// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"holdfast/latch/hold/packets"
	"holdfast/latch/hold/windivert"
)

// A played WinDivert for whole processes. The driver lives in the test's process
// between the TUN devices of two hosts; a handle is a socket to it, which a child
// process inherits as it inherits a handle of Windows: the filter ends when the
// last process that has it is gone.
//
// Messages (one a packet of the socket): to the driver O(pen) layer priority
// filter, G(et) and T (set) with a parameter, R(ecv) with a number, S(end) with
// address and packet, D (shutdown of what comes); from it o, g, t, r with the
// number, address and packet, n with the number: no more.

// driver is the played driver's side.
type driver struct {
	client, server *os.File // TUN devices

	mu       sync.Mutex
	conn     *net.UnixConn // the open filter's; nil: none
	shut     bool
	params   map[windivert.Param]uint64
	queue    []queued
	receive  []byte // number of the Recv that waits
	opened   string // layer, priority and filter of the last Open
	diverted int    // packets that the program got
	injected int    // packets that it sent on
	passed   int    // packets of the filter that went on without a program
	udpOut   int    // UDP packets that reached the server
}

type queued struct {
	b        []byte
	outbound bool
	at       time.Time
}

func newDriver(client, server *os.File, path string) (*driver, error) {
	d := &driver{client: client, server: server, params: map[windivert.Param]uint64{windivert.VersionMajor: 2, windivert.VersionMinor: 2}}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			d.serve(c)
		}
	}()
	go d.read(client, true)
	go d.read(server, false)
	return d, nil
}

// read takes the packets of one host until its device is closed.
func (d *driver) read(tun *os.File, outbound bool) {
	buf := make([]byte, 1<<16)
	for {
		n, err := tun.Read(buf)
		if err != nil {
			return
		}
		d.packet(slices.Clone(buf[:n]), outbound)
	}
}

// matches is windivert.Filter, which the test checks to be this one.
func matches(b []byte, outbound bool) bool {
	p, why := packets.Parse(b)
	tcp := why == 0 && p.Proto == packets.ProtoTCP
	if !outbound && !tcp {
		return false
	}
	return !tcp || p.Size != 0 || p.Flags&(packets.FlagSYN|packets.FlagFIN|packets.FlagRST|packets.FlagURG) != 0
}

func (d *driver) packet(b []byte, outbound bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !matches(b, outbound):
		d.deliver(b, outbound)
	case d.conn == nil || d.shut:
		d.passed++
		d.deliver(b, outbound)
	default:
		d.queue = append(d.queue, queued{b, outbound, time.Now()})
		d.answer()
	}
}

// deliver hands a packet to the host that it is for.
func (d *driver) deliver(b []byte, outbound bool) {
	to := d.client
	if outbound {
		if to = d.server; len(b) > 9 && b[0]>>4 == 4 && b[9] == packets.ProtoUDP {
			d.udpOut++
		}
	}
	to.Write(b) // a lost packet is one that the network lost
}

// answer serves the Recv that waits.
func (d *driver) answer() {
	for len(d.queue) > 0 && time.Since(d.queue[0].at) > time.Duration(d.params[windivert.QueueTime])*time.Millisecond {
		d.queue = d.queue[1:] // too old: dropped
	}
	switch {
	case d.receive == nil:
	case len(d.queue) > 0:
		q := d.queue[0]
		d.queue = d.queue[1:]
		a := windivert.Address{Outbound: q.outbound, IPv6: q.b[0]>>4 == 6, IPChecksum: true, TCPChecksum: true, UDPChecksum: true, Interface: 7}
		if p, why := packets.Parse(q.b); q.outbound && why == 0 && p.Proto == packets.ProtoTCP { // the card would make it
			at := 36
			if a.IPv6 {
				at = 56
			}
			q.b[at], q.b[at+1], a.TCPChecksum, a.UDPChecksum = 0xde, 0xad, false, false
		}
		raw := a.Encode()
		d.conn.Write(slices.Concat([]byte{'r'}, d.receive, raw[:], q.b))
		d.receive = nil
		d.diverted++
	case d.shut:
		d.conn.Write(append([]byte{'n'}, d.receive...))
		d.receive = nil
	}
}

// serve is the life of one filter.
func (d *driver) serve(c *net.UnixConn) {
	buf := make([]byte, 1<<17)
	for {
		n, err := c.Read(buf)
		if err != nil || n == 0 { // the last process that had it is gone
			break
		}
		d.message(c, slices.Clone(buf[:n]))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn, d.receive = nil, nil
	for _, q := range d.queue {
		d.passed++
		d.deliver(q.b, q.outbound)
	}
	d.queue = nil
	c.Close()
}

func (d *driver) message(c *net.UnixConn, m []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := binary.LittleEndian
	switch m[0] {
	case 'O':
		d.conn, d.shut, d.opened = c, false, string(m[1:])
		c.Write([]byte{'o'})
	case 'G':
		c.Write(e.AppendUint64([]byte{'g'}, d.params[windivert.Param(e.Uint32(m[1:]))]))
	case 'T':
		d.params[windivert.Param(e.Uint32(m[1:]))] = e.Uint64(m[5:])
		c.Write([]byte{'t'})
	case 'R':
		d.receive = m[1:]
		d.answer()
	case 'S':
		a, err := windivert.DecodeAddress((*[windivert.AddressSize]byte)(m[1:]))
		if err != nil {
			panic(err) // a program of ours made it
		}
		d.injected++
		d.deliver(m[1+windivert.AddressSize:], a.Outbound)
	case 'D':
		d.shut = true
		d.answer()
	}
}

// counts returns a copy of the counters.
func (d *driver) counts() (open bool, diverted, injected, passed, udpOut int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn != nil && !d.shut, d.diverted, d.injected, d.passed, d.udpOut
}

// socketDriver is the program's side: windivert.Lender over the socket.
type socketDriver struct{ path string }

type socketHandle struct {
	*net.UnixConn
	buf  []byte
	next uint64
}

func newSocketHandle(c net.Conn) *socketHandle {
	return &socketHandle{UnixConn: c.(*net.UnixConn), buf: make([]byte, 1<<17), next: rand.Uint64()}
}

func (d socketDriver) Open(filter string, l windivert.Layer, priority int16, flags uint64) (windivert.Handle, error) {
	c, err := net.Dial("unixpacket", d.path)
	if err != nil {
		return nil, err
	}
	h := newSocketHandle(c)
	if _, err = h.call('o', fmt.Appendf([]byte{'O'}, "%d %d %d %s", l, priority, flags, filter)); err != nil {
		return nil, err
	}
	return h, nil
}

func (socketDriver) Lend(c *exec.Cmd, h windivert.Handle) (string, error) {
	f, err := h.(*socketHandle).File()
	c.ExtraFiles = append(c.ExtraFiles, f)
	return "3", err
}

func (socketDriver) Borrow(name string) (windivert.Handle, error) {
	if name != "3" {
		return nil, fmt.Errorf("handle %q", name)
	}
	f := os.NewFile(3, "driver")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return newSocketHandle(c), nil
}

// call sends a message and returns what its answer holds.
func (h *socketHandle) call(want byte, m []byte) ([]byte, error) {
	if _, err := h.Write(m); err != nil {
		return nil, windivert.ErrnoAborted
	}
	for {
		n, err := h.Read(h.buf)
		if err != nil {
			return nil, windivert.ErrnoAborted
		}
		if h.buf[0] == want {
			return h.buf[1:n], nil
		} // else an answer to a gate that is dead
	}
}

func (h *socketHandle) Recv(buf []byte) (int, windivert.Address, error) {
	h.next++
	number := binary.LittleEndian.AppendUint64(nil, h.next)
	if _, err := h.Write(append([]byte{'R'}, number...)); err != nil {
		return 0, windivert.Address{}, windivert.ErrnoAborted
	}
	for {
		n, err := h.Read(h.buf)
		switch {
		case err != nil:
			return 0, windivert.Address{}, windivert.ErrnoAborted
		case n < 9 || !slices.Equal(h.buf[1:9], number): // an answer to a gate that is dead
			continue
		case h.buf[0] == 'n':
			return 0, windivert.Address{}, windivert.ErrnoNoData
		}
		a, err := windivert.DecodeAddress((*[windivert.AddressSize]byte)(h.buf[9:]))
		return copy(buf, h.buf[9+windivert.AddressSize:n]), a, err
	}
}

func (h *socketHandle) Send(packet []byte, a *windivert.Address) error {
	raw := a.Encode()
	_, err := h.Write(slices.Concat([]byte{'S'}, raw[:], packet))
	return err
}

func (h *socketHandle) Set(p windivert.Param, v uint64) error {
	_, err := h.call('t', binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32([]byte{'T'}, uint32(p)), v))
	return err
}

func (h *socketHandle) Get(p windivert.Param) (uint64, error) {
	b, err := h.call('g', binary.LittleEndian.AppendUint32([]byte{'G'}, uint32(p)))
	if err == nil && len(b) != 8 {
		err = errors.New("the played driver answers nonsense")
	}
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func (h *socketHandle) ShutdownRecv() error {
	_, err := h.Write([]byte{'D'})
	return err
}
