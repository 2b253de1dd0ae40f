// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	_ "embed" // the object is part of the binary
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"holdfast/internal/bpfring"
	"holdfast/latch/binder"
	"holdfast/latch/flow"
	"holdfast/latch/tlshello"
)

//go:embed bpf/clients.bpf.o
var clientsObject []byte

// ClientSession is a connection that a local program opened.
type ClientSession struct {
	Cookie        uint64
	Ended         bool     // it has left the state ESTABLISHED; nothing else is set but Cookie
	Binder        [32]byte // of the server's role, grade hello
	Group, Suite  uint16
	Resumed       bool
	ServerName    string
	Local, Remote netip.AddrPort
	Refusal       flow.Reason // not empty: it can never be confirmed, and why
	Detail        string
}

// Bounds of the recorder.
const (
	clientMax    = 16384
	serverMax    = 4096
	maxClients   = 1 << 16
	clientTrack  = 30 * time.Second // a handshake that takes longer is forgotten, and told
	clientRecord = 16 << 20
)

// Clients records the hellos of the connections that the programs of a control
// group open. It delays nothing; look at it by Poll, some times a second.
type Clients struct {
	coll  *ebpf.Collection
	links []link.Link
	ring  *bpfring.Ring
	all   map[uint64]*clientTrackState
	order []*clientTrackState
	spare []*clientTrackState
	dst   []ClientSession
	r     record
}

type clientTrackState struct {
	cookie          uint64
	started         time.Time
	local, remote   netip.AddrPort
	outSet, inSet   bool
	done            bool
	client, server  tlshello.Assembler
	ex              tlshello.Exchange
	lost, forgotten bool
}

// OpenClients attaches the recorder to a control group's folder.
func OpenClients(cgroup string) (*Clients, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(clientsObject))
	if err != nil {
		return nil, fmt.Errorf("observe: embedded eBPF object: %w", err)
	}
	c := &Clients{all: map[uint64]*clientTrackState{}}
	if c.coll, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("observe: %w: %w", ErrUnsupported, err)
	}
	if c.ring, err = bpfring.Open(c.coll.Maps["ring"].FD(), clientRecord); err != nil {
		c.Close()
		return nil, fmt.Errorf("observe: %w", err)
	}
	for _, p := range []struct {
		name string
		at   ebpf.AttachType
	}{{"client_ingress", ebpf.AttachCGroupInetIngress}, {"client_egress", ebpf.AttachCGroupInetEgress}, {"client_sockops", ebpf.AttachCGroupSockOps}} {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: p.at, Program: c.coll.Programs[p.name]})
		if err != nil {
			c.Close()
			if errors.Is(err, os.ErrPermission) {
				err = fmt.Errorf("%w: %w", ErrUnsupported, err)
			}
			return nil, fmt.Errorf("observe: attach %s to %s: %w", p.name, cgroup, err)
		}
		c.links = append(c.links, l)
	}
	return c, nil
}

// Close detaches the recorder.
func (c *Clients) Close() error {
	for _, l := range c.links {
		l.Close()
	}
	if c.ring != nil {
		c.ring.Close()
	}
	c.coll.Close()
	return nil
}

// Lost is how many copies found no room.
func (c *Clients) Lost() (n uint64) {
	_ = c.coll.Maps["lost"].Lookup(uint32(0), &n)
	return n
}

// Poll appends what happened since the last call.
func (c *Clients) Poll(dst []ClientSession, now time.Time) []ClientSession {
	c.dst = dst
	c.ring.Drain(c.ring.End(), func(b []byte) {
		if decode(b, &c.r) {
			c.record(&c.r, now)
		}
	})
	for len(c.order) > 0 {
		t := c.order[0]
		if !t.forgotten && now.Sub(t.started) < clientTrack && len(c.all) <= maxClients {
			break
		}
		c.order[0] = nil
		if c.order = c.order[1:]; !t.forgotten {
			c.refuse(t, flow.Deadline, "the hellos did not become complete")
			c.forget(t)
		}
		if len(c.spare) < keepTracks {
			c.spare = append(c.spare, t)
		}
	}
	dst, c.dst = c.dst, nil
	return dst
}

// forget drops a connection; its memory is used again when its turn in order comes.
func (c *Clients) forget(t *clientTrackState) {
	if !t.forgotten {
		t.forgotten = true
		delete(c.all, t.cookie)
	}
}

func (c *Clients) track(r *record, now time.Time) *clientTrackState {
	if t := c.all[r.cookie]; t != nil {
		return t
	}
	var t *clientTrackState
	if n := len(c.spare); n > 0 {
		t, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		t = new(clientTrackState)
	}
	t.cookie, t.started, t.local, t.remote = r.cookie, now, r.local, r.remote
	t.outSet, t.inSet, t.done, t.lost, t.forgotten = false, false, false, false, false
	t.ex.Reset()
	c.all[r.cookie] = t
	c.order = append(c.order, t)
	return t
}

func (c *Clients) record(r *record, now time.Time) {
	if r.kind == kindClosed {
		if t := c.all[r.cookie]; t != nil {
			c.forget(t)
		}
		c.dst = append(c.dst, ClientSession{Cookie: r.cookie, Ended: true})
		return
	}
	if r.kind != kindIn && r.kind != kindOut {
		return
	}
	t := c.track(r, now)
	if t.done {
		return
	}
	t.lost = t.lost || r.flags&flagLost != 0
	var err error
	if r.kind == kindIn {
		if !t.outSet {
			t.outSet = true
			t.client.Reset(r.base, clientMax)
		}
		err = t.client.Add(r.seq, r.data, r.length)
	} else {
		if !t.inSet {
			t.inSet = true
			t.server.Reset(r.base, serverMax)
		}
		err = t.server.Add(r.seq, r.data, r.length)
	}
	if err == nil && t.outSet {
		err = t.ex.Client(t.client.Bytes())
	}
	if err == nil && t.inSet {
		err = t.ex.Server(t.server.Bytes())
	}
	switch {
	case err != nil:
		t.done = true
		if alert := (*tlshello.Alert)(nil); !errors.As(err, &alert) { // an alert ends the handshake: nothing was sent
			c.refuse(t, flow.Reason(tlshello.CodeOf(err)), err.Error())
		}
	case t.ex.Phase() == tlshello.Complete:
		t.done = true
		c.complete(t)
	}
}

func (c *Clients) complete(t *clientTrackState) {
	_, sh := t.ex.Hello()
	transcript, ok := t.ex.Transcript()
	if sh == nil || !ok {
		c.refuse(t, flow.Malformed, "the hellos are not complete")
		return
	}
	s := ClientSession{Cookie: t.cookie, Local: t.local, Remote: t.remote, Group: sh.Group, Suite: sh.CipherSuite, Resumed: sh.PSK, ServerName: string(t.ex.First().ServerName)}
	if t.lost || !t.server.Examined(t.ex.ServerEnd()) {
		s.Refusal, s.Detail = flow.LostCopy, "a copy of the hellos was lost or cut"
	} else {
		s.Binder = binder.Compute(binder.Server, binder.Hello, sh.Group, sh.Share, transcript)
	}
	c.dst = append(c.dst, s)
}

// refuse tells of a connection that cannot be confirmed.
func (c *Clients) refuse(t *clientTrackState, r flow.Reason, detail string) {
	if t.done && r == flow.Deadline {
		return
	}
	name := ""
	if first := t.ex.First(); first != nil {
		name = string(first.ServerName)
	}
	c.dst = append(c.dst, ClientSession{Cookie: t.cookie, Local: t.local, Remote: t.remote, ServerName: name, Refusal: r, Detail: detail})
}
