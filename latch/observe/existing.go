// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// existing marks the listeners that were there before the programs: it finds
// them through the descriptors of all processes, in whatever network namespace
// they are, and gives their sockets the storage that bind would have given
// them. Connections accepted from now on inherit it.
func (o *Observer) existing() error {
	seen := map[string]bool{}
	for _, pid := range pids() {
		p, err := openProcess(pid)
		if err != nil {
			continue
		}
		for ino, fd := range p.sockets() {
			if seen[ino] {
				continue
			}
			s, err := p.descriptor(fd)
			if err != nil {
				continue
			}
			seen[ino] = true
			l, err := o.mark(s, p)
			unix.Close(s)
			if err != nil {
				p.close()
				return err
			}
			if l == nil {
				continue
			}
			// One of its holders was met by chance: all of them decide.
			id, err := o.reg.holders(l)
			if err != nil {
				l.err.Store(&err)
				continue
			}
			id.Inherited = false
			l.id.Store(id)
		}
		p.close()
	}
	return nil
}

// mark enters the socket s, held by p, if it listens on a protected port.
func (o *Observer) mark(s int, p *process) (*Listener, error) {
	if v, err := unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || v == 0 {
		return nil, nil
	}
	if v, err := unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || v != unix.SOCK_STREAM {
		return nil, nil
	}
	sa, err := unix.Getsockname(s)
	if err != nil {
		return nil, nil
	}
	addr := addrPort(sa)
	if !addr.IsValid() || !o.ports[addr.Port()] {
		return nil, nil
	}
	if v, err := unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || v != unix.IPPROTO_TCP {
		slog.Warn("a listener with Multipath TCP existed before the agent and cannot be observed: restart the service", "address", addr, "pid", p.pid)
		return nil, nil
	}
	cookie, err := unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return nil, fmt.Errorf("observe: cookie of the listener on %s: %w", addr, err)
	}
	own := owner{listener: cookie, tgid: uint32(p.pid)}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return nil, err
	}
	own.boundNS = uint64(now.Nano())
	path, err := p.cgroup()
	if err == nil {
		own.cgroup, err = cgroupID(o.reg.root, path)
	}
	if err == nil {
		own.uid, err = p.uid()
	}
	if err != nil {
		return nil, nil // the process ended: so did its listener, or another one holds it
	}
	err = o.objs.Maps["conns"].Update(uint32(s), own.encode(), ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return nil, nil // bound after the programs were attached
	}
	if err != nil {
		return nil, fmt.Errorf("observe: mark the listener on %s: %w", addr, err)
	}
	l := &Listener{Cookie: cookie, Addr: addr, owner: own, found: true}
	o.reg.all[cookie] = l
	o.reg.order = append(o.reg.order, cookie)
	return l, nil
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
