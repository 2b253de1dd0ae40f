// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"holdfast/internal/bpfring"
	"holdfast/latch/hold"
)

// Plain is a destination whose traffic is not gated, except that a TCP
// connection that begins like TLS is gated even so unless TLS is set: whoever
// controls names can lead a client that expects a gated service here.
type Plain struct {
	Prefix netip.Prefix // IPv4 prefixes also match IPv4 over IPv6 sockets
	Port   uint16       // 0: any
	UDP    bool         // of a resolver; otherwise TCP
	TLS    bool         // TLS is not gated either
}

// Values of the map plain.
const (
	passAny   = 1
	passClear = 2
)

func (p Plain) value() uint8 {
	if p.UDP || p.TLS {
		return passAny
	}
	return passClear
}

// Options of Attach.
type Options struct {
	Cgroup string // folder of the cgroup, as CgroupRoot or MakeCgroup spells it
	Plain  []Plain
	Narrow Narrow // which sockets of the cgroup; the zero value: all
	// Connections is the most connections that may wait for a verdict at once;
	// 0 means 65,536. Further ones stay shut without a record.
	Connections int

	ringOut, ringIn int  // for tests
	noNetNSCookie   bool // for tests: as on Linux 6.1
}

// Hold is the adapter. It implements hold.Hold.
type Hold struct {
	objs    *objects
	pins    *pins
	dir     string      // of the cgroup
	id      uint64      // of the cgroup that the links are on
	links   []link.Link // pinned
	old     []link.Link // of earlier cgroups of that folder
	plain   map[dstKey]uint8
	narrow  Narrow
	who     map[whoKey]bool
	out, in *bpfring.Ring
	words   *bpfring.Words
	wait    *waiter
	ns      *namespaces
	peers   map[hold.ID]*peer
	max     int

	inherited bool        // the hold of a gate that died; see Inherited
	again     atomic.Bool // a record was still being written: look again soon
	pushes    []hold.ID   // kicks that Drain sends
	kicks     []hold.ID   // memory of Release
}

var _ hold.Hold = (*Hold)(nil)

// Attach gates the cgroup. When a gate died there, its hold is taken over
// without a moment in between: connections that it had released go on, those
// that it held stay shut. The caller needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW
// and CAP_SYS_ADMIN (for bpffs and for network namespaces).
func Attach(o Options) (_ *Hold, err error) {
	if o.Connections <= 0 {
		o.Connections = 1 << 16
	}
	if o.ringOut == 0 {
		o.ringOut = ringOutSize
	}
	if o.ringIn == 0 {
		o.ringIn = ringInSize
	}
	if err := checkCgroup(o.Cgroup, o.Narrow.ExemptGroups); err != nil {
		return nil, err
	}
	var cookie uint64
	if o.Narrow.NetNS != "" {
		if cookie, err = netnsCookie(o.Narrow.NetNS); err != nil {
			return nil, err
		}
	}
	h := &Hold{dir: o.Cgroup, narrow: o.Narrow, who: map[whoKey]bool{}, plain: map[dstKey]uint8{}, peers: map[hold.ID]*peer{}, max: o.Connections}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.pins, err = openPins(o.Cgroup); err != nil {
		return nil, err
	}
	keep, err := ebpf.LoadPinnedMap(h.pins.path("conns"), nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		keep = nil
	case err != nil:
		return nil, fmt.Errorf("map of connections that an earlier gate left: %w", err)
	default:
		defer keep.Close()
	}
	h.objs, err = load(keep, &o, cookie)
	if errors.Is(err, ebpf.ErrMapIncompatible) { // of another version: its released connections are lost
		h.objs, err = load(nil, &o, cookie)
		if err == nil {
			err = os.Remove(h.pins.path("conns"))
		}
		keep = nil
	}
	if err != nil {
		return nil, err
	}
	if err := h.SetPlain(o.Plain); err != nil {
		return nil, err
	}
	if err := h.RefreshNarrow(); err != nil {
		return nil, err
	}
	if h.out, err = bpfring.Open(h.objs.coll.Maps["ring_out"].FD(), o.ringOut); err != nil {
		return nil, err
	}
	if h.in, err = bpfring.Open(h.objs.coll.Maps["ring_in"].FD(), o.ringIn); err != nil {
		return nil, err
	}
	if h.words, err = bpfring.OpenWords(h.objs.coll.Maps["ctl"].FD()); err != nil {
		return nil, err
	}
	if h.wait, err = newWaiter(h.objs.coll.Maps["ring_out"].FD(), h.objs.coll.Maps["ring_in"].FD()); err != nil {
		return nil, err
	}
	h.ns = &namespaces{cgroup: o.Cgroup, mark: h.objs.mark, conns: h.objs.coll.Maps["conns"].FD(), pass: h.passes, known: map[uint64]*namespace{}}
	if err := h.ns.scan(); err != nil {
		return nil, err
	}
	if keep == nil {
		if err := h.objs.coll.Maps["conns"].Pin(h.pins.path("conns")); err != nil {
			return nil, fmt.Errorf("pin the map of connections: %w", err)
		}
	}
	if err := h.attach(); err != nil {
		return nil, err
	}
	h.inherited = keep != nil
	return h, nil
}

