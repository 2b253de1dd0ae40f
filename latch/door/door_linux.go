// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	_ "embed" // the object is part of the binary
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

//go:embed bpf/door.bpf.o
var object []byte

// Options of Doors.
type Options struct {
	Cgroup string   // folder (version 2) with the services; default: the root of the hierarchy
	Ports  []uint16 // whose connections need a verified client
}

// Stats are the programs' counters since the doors were first attached.
type Stats struct {
	Connections   uint64 `json:"connections"`
	Opened        uint64 `json:"opened"`
	Shut          uint64 `json:"segments_shut"` // of unverified clients
	Contradicting uint64 `json:"contradicting_segments"`
	Early         uint64 `json:"early_segments"` // payload before the connection was accepted
}

// Doors are the attached programs. Release, Forget and Reset may be called from
// any goroutine, but not after Close.
type Doors struct {
	coll  *ebpf.Collection
	links []link.Link
	pins  *pins
	one   []uint8

	resets        chan reset
	resetterEnded chan struct{}
}

// programs and the file names of their pinned links.
var programs = []struct {
	name string
	at   ebpf.AttachType
}{{"door_ingress", ebpf.AttachCGroupInetIngress}, {"door_sockops", ebpf.AttachCGroupSockOps}}

// maps are pinned, so that the next agent knows which doors are open.
var maps = []string{"doors", "ports", "verified"}

// Open attaches the programs, or takes over what an earlier agent left on the
// same control group. The listed ports are added to those that are guarded
// already: a port leaves the list by Remove only.
func Open(o Options) (*Doors, error) {
	if len(o.Ports) == 0 {
		return nil, errors.New("door: no ports")
	}
	root, err := cgroupRoot()
	if err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	if o.Cgroup == "" {
		o.Cgroup = root
	}
	d := &Doors{resets: make(chan reset, maxResets), resetterEnded: make(chan struct{})}
	go d.resetter()
	if d.pins, err = openPins(root, o.Cgroup); err != nil {
		return nil, fmt.Errorf("door: %w", err)
	}
	if err := d.attach(o); err != nil {
		d.Close()
		return nil, fmt.Errorf("door: %w", err)
	}
	return d, nil
}

func (d *Doors) attach(o Options) error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return fmt.Errorf("embedded eBPF object: %w", err)
	}
	kept := map[string]*ebpf.Map{}
	defer func() {
		for _, m := range kept {
			m.Close()
		}
	}()
	for _, name := range maps {
		m, err := ebpf.LoadPinnedMap(d.pins.path(name), nil)
		switch {
		case err == nil:
			kept[name] = m
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("map %s of an earlier agent: %w", name, err)
		}
	}
	if len(kept) != 0 && len(kept) != len(maps) {
		return fmt.Errorf("an earlier agent left only %d of %d maps in %s; remove them with `holdfast latch door --remove`", len(kept), len(maps), d.pins.dir)
	}
	if d.coll, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: kept}); err != nil {
		return fmt.Errorf("load the programs (Linux 5.12 with CONFIG_CGROUP_BPF, CAP_BPF and CAP_NET_ADMIN are needed): %w", err)
	}
	for _, p := range o.Ports {
		if err := d.coll.Maps["ports"].Put(p, uint8(1)); err != nil {
			return fmt.Errorf("port %d: %w", p, err)
		}
	}
	for _, name := range maps {
		if kept[name] == nil {
			if err := d.coll.Maps[name].Pin(d.pins.path(name)); err != nil {
				return fmt.Errorf("pin the map %s: %w", name, err)
			}
		}
	}
	for _, p := range programs {
		l, err := d.attachOne(d.coll.Programs[p.name], p.at, d.pins.path(p.name), o.Cgroup)
		if err != nil {
			return err
		}
		d.links = append(d.links, l)
	}
	return nil
}

// attachOne puts the program into the link that an earlier agent left, or
// makes and pins one.
func (d *Doors) attachOne(p *ebpf.Program, at ebpf.AttachType, pin, cgroup string) (link.Link, error) {
	l, err := link.LoadPinnedLink(pin, nil)
	if err == nil {
		if err := l.Update(p); err != nil {
			l.Close()
			return nil, fmt.Errorf("take over the link of an earlier agent: %w", err)
		}
		return l, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("link of an earlier agent: %w", err)
	}
	if l, err = link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: at, Program: p}); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", cgroup, err)
	}
	if err := l.Pin(pin); err != nil {
		l.Close()
		return nil, fmt.Errorf("pin the link, so that the door stays shut when the agent dies: %w", err)
	}
	return l, nil
}

// Release opens the doors of these sockets (cookies), in one system call.
func (d *Doors) Release(cookies []uint64) error {
	if len(cookies) == 0 {
		return nil
	}
	for len(d.one) < len(cookies) {
		d.one = append(d.one, 1)
	}
	m := d.coll.Maps["verified"]
	if _, err := m.BatchUpdate(cookies, d.one[:len(cookies)], nil); err == nil {
		return nil
	}
	// Kernels before 5.6 have no batches, and a full map stops one half-way.
	for _, c := range cookies {
		if err := m.Put(c, uint8(1)); err != nil {
			return fmt.Errorf("door: release: %w", err)
		}
	}
	return nil
}

// Forget removes sockets that were released and are gone. What was opened is
// no longer in the list, so that forgetting it does nothing.
func (d *Doors) Forget(cookie uint64) {
	_ = d.coll.Maps["verified"].Delete(cookie)
}

// Stats returns the counters.
func (d *Doors) Stats() (s Stats, err error) {
	for i, v := range []*uint64{&s.Shut, &s.Opened, &s.Connections, &s.Contradicting, &s.Early} {
		var per []uint64
		if err := d.coll.Maps["counters"].Lookup(uint32(i), &per); err != nil {
			return Stats{}, fmt.Errorf("door: counters: %w", err)
		}
		for _, n := range per {
			*v += n
		}
	}
	return s, nil
}

// Close lets go; the doors stay as they are.
func (d *Doors) Close() error {
	if d.resets != nil {
		close(d.resets)
		<-d.resetterEnded
		d.resets = nil
	}
	for _, l := range d.links {
		l.Close()
	}
	d.links = nil
	if d.coll != nil {
		d.coll.Close()
		d.coll = nil
	}
	if d.pins != nil {
		d.pins.close()
		d.pins = nil
	}
	return nil
}

// isNotExist hides which of two layers says so.
func isNotExist(err error) bool { return errors.Is(err, os.ErrNotExist) }
