// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"net/netip"
	"testing"
)

func (w *wire) local() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.1:1") }

func firstRecord(b []byte) int { return 5 + int(b[3])<<8 + int(b[4]) }

// endless is the first n bytes of a ServerHello in a record of 8 KiB.
func endless(n int) []byte {
	b := make([]byte, n)
	copy(b, []byte{22, 3, 3, 0x20, 0, 2, 0, 0x1f, 0xfc})
	return b
}

// joined makes the ServerHello's record hold one byte more.
func joined(server []byte) []byte {
	n := firstRecord(server)
	b := append(append([]byte{}, server[:n]...), 8)
	b[3], b[4] = byte((n-4)>>8), byte(n-4)
	return b
}

// withoutName turns server_name into an extension that nobody knows.
func withoutName(t *testing.T, client []byte) []byte { return retyped(t, client, 0, 0xfafa) }

// retyped gives the ClientHello's extension of type from the type to.
func retyped(t *testing.T, client []byte, from, to int) []byte {
	b := append([]byte{}, client...)
	at := 5 + 4 + 2 + 32
	at += 1 + int(b[at])
	at += 2 + int(b[at])<<8 + int(b[at+1])
	at += 1 + int(b[at]) + 2
	for at+4 <= len(b) {
		typ, n := int(b[at])<<8|int(b[at+1]), int(b[at+2])<<8|int(b[at+3])
		if typ == from {
			b[at], b[at+1] = byte(to>>8), byte(to)
			return b
		}
		at += 4 + n
	}
	t.Fatalf("no extension %#x in the recording", from)
	return nil
}
