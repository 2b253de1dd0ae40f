// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"holdfast/internal/bpfring"
	"holdfast/internal/hot"
)

// Options of an Observer.
type Options struct {
	// Listeners are the protected addresses; an unspecified address stands for
	// every address of its family and of both families if it is ::.
	Listeners []netip.AddrPort
	// Cgroup is the cgroup v2 folder to attach to; default: the root of the
	// hierarchy. Services and whatever could relay to them must be below it.
	Cgroup string
	// RefuseExisting leaves alone listeners that existed before Open, so that
	// their sessions are refused, instead of looking their holders up.
	RefuseExisting bool
	// RingBytes is the size of the ring from the kernel, a power of two;
	// default 16 MiB: some 8,000 hellos that nobody has read.
	RingBytes int
	// Proxied are those of Listeners before which a load balancer writes a PROXY
	// header, version 1 or 2: it is skipped, and says where the client is.
	Proxied []netip.AddrPort
	// Mutual are those of Listeners whose events carry the core of mutual binders.
	Mutual []netip.AddrPort
	// ShareWindow is how many shares are remembered at least; default 131,072.
	ShareWindow int
}

// Stats counts since Open.
type Stats struct {
	Hellos    uint64 `json:"hellos"`    // ServerHellos that left
	Refused   uint64 `json:"refused"`   // of them with a Refusal
	Foreign   int    `json:"foreign"`   // shares and randoms of foreign hellos that are remembered now
	Shares    int    `json:"shares"`    // own shares remembered now
	Pending   int    `json:"pending"`   // connections that have sent a ClientHello and got no answer
	Listeners int    `json:"listeners"` // known now
	Lost      uint64 `json:"lost"`      // copies that the ring had no room for
	WatchLost uint64 `json:"watch_lost"`
	Unread    uint64 `json:"unreadable"` // connections whose ClientHello could not be read
}

// Observer is the loaded observer. Poll, Wait and Stats are called from one
// goroutine; Wake and Close from any.
type Observer struct {
	objs  *ebpf.Collection
	links []link.Link
	ring  *bpfring.Ring
	words *bpfring.Words
	ctl   control
	poll  *hot.Poll // the ring, and the descriptor of Watch
	ready []int32
	watch int  // -1: none
	armed bool // watch may end a Wait
	size  uint64

	ports map[uint16]bool
	addrs []netip.AddrPort
	proxy []netip.AddrPort
	both  []netip.AddrPort // Options.Mutual
	reg   registry
	conns tracker
}

// Open loads and attaches the programs and finds the listeners that exist.
func Open(o Options) (*Observer, error) {
	if len(o.Listeners) == 0 {
		return nil, errors.New("observe: no protected listeners")
	}
	if o.RingBytes == 0 {
		o.RingBytes = 16 << 20
	}
	if o.ShareWindow == 0 {
		o.ShareWindow = 1 << 17
	}
	if o.RingBytes < 1<<16 || o.RingBytes > 1<<30 || o.RingBytes&(o.RingBytes-1) != 0 {
		return nil, fmt.Errorf("observe: ring of %d bytes, expected a power of two from 64 KiB to 1 GiB", o.RingBytes)
	}
	root, err := cgroupRoot()
	if err != nil {
		return nil, fmt.Errorf("observe: %w: %w", ErrUnsupported, err)
	}
	if o.Cgroup == "" {
		o.Cgroup = root
	}
	ob := &Observer{watch: -1, size: uint64(o.RingBytes), ports: map[uint16]bool{}, addrs: o.Listeners, proxy: o.Proxied, both: o.Mutual}
	ob.reg = registry{root: root, all: map[uint64]*Listener{}, notify: ob.Wake}
	ob.conns.init(ob, o.ShareWindow)
	if ob.objs, err = load(o.RingBytes); err != nil {
		return nil, err
	}
	if err := ob.start(o); err != nil {
		ob.Close()
		return nil, err
	}
	return ob, nil
}

func (o *Observer) start(opt Options) (err error) {
	if o.ring, err = bpfring.Open(o.objs.Maps["ring"].FD(), opt.RingBytes); err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	if o.words, err = bpfring.OpenWords(o.objs.Maps["ctl"].FD()); err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	o.ctl = controlIn(o.words)
	if o.poll, err = hot.New(); err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	// The programs wake whoever waits only when they are asked to.
	if err := o.poll.AddEdge(o.objs.Maps["ring"].FD(), tokenRing); err != nil {
		return fmt.Errorf("observe: the ring cannot be waited for: %w", err)
	}
	for _, a := range opt.Listeners {
		o.ports[a.Port()] = true
		if err := o.objs.Maps["ports"].Update(a.Port(), uint8(1), ebpf.UpdateAny); err != nil {
			return fmt.Errorf("observe: port %d: %w", a.Port(), err)
		}
	}
	if o.links, err = attach(o.objs, opt.Cgroup); err != nil {
		return err
	}
	if err := o.selfCheck(opt.Cgroup); err != nil {
		return err
	}
	if !opt.RefuseExisting {
		return o.existing()
	}
	return nil
}

// Tokens of the set.
const (
	tokenRing int32 = iota
	tokenWatch
)

// hotFor is how long after a session Wait sleeps in the hot way.
const hotFor = 100 * time.Millisecond

// Watch makes every Wait with hello set end also when fd is readable. There can
// be one such descriptor.
func (o *Observer) Watch(fd int) error {
	if o.watch >= 0 {
		return errors.New("observe: a descriptor is watched already")
	}
	if err := o.poll.AddOnce(fd, tokenWatch); err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	o.watch = fd
	return nil
}

