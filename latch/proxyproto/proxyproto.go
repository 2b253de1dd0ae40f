// SPDX-License-Identifier: Apache-2.0

// Package proxyproto reads the header that a load balancer writes before a
// connection's own bytes: the PROXY protocol, versions 1 and 2 (HAProxy,
// doc/proxy-protocol.txt). Start with [Parse]. It is strict: one encoding per
// header, and every size bounded.
package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Header is a parsed header.
type Header struct {
	Version int  // 1 or 2
	Local   bool // version 2, LOCAL: a connection of the balancer's own, such as a health check
	// Src and Dst are the ends of the connection that the balancer accepted; not
	// valid when it does not say (LOCAL, UNKNOWN, UNSPEC, unix sockets).
	Src, Dst netip.AddrPort
	family   byte   // version 2: byte 14
	rest     []byte // version 1, UNKNOWN: the text behind it; version 2: what follows the addresses
}

// MaxHeader bounds a header in bytes; version 1 has at most 107.
const MaxHeader = 16 + 4096

const maxV1 = 107

// ErrMore says that b is a beginning of a header and more bytes are needed.
var ErrMore = errors.New("proxyproto: the header is not complete")

var signature = []byte("\r\n\r\n\x00\r\nQUIT\n")

// Families of version 2 that a TLS listener can meet.
const (
	unspec   = 0x00
	tcp4     = 0x11
	tcp6     = 0x21
	unixSock = 0x31
)

// addressBytes is the size of a family's addresses (section 2.2).
func addressBytes(family byte) (int, bool) {
	switch family {
	case unspec:
		return 0, true
	case tcp4:
		return 12, true
	case tcp6:
		return 36, true
	case unixSock:
		return 216, true
	}
	return 0, false
}

// Parse reads the header at the beginning of b and returns it with its length
// in bytes. The error is ErrMore when b ends within a header; any other error
// says that b cannot begin with one. The header refers to b.
func Parse(b []byte) (*Header, int, error) {
	if n := min(len(b), len(signature)); bytes.Equal(b[:n], signature[:n]) && n > 0 {
		if len(b) < 16 {
			return nil, 0, ErrMore
		}
		return parseV2(b)
	}
	const start = "PROXY "
	if n := min(len(b), len(start)); string(b[:n]) != start[:n] {
		return nil, 0, fmt.Errorf("proxyproto: expected a PROXY header, got %q", b[:min(len(b), 16)])
	}
	end := bytes.IndexByte(b[:min(len(b), maxV1)], '\n')
	switch {
	case end < 0 && len(b) >= maxV1:
		return nil, 0, fmt.Errorf("proxyproto: no line end within %d bytes", maxV1)
	case end < 0:
		return nil, 0, ErrMore
	case end == 0 || b[end-1] != '\r':
		return nil, 0, errors.New("proxyproto: expected CR LF at the end of the line")
	}
	h, err := parseV1(string(b[len(start) : end-1]))
	if err != nil {
		return nil, 0, err
	}
	return h, end + 1, nil
}

func parseV1(line string) (*Header, error) {
	if line == "UNKNOWN" || strings.HasPrefix(line, "UNKNOWN ") {
		return &Header{Version: 1, rest: []byte(line[len("UNKNOWN"):])}, nil
	}
	f := strings.Split(line, " ")
	if len(f) != 5 || f[0] != "TCP4" && f[0] != "TCP6" {
		return nil, fmt.Errorf("proxyproto: line %q, expected TCP4 or TCP6, two addresses and two ports", line)
	}
	h := &Header{Version: 1}
	for i, p := range []*netip.AddrPort{&h.Src, &h.Dst} {
		a, err := netip.ParseAddr(f[1+i])
		if err != nil || a.Zone() != "" || a.String() != f[1+i] || a.Is4() != (f[0] == "TCP4") {
			return nil, fmt.Errorf("proxyproto: address %q, expected one of family %s in its shortest form", f[1+i], f[0])
		}
		n, err := strconv.ParseUint(f[3+i], 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != f[3+i] {
			return nil, fmt.Errorf("proxyproto: port %q, expected 0 to 65535", f[3+i])
		}
		*p = netip.AddrPortFrom(a, uint16(n))
	}
	return h, nil
}

func parseV2(b []byte) (*Header, int, error) {
	if b[12] != 0x20 && b[12] != 0x21 {
		return nil, 0, fmt.Errorf("proxyproto: version and command %#02x, expected 0x20 or 0x21", b[12])
	}
	n, ok := addressBytes(b[13])
	if !ok {
		return nil, 0, fmt.Errorf("proxyproto: family and protocol %#02x, expected a stream", b[13])
	}
	size := int(binary.BigEndian.Uint16(b[14:]))
	if size < n || 16+size > MaxHeader {
		return nil, 0, fmt.Errorf("proxyproto: %d bytes behind the header, expected %d to %d", size, n, MaxHeader-16)
	}
	if len(b) < 16+size {
		return nil, 0, ErrMore
	}
	h := &Header{Version: 2, Local: b[12] == 0x20, family: b[13], rest: b[16 : 16+size]}
	if h.Local || n == 0 || b[13] == unixSock {
		return h, 16 + size, nil // the addresses mean nothing, or are paths: kept as they are
	}
	a := b[16 : 16+n]
	h.rest = b[16+n : 16+size]
	w := (n - 4) / 2
	src, _ := netip.AddrFromSlice(a[:w])
	dst, _ := netip.AddrFromSlice(a[w : 2*w])
	h.Src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(a[2*w:]))
	h.Dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(a[2*w+2:]))
	return h, 16 + size, nil
}

// Append is the inverse of Parse.
func (h *Header) Append(b []byte) []byte {
	if h.Version == 1 {
		if !h.Src.IsValid() {
			return append(append(append(b, "PROXY UNKNOWN"...), h.rest...), "\r\n"...)
		}
		family := "TCP6"
		if h.Src.Addr().Is4() {
			family = "TCP4"
		}
		return fmt.Appendf(b, "PROXY %s %s %s %d %d\r\n", family, h.Src.Addr(), h.Dst.Addr(), h.Src.Port(), h.Dst.Port())
	}
	var a []byte
	if h.Src.IsValid() {
		a = append(append(a, h.Src.Addr().AsSlice()...), h.Dst.Addr().AsSlice()...)
		a = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(a, h.Src.Port()), h.Dst.Port())
	}
	command := byte(0x21)
	if h.Local {
		command = 0x20
	}
	b = append(append(b, signature...), command, h.family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(a)+len(h.rest)))
	return append(append(b, a...), h.rest...)
}