// attach puts the programs on the folder's cgroup. Ingress first: from the first
// copied ClientHello on, every answer is counted.
func (h *Hold) attach() error {
	id, err := cgroupID(h.dir)
	if err != nil {
		return err
	}
	h.old, h.links = append(h.old, h.links...), nil
	keep := h.old[:0]
	for _, l := range h.old {
		if info, err := l.Info(); err == nil && info.Cgroup() != nil && info.Cgroup().CgroupId == 0 {
			l.Close() // its cgroup has no socket any more
		} else {
			keep = append(keep, l)
		}
	}
	h.old = keep
	for _, a := range []struct {
		name string
		at   ebpf.AttachType
	}{{"ingress", ebpf.AttachCGroupInetIngress}, {"egress", ebpf.AttachCGroupInetEgress}} {
		l, err := h.attachPinned(id, h.pins.path(a.name), h.objs.coll.Programs["hold_"+a.name], a.at)
		if err != nil {
			return err
		}
		h.links = append(h.links, l)
	}
	h.id = id
	return nil
}

// Follow attaches again if the folder is another cgroup now: a service manager
// removes a service's cgroup at its stop and makes it anew at its start. It
// reports whether it did. The old cgroup's programs stay until its last socket
// is gone. Call it often, since what starts in a new cgroup is not held before;
// one at a time, and not beside Close or Detach.
func (h *Hold) Follow() (bool, error) {
	switch id, err := cgroupID(h.dir); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // no process can be there
	case err != nil:
		return false, err
	case id == h.id:
		return false, nil
	}
	return true, h.attach()
}

// cgroupID is the kernel's id of a cgroup: the inode number of its folder.
func cgroupID(dir string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "cgroup", Path: dir, Err: err}
	}
	return st.Ino, nil
}

// attachPinned puts the program into the pinned link, or makes and pins one. A
// pinned link may belong to an earlier cgroup of the same path, which lives on
// as long as it has sockets: it is kept beside the new one.
func (h *Hold) attachPinned(id uint64, pin string, p *ebpf.Program, at ebpf.AttachType) (link.Link, error) {
	l, err := link.LoadPinnedLink(pin, nil)
	switch {
	case err == nil:
		info, err := l.Info()
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("link that an earlier gate left: %w", err)
		}
		c := info.Cgroup()
		if c != nil && c.CgroupId == id {
			if err := l.Update(p); err == nil {
				return l, nil
			}
		}
		if c != nil && c.CgroupId != 0 {
			h.old = append(h.old, l)
		} else {
			l.Close()
		}
		if err := os.Remove(pin); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("link that an earlier gate left: %w", err)
	}
	l, err = link.AttachCgroup(link.CgroupOptions{Path: h.dir, Attach: at, Program: p})
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w; CAP_NET_ADMIN is needed, and no cgroup above may have a program that allows no other", err)
		}
		return nil, fmt.Errorf("attach to cgroup %s: %w", h.dir, err)
	}
	if err := l.Pin(pin); err != nil {
		l.Close()
		return nil, fmt.Errorf("pin the link, so that the door stays shut when the gate dies: %w", err)
	}
	return l, nil
}

