// SPDX-License-Identifier: Apache-2.0

package ops

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// FuzzEstablished: an address of /proc/net/tcp written as the kernel writes it
// (words in the machine's byte order) is the one that was read.
func FuzzEstablished(f *testing.F) {
	f.Add("0100007F:1F90")
	f.Add("00000000000000000000000001000000:01BB")
	f.Add("0100007F:")
	f.Add(":1F90")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := procAddr(s)
		if err != nil {
			if a.IsValid() {
				t.Fatalf("%q: %v beside %v", s, a, err)
			}
			return
		}
		if got := asKernel(a); !strings.EqualFold(strings.TrimLeft(got, "0"), strings.TrimLeft(canonicalPort(s), "0")) {
			t.Fatalf("%q is %v, which is written %q", s, a, got)
		}
		out := map[Pair]bool{}
		line := fmt.Sprintf("   0: %s %s 01 00000000:00000000 00:00000000 00000000 0 0 1\n", s, s)
		if strings.ContainsAny(s, " \t\n\r\v\f") {
			return
		}
		if err := established(strings.NewReader(line), out); err != nil || !out[NewPair(a, a)] {
			t.Fatalf("%q: %v, %v", line, out, err)
		}
	})
}

func asKernel(a netip.AddrPort) string {
	b := a.Addr().AsSlice()
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	return fmt.Sprintf("%s:%04X", hex.EncodeToString(b), a.Port())
}

// canonicalPort writes the port with four digits: leading zeros say nothing.
func canonicalPort(s string) string {
	h, p, _ := strings.Cut(s, ":")
	p = strings.TrimLeft(p, "0")
	return h + ":" + strings.Repeat("0", max(0, 4-len(p))) + p
}
