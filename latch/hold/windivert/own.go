// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"holdfast/latch/hold/packets"
)

// isOwn reports whether a packet belongs to a connection of this process.
func (h *Hold) isOwn(p *packets.Packet, outbound bool) bool {
	k := ownKey{p.Src.Port(), p.Dst}
	if !outbound {
		k = ownKey{p.Dst.Port(), p.Src}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.Proto == packets.ProtoTCP && h.own[k] > 0
}

func (h *Hold) claim(k ownKey, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.own[k] += n; h.own[k] <= 0 {
		delete(h.own, k)
	}
}

const (
	firstPort = 49152 // RFC 6335: dynamic ports
	portTries = 64
	// ownLinger is how long the last packets of a closed connection still pass.
	ownLinger = 2 * time.Minute
)

// families are the networks of Dial that leave the machine, in the words of
// net.Resolver.LookupNetIP.
var families = map[string]string{"tcp": "ip", "tcp4": "ip4", "tcp6": "ip6"}

// Dial connects over TCP from a local port that is let pass to this one peer:
// the gate's own connections to agents, which it must not hold. Of a host with
// several addresses each is tried. Other networks (unix) are net.Dialer's.
func (h *Hold) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	family, ok := families[network]
	if !ok {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q: expected a number", port)
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, family, host)
	if err != nil {
		return nil, err
	}
	var all error
	for _, a := range list {
		c, err := h.dialOne(ctx, netip.AddrPortFrom(a.Unmap(), uint16(n)))
		if err == nil {
			return c, nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}

func (h *Hold) dialOne(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var err error
	for range portTries {
		k := ownKey{uint16(firstPort + rand.IntN(1<<16-firstPort)), netip.AddrPortFrom(to.Addr().WithZone(""), to.Port())}
		h.claim(k, 1) // before the SYN
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: int(k.port)}, KeepAlive: 15 * time.Second}
		var c net.Conn
		if c, err = d.DialContext(ctx, "tcp", to.String()); err == nil {
			return &ownConn{TCPConn: c.(*net.TCPConn), end: func() { time.AfterFunc(ownLinger, func() { h.claim(k, -1) }) }}, nil
		}
		h.claim(k, -1)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, errInUse) { // a port of Hyper-V's answers EACCES
			break
		}
	}
	return nil, err
}

// errInUse is WSAEADDRINUSE, which the runtime does not map.
const errInUse = syscall.Errno(10048)

type ownConn struct {
	*net.TCPConn
	once sync.Once
	end  func()
}

func (c *ownConn) Close() error {
	c.once.Do(c.end)
	return c.TCPConn.Close()
}
