// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

const haveTransparent = true

// original is where a redirected client wanted to go: netfilter's note of it
// (SO_ORIGINAL_DST, of redirect and dnat).
func original(c *net.TCPConn) (Target, error) {
	own, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return Target{}, err
	}
	own = netip.AddrPortFrom(own.Addr().Unmap(), own.Port())
	raw, err := c.SyscallConn()
	if err != nil {
		return Target{}, err
	}
	to := own
	if err := raw.Control(func(fd uintptr) {
		if a, ok := redirected(int(fd), own.Addr().Is4()); ok {
			to = a
		}
	}); err != nil {
		return Target{}, err
	}
	if to == own {
		return Target{}, fmt.Errorf("the client connected to the proxy's own address %v; in transparent mode a rule of the system leads clients here", own)
	}
	return Target{to.Addr().String(), to.Port()}, nil
}

// soOriginalDst is SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST
// (linux/netfilter_ipv4.h, linux/netfilter_ipv6/ip6_tables.h).
const soOriginalDst = 80

func redirected(fd int, v4 bool) (netip.AddrPort, bool) {
	if v4 {
		// struct sockaddr_in has the size of struct ipv6_mreq's first part.
		m, err := unix.GetsockoptIPv6Mreq(fd, unix.IPPROTO_IP, soOriginalDst)
		if err != nil {
			return netip.AddrPort{}, false
		}
		b := m.Multiaddr
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])), true
	}
	m, err := unix.GetsockoptIPv6MTUInfo(fd, unix.IPPROTO_IPV6, soOriginalDst)
	if err != nil {
		return netip.AddrPort{}, false
	}
	p := m.Addr.Port // network byte order, as a number of the machine's order
	return netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr), p<<8|p>>8), true
}
