// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Target is where a client of the proxy wants to go.
type Target struct {
	Host string // name or address
	Port uint16
}

func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

const maxHost = 253

func checkHost(h string) error {
	if h == "" || len(h) > maxHost {
		return fmt.Errorf("a host name of %d bytes, expected 1 to %d", len(h), maxHost)
	}
	for i := 0; i < len(h); i++ {
		if c := h[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("/\\?#@[]", c) >= 0 {
			return fmt.Errorf("a host name with the byte %#02x", c)
		}
	}
	return nil
}

// ParseConnect reads the head of an HTTP CONNECT request, final blank line
// included (RFC 9110 section 9.3.6, RFC 9112 section 3.2.3).
func ParseConnect(head []byte) (Target, error) {
	line, _, ok := bytes.Cut(head, []byte("\r\n"))
	if !ok || !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		return Target{}, errors.New("the request's head has no end")
	}
	f := strings.Split(string(line), " ")
	if len(f) != 3 || f[2] != "HTTP/1.1" && f[2] != "HTTP/1.0" {
		return Target{}, fmt.Errorf("request line %.60q, expected CONNECT HOST:PORT HTTP/1.1", line)
	}
	if f[0] != "CONNECT" {
		return Target{}, fmt.Errorf("method %.20q: only CONNECT can be gated; cleartext HTTP goes nowhere through this proxy", f[0])
	}
	return parseAuthority(f[1])
}

func parseAuthority(s string) (Target, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Target{}, fmt.Errorf("destination %.60q, expected HOST:PORT", s)
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil || p == 0 || port[0] == '0' || port[0] == '+' {
		return Target{}, fmt.Errorf("destination %.60q: port %q, expected 1 to 65535", s, port)
	}
	if strings.Contains(host, ":") { // in brackets, an IPv6 address
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" || s[0] != '[' {
			return Target{}, fmt.Errorf("destination %.60q: %q is no IPv6 address", s, host)
		}
	} else if s[0] == '[' {
		return Target{}, fmt.Errorf("destination %.60q: brackets around what is no IPv6 address", s)
	}
	if err := checkHost(host); err != nil {
		return Target{}, err
	}
	return Target{host, uint16(p)}, nil
}

// Codes of RFC 1928.
const (
	socksVersion  = 5
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
	socksOK       = 0
	socksFailed   = 1
	socksRefused  = 5
	socksCommand  = 7
	socksNoAuth   = 0
	socksNoMethod = 0xff
)

var (
	errMore    = errors.New("more bytes are needed")
	errCommand = errors.New("SOCKS5: only CONNECT can be gated; UDP and BIND go nowhere through this proxy")
)

// ParseSOCKS reads a SOCKS5 request (RFC 1928 section 4) and returns its
// length. errMore means that b is a beginning of one.
func ParseSOCKS(b []byte) (t Target, n int, err error) {
	if len(b) < 5 {
		if len(b) > 0 && b[0] != socksVersion || len(b) > 2 && b[2] != 0 {
			return Target{}, 0, errors.New("SOCKS5: malformed request")
		}
		return Target{}, 0, errMore
	}
	if b[0] != socksVersion || b[2] != 0 {
		return Target{}, 0, fmt.Errorf("SOCKS5: version %d, reserved %d; expected 5 and 0", b[0], b[2])
	}
	if b[1] != socksConnect {
		return Target{}, 0, errCommand
	}
	at := 4
	switch b[3] {
	case socksIPv4:
		n = 4
	case socksIPv6:
		n = 16
	case socksName:
		n, at = int(b[4]), 5
	default:
		return Target{}, 0, fmt.Errorf("SOCKS5: address type %d, expected 1, 3 or 4", b[3])
	}
	if len(b) < at+n+2 {
		return Target{}, 0, errMore
	}
	if b[3] == socksName {
		t.Host = string(b[at : at+n])
		if err := checkHost(t.Host); err != nil {
			return Target{}, 0, fmt.Errorf("SOCKS5: %w", err)
		}
		if _, err := netip.ParseAddr(t.Host); err == nil || strings.Contains(t.Host, ":") {
			return Target{}, 0, fmt.Errorf("SOCKS5: the address %.50q as a name", t.Host)
		}
	} else {
		a, _ := netip.AddrFromSlice(b[at : at+n])
		t.Host = a.String()
	}
	t.Port = binary.BigEndian.Uint16(b[at+n:])
	if t.Port == 0 {
		return Target{}, 0, errors.New("SOCKS5: port 0")
	}
	return t, at + n + 2, nil
}

// appendSOCKS is the inverse of ParseSOCKS.
func appendSOCKS(b []byte, t Target) []byte {
	b = append(b, socksVersion, socksConnect, 0)
	switch a, err := netip.ParseAddr(t.Host); {
	case err != nil:
		b = append(append(b, socksName, byte(len(t.Host))), t.Host...)
	case a.Is4():
		b = append(append(b, socksIPv4), a.AsSlice()...)
	default:
		b = append(append(b, socksIPv6), a.AsSlice()...)
	}
	return binary.BigEndian.AppendUint16(b, t.Port)
}
