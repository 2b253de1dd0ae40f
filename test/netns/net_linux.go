// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A Net owns namespaces, the processes started in them and their control
// groups. Its methods are safe for concurrent use.
type Net struct {
	mu         sync.Mutex
	namespaces []*Namespace
	processes  map[*Process]bool
	group      string // control group of the run, "" without cgroup v2
	closed     bool
	closing    sync.Once
	closeErr   error
}

var runs atomic.Int64

// New makes an empty network. It needs root. What earlier runs of dead
// processes left behind is swept away first.
func New() (*Net, error) {
	n := &Net{processes: map[*Process]bool{}}
	if err := n.makeGroup(fmt.Sprintf("%s%d-%d", groupPrefix, os.Getpid(), runs.Add(1))); err != nil {
		return nil, err
	}
	return n, nil
}

// Close ends every process (SIGTERM, and two seconds later SIGKILL), then
// removes control groups and namespaces. It may be called more than once, and
// returns when all is done.
func (n *Net) Close() error {
	n.closing.Do(func() { n.closeErr = n.close() })
	return n.closeErr
}

func (n *Net) close() error {
	n.mu.Lock()
	n.closed = true
	var running []*Process
	for p := range n.processes {
		running = append(running, p)
	}
	n.mu.Unlock()
	for _, p := range running {
		_ = p.Signal(unix.SIGTERM)
	}
	grace := time.After(2 * time.Second)
	for _, p := range running {
		select {
		case <-p.done:
		case <-grace:
			grace = nil
		}
		if grace == nil {
			break
		}
	}
	for _, p := range running {
		p.Kill()
	}
	err := n.removeGroup()
	for _, ns := range n.namespaces {
		err = errors.Join(err, ns.handle.Close())
		ns.netlink.Close()
	}
	return err
}

// A Namespace is one host of the network. Loopback is up; it forwards nothing
// unless [Namespace.Forward] says so.
type Namespace struct {
	Name    string
	net     *Net
	handle  vnetns.NsHandle
	netlink *netlink.Handle
}

// Namespace adds a host. The name appears in errors only.
func (n *Net) Namespace(name string) (*Namespace, error) {
	ns := &Namespace{Name: name, net: n}
	err := onThread(-1, func() error {
		h, err := vnetns.New()
		if err != nil {
			return fmt.Errorf("unshare(CLONE_NEWNET): %w", err)
		}
		ns.handle = h
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", name, err)
	}
	if ns.netlink, err = netlink.NewHandleAt(ns.handle, unix.NETLINK_ROUTE); err != nil {
		return nil, errors.Join(fmt.Errorf("namespace %s: netlink: %w", name, err), ns.handle.Close())
	}
	n.mu.Lock()
	n.namespaces = append(n.namespaces, ns)
	n.mu.Unlock()
	lo, err := ns.netlink.LinkByName("lo")
	if err == nil {
		err = ns.netlink.LinkSetUp(lo)
	}
	if err != nil {
		return nil, fmt.Errorf("namespace %s: loopback: %w", name, err)
	}
	return ns, nil
}

// Path names the namespace for other programs (nsenter --net=PATH) as long as
// this process lives.
func (ns *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(ns.handle)) }

// Do runs fn inside the namespace on a thread of its own; sockets that fn
// opens stay in the namespace.
func (ns *Namespace) Do(fn func() error) error { return onThread(int(ns.handle), fn) }

// onThread runs fn on a thread that ends with it, inside the namespace fd
// unless that is negative.
func onThread(fd int, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must not be used again
		if fd >= 0 {
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				done <- fmt.Errorf("setns: %w", err)
				return
			}
		}
		done <- fn()
	}()
	return <-done
}

// Sysctl sets a value below /proc/sys, such as "net/ipv4/tcp_tw_reuse".
func (ns *Namespace) Sysctl(key string, value int) error {
	return ns.Do(func() error { return os.WriteFile("/proc/sys/"+key, []byte(strconv.Itoa(value)), 0) })
}

// Forward makes the host a router for both address families.
func (ns *Namespace) Forward() error {
	for key, v := range map[string]int{
		"net/ipv4/ip_forward": 1, "net/ipv6/conf/all/forwarding": 1,
		"net/ipv4/conf/all/rp_filter": 0, "net/ipv4/conf/default/rp_filter": 0,
	} {
		if err := ns.Sysctl(key, v); err != nil {
			return fmt.Errorf("%s: %w", ns.Name, err)
		}
	}
	return nil
}

// An End is one end of a wire: a device and its addresses with prefix length.
type End struct {
	In        *Namespace
	Device    string
	Addresses []string
}

// Join lays a wire (a veth pair, MTU 1500) between two hosts and waits for
// nothing: IPv6 addresses skip duplicate address detection, so they work at once.
func (n *Net) Join(a, b End) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = a.Device
	attrs.MTU = 1500
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: b.Device, PeerNamespace: netlink.NsFd(int(b.In.handle))}
	if err := a.In.netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("wire %s:%s - %s:%s: %w", a.In.Name, a.Device, b.In.Name, b.Device, err)
	}
	for _, e := range []End{a, b} {
		if err := e.up(); err != nil {
			return fmt.Errorf("%s:%s: %w", e.In.Name, e.Device, err)
		}
	}
	return nil
}

func (e End) up() error {
	l, err := e.In.netlink.LinkByName(e.Device)
	if err != nil {
		return err
	}
	for _, s := range e.Addresses {
		addr, err := netlink.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("address %q: %w", s, err)
		}
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := e.In.netlink.AddrAdd(l, addr); err != nil {
			return fmt.Errorf("address %s: %w", s, err)
		}
	}
	return e.In.netlink.LinkSetUp(l)
}

// Route sends what goes to prefix ("10.1.0.0/24", "::/0") to the next hop.
func (ns *Namespace) Route(prefix, via string) error {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return err
	}
	hop, err := netip.ParseAddr(via)
	if err != nil {
		return err
	}
	dst, err := netlink.ParseIPNet(p.Masked().String())
	if err != nil {
		return err
	}
	if err := ns.netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: hop.AsSlice()}); err != nil {
		return fmt.Errorf("%s: route %s via %s: %w", ns.Name, prefix, via, err)
	}
	return nil
}
