// SPDX-License-Identifier: Apache-2.0

// Package eventlog reads and writes the crypto-agile event log of the TCG PC
// Client Platform Firmware Profile (section 10.2: TCG_PCR_EVENT2 records after
// one Spec ID Event03), and replays it to PCR values. Firmware writes such a
// log; `holdfast attest measure` writes one with measured files in the same
// format, so that one parser and one replay serve both.
//
// Start with Parse, then Replay. The log itself is not trusted: it is true as
// far as a quoted PCR proves it, which attest/verify checks. Parse accepts
// only what Encode writes again byte for byte.
package eventlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"holdfast/attest/evidence"
	"holdfast/tpm2"
)

// Event types that this package knows (Firmware Profile, 10.4.1).
const (
	EvNoAction  = 0x03 // not extended
	EvSeparator = 0x04
	EvEventTag  = 0x06 // data is a TCG_PCClientTaggedEvent
)

// Limits.
const (
	MaxSize   = evidence.MaxEndorsementBody
	maxEvents = 1 << 14
	maxAlgs   = 8
	maxDigest = 64
	maxPCR    = 23
)

const (
	specIDSignature = "Spec ID Event03\x00"
	localityEvent   = "StartupLocality\x00"
	legacyHeader    = 4 + 4 + 20 + 4 // TCG_PCR_EVENT with its SHA-1 digest
)

// Alg is one bank that the log has digests for.
type Alg struct {
	Hash tpm2.Alg
	Size int // of the digest, in bytes; also for hashes that we cannot compute
}

// Header is the Spec ID event.
type Header struct {
	PlatformClass       uint32
	Minor, Major, Errat uint8
	UintnSize           uint8
	Algs                []Alg
	VendorInfo          []byte
}

// Event is one TCG_PCR_EVENT2.
type Event struct {
	PCR     uint32
	Type    uint32
	Digests []evidence.Digest // one for each of Header.Algs, in the log's order
	Data    []byte
}

// Log is a parsed event log.
type Log struct {
	Header Header
	Events []Event
}

// ErrMalformed is wrapped by every error of Parse.
var ErrMalformed = errors.New("malformed event log")

// New is a log without events for the given banks.
func New(hashes ...tpm2.Alg) *Log {
	l := &Log{Header: Header{Major: 2, UintnSize: 2}}
	for _, h := range hashes {
		l.Header.Algs = append(l.Header.Algs, Alg{h, h.DigestSize()})
	}
	return l
}

// cursor reads little-endian fields; its first fault stays.
type cursor struct {
	b   []byte
	off int
	err error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: at byte %d: %s", ErrMalformed, c.off, fmt.Sprintf(format, args...))
	}
}

func (c *cursor) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || len(c.b)-c.off < n {
		c.fail("expected %d more bytes, got %d", n, len(c.b)-c.off)
		return nil
	}
	out := c.b[c.off : c.off+n : c.off+n]
	c.off += n
	return out
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// sized reads a u32 length and that many bytes.
func (c *cursor) sized() []byte {
	n := c.u32()
	if n > MaxSize {
		c.fail("a field of %d bytes", n)
		return nil
	}
	return c.take(int(n))
}

// Parse reads a whole log.
func Parse(b []byte) (*Log, error) {
	if len(b) > MaxSize {
		return nil, fmt.Errorf("%w: expected at most %d bytes, got %d", ErrMalformed, MaxSize, len(b))
	}
	c := &cursor{b: b}
	l := &Log{}
	l.Header.parse(c)
	for c.err == nil && c.off < len(b) {
		if len(l.Events) == maxEvents {
			c.fail("more than %d events", maxEvents)
			break
		}
		l.Events = append(l.Events, parseEvent(c, &l.Header))
	}
	if c.err != nil {
		return nil, c.err
	}
	return l, nil
}

