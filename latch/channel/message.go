// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"crypto/sha256"
	"fmt"
	"math"
)

// Versions of the channel that this package speaks.
const (
	VersionLow  = 1
	VersionHigh = 2 // with the client's own evidence, for mutual sessions
)

// Bounds of the format. A message beyond them is an error and ends the connection.
const (
	MaxFrameFromGate  = 64 << 10 // bytes of one frame, without its length
	MaxFrameFromAgent = 4 << 20
	MaxBatch          = 512 // announcements in one Announce
	MaxPath           = 40  // hashes of a path: a tree of 2^40 leaves
	MaxClaims         = 8 << 10
	MaxNeeds          = 32
	MaxHave           = 512
	MaxServices       = 256
	MaxCapabilities   = 32
	MaxName           = 256 // bytes of a service name, type, capability, software
	MaxCode           = 64
	MaxText           = 1024
	MaxReportBody     = 64 << 10
	MaxEndorsement    = MaxFrameFromAgent - 1024
)

// Hash is a SHA-256 digest (or the 32 bytes of a client random).
type Hash = [32]byte

// Message types on the wire (first array element).
const (
	typeGateHello   = 1
	typeAnnounce    = 2
	typeWant        = 3
	typeOwnEndorse  = 4 // from version 2 on
	typeOwnReport   = 5
	typeOwnSession  = 6
	typeAgentHello  = 16
	typeEndorsement = 17
	typeReport      = 18
	typeSession     = 19
	typeRefused     = 20
	typeGoodbye     = 21
)

// Announcement tells the agent which ClientHello a gate let through.
type Announcement struct {
	CH     Hash  // SHA-256 of the first ClientHello message with its 4-byte header
	Random Hash  // its client random
	Grade  uint8 // number of the binder grade that the gate's policy wants
}

// Report is one attestation report. Its report data is made from the root of
// a tree of Size leaves; Needs are the hashes of its endorsements.
type Report struct {
	ID    uint64 // unique on the connection, rising
	Type  string // media type
	Body  []byte
	Needs []Hash
	Size  uint64
}

// Endorsement is evidence that many reports share: a chain, an event log.
type Endorsement struct {
	Type string
	Body []byte
}

// Hash names an endorsement: SHA-256(Type ‖ 0x00 ‖ Body).
func (e *Endorsement) Hash() (h Hash) {
	d := sha256.New()
	d.Write([]byte(e.Type))
	d.Write([]byte{0})
	d.Write(e.Body)
	d.Sum(h[:0])
	return h
}

// Session places one announced session in a report's tree.
type Session struct {
	CH     Hash   // as announced
	Report uint64 // Report.ID
	Index  uint64 // of the leaf
	Path   []Hash // from the leaf's sibling up
	Claims []byte // canonical CBOR of binder.Claims
}

// Refused says why an announced session gets no evidence.
type Refused struct {
	CH   Hash
	Code string // of the vocabulary in latch/flow
	Text string // a sentence for humans
}

type gateHello struct {
	low, high    uint64
	software     string
	capabilities []string
	have         []Hash
}

type agentHello struct {
	version  uint64
	software string
	services []string
}

type goodbye struct{ code, text string }

func (m *gateHello) append(b []byte) []byte {
	b = appendUint(appendUint(appendUint(appendArray(b, 6), typeGateHello), m.low), m.high)
	return appendHashes(appendTexts(appendText(b, m.software), m.capabilities), m.have)
}

func appendAnnounce(b []byte, batch []Announcement) []byte {
	b = appendArray(appendUint(appendArray(b, 2), typeAnnounce), len(batch))
	for i := range batch {
		a := &batch[i]
		b = appendBytes(appendBytes(appendArray(b, 3), a.CH[:]), a.Random[:])
		b = appendUint(b, uint64(a.Grade))
	}
	return b
}

func appendWant(b []byte, want []Hash) []byte {
	return appendHashes(appendUint(appendArray(b, 2), typeWant), want)
}

