// SPDX-License-Identifier: Apache-2.0

package proxyproto

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// v2 is a header as the specification (section 2.2) lays it out, typed by hand.
func v2(t *testing.T, rest string) []byte {
	t.Helper()
	b, err := hex.DecodeString("0d0a0d0a000d0a515549540a" + strings.ReplaceAll(rest, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		src  string
		dst  string
	}{
		{"v1 of the specification", []byte("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"), "192.168.0.1:56324", "192.168.0.11:443"},
		{"v1 IPv6", []byte("PROXY TCP6 fd77::1 fd77::2 1 65535\r\n"), "[fd77::1]:1", "[fd77::2]:65535"},
		{"v1 unknown", []byte("PROXY UNKNOWN\r\n"), "", ""},
		{"v1 unknown with addresses", []byte("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"), "", ""},
		{"v2 TCP4", v2(t, "21 11 000c c0a80001 c0a8000b dc04 01bb"), "192.168.0.1:56324", "192.168.0.11:443"},
		{"v2 TCP4 with a TLV", v2(t, "21 11 0011 c0a80001 c0a8000b dc04 01bb 04 0002 abcd"), "192.168.0.1:56324", "192.168.0.11:443"},
		{"v2 TCP6", v2(t, "21 21 0024 fd770000000000000000000000000001 fd770000000000000000000000000002 0001 01bb"), "[fd77::1]:1", "[fd77::2]:443"},
		{"v2 LOCAL", v2(t, "20 00 0000"), "", ""},
		{"v2 LOCAL with addresses", v2(t, "20 11 000c c0a80001 c0a8000b dc04 01bb"), "", ""},
		{"v2 unix", v2(t, "21 31 00d8"+strings.Repeat("00", 216)), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := append(bytes.Clone(c.in), "\x16\x03\x01 hello"...)
			h, n, err := Parse(b)
			if err != nil || n != len(c.in) {
				t.Fatalf("%v, %d bytes, expected %d", err, n, len(c.in))
			}
			if c.src == "" && (h.Src.IsValid() || h.Dst.IsValid()) || c.src != "" && (h.Src.String() != c.src || h.Dst.String() != c.dst) {
				t.Errorf("from %v to %v, expected %q to %q", h.Src, h.Dst, c.src, c.dst)
			}
			if !bytes.Equal(h.Append(nil), c.in) {
				t.Errorf("encodes to %q", h.Append(nil))
			}
			for i := range n {
				if _, _, err := Parse(b[:i]); !errors.Is(err, ErrMore) && i > 0 {
					t.Fatalf("the first %d bytes: %v, expected ErrMore", i, err)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for name, in := range map[string][]byte{
		"TLS":                  []byte("\x16\x03\x01\x00\x05hello"),
		"HTTP":                 []byte("GET / HTTP/1.1\r\n"),
		"no CR":                []byte("PROXY TCP4 1.2.3.4 1.2.3.4 1 1\n"),
		"endless":              []byte("PROXY UNKNOWN" + strings.Repeat(" ", 200) + "\r\n"),
		"three fields":         []byte("PROXY TCP4 1.2.3.4 1.2.3.4\r\n"),
		"wrong family":         []byte("PROXY TCP4 ::1 ::1 1 1\r\n"),
		"leading zero":         []byte("PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n"),
		"long port":            []byte("PROXY TCP4 1.2.3.4 1.2.3.4 65536 1\r\n"),
		"long form of IPv6":    []byte("PROXY TCP6 0:0:0:0:0:0:0:1 ::1 1 1\r\n"),
		"v2 version 1":         v2(t, "11 11 000c c0a80001 c0a8000b dc04 01bb"),
		"v2 UDP":               v2(t, "21 12 000c c0a80001 c0a8000b dc04 01bb"),
		"v2 too short for it":  v2(t, "21 11 0004 c0a80001"),
		"v2 longer than bound": v2(t, "21 11 ffff c0a80001 c0a8000b dc04 01bb"),
	} {
		if h, n, err := Parse(in); err == nil || errors.Is(err, ErrMore) || h != nil || n != 0 {
			t.Errorf("%s: %v %d %v, expected a refusal", name, h, n, err)
		}
	}
}

// FuzzParse: what parses encodes to the same bytes, and every shorter piece
// asks for more.
func FuzzParse(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n\x16"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\xa8\x00\x01\xc0\xa8\x00\x0b\xdc\x04\x01\xbb"))
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := Parse(b)
		if err != nil {
			if h != nil || n != 0 {
				t.Fatalf("error %v with %v, %d", err, h, n)
			}
			return
		}
		if got := h.Append(nil); !bytes.Equal(got, b[:n]) {
			t.Fatalf("parsed %q, encodes to %q", b[:n], got)
		}
		if _, _, err := Parse(b[:n-1]); n > 1 && !errors.Is(err, ErrMore) {
			t.Fatalf("one byte less: %v", err)
		}
	})
}
