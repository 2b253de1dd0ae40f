// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

func TestClaimsVectors(t *testing.T) {
	for i, v := range load(t).Claims {
		c := Claims{Service: v.Service, Listener: v.Listener, NetNS: v.NetNS, Unit: v.Unit, AgentVersion: v.AgentVersion, Class: v.Class}
		if v.Executable != "" {
			c.Executable, c.Config = v.Executable, v.Config
		}
		b, err := c.Append(nil)
		if err != nil || !bytes.Equal(b, unhex(t, v.Encoding)) || sha256.Sum256(b) != hash(t, v.Digest) {
			t.Errorf("%d: %v %x", i, err, b)
		}
		back, err := ParseClaims(b)
		if err != nil || !reflect.DeepEqual(*back, c) {
			t.Errorf("%d: %v, %+v", i, err, back)
		}
		// An independent encoder agrees about what is canonical.
		mode, err := cbor.CoreDetEncOptions().EncMode()
		if err != nil {
			t.Fatal(err)
		}
		bytesOf := func(s string) []byte { return append([]byte{}, unhex(t, s)...) }
		other, err := mode.Marshal(map[int]any{1: c.Service, 2: c.Listener, 3: c.NetNS, 4: bytesOf(c.Executable),
			5: c.Unit, 6: bytesOf(c.Config), 7: c.AgentVersion, 8: c.Class})
		if err != nil || !bytes.Equal(other, b) {
			t.Errorf("%d: %v, other encoder %x, ours %x", i, err, other, b)
		}
	}
}

func good() Claims {
	return Claims{Service: "s", Listener: "tcp 192.0.2.1:443", NetNS: "net:[1]", Executable: strings.Repeat("0a", 32), AgentVersion: "1", Class: Machine}
}

func TestClaimsRefused(t *testing.T) {
	for what, change := range map[string]func(*Claims){
		"no service":         func(c *Claims) { c.Service = "" },
		"class":              func(c *Claims) { c.Class = "gateway" },
		"empty class":        func(c *Claims) { c.Class = "" },
		"digest of 31":       func(c *Claims) { c.Executable = strings.Repeat("0a", 31) },
		"config of 64":       func(c *Claims) { c.Config = strings.Repeat("0a", 64) },
		"capital digest":     func(c *Claims) { c.Config = strings.Repeat("0A", 32) },
		"no hexadecimal":     func(c *Claims) { c.Config = strings.Repeat("0g", 32) },
		"newline":            func(c *Claims) { c.Unit = "a\nb" },
		"escape":             func(c *Claims) { c.Unit = "a\x1b[0m" },
		"C1 control":         func(c *Claims) { c.Listener = "a\u0085" },
		"not UTF-8":          func(c *Claims) { c.NetNS = "\xff" },
		"text of 1025":       func(c *Claims) { c.Unit = strings.Repeat("u", MaxText+1) },
		"version with a \\0": func(c *Claims) { c.AgentVersion = "\x00" },
	} {
		c := good()
		change(&c)
		if b, err := c.Encode(); err == nil || b != nil {
			t.Errorf("%s: accepted", what)
		}
	}
	c := good()
	b, err := c.Append(nil)
	if err != nil || len(b) > MaxClaims {
		t.Fatal(err, len(b))
	}
	for i := range b {
		if p, err := ParseClaims(b[:i]); err == nil || p != nil {
			t.Errorf("cut at %d: accepted", i)
		}
	}
	for what, bad := range map[string][]byte{
		"trailing byte":    append(bytes.Clone(b), 0),
		"indefinite map":   append(append([]byte{0xbf}, b[1:]...), 0xff),
		"long head":        append([]byte{0xb8, 8}, b[1:]...),
		"long text head":   append([]byte{0xa8, 1, 0x78, 1}, b[3:]...),
		"bytes for text":   append([]byte{0xa8, 1, 0x41}, b[3:]...),
		"long key":         append([]byte{0xa8, 0x18, 1}, b[2:]...),
		"keys in disorder": append([]byte{0xa8, 2}, b[2:]...),
	} {
		if p, err := ParseClaims(bad); err == nil || p != nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func FuzzClaims(f *testing.F) {
	for _, v := range load(f).Claims {
		f.Add(unhex(f, v.Encoding))
	}
	c := good()
	b, _ := c.Append(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseClaims(b)
		if err != nil {
			if c != nil {
				t.Fatal("an error and a result")
			}
			return
		}
		out, err := c.Append(nil)
		if err != nil || !bytes.Equal(out, b) {
			t.Fatalf("%v: %x encodes as %x", err, b, out)
		}
	})
}