func (m *agentHello) append(b []byte) []byte {
	b = appendUint(appendUint(appendArray(b, 4), typeAgentHello), m.version)
	return appendTexts(appendText(b, m.software), m.services)
}

func (m *Endorsement) append(b []byte) []byte { return m.appendAs(b, typeEndorsement) }
func (m *Report) append(b []byte) []byte      { return m.appendAs(b, typeReport) }
func (m *Session) append(b []byte) []byte     { return m.appendAs(b, typeSession) }

func (m *Endorsement) appendAs(b []byte, typ uint64) []byte {
	return appendBytes(appendText(appendUint(appendArray(b, 3), typ), m.Type), m.Body)
}

func (m *Report) appendAs(b []byte, typ uint64) []byte {
	b = appendUint(appendUint(appendArray(b, 6), typ), m.ID)
	b = appendBytes(appendText(b, m.Type), m.Body)
	return appendUint(appendHashes(b, m.Needs), m.Size)
}

func (m *Session) appendAs(b []byte, typ uint64) []byte {
	b = appendBytes(appendUint(appendArray(b, 6), typ), m.CH[:])
	b = appendUint(appendUint(b, m.Report), m.Index)
	return appendBytes(appendHashes(b, m.Path), m.Claims)
}

func (m *Refused) append(b []byte) []byte {
	b = appendBytes(appendUint(appendArray(b, 4), typeRefused), m.CH[:])
	return appendText(appendText(b, m.Code), m.Text)
}

func (m *goodbye) append(b []byte) []byte {
	return appendText(appendText(appendUint(appendArray(b, 3), typeGoodbye), m.code), m.text)
}

// check refuses values that the peer's decoder would refuse, before they are sent.
func (m *Report) check() error {
	switch {
	case len(m.Body) > MaxReportBody:
		return fmt.Errorf("channel: report of %d bytes, expected at most %d", len(m.Body), MaxReportBody)
	case len(m.Type) > MaxName:
		return fmt.Errorf("channel: report type of %d bytes, expected at most %d", len(m.Type), MaxName)
	case len(m.Needs) > MaxNeeds:
		return fmt.Errorf("channel: report needs %d endorsements, expected at most %d", len(m.Needs), MaxNeeds)
	}
	return nil
}

// gateMessage is a decoded message from a gate; one field is set.
type gateMessage struct {
	hello    *gateHello
	announce []Announcement
	want     []Hash
	own      *Event // the client's own evidence: an Endorsement, Report or Session
}

// decodeGate decodes one frame from a gate. announce is appended to dst, so
// that the caller can reuse its memory.
func decodeGate(frame []byte, dst []Announcement) (gateMessage, error) {
	d := &decoder{b: frame}
	n := d.array(1, 16, "message")
	t := d.uint(math.MaxUint64, "message type")
	var m gateMessage
	if d.err != nil {
		return m, d.err
	}
	switch {
	case t == typeGateHello && n == 6:
		m.hello = &gateHello{
			low: d.uint(math.MaxUint32, "lowest version"), high: d.uint(math.MaxUint32, "highest version"),
			software:     d.text(MaxName, "software"),
			capabilities: d.texts(MaxCapabilities, MaxName, "capability"),
			have:         d.hashes(nil, MaxHave, "endorsement that the gate has"),
		}
		if d.err == nil && m.hello.low > m.hello.high {
			d.fail("Hello: lowest version %d above the highest, %d", m.hello.low, m.hello.high)
		}
	case t == typeAnnounce && n == 2:
		k := d.array(1, MaxBatch, "announcements")
		for i := 0; i < k && d.err == nil; i++ {
			d.array(3, 3, "announcement")
			dst = append(dst, Announcement{CH: d.hash("ClientHello digest"), Random: d.hash("client random"), Grade: uint8(d.uint(math.MaxUint8, "grade"))})
		}
		m.announce = dst
	case t == typeWant && n == 2:
		m.want = d.hashes(make([]Hash, 0, 4), MaxNeeds, "wanted endorsement")
	case t == typeOwnEndorse && n == 3:
		m.own = &Event{Kind: KindEndorsement, Endorsement: readEndorsement(d)}
	case t == typeOwnReport && n == 6:
		m.own = &Event{Kind: KindReport, Report: readReport(d)}
	case t == typeOwnSession && n == 6:
		var path []Hash
		m.own = &Event{Kind: KindSession, Session: readSession(d, &path)}
		m.own.Session.Claims = clone(m.own.Session.Claims)
	default:
		d.fail("message type %d with %d elements; a gate sends Hello (1, 6), Announce (2, 2), Want (3, 2), Endorsement (4, 3), Report (5, 6) or Session (6, 6)", t, n)
	}
	if err := d.end(); err != nil {
		return gateMessage{}, err
	}
	return m, nil
}

