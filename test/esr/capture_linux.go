// SPDX-License-Identifier: Apache-2.0

package esr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// captureTable is the routing table of the capture; any number that nobody
// else in the router's namespace uses.
const captureTable = 0x4553 // "ES"

// A Capture is a router that makes itself the end of TCP connections that come
// in on one device for one address and port: a rule and a local route, no
// netfilter. What the router itself sends there still goes to the genuine
// owner, and so does everything else: the evidence channel, too.
type Capture struct {
	rule  *netlink.Rule
	route *netlink.Route
}

// NewCapture begins to capture in the network namespace of the calling thread.
func NewCapture(device string, service netip.AddrPort) (*Capture, error) {
	address := service.Addr()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	family := unix.AF_INET
	if address.Is6() {
		family = unix.AF_INET6
	}
	c := &Capture{rule: netlink.NewRule()}
	c.rule.Family, c.rule.IifName, c.rule.Table, c.rule.Priority = family, device, captureTable, captureTable
	c.rule.IPProto, c.rule.Dport = unix.IPPROTO_TCP, netlink.NewRulePortRange(service.Port(), service.Port())
	c.route = &netlink.Route{
		Dst: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())}, LinkIndex: lo.Attrs().Index,
		Table: captureTable, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST,
	}
	if err := netlink.RouteAdd(c.route); err != nil {
		return nil, fmt.Errorf("esr: local route for %s: %w", address, err)
	}
	// The kernel looks into its own table of local addresses first, by the rule of preference 0; ours may come later,
	// since the captured address is not local.
	if err := netlink.RuleAdd(c.rule); err != nil {
		return nil, errors.Join(fmt.Errorf("esr: rule for %s: %w", device, err), netlink.RouteDel(c.route))
	}
	return c, nil
}

// Close gives the address back; same thread conditions as NewCapture.
func (c *Capture) Close() error {
	return errors.Join(netlink.RuleDel(c.rule), netlink.RouteDel(c.route))
}

// Listen opens a listener that takes connections to captured addresses
// (IP_TRANSPARENT), in the namespace of the calling thread. Address is
// "0.0.0.0:PORT" or "[::]:PORT".
func Listen(ctx context.Context, network, address string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		ctlErr := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1)
			if network == "tcp6" {
				err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
			}
		})
		return errors.Join(ctlErr, os.NewSyscallError("setsockopt(IP_TRANSPARENT)", err))
	}}
	lc.SetMultipathTCP(false)
	return lc.Listen(ctx, network, address)
}
