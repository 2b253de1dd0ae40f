// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"holdfast/latch/channel"
)

// FuzzAddress: what is accepted splits into the text that came and a prefix
// that subjects may begin with.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"nats:h:4222", "nats:[::1]:4222/a.b", "nats:h:1/>", "nats:h:1/", "nats::1", "h:1/x/y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, prefix, err := ParseNATS(s)
		if err != nil {
			if host != "" || prefix != "" {
				t.Fatalf("%q: %q and %q beside %v", s, host, prefix, err)
			}
			return
		}
		if CheckPrefix(prefix) != nil || strings.ContainsAny(prefix, " *>\x00") || !strings.Contains(host, ":") || strings.Contains(host, "/") {
			t.Fatalf("%q: %q, %q", s, host, prefix)
		}
		if s != "nats:"+host+"/"+prefix && (s != "nats:"+host || prefix != DefaultPrefix) {
			t.Fatalf("%q became %q and %q", s, host, prefix)
		}
	})
}

// FuzzClient: of what strangers publish to a gate, only what parses gets to it:
// a session or a refusal under the ClientHello digest of its subject, and a
// session only with the number that this gate gave to a report of the same
// agent.
func FuzzClient(f *testing.F) {
	token := bytes.Repeat([]byte{7}, channel.TokenSize)
	report, err := (&channel.Report{ID: 9, Type: "a/b", Body: []byte{1}}).Append(bytes.Clone(token))
	if err != nil {
		f.Fatal(err)
	}
	ch := channel.Hash{1}
	f.Add(report, (&channel.Session{CH: ch, Report: 9, Claims: []byte{0xa0}}).Append(bytes.Clone(token)), hex.EncodeToString(ch[:]))
	f.Add(report, (&channel.Refused{CH: ch, Code: "c", Text: "t"}).Append(bytes.Clone(token)), hex.EncodeToString(ch[:]))
	f.Add([]byte{}, token, "report")
	f.Fuzz(func(t *testing.T, first, second []byte, last string) {
		c, err := Dial((&hub{}).join(), "p", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.message(c.subject+".report", first)
		c.message(c.subject+"."+last, second)
		reports := map[uint64]bool{}
		for len(c.in) > 0 {
			e := <-c.in
			switch e.Kind {
			case channel.KindReport:
				if reports[e.Report.ID] {
					t.Fatal("two reports with one number")
				}
				reports[e.Report.ID] = true
			case channel.KindSession:
				if hex.EncodeToString(e.Session.CH[:]) != last || !reports[e.Session.Report] || !bytes.Equal(first[:channel.TokenSize], second[:channel.TokenSize]) {
					t.Fatalf("a session %+v under %q", e.Session, last)
				}
			case channel.KindRefused:
				if hex.EncodeToString(e.Refused.CH[:]) != last {
					t.Fatalf("a refusal %+v under %q", e.Refused, last)
				}
			}
		}
	})
}