// parse reads the Spec ID event, a TCG_PCR_EVENT in the old format.
func (h *Header) parse(c *cursor) {
	pcr, typ := c.u32(), c.u32()
	digest := c.take(20)
	data := c.sized()
	if c.err != nil {
		return
	}
	if pcr != 0 || typ != EvNoAction || !bytes.Equal(digest, make([]byte, 20)) {
		c.fail("the first event is no Spec ID event (PCR 0, EV_NO_ACTION, zero digest)")
		return
	}
	d := &cursor{b: data, off: 0}
	if s := d.take(len(specIDSignature)); d.err == nil && string(s) != specIDSignature {
		c.fail("expected the signature of a Spec ID Event03; older SHA-1 logs are not accepted")
		return
	}
	h.PlatformClass = d.u32()
	h.Minor, h.Major, h.Errat, h.UintnSize = d.u8(), d.u8(), d.u8(), d.u8()
	n := d.u32()
	if n == 0 || n > maxAlgs {
		d.fail("expected 1 to %d algorithms, got %d", maxAlgs, n)
	}
	for range n {
		a := Alg{tpm2.Alg(d.u16()), int(d.u16())}
		if d.err != nil {
			break
		}
		if want := a.Hash.DigestSize(); a.Size == 0 || a.Size > maxDigest || (want != 0 && want != a.Size) {
			d.fail("%v: a digest of %d bytes", a.Hash, a.Size)
		}
		if h.size(a.Hash) != 0 {
			d.fail("%v is there twice", a.Hash)
		}
		h.Algs = append(h.Algs, a)
	}
	h.VendorInfo = d.take(int(d.u8()))
	if d.err == nil && d.off != len(data) {
		d.fail("bytes after the vendor information")
	}
	if d.err != nil {
		c.err = fmt.Errorf("Spec ID event: %w", d.err)
	}
}

// size is the digest size of a bank of the log, or 0.
func (h *Header) size(a tpm2.Alg) int {
	for _, x := range h.Algs {
		if x.Hash == a {
			return x.Size
		}
	}
	return 0
}

func parseEvent(c *cursor, h *Header) Event {
	e := Event{PCR: c.u32(), Type: c.u32()}
	// EV_NO_ACTION may name no real PCR (the Firmware Profile uses -1 too).
	if c.err == nil && e.PCR > maxPCR && e.Type != EvNoAction {
		c.fail("expected a PCR of 0 to %d, got %d", maxPCR, e.PCR)
	}
	if n := c.u32(); c.err == nil && int64(n) != int64(len(h.Algs)) {
		c.fail("expected %d digests as the Spec ID event says, got %d", len(h.Algs), n)
	}
	if c.err != nil {
		return e
	}
	e.Digests = make([]evidence.Digest, 0, len(h.Algs))
	for range h.Algs {
		a := tpm2.Alg(c.u16())
		size := h.size(a)
		if c.err == nil && size == 0 {
			c.fail("a digest of %v, which the Spec ID event does not name", a)
		}
		for _, d := range e.Digests {
			if d.Hash == a {
				c.fail("two digests of %v", a)
			}
		}
		e.Digests = append(e.Digests, evidence.Digest{Hash: a, Value: c.take(size)})
	}
	e.Data = c.sized()
	return e
}

// Encode writes the log.
func (l *Log) Encode() []byte {
	h := &l.Header
	var d []byte
	d = append(d, specIDSignature...)
	d = binary.LittleEndian.AppendUint32(d, h.PlatformClass)
	d = append(d, h.Minor, h.Major, h.Errat, h.UintnSize)
	d = binary.LittleEndian.AppendUint32(d, uint32(len(h.Algs)))
	for _, a := range h.Algs {
		d = binary.LittleEndian.AppendUint16(d, uint16(a.Hash))
		d = binary.LittleEndian.AppendUint16(d, uint16(a.Size))
	}
	d = append(append(d, byte(len(h.VendorInfo))), h.VendorInfo...)

	b := make([]byte, 0, legacyHeader+len(d)+len(l.Events)*128)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, EvNoAction)
	b = append(b, make([]byte, 20)...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(d)))
	b = append(b, d...)
	for i := range l.Events {
		b = l.Events[i].Append(b)
	}
	return b
}

// Append appends the event's bytes to b.
func (e *Event) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, e.PCR)
	b = binary.LittleEndian.AppendUint32(b, e.Type)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Digests)))
	for _, d := range e.Digests {
		b = binary.LittleEndian.AppendUint16(b, uint16(d.Hash))
		b = append(b, d.Value...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Data)))
	return append(b, e.Data...)
}

// Digest is the event's digest for one bank, or nil.
func (e *Event) Digest(a tpm2.Alg) []byte {
	for _, d := range e.Digests {
		if d.Hash == a {
			return d.Value
		}
	}
	return nil
}

// Bound reports whether the event's data is what its digests are over, in
// every bank that we can compute and at least one whose hash is not broken.
// Of data that is not bound the quote proves nothing.
func (e *Event) Bound() bool {
	good := false
	for _, d := range e.Digests {
		h := d.Hash.New()
		if h == nil {
			continue
		}
		h.Write(e.Data)
		if !bytes.Equal(h.Sum(nil), d.Value) {
			return false
		}
		good = good || d.Hash != tpm2.AlgSHA1
	}
	return good
}