// Wait sleeps until the ring fills up, Wake was called, deadline has passed
// (zero: no deadline) or, if hello is set, a ServerHello left, a protected port
// was bound or the watched descriptor is readable; sometimes it returns for no
// reason. Nothing that happens while nobody waits for it wakes anybody: that is what
// keeps the cost per session low.
func (o *Observer) Wait(deadline time.Time, hello bool) error {
	now := time.Now()
	d := time.Duration(-1)
	if !deadline.IsZero() {
		d = max(deadline.Sub(now), 0)
	}
	if o.watch >= 0 && hello != o.armed {
		arm := o.poll.Disarm
		if hello {
			arm = o.poll.Arm
		}
		if err := arm(o.watch, tokenWatch); err != nil {
			return fmt.Errorf("observe: %w", err)
		}
		o.armed = hello
	}
	o.ctl.full.Store(1)
	if hello {
		o.ctl.armed.Store(1)
		if !o.ring.Empty() { // before the programs could see that
			d = 0
		}
	}
	left := hotFor - now.Sub(o.conns.busy)
	warm := left > 0
	if warm && (d < 0 || d > left) {
		d = left // a last look; then the runtime may know that we sleep
	}
	var err error
	o.ready, err = o.poll.Wait(o.ready[:0], d, warm)
	if slices.Contains(o.ready, tokenWatch) {
		o.armed = false // once
	}
	o.ctl.armed.Store(0)
	return err
}

// Wake ends a Wait, the running one or the next.
func (o *Observer) Wake() { o.poll.Wake() }

// Poll reads what the kernel has to tell and appends events to dst, in order.
// It does not block. Fields of an Event stay valid.
func (o *Observer) Poll(dst []Event, now time.Time) []Event {
	return o.conns.poll(dst, now)
}

// Recheck looks, at most once a second, whether the listener's identity still
// holds, and starts to find it out again if not.
func (o *Observer) Recheck(l *Listener, now time.Time) { o.reg.recheck(l, now) }

// Protects says whether a local address is one of Options.Listeners.
func (o *Observer) Protects(a netip.AddrPort) bool { return matches(o.addrs, a) }

func matches(list []netip.AddrPort, a netip.AddrPort) bool {
	for _, p := range list {
		if Match(p, a) {
			return true
		}
	}
	return false
}

// Match says whether the configured address p covers the local address a.
func Match(p, a netip.AddrPort) bool {
	if p.Port() != a.Port() {
		return false
	}
	pa, aa := p.Addr().Unmap(), a.Addr().Unmap()
	return pa == aa || pa.IsUnspecified() && (pa.Is6() || aa.Is4())
}

// Stats returns the counters.
func (o *Observer) Stats() Stats {
	s := o.conns.stats
	s.Foreign = len(o.conns.foreign.known.cur) + len(o.conns.foreign.known.prev)
	s.Shares = len(o.conns.shares.cur) + len(o.conns.shares.prev)
	s.Pending = len(o.conns.all)
	s.Listeners = len(o.reg.all)
	s.Lost, s.WatchLost = o.ctl.lost.Load(), o.ctl.watchLost.Load()
	return s
}

// Close detaches the programs.
func (o *Observer) Close() error {
	for _, l := range o.links {
		l.Close()
	}
	o.reg.wg.Wait()
	if o.poll != nil {
		o.poll.Close()
	}
	if o.ring != nil {
		o.ring.Close()
	}
	if o.words != nil {
		o.words.Close()
	}
	if o.objs != nil {
		o.objs.Close()
	}
	return nil
}

// selfCheck binds a socket to a protected port number on a loopback address of
// its own and demands that the programs saw this process do it: in a process
// id namespace of its own the agent would look at the wrong processes, and
// below another cgroup it would see none.
func (o *Observer) selfCheck(cgroup string) error {
	port := o.addrs[0].Port()
	var addr netip.AddrPort
	for i := range 16 {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		if err != nil {
			return fmt.Errorf("observe: %w", err)
		}
		a := [4]byte{127, 219, byte(os.Getpid()), byte(i + 1)}
		addr = netip.AddrPortFrom(netip.AddrFrom4(a), port)
		err = unix.Bind(s, &unix.SockaddrInet4{Port: int(port), Addr: a})
		unix.Close(s)
		if err == nil {
			return o.sawSelf(addr, cgroup)
		}
	}
	// The port is taken on every address, with a socket that does not share it:
	// then the check is made with the first listener that binds.
	return nil
}

func (o *Observer) sawSelf(addr netip.AddrPort, cgroup string) error {
	var err error = fmt.Errorf("observe: the programs attached to %s did not see this process bind a socket; its cgroup must be below that one", cgroup)
	o.ring.Drain(o.ring.End(), func(b []byte) {
		var r record
		if !decode(b, &r) {
			return
		}
		switch r.kind {
		case kindBound:
			own, ok := decodeOwner(r.data)
			if ok && r.local == addr {
				err = nil
				if own.tgid != uint32(os.Getpid()) {
					err = fmt.Errorf("observe: %w: the kernel calls this process %d, here it is %d: run the agent in the host's process id namespace", ErrUnsupported, own.tgid, os.Getpid())
				}
				return
			}
			o.conns.record(&r, time.Now())
		case kindUnbound:
			o.reg.remove(r.cookie)
		}
	})
	return err
}
