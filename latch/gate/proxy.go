// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"holdfast/latch/hold/proxy"
)

// ProxyListener is where programs reach the proxy gate.
type ProxyListener struct {
	Address string     `yaml:"address"` // IP:PORT
	Mode    proxy.Mode `yaml:"mode"`    // connect, socks5 or transparent
	Remote  bool       `yaml:"remote"`  // an address that other machines can reach is meant
}

func (l *ProxyListener) check() error {
	a, err := netip.ParseAddrPort(l.Address)
	if err != nil {
		return fmt.Errorf("address %q, expected IP:PORT", l.Address)
	}
	switch l.Mode {
	case proxy.Connect, proxy.SOCKS5, proxy.Transparent:
	default:
		return fmt.Errorf("mode %q, expected connect, socks5 or transparent", l.Mode)
	}
	if !a.Addr().IsLoopback() && !l.Remote {
		return fmt.Errorf("address %s can be reached from elsewhere, by anybody; use the loopback address, or say remote: true", a)
	}
	return nil
}

// destination says how the proxy treats an address.
func (c *Config) destination(a netip.AddrPort) proxy.Pass {
	match := func(list []Destination) bool {
		for _, d := range list {
			if d.Prefix.Contains(a.Addr()) && (d.Port == 0 || d.Port == a.Port()) {
				return true
			}
		}
		return false
	}
	switch {
	case match(c.PlainTLS), match(c.Resolvers):
		return proxy.PlainTLS
	case match(c.Plain):
		return proxy.Plain
	}
	return proxy.Gated
}

// Proxied is a gate that programs use as their proxy.
type Proxied struct {
	*Gate
	Proxy     *proxy.Proxy
	listeners []net.Listener
}

// OpenProxy loads what the configuration names and takes clients on its proxy
// addresses. It needs no privileges, on any system.
func OpenProxy(c *Config) (*Proxied, error) {
	if len(c.Proxy) == 0 {
		return nil, errors.New("proxy: no address is configured, such as {address: 127.0.0.1:3128, mode: connect}")
	}
	if c.mutual() {
		return nil, errors.New("proxy: grade: mutual needs a gate that knows its programs; use latch gate or latch run on Linux")
	}
	s, err := loadServices(c)
	if err != nil {
		return nil, err
	}
	x := &Proxied{Proxy: proxy.New(proxy.Options{Destination: c.destination, Connections: c.Limits.Connections})}
	x.Gate = newGate(c, s, x.Proxy, c.dialAgent)
	for _, l := range c.Proxy {
		n, err := net.Listen("tcp", l.Address)
		if err != nil {
			x.Proxy.Close()
			return nil, fmt.Errorf("proxy: %w", err)
		}
		x.listeners = append(x.listeners, n)
	}
	x.Start()
	for i, l := range x.listeners {
		go func() {
			if err := x.Proxy.Serve(l, c.Proxy[i].Mode); err != nil {
				slog.Error("proxy", "address", l.Addr().String(), "error", err)
			}
		}()
	}
	return x, nil
}

// Close ends the gate and every connection through it.
func (x *Proxied) Close() error {
	x.Stop()
	return x.Proxy.Shut()
}
