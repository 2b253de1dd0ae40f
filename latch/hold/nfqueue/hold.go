// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nfqueue

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	nfq "github.com/florianl/go-nfqueue/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"holdfast/latch/hold"
	"holdfast/latch/hold/packets"
)

// Options of Open.
type Options struct {
	// Name of the scope: letters, digits and _, at most 32; default "routed".
	// The tables are holdfast_NAME and holdfast_NAME_guard.
	Name string
	// Devices behind which the clients are (a container bridge, a tap device).
	// What comes from them is held, also what goes to programs of this machine.
	Devices []string
	Plain   []Plain
	// Queue is the netfilter queue's number; 0: the first free one from 18502 on.
	Queue uint16
	// Connections is the most connections that are not open at once; 0 means 65,536.
	Connections int

	noOwner bool // for tests: as before Linux 5.12
}

const (
	firstQueue = 18502
	queueLen   = 1 << 15
	copyRange  = hold.MaxClientHello + 256 // of a packet; larger than Window too
)

// Hold is the adapter. It implements hold.Hold.
type Hold struct {
	o     Options
	rules rules
	state *stateFile
	own   *netlink.Conn // the guard's owner
	owner bool          // the kernel knows owners
	q     *nfq.Nfqueue
	stop  context.CancelFunc
	raw   *resets
	watch *watcher

	*packets.Queue
	lost atomic.Uint64

	mu      sync.Mutex
	devices map[uint32]bool   // interface numbers of o.Devices
	msgs    []netlink.Message // used with the queue's lock held
}

var _ hold.Hold = (*Hold)(nil)

var goodName = regexp.MustCompile(`^[A-Za-z0-9_]{1,32}$`)

func (o *Options) check() error {
	if o.Name == "" {
		o.Name = "routed"
	}
	if !goodName.MatchString(o.Name) {
		return fmt.Errorf("name %q: expected letters, digits and _, at most 32", o.Name)
	}
	if len(o.Devices) == 0 {
		return errors.New("no device: name the network devices behind which the clients are")
	}
	for _, d := range o.Devices {
		if d == "" || len(d) > 15 || strings.ContainsAny(d, " /*") {
			return fmt.Errorf("device %q: expected the name of a network device", d)
		}
		if d == "lo" {
			return errors.New("device lo: connections of this machine's own programs are held by their cgroup, not here")
		}
	}
	for _, p := range o.Plain {
		if err := p.check(); err != nil {
			return err
		}
	}
	if o.Connections <= 0 {
		o.Connections = 1 << 16
	}
	return nil
}

// Open puts the rules in place and then starts to answer the queue. What an
// earlier holder of the same name left is taken over without a moment in
// between: open connections go on, others are reset when they send. The caller
// needs CAP_NET_ADMIN and CAP_NET_RAW, in the network namespace that routes.
func Open(o Options) (_ *Hold, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	h := &Hold{o: o, devices: map[uint32]bool{}}
	h.Queue = packets.New(packets.Options{Connections: o.Connections, Passing: h.passing, Carry: h.carry, Reset: h.reset})
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.state, err = takeState(o.Name, o.Devices); err != nil {
		return nil, err
	}
	open := h.state.Open
	if h.rules, err = newRules(&o, open); err != nil {
		return nil, err
	}
	h.state.Open = h.rules.marks.open
	if h.raw, err = openResets(h.rules.marks.pass); err != nil {
		return nil, err
	}
	if err := h.state.write(); err != nil {
		return nil, err
	}
	if h.own, err = netlink.Dial(unix.NETLINK_NETFILTER, nil); err != nil {
		return nil, fmt.Errorf("netfilter: %w", err)
	}
	if h.watch, err = watch(h); err != nil {
		return nil, err
	}
	if err := h.listen(); err != nil {
		return nil, err
	}
	return h, nil
}

func randomMark() uint32 {
	var b [4]byte
	for {
		rand.Read(b[:])
		if v := binary.NativeEndian.Uint32(b[:]); v != 0 {
			return v
		}
	}
}