// dstKey is struct dst of bpf/hold.bpf.c.
type dstKey [24]byte

func (p Plain) key() (k dstKey, err error) {
	if !p.Prefix.IsValid() {
		return k, fmt.Errorf("plain destination: prefix %v is not valid", p.Prefix)
	}
	bits := p.Prefix.Bits()
	a := p.Prefix.Masked().Addr()
	if a.Is4() {
		bits += 96
	}
	proto := uint16(unix.IPPROTO_TCP)
	if p.UDP {
		proto = unix.IPPROTO_UDP
	}
	nativeEndian.PutUint32(k[:], uint32(32+bits))
	nativeEndian.PutUint16(k[4:], proto)
	k[6], k[7] = byte(p.Port>>8), byte(p.Port)
	a16 := a.As16()
	copy(k[8:], a16[:])
	return k, nil
}

// SetPlain replaces the list of destinations that are not gated. A connection
// to a destination that leaves the list is held from its next packet on.
func (h *Hold) SetPlain(list []Plain) error {
	want := map[dstKey]uint8{}
	for _, p := range list {
		k, err := p.key()
		if err != nil {
			return err
		}
		if want[k] != passAny { // the same place twice: the wider entry counts
			want[k] = p.value()
		}
	}
	m := h.objs.coll.Maps["plain"]
	for k := range h.plain {
		if want[k] == 0 {
			if err := m.Delete(k); err != nil {
				return fmt.Errorf("plain list: %w", err)
			}
			delete(h.plain, k)
		}
	}
	for k, v := range want {
		if h.plain[k] != v {
			if err := m.Put(k, v); err != nil {
				return fmt.Errorf("plain list (at most %d entries): %w", m.MaxEntries(), err)
			}
			h.plain[k] = v
		}
	}
	return nil
}

// counterNames are the counters of the programs after the reasons.
var counterNames = map[uint32]string{16: "held", 17: "released", 18: "hello", 19: "inbound", 20: "second-hello", 21: "held-fin"}

// Counters returns the programs' counters: packets kept in by reason, and
// hellos, inbound copies and releases.
func (h *Hold) Counters() (map[string]uint64, error) {
	m := h.objs.coll.Maps["counters"]
	out := map[string]uint64{}
	for i := uint32(1); i < m.MaxEntries(); i++ {
		var per []uint64
		if err := m.Lookup(i, &per); err != nil {
			return nil, fmt.Errorf("counters: %w", err)
		}
		name := counterNames[i]
		if name == "" {
			name = hold.Reason(i).Code()
		}
		for _, v := range per {
			out[name] += v
		}
	}
	return out, nil
}

// Close stops reading and leaves the links pinned: what is held stays held,
// what is released goes on.
func (h *Hold) Close() error {
	h.close()
	return nil
}

// Detach ends the hold: traffic of processes that are still in the cgroup
// passes without a gate. Call it when the cgroup is empty. Held sockets that
// ended processes left are reset first; if that fails the links stay pinned.
func (h *Hold) Detach() error {
	err := h.ResetHeld()
	if err != nil {
		h.close()
		return fmt.Errorf("the hold stays: %w", err)
	}
	for _, l := range h.links {
		err = errors.Join(err, l.Unpin())
	}
	err = errors.Join(err, h.pins.remove())
	h.pins = nil
	h.close()
	return err
}

func (h *Hold) close() {
	if h.wait != nil {
		h.wait.close()
	}
	for _, l := range append(h.links, h.old...) {
		l.Close()
	}
	h.links, h.old = nil, nil
	for _, r := range []*bpfring.Ring{h.out, h.in} {
		if r != nil {
			r.Close()
		}
	}
	if h.words != nil {
		h.words.Close()
	}
	h.out, h.in, h.words = nil, nil, nil
	if h.ns != nil {
		h.ns.close()
	}
	if h.objs != nil {
		h.objs.coll.Close()
		h.objs = nil
	}
	if h.pins != nil {
		h.pins.lock.Close()
		h.pins = nil
	}
}