// agentMessage is a decoded message from an agent; kind says which field is
// set. session and refused are values, since they come once per connection of
// the service; session refers to the frame (claims) and to the caller's path memory.
type agentMessage struct {
	kind        uint64 // message type
	hello       *agentHello
	endorsement *Endorsement
	report      *Report
	session     Session
	refused     Refused
	goodbye     *goodbye
	manifest    *Manifest
}

// decodeAgent decodes one frame from an agent. Endorsement and Report own
// their memory; Session.Claims refers to frame and Session.Path to *path,
// which grows by the hashes read.
func decodeAgent(frame []byte, path *[]Hash) (agentMessage, error) {
	d := &decoder{b: frame}
	n := d.array(1, 16, "message")
	t := d.uint(math.MaxUint64, "message type")
	m := agentMessage{kind: t}
	if d.err != nil {
		return agentMessage{}, d.err
	}
	switch {
	case t == typeAgentHello && n == 4:
		m.hello = &agentHello{version: d.uint(math.MaxUint32, "version"), software: d.text(MaxName, "software"), services: d.texts(MaxServices, MaxName, "service name")}
	case t == typeEndorsement && n == 3:
		m.endorsement = readEndorsement(d)
	case t == typeReport && n == 6:
		m.report = readReport(d)
	case t == typeSession && n == 6:
		m.session = readSession(d, path)
	case t == typeManifest && n == 8:
		m.manifest = readManifest(d)
	case t == typeRefused && n == 4:
		m.refused = Refused{CH: d.hash("ClientHello digest"), Code: d.text(MaxCode, "code"), Text: d.text(MaxText, "sentence")}
	case t == typeGoodbye && n == 3:
		m.goodbye = &goodbye{code: d.text(MaxCode, "code"), text: d.text(MaxText, "sentence")}
	default:
		d.fail("message type %d with %d elements; an agent sends types 16 to 22", t, n)
	}
	if err := d.end(); err != nil {
		return agentMessage{}, err
	}
	return m, nil
}

func readEndorsement(d *decoder) *Endorsement {
	return &Endorsement{Type: d.text(MaxName, "endorsement type"), Body: clone(d.bytes(MaxEndorsement, "endorsement"))}
}

func readReport(d *decoder) *Report {
	r := &Report{ID: d.uint(math.MaxUint64, "report id"), Type: d.text(MaxName, "report type"),
		Body: clone(d.bytes(MaxReportBody, "report")), Needs: d.hashes(nil, MaxNeeds, "needed endorsement"), Size: d.uint(1<<MaxPath, "tree size")}
	if d.err == nil && r.Size == 0 {
		d.fail("report %d: tree of no leaves", r.ID)
	}
	return r
}

// readSession appends the path to *path; claims refer to the frame.
func readSession(d *decoder, path *[]Hash) Session {
	s := Session{CH: d.hash("ClientHello digest"), Report: d.uint(math.MaxUint64, "report id"), Index: d.uint(1<<MaxPath, "leaf index")}
	from := len(*path)
	*path = d.hashes(*path, MaxPath, "path")
	s.Path = (*path)[from:len(*path):len(*path)]
	s.Claims = d.bytes(MaxClaims, "claims")
	return s
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }
