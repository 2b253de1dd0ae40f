// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"fmt"
	"net/netip"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Identity says who made a listener, as far as it could be found out. It does
// not change; a Listener may get another one.
type Identity struct {
	Executable [32]byte // SHA-256
	Path       string   // as the kernel shows it, in the process's mount namespace; for logs
	Unit       string   // systemd unit, or the cgroup's path
	Cgroup     string
	NetNS      string // net:[INODE]
	UID        uint32 // at bind
	PID        int
	Found      bool // the listener existed before the observer
	Inherited  bool // the creator is gone: taken from the processes that hold the socket

	key   fileKey
	start uint64
}

// Listener is a bound socket on a protected port.
type Listener struct {
	Cookie uint64
	Addr   netip.AddrPort // as bound; the address may be unspecified

	owner owner
	found bool
	id    atomic.Pointer[Identity]
	err   atomic.Pointer[error]
	busy  atomic.Bool // a search runs
	next  time.Time   // of recheck; observer's goroutine only
}

// Identity returns the identity; nil, nil while it is being found out.
func (l *Listener) Identity() (*Identity, error) {
	if id := l.id.Load(); id != nil {
		return id, nil
	}
	if e := l.err.Load(); e != nil {
		return nil, *e
	}
	return nil, nil
}

// SetIdentity replaces what is known of l. The observer calls it; so may a
// Source of sessions that has no observer.
func (l *Listener) SetIdentity(id *Identity, err error) {
	l.id.Store(id)
	if err != nil {
		l.err.Store(&err)
	} else {
		l.err.Store(nil)
	}
}

const (
	maxListeners = 4096
	recheckEvery = time.Second
)

// registry knows the listeners and finds out who made them.
type registry struct {
	root   string // cgroup v2 mount point
	files  digests
	wg     sync.WaitGroup
	all    map[uint64]*Listener
	order  []uint64
	notify func() // after a search in the background
}

// add starts to identify a listener. The creator is looked at before add
// returns; reading a large executable and searching go on in the background.
func (g *registry) add(o owner, addr netip.AddrPort, found bool) *Listener {
	l := &Listener{Cookie: o.listener, Addr: addr, owner: o, found: found}
	if _, ok := g.all[o.listener]; !ok {
		if len(g.order) >= maxListeners {
			delete(g.all, g.order[0])
			g.order = g.order[1:]
		}
		g.order = append(g.order, o.listener)
	}
	g.all[o.listener] = l
	g.identify(l)
	return l
}

func (g *registry) remove(cookie uint64) {
	delete(g.all, cookie)
	if len(g.order) > 2*len(g.all)+64 {
		keep := g.order[:0]
		for _, c := range g.order {
			if _, ok := g.all[c]; ok {
				keep = append(keep, c)
			}
		}
		g.order = keep
	}
}

// identify tries the creator, then the holders.
func (g *registry) identify(l *Listener) {
	if !l.busy.CompareAndSwap(false, true) {
		return
	}
	done := func(id *Identity, err error) {
		l.SetIdentity(id, err)
		l.busy.Store(false)
	}
	p, err := openProcess(int(l.owner.tgid))
	if err == nil && p.startNS > l.owner.boundNS {
		p.close() // another process has its number now
		p, err = nil, fmt.Errorf("process %d started after the socket was bound", l.owner.tgid)
	}
	var id *Identity
	var finish func() error
	if err == nil {
		id, finish, err = g.look(p, l)
	}
	if err == nil && finish == nil {
		done(id, nil)
		return
	}
	g.wg.Add(1)
	go func() {
		defer g.wg.Done()
		if err == nil {
			err = finish()
		}
		if err != nil {
			id, err = g.holders(l)
		}
		done(id, err)
		g.notify()
	}()
}

