// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// TestCallVector: the encoding, typed by hand.
func TestCallVector(t *testing.T) {
	c := Call{Gate: [TokenSize]byte{0xaa}, Have: []Hash{{1}}, Batch: []Announcement{{CH: Hash{2}, Random: Hash{3}, Grade: 1}}}
	z := strings.Repeat("00", 31)
	want := "84" + "1830" + "50aa" + strings.Repeat("00", 15) + "81" + "582001" + z + "81" + "83" + "582002" + z + "582003" + z + "01"
	if got := hex.EncodeToString(c.Append(nil)); got != want {
		t.Errorf("encodes to %s, expected %s", got, want)
	}
}

// FuzzCall: what decodes encodes to the same bytes; an error leaves nothing.
func FuzzCall(f *testing.F) {
	f.Add((&Call{Have: []Hash{{1}}, Batch: []Announcement{{CH: Hash{2}, Grade: 2}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCall(b)
		if err != nil {
			if c != nil {
				t.Fatalf("error %v with a call", err)
			}
			return
		}
		if got := c.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("decoded %x, encodes to %x", b, got)
		}
	})
}

// FuzzEvent: the same for an agent's single message.
func FuzzEvent(f *testing.F) {
	f.Add((&Endorsement{"a/b", []byte{1}}).Append(nil))
	r, _ := (&Report{7, "a/b", []byte{1}, []Hash{{1}}, 2}).Append(nil)
	f.Add(r)
	f.Add((&Session{Hash{1}, 7, 1, []Hash{{2}}, []byte{0xa0}}).Append(nil))
	f.Add((&Refused{Hash{1}, "c", "t"}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEvent(b)
		if err != nil {
			if e != nil {
				t.Fatalf("error %v with an event", err)
			}
			return
		}
		var got []byte
		switch e.Kind {
		case KindEndorsement:
			got = e.Endorsement.Append(nil)
		case KindReport:
			if got, err = e.Report.Append(nil); err != nil {
				t.Fatal(err)
			}
		case KindSession:
			got = e.Session.Append(nil)
		case KindRefused:
			got = e.Refused.Append(nil)
		}
		if !bytes.Equal(got, b) {
			t.Fatalf("decoded %x, encodes to %x", b, got)
		}
	})
}
