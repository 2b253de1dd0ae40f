// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"testing"

	"holdfast/tpm2"
)

// FuzzSessionFile: a saved session is read whole and written as the same bytes,
// or refused.
func FuzzSessionFile(f *testing.F) {
	s := &Session{kind: tpm2.SEPolicy, Hash: tpm2.AlgSHA256, Attributes: tpm2.SessionContinue, needsValue: true, nonceTPM: make([]byte, 32)}
	b, err := encodeSession(s, &tpm2.Context{Sequence: 7, SavedHandle: 0x03000000, Hierarchy: tpm2.RHNull, Blob: []byte("blob")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, c, err := decodeSession(b)
		if err != nil {
			if s != nil || c != nil {
				t.Fatal("a session beside an error")
			}
			return
		}
		if again, err := encodeSession(s, c); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x (%v)", b, again, err)
		}
	})
}