// look reads what p is now. finish, if not nil, reads the executable; it must
// be called. p is closed.
func (g *registry) look(p *process, l *Listener) (id *Identity, finish func() error, err error) {
	defer p.close()
	f, key, path, err := p.executable()
	if err != nil {
		return nil, nil, err
	}
	id = &Identity{Path: path, UID: l.owner.uid, PID: p.pid, Found: l.found, key: key, start: p.startNS}
	if id.Cgroup, err = p.cgroup(); err == nil {
		id.Unit = unitOf(id.Cgroup)
		var c uint64
		if c, err = cgroupID(g.root, id.Cgroup); err == nil && c != l.owner.cgroup {
			err = fmt.Errorf("process %d is in cgroup %s (id %d), the listener was bound in the one with id %d", p.pid, id.Cgroup, c, l.owner.cgroup)
		}
	}
	if err == nil {
		id.NetNS, err = p.netns()
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	if h, ok := g.files.cached(key); ok {
		f.Close()
		id.Executable = h
		return id, nil, nil
	}
	return id, func() error {
		defer f.Close()
		h, err := g.files.of(f, key)
		id.Executable = h
		return err
	}, nil
}

// holders finds the processes that hold the listening socket: all must run the
// same executable in the cgroup of the creator. The oldest one is named.
func (g *registry) holders(l *Listener) (*Identity, error) {
	is := map[string]bool{} // by inode: is it the listener?
	var held []*process
	defer func() {
		for _, p := range held {
			p.close()
		}
	}()
	for _, pid := range pids() {
		if pid == os.Getpid() && uint32(pid) != l.owner.tgid {
			continue // searches like this one hold other programs' sockets for a moment
		}
		p, err := openProcess(pid)
		if err != nil {
			continue
		}
		keep := false
		for ino, fd := range p.sockets() {
			yes, known := is[ino]
			if !known {
				if yes, known = p.holds(fd, l); known {
					is[ino] = yes
				}
			}
			keep = keep || yes
		}
		if keep {
			held = append(held, p)
		} else {
			p.close()
		}
	}
	if len(held) == 0 {
		return nil, fmt.Errorf("the creator (process %d) is gone and no process holds the listening socket", l.owner.tgid)
	}
	sort.Slice(held, func(i, j int) bool { return held[i].startNS < held[j].startNS })
	var first *Identity
	for i := range held {
		p, err := openProcess(held[i].pid)
		if err == nil && p.startNS != held[i].startNS {
			p.close()
			err = fmt.Errorf("process %d is gone", held[i].pid)
		}
		if err != nil {
			continue // ended meanwhile
		}
		id, finish, err := g.look(p, l)
		if err == nil && finish != nil {
			err = finish()
		}
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = id
			first.Inherited = true
		} else if first.Executable != id.Executable {
			return nil, fmt.Errorf("the listening socket is held by different programs: %s (process %d) and %s (process %d)", first.Path, first.PID, id.Path, id.PID)
		}
	}
	if first == nil {
		return nil, fmt.Errorf("the processes that held the listening socket are gone")
	}
	return first, nil
}

// holds says whether a descriptor of p is the listener l; ok is false when p
// cannot be asked. Programs hold the outer socket of Multipath TCP, which has
// another cookie than the one that was bound: there address and network
// namespace decide. (Several such sockets with SO_REUSEPORT all count.)
func (p *process) holds(fd int, l *Listener) (yes, ok bool) {
	s, err := p.descriptor(fd)
	if err != nil {
		return false, false
	}
	defer unix.Close(s)
	c, err := unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil || c == l.Cookie {
		return err == nil, err == nil
	}
	if v, err := unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || v != unix.IPPROTO_MPTCP || l.owner.netns == 0 {
		return false, true
	}
	if v, err := unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || v == 0 {
		return false, true
	}
	ns, err := unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil || ns != l.owner.netns {
		return false, true
	}
	sa, err := unix.Getsockname(s)
	return err == nil && addrPort(sa) == l.Addr, true
}

// recheck looks, at most once a second and listener, whether the process that
// gave the identity still runs the same executable, and identifies again if not.
func (g *registry) recheck(l *Listener, now time.Time) {
	id := l.id.Load()
	if now.Before(l.next) || l.busy.Load() {
		return
	}
	l.next = now.Add(recheckEvery)
	if id != nil {
		if p, err := openProcess(id.PID); err == nil {
			key, err := p.executableKey()
			same := err == nil && p.startNS == id.start && key == id.key
			p.close()
			if same {
				return
			}
		}
		l.id.Store(nil)
	}
	g.identify(l)
}
