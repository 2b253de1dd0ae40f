// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Classes of attester: who vouches for the receiving key.
const (
	Machine = "machine" // the agent, for a process on a measured machine
	Enclave = "enclave" // the enclave itself, for its own key
)

// Claims are what the agent saw of the program behind a session. They are
// hashed into the leaf, so the report signs them: as true as the agent, which
// the machine's measurements cover.
//
// The encoding is one CBOR map (RFC 8949, core deterministic encoding) with
// the keys 1 to 8 in order, all present. Texts are UTF-8 without control
// characters, at most MaxText bytes; digests are SHA-256 or empty.
type Claims struct {
	Service      string // 1: name of the service in the agent's configuration
	Listener     string // 2: protocol and address, such as "tcp 192.0.2.1:443"
	NetNS        string // 3: network namespace of the listener, such as "net:[4026531840]"
	Executable   string // 4: SHA-256 of the executable file in lower-case hexadecimal, or empty when unknown
	Unit         string // 5: systemd unit or cgroup path, or empty
	Config       string // 6: SHA-256 of the service's configuration files in lower-case hexadecimal, or empty
	AgentVersion string // 7
	Class        string // 8: Machine or Enclave
}

// MaxText is the most bytes that one text of the claims may have.
const MaxText = 1024

// MaxClaims is an upper bound of the encoded size in bytes.
const MaxClaims = 1 + 8*(1+3) + 6*MaxText + 2*32

// Encode returns the canonical encoding of c.
func (c *Claims) Encode() ([]byte, error) {
	b, err := c.Append(nil)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Append appends the canonical encoding of c to dst.
func (c *Claims) Append(dst []byte) ([]byte, error) {
	if err := c.check(); err != nil {
		return dst, err
	}
	dst = append(dst, 0xa8) // map of 8
	dst = text(dst, 1, c.Service)
	dst = text(dst, 2, c.Listener)
	dst = text(dst, 3, c.NetNS)
	dst = digest(dst, 4, c.Executable)
	dst = text(dst, 5, c.Unit)
	dst = digest(dst, 6, c.Config)
	dst = text(dst, 7, c.AgentVersion)
	return text(dst, 8, c.Class), nil
}

func (c *Claims) check() error {
	for i, s := range [...]string{c.Service, c.Listener, c.NetNS, c.Unit, c.AgentVersion} {
		if err := checkText(s); err != nil {
			return fmt.Errorf("binder: claims: text %d: %w", i+1, err)
		}
	}
	if c.Service == "" {
		return errors.New("binder: claims: the service has no name")
	}
	if c.Class != Machine && c.Class != Enclave {
		return fmt.Errorf("binder: claims: class %q, want %q or %q", c.Class, Machine, Enclave)
	}
	for _, d := range [...]string{c.Executable, c.Config} {
		if len(d) != 0 && len(d) != 64 || strings.Trim(d, "0123456789abcdef") != "" {
			return fmt.Errorf("binder: claims: digest %q, want 64 lower-case hexadecimal digits or none", d)
		}
	}
	return nil
}

func checkText(s string) error {
	if len(s) > MaxText {
		return fmt.Errorf("%d bytes, at most %d", len(s), MaxText)
	}
	if !utf8.ValidString(s) {
		return errors.New("not UTF-8")
	}
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return fmt.Errorf("control character %#x", r)
		}
	}
	return nil
}

// head appends a CBOR head: major type in the top three bits, length below 65536.
func head(dst []byte, major byte, n int) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n < 1<<8:
		return append(dst, major|24, byte(n))
	}
	return append(dst, major|25, byte(n>>8), byte(n))
}

func text(dst []byte, key byte, s string) []byte {
	return append(head(append(dst, key), 0x60, len(s)), s...)
}

// digest appends a byte string; d was checked.
func digest(dst []byte, key byte, d string) []byte {
	dst = head(append(dst, key), 0x40, len(d)/2)
	dst, _ = hex.AppendDecode(dst, []byte(d))
	return dst
}

// ParseClaims reads the canonical encoding and no other: encoding the result
// again gives b.
func ParseClaims(b []byte) (*Claims, error) {
	d := decoder{b: b}
	if d.byte() != 0xa8 {
		return nil, errors.New("binder: claims: want a CBOR map of 8 entries")
	}
	c := &Claims{
		Service: string(d.entry(1, 0x60)), Listener: string(d.entry(2, 0x60)), NetNS: string(d.entry(3, 0x60)),
		Executable: hex.EncodeToString(d.entry(4, 0x40)), Unit: string(d.entry(5, 0x60)), Config: hex.EncodeToString(d.entry(6, 0x40)),
		AgentVersion: string(d.entry(7, 0x60)), Class: string(d.entry(8, 0x60)),
	}
	if d.bad || len(d.b) != 0 {
		return nil, errors.New("binder: claims: not the canonical encoding of the keys 1 to 8")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if d.bad || len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// entry reads one key and its string of the given major type, in shortest
// form.
func (d *decoder) entry(key, major byte) []byte {
	if d.byte() != key {
		d.bad = true
	}
	h, n := d.byte(), 0
	switch l := h &^ 0xe0; {
	case h&0xe0 != major || d.bad:
		d.bad = true
	case l < 24:
		n = int(l)
	case l == 24:
		n = int(d.byte())
		d.bad = d.bad || n < 24
	case l == 25:
		n = int(d.byte())<<8 | int(d.byte())
		d.bad = d.bad || n < 1<<8
	default:
		d.bad = true
	}
	if d.bad || n > len(d.b) {
		d.bad = true
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}
