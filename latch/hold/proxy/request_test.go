// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"errors"
	"testing"
)

func TestParseConnect(t *testing.T) {
	for in, want := range map[string]string{
		"CONNECT shop.example:443 HTTP/1.1\r\nHost: x\r\n\r\n": "shop.example:443",
		"CONNECT 192.0.2.1:1 HTTP/1.0\r\n\r\n":                 "192.0.2.1:1",
		"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n":           "[2001:db8::1]:443",
		"CONNECT shop.example HTTP/1.1\r\n\r\n":                "",
		"CONNECT shop.example:0 HTTP/1.1\r\n\r\n":              "",
		"CONNECT shop.example:0443 HTTP/1.1\r\n\r\n":           "",
		"CONNECT shop.example:65536 HTTP/1.1\r\n\r\n":          "",
		"CONNECT [shop.example]:443 HTTP/1.1\r\n\r\n":          "",
		"CONNECT 2001:db8::1:443 HTTP/1.1\r\n\r\n":             "",
		"CONNECT a/b:443 HTTP/1.1\r\n\r\n":                     "",
		"CONNECT shop.example:443 HTTP/2\r\n\r\n":              "",
		"GET http://shop.example/ HTTP/1.1\r\n\r\n":            "",
		"CONNECT shop.example:443 HTTP/1.1\r\n":                "",
		"connect shop.example:443 HTTP/1.1\r\n\r\n":            "",
		"": "",
	} {
		got, err := ParseConnect([]byte(in))
		if want == "" && (err == nil || got != Target{}) || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%q: %v, %v; want %q", in, got, err, want)
		}
	}
}

func FuzzConnect(f *testing.F) {
	f.Add([]byte("CONNECT shop.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("CONNECT [::1]:443 HTTP/1.0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseConnect(b)
		if err != nil {
			if got != (Target{}) {
				t.Errorf("%v beside an error", got)
			}
			return
		}
		if !bytes.HasPrefix(b, []byte("CONNECT "+got.String()+" HTTP/1.")) {
			t.Errorf("%q was read as %v", b, got)
		}
	})
}

func FuzzSOCKS(f *testing.F) {
	for _, x := range []Target{{"shop.example", 443}, {"192.0.2.1", 1}, {"2001:db8::1", 65535}, {"::ffff:192.0.2.1", 80}} {
		f.Add(appendSOCKS(nil, x))
	}
	f.Add([]byte{5, 3, 0, 1, 1, 2, 3, 4, 0, 80})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, n, err := ParseSOCKS(b)
		if err != nil {
			if got != (Target{}) || n != 0 {
				t.Errorf("%v, %d beside an error", got, n)
			}
			return
		}
		if again := appendSOCKS(nil, got); !bytes.Equal(again, b[:n]) {
			t.Errorf("%x was read as %v, which is %x", b[:n], got, again)
		}
		for i := range n { // a beginning is never taken for the whole, nor refused
			if _, _, err := ParseSOCKS(b[:i]); !errors.Is(err, errMore) {
				t.Fatalf("%x, %d bytes of it: %v", b[:n], i, err)
			}
		}
	})
}
