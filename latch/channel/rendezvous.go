// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"fmt"
	"math"
)

// The messages of a rendezvous: what gates and agents that have no connection
// to each other publish on a message system (package rendezvous). They are
// single CBOR items like the channel's; a message from an agent is one of the
// channel's own (Endorsement, Report, Session, Refused).

// TokenSize is the size of the random name of a gate or an agent on a
// rendezvous, in bytes.
const TokenSize = 16

const typeCall = 48

// MaxCall bounds an encoded Call in bytes.
const MaxCall = MaxFrameFromGate

// Call is what a gate publishes for all agents: announcements, and which
// endorsements it has, so that agents need to remember nothing about it.
//
//	48 Call [48, token (16 bytes), [hash of endorsement that the gate has], [[CH, client random, grade], ...]]
type Call struct {
	Gate  [TokenSize]byte
	Have  []Hash         // at most MaxHave
	Batch []Announcement // 1 to MaxBatch
}

// Append encodes the call.
func (m *Call) Append(b []byte) []byte {
	b = appendBytes(appendUint(appendArray(b, 4), typeCall), m.Gate[:])
	b = appendArray(appendHashes(b, m.Have), len(m.Batch))
	for i := range m.Batch {
		a := &m.Batch[i]
		b = appendBytes(appendBytes(appendArray(b, 3), a.CH[:]), a.Random[:])
		b = appendUint(b, uint64(a.Grade))
	}
	return b
}

// ParseCall decodes the one encoding of a call. It owns its memory.
func ParseCall(b []byte) (*Call, error) {
	if len(b) > MaxCall {
		return nil, fmt.Errorf("channel: call of %d bytes, expected at most %d", len(b), MaxCall)
	}
	d := &decoder{b: b}
	d.array(4, 4, "call")
	if t := d.uint(math.MaxUint64, "message type"); d.err == nil && t != typeCall {
		d.fail("message type %d, expected a call (%d)", t, typeCall)
	}
	m := new(Call)
	g := d.str(majorBytes, TokenSize, "token of the gate")
	if d.err == nil && len(g) != TokenSize {
		d.fail("token of the gate: %d bytes, expected %d", len(g), TokenSize)
	}
	copy(m.Gate[:], g)
	m.Have = d.hashes(nil, MaxHave, "endorsement that the gate has")
	n := d.array(1, MaxBatch, "announcements")
	for i := 0; i < n && d.err == nil; i++ {
		d.array(3, 3, "announcement")
		m.Batch = append(m.Batch, Announcement{CH: d.hash("ClientHello digest"), Random: d.hash("client random"), Grade: uint8(d.uint(math.MaxUint8, "grade"))})
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return m, nil
}

// Append encodes the message as one CBOR item.
func (m *Endorsement) Append(b []byte) []byte { return m.append(b) }

// Append encodes the message as one CBOR item; an error means that it is
// larger than the format allows.
func (m *Report) Append(b []byte) ([]byte, error) {
	if err := m.check(); err != nil {
		return b, err
	}
	return m.append(b), nil
}

// Append encodes the message as one CBOR item.
func (m *Session) Append(b []byte) []byte { return m.append(b) }

// Append encodes the message as one CBOR item.
func (m *Refused) Append(b []byte) []byte { return m.append(b) }

// ParseEvent decodes one message of an agent: an Endorsement, Report, Session
// or Refused in its one encoding. The event owns its memory, except for
// Session.Claims, which refers to b.
func ParseEvent(b []byte) (*Event, error) {
	var path []Hash
	m, err := decodeAgent(b, &path)
	if err != nil {
		return nil, err
	}
	switch m.kind {
	case typeEndorsement:
		return &Event{Kind: KindEndorsement, Endorsement: m.endorsement}, nil
	case typeReport:
		return &Event{Kind: KindReport, Report: m.report}, nil
	case typeSession:
		return &Event{Kind: KindSession, Session: m.session}, nil
	case typeRefused:
		return &Event{Kind: KindRefused, Refused: m.refused}, nil
	}
	return nil, fmt.Errorf("channel: message of type %d, expected an Endorsement, Report, Session or Refused", m.kind)
}

// Endorsement returns one of the endorsements that SetEndorsements gave; ok
// is false when there is none with this hash.
func (s *Server) Endorsement(h Hash) (e *Endorsement, ok bool) {
	e = s.endorsement(h)
	return e, e != nil
}