func newRules(o *Options, open uint32) (rules, error) {
	r := rules{name: o.Name, devices: o.Devices, plain: o.Plain, queue: o.Queue, marks: marks{pass: randomMark(), release: randomMark(), open: open}}
	if open == 0 {
		r.marks.open = randomMark()
	}
	for r.marks.release == r.marks.pass {
		r.marks.release = randomMark()
	}
	if r.queue == 0 {
		var err error
		if r.queue, err = freeQueue(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// freeQueue looks which queue numbers are in use in this network namespace.
func freeQueue() (uint16, error) {
	b, err := os.ReadFile("/proc/thread-self/net/netfilter/nfnetlink_queue")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	used := map[string]bool{}
	for _, l := range strings.Split(string(b), "\n") {
		if f := strings.Fields(l); len(f) > 1 {
			used[f[0]] = true
		}
	}
	for n := uint16(firstQueue); n < firstQueue+1000; n++ {
		if !used[fmt.Sprint(n)] {
			return n, nil
		}
	}
	return 0, errors.New("no free netfilter queue number")
}

// install makes both tables anew: the guard first, so that there is no moment
// without a rule that drops. Where the kernel has no queue statement the
// NFQUEUE target takes its place; where it knows no owners the guard has none.
func (h *Hold) install() error {
	try := func(owner bool) error {
		flags := uint32(0)
		if owner {
			flags = tableOwner
		}
		var t transaction
		t.replace(h.rules.guard(), flags, h.rules.chains(true))
		return t.commit(h.own)
	}
	h.owner = !h.o.noOwner
	err := try(h.owner)
	if err != nil && h.owner && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)) {
		h.owner = false
		err = try(false)
	}
	if err != nil {
		return fmt.Errorf("the guard: %w", err)
	}
	return h.installQueue()
}

func (h *Hold) installQueue() error {
	try := func() error {
		var t transaction
		t.replace(h.rules.table(), 0, h.rules.chains(false))
		return t.commit(h.own)
	}
	err := try()
	if errors.Is(err, unix.ENOENT) && !h.rules.compat {
		h.rules.compat = true
		if again := try(); again != nil {
			return fmt.Errorf("this kernel has neither the queue statement (%w) nor the NFQUEUE target (%w)", err, again)
		}
		return nil
	}
	return err
}

// listen binds the queue.
func (h *Hold) listen() error {
	var err error
	h.q, err = nfq.Open(&nfq.Config{NfQueue: h.rules.queue, MaxPacketLen: copyRange, MaxQueueLen: queueLen, Copymode: nfq.NfQnlCopyPacket,
		AfFamily: unix.AF_UNSPEC, WriteTimeout: time.Second})
	if err != nil {
		return fmt.Errorf("netfilter queue: %w", err)
	}
	if c, err := h.q.Con.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	err = h.q.RegisterWithErrorFunc(ctx, h.packet, func(err error) int {
		if ctx.Err() != nil {
			return 1
		}
		h.lost.Add(1) // a full buffer: the kernel drops what it could not give; or a verdict on a packet that is gone
		return 0
	})
	if err != nil {
		return fmt.Errorf("netfilter queue %d: %w", h.rules.queue, err)
	}
	return nil
}

// packet is called for each queued packet.
func (h *Hold) packet(a nfq.Attribute) int {
	if a.PacketID == nil {
		return 0
	}
	var b []byte
	if a.Payload != nil {
		b = *a.Payload
	}
	switch {
	case a.InDev != nil && h.mine(*a.InDev):
		h.Outbound(*a.PacketID, b, 0)
	case a.OutDev != nil && h.mine(*a.OutDev):
		h.Inbound(*a.PacketID, b)
	default:
		h.Drop(*a.PacketID)
	}
	return 0
}

// mine reports whether the device with that number is one of the scope. Devices
// come and go with their containers; rules go by name.
func (h *Hold) mine(index uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.devices[index]; ok {
		return known
	}
	i, err := net.InterfaceByIndex(int(index))
	if err != nil {
		return false
	}
	if len(h.devices) > 4096 {
		clear(h.devices)
	}
	for _, d := range h.o.Devices {
		if i.Name == d {
			h.devices[index] = true
			return true
		}
	}
	h.devices[index] = false
	return false
}

func (h *Hold) passing(a netip.AddrPort) packets.Passing {
	out := packets.Gated
	for _, p := range h.o.Plain {
		if !p.UDP && (p.Port == 0 || p.Port == a.Port()) && p.Prefix.Contains(a.Addr()) {
			if p.TLS {
				return packets.Always
			}
			out = packets.Clear
		}
	}
	return out
}

// carry gives the kernel verdicts, as many in one system call as there are.
func (h *Hold) carry(list []packets.Verdict) {
	for len(list) > 0 {
		n := min(len(list), 128)
		h.msgs = h.msgs[:0]
		for _, v := range list[:n] {
			h.msgs = append(h.msgs, h.message(v))
		}
		h.q.Con.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := h.q.Con.SendMessages(h.msgs); err != nil {
			h.lost.Add(1) // they stay in the queue: held
		}
		list = list[n:]
	}
}

// reset sends an RST. The client's goes to its device; the server's passes this
// machine's address translation like the client's own packets.
func (h *Hold) reset(packet []byte, _ packets.Side, _ uint64) error { return h.raw.send(packet) }

// Attributes of linux/netfilter/nfnetlink_queue.h.
const (
	msgVerdict  = 3<<8 | 1
	attrVerdict = 2
	attrMark    = 3
	attrPayload = 10
	nfDrop      = 0
	nfAccept    = 1
)

func (h *Hold) message(v packets.Verdict) netlink.Message {
	b := make([]byte, 0, 24)
	b = append(b, nfgen(unix.AF_UNSPEC, h.rules.queue)...)
	verdict, m := uint32(nfAccept), h.rules.marks.pass
	switch v.Act {
	case packets.Drop:
		verdict = nfDrop
	case packets.Open:
		m = h.rules.marks.release
	}
	e := binary.NativeEndian
	if v.Instead != nil {
		b = e.AppendUint16(b, uint16(4+len(v.Instead)))
		b = e.AppendUint16(b, attrPayload)
		b = append(b, v.Instead...) // 40 or 60 bytes: aligned
	}
	b = e.AppendUint16(b, 12)
	b = e.AppendUint16(b, attrVerdict)
	b = binary.BigEndian.AppendUint32(b, verdict)
	b = binary.BigEndian.AppendUint32(b, v.ID)
	if verdict == nfAccept {
		b = e.AppendUint16(b, 8)
		b = e.AppendUint16(b, attrMark)
		// The attribute is in network order, a mark in the order of the host.
		b = binary.BigEndian.AppendUint32(b, m)
	}
	return netlink.Message{Header: netlink.Header{Type: msgVerdict, Flags: netlink.Request}, Data: b}
}

// Sweep implements hold.Hold.
func (h *Hold) Sweep() error {
	h.Queue.Sweep()
	h.mu.Lock()
	clear(h.devices)
	h.mu.Unlock()
	return h.watch.look()
}

// Counters returns how many packets were dropped, by reason, what was lost
// between kernel and here, and how often rules were put back.
func (h *Hold) Counters() map[string]uint64 {
	out := h.Queue.Counters()
	out["lost"], out["rules-restored"] = h.lost.Load(), h.watch.restored.Load()
	return out
}

// Close implements hold.Hold: the queueing table stays and, without a listener,
// drops. Open connections go on.
func (h *Hold) Close() error {
	if !h.Queue.Close() {
		return nil
	}
	if h.watch != nil {
		h.watch.close()
	}
	if h.q != nil {
		h.stop()
		h.q.Close()
	}
	if h.own != nil {
		h.own.Close()
	}
	if h.raw != nil {
		h.raw.close()
	}
	if h.state != nil {
		h.state.release()
	}
	return nil
}

// Detach takes the rules away: clients then send without a gate.
func (h *Hold) Detach() error {
	h.watch.close()
	var t transaction
	for _, n := range []string{h.rules.table(), h.rules.guard()} {
		t.newTable(n, map[bool]uint32{true: tableOwner}[h.owner && n == h.rules.guard()])
		t.delTable(n)
	}
	err := t.commit(h.own)
	if err == nil {
		err = h.state.remove()
	}
	return errors.Join(err, h.Close())
}

func soon() time.Time { return time.Now().Add(20 * time.Millisecond) }

var never time.Time
