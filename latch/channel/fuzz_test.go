// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"bytes"
	"reflect"
	"testing"
)

// encodeGate is the inverse of decodeGate.
func encodeGate(m gateMessage) []byte {
	switch {
	case m.hello != nil:
		return m.hello.append(nil)
	case m.announce != nil:
		return appendAnnounce(nil, m.announce)
	case m.own != nil && m.own.Endorsement != nil:
		return m.own.Endorsement.appendAs(nil, typeOwnEndorse)
	case m.own != nil && m.own.Report != nil:
		return m.own.Report.appendAs(nil, typeOwnReport)
	case m.own != nil:
		return m.own.Session.appendAs(nil, typeOwnSession)
	}
	return appendWant(nil, m.want)
}

func encodeAgent(m agentMessage) []byte {
	switch m.kind {
	case typeAgentHello:
		return m.hello.append(nil)
	case typeEndorsement:
		return m.endorsement.append(nil)
	case typeReport:
		return m.report.append(nil)
	case typeSession:
		return m.session.append(nil)
	case typeManifest:
		return m.manifest.Append(nil)
	case typeRefused:
		return m.refused.append(nil)
	}
	return m.goodbye.append(nil)
}

// FuzzGate: what decodes encodes to the same bytes; an error leaves nothing.
func FuzzGate(f *testing.F) {
	f.Add((&gateHello{1, 1, "g", []string{"a"}, []Hash{{1}}}).append(nil))
	f.Add(appendAnnounce(nil, []Announcement{{Hash{1}, Hash{2}, 1}}))
	f.Add(appendWant(nil, []Hash{{3}}))
	f.Add((&Endorsement{"a/b", []byte{1}}).appendAs(nil, typeOwnEndorse))
	f.Add((&Report{7, "a/b", []byte{1}, []Hash{{1}}, 2}).appendAs(nil, typeOwnReport))
	f.Add((&Session{Hash{1}, 7, 1, []Hash{{2}}, []byte{0xa0}}).appendAs(nil, typeOwnSession))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeGate(b, nil)
		if err != nil {
			if !reflect.DeepEqual(m, gateMessage{}) {
				t.Fatalf("error %v with message %+v", err, m)
			}
			return
		}
		if e := encodeGate(m); !bytes.Equal(e, b) {
			t.Fatalf("decoded %x, encodes to %x", b, e)
		}
	})
}

// FuzzAgent: the same for the other direction.
func FuzzAgent(f *testing.F) {
	f.Add((&agentHello{1, "a", []string{"s"}}).append(nil))
	f.Add((&Endorsement{"a/b", []byte{1}}).append(nil))
	f.Add((&Report{7, "a/b", []byte{1}, []Hash{{1}}, 2}).append(nil))
	f.Add((&Session{Hash{1}, 7, 1, []Hash{{2}}, []byte{0xa0}}).append(nil))
	f.Add((&Refused{Hash{1}, "c", "t"}).append(nil))
	f.Add((&goodbye{"c", "t"}).append(nil))
	f.Add((&Manifest{Number: 1, Groups: []ManifestGroup{{[]byte{1}, make([]byte, 64)}}, Type: "a/b", Body: []byte{1}, Needs: []Hash{{1}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var path []Hash
		m, err := decodeAgent(b, &path)
		if err != nil {
			if !reflect.DeepEqual(m, agentMessage{}) {
				t.Fatalf("error %v with message %+v", err, m)
			}
			return
		}
		if e := encodeAgent(m); !bytes.Equal(e, b) {
			t.Fatalf("decoded %x, encodes to %x", b, e)
		}
	})
}

// FuzzFrames: however a stream is cut into reads, the same frames come out.
func FuzzFrames(f *testing.F) {
	f.Add(frame(frame(nil, appendHello), appendHello), byte(3))
	f.Fuzz(func(t *testing.T, stream []byte, cut byte) {
		read := func(step int) (frames [][]byte, bad bool) {
			fr := frameReader{r: &chopped{stream, step}, max: 1 << 10}
			for {
				g, err := fr.next()
				if err != nil {
					return frames, true
				}
				if g != nil {
					frames = append(frames, clone(g))
				} else if fr.fill() != nil {
					return frames, false
				}
			}
		}
		a, abad := read(len(stream) + 1)
		b, bbad := read(int(cut)%64 + 1)
		if abad != bbad || !reflect.DeepEqual(a, b) {
			t.Fatalf("frames differ: %d (%v) and %d (%v)", len(a), abad, len(b), bbad)
		}
	})
}

func appendHello(b []byte) []byte { return (&agentHello{1, "a", nil}).append(b) }

// chopped gives at most step bytes per read.
type chopped struct {
	b    []byte
	step int
}

func (c *chopped) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, errTrailing // any error ends the stream
	}
	n := copy(p, c.b[:min(len(c.b), c.step)])
	c.b = c.b[n:]
	return n, nil
}
