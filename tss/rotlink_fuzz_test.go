// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"testing"
)

// FuzzROTLink: a message of a transfer comes out of the stream as it was
// written, nothing of it beside an error, and never more than one takes.
func FuzzROTLink(f *testing.F) {
	var b bytes.Buffer
	if err := writeROT(&b, nil, []byte("message")); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0, 0})
	f.Add([]byte{0x08, 0x01})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		m, err := readROT(r, "a message")
		if err != nil {
			if m != nil {
				t.Fatalf("%x beside %v", m, err)
			}
			return
		}
		var out bytes.Buffer
		if err := writeROT(&out, nil, m); err != nil {
			t.Fatal(err)
		}
		if used := in[:len(in)-r.Len()]; len(m) > maxROTMessage || !bytes.Equal(out.Bytes(), used) {
			t.Fatalf("read %x, writes %x", used, out.Bytes())
		}
	})
}
