// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// filled is a hash of 32 equal bytes.
func filled(c byte) (h Hash) {
	for i := range h {
		h[i] = c
	}
	return h
}

// The vectors are typed from the format in doc.go with the heads of RFC 8949,
// not printed by the encoder: 8N array, 5820 byte string of 32, 6N text.
var (
	h11 = "5820" + strings.Repeat("11", 32)
	h22 = "5820" + strings.Repeat("22", 32)
)

func TestGateVectors(t *testing.T) {
	for name, v := range map[string]struct {
		hex string
		enc func([]byte) []byte
		msg gateMessage
	}{
		"hello": {"86" + "01" + "01" + "02" + "6467617465" + "8161" + "63" + "81" + h11,
			(&gateHello{1, 2, "gate", []string{"c"}, []Hash{filled(0x11)}}).append,
			gateMessage{hello: &gateHello{1, 2, "gate", []string{"c"}, []Hash{filled(0x11)}}}},
		"announce": {"82" + "02" + "82" + "83" + h11 + h22 + "01" + "83" + h22 + h11 + "18ff",
			func(b []byte) []byte {
				return appendAnnounce(b, []Announcement{{filled(0x11), filled(0x22), 1}, {filled(0x22), filled(0x11), 255}})
			},
			gateMessage{announce: []Announcement{{filled(0x11), filled(0x22), 1}, {filled(0x22), filled(0x11), 255}}}},
		"want": {"82" + "03" + "81" + h22,
			func(b []byte) []byte { return appendWant(b, []Hash{filled(0x22)}) },
			gateMessage{want: []Hash{filled(0x22)}}},
	} {
		want, err := hex.DecodeString(v.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.enc(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: encoded\n%x, want\n%x", name, got, want)
		}
		got, err := decodeGate(want, nil)
		if err != nil || !reflect.DeepEqual(got, v.msg) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, got, err, v.msg)
		}
		everyCut(t, name, want, func(b []byte) error { _, err := decodeGate(b, nil); return err })
	}
}

func TestAgentVectors(t *testing.T) {
	for name, v := range map[string]struct {
		hex string
		enc func([]byte) []byte
		msg agentMessage
	}{
		"hello": {"84" + "10" + "01" + "656167656e74" + "816462616e6b",
			(&agentHello{1, "agent", []string{"bank"}}).append,
			agentMessage{kind: 16, hello: &agentHello{1, "agent", []string{"bank"}}}},
		"endorsement": {"83" + "11" + "63612f62" + "420102",
			(&Endorsement{"a/b", []byte{1, 2}}).append,
			agentMessage{kind: 17, endorsement: &Endorsement{"a/b", []byte{1, 2}}}},
		"report": {"86" + "12" + "1a00010000" + "63612f62" + "43010203" + "81" + h11 + "1840",
			(&Report{65536, "a/b", []byte{1, 2, 3}, []Hash{filled(0x11)}, 64}).append,
			agentMessage{kind: 18, report: &Report{65536, "a/b", []byte{1, 2, 3}, []Hash{filled(0x11)}, 64}}},
		"session": {"86" + "13" + h11 + "190100" + "17" + "82" + h22 + h11 + "41a0",
			(&Session{filled(0x11), 256, 23, []Hash{filled(0x22), filled(0x11)}, []byte{0xa0}}).append,
			agentMessage{kind: 19, session: Session{filled(0x11), 256, 23, []Hash{filled(0x22), filled(0x11)}, []byte{0xa0}}}},
		"refused": {"84" + "14" + h22 + "69" + hex.EncodeToString([]byte("not-local")) + "63" + "652e" + "21",
			(&Refused{filled(0x22), "not-local", "e.!"}).append,
			agentMessage{kind: 20, refused: Refused{filled(0x22), "not-local", "e.!"}}},
		"goodbye": {"83" + "15" + "6178" + "6179",
			(&goodbye{"x", "y"}).append,
			agentMessage{kind: 21, goodbye: &goodbye{"x", "y"}}},
	} {
		want, err := hex.DecodeString(v.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.enc(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: encoded\n%x, want\n%x", name, got, want)
		}
		var path []Hash
		got, err := decodeAgent(want, &path)
		if err != nil || !reflect.DeepEqual(got, v.msg) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, got, err, v.msg)
		}
		everyCut(t, name, want, func(b []byte) error { var p []Hash; _, err := decodeAgent(b, &p); return err })
	}
}

// everyCut demands an error for each shorter message and one byte more.
func everyCut(t *testing.T, name string, msg []byte, decode func([]byte) error) {
	t.Helper()
	for i := range msg {
		if decode(msg[:i]) == nil {
			t.Errorf("%s cut after %d bytes was accepted", name, i)
		}
	}
	if decode(append(clone(msg), 0)) == nil {
		t.Errorf("%s with one byte more was accepted", name)
	}
}

func TestStrictEncoding(t *testing.T) {
	for name, h := range map[string]string{
		"long integer":              "82" + "1803" + "80",
		"integer of two bytes":      "82" + "190003" + "80",
		"integer of eight bytes":    "82" + "1b0000000000000003" + "80",
		"indefinite array":          "9f" + "03" + "80" + "ff",
		"indefinite list of hashes": "82" + "03" + "9fff",
		"negative type":             "82" + "22" + "80",
		"reserved length":           "82" + "03" + "9c",
		"map":                       "a1" + "03" + "80",
		"hash of 31 bytes":          "82" + "03" + "81" + "581f" + strings.Repeat("00", 31),
		"long length of a hash":     "82" + "03" + "81" + "590020" + strings.Repeat("00", 32),
		"empty announcement":        "82" + "02" + "80",
		"grade above 255":           "82" + "02" + "81" + "83" + h11 + h22 + "190100",
		"unknown type":              "82" + "04" + "80",
		"agent's type":              "83" + "15" + "6178" + "6179",
		"text that is not UTF-8":    "86" + "01" + "01" + "01" + "61ff" + "80" + "80",
		"text as bytes":             "86" + "01" + "01" + "01" + "4161" + "80" + "80",
		"versions upside down":      "86" + "01" + "02" + "01" + "6161" + "80" + "80",
	} {
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := decodeGate(b, nil); err == nil {
			t.Errorf("%s: accepted as %+v", name, m)
		}
	}
}
