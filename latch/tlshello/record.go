// SPDX-License-Identifier: Apache-2.0

package tlshello

// Record content types (RFC 8446 section 5.1).
const (
	recordCCS       = 20
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
)

const (
	recordHeader = 5
	maxFragment  = 1 << 14
)

// side says whose bytes a stream carries.
type side uint8

const (
	fromClient side = iota
	fromServer
)

// A stream reads the plaintext hello messages at the start of one direction.
// RFC 8446 section 5.1 lets one message span records, but no other record may
// stand between its parts, and here a hello must end where its record ends.
type stream struct {
	side  side
	off   int    // start of the record that comes next
	part  []byte // handshake bytes of a message that is not complete
	count int    // messages delivered
	ended bool   // only encrypted records can follow
	alert *Alert
}

func (s *stream) reset(d side) { *s = stream{side: d, part: s.part[:0]} }

// next reads on in prefix, which is everything from the first byte of the
// stream on. It returns the next handshake message, valid until the following
// call, or nil when more bytes are needed or none can come.
func (s *stream) next(prefix []byte) ([]byte, error) {
	if s.part != nil && s.complete() {
		s.part = s.part[:0]
	}
	for !s.ended {
		b := prefix[s.off:]
		if len(b) == 0 {
			return nil, nil
		}
		if err := s.first(b); err != nil {
			return nil, err
		}
		if len(b) < recordHeader {
			return nil, nil
		}
		if err := s.header(b); err != nil {
			return nil, err
		}
		if b[0] == recordData { // nothing behind it is plaintext
			s.ended = true
			return nil, nil
		}
		n := int(b[3])<<8 | int(b[4])
		if len(b) < recordHeader+n {
			return nil, s.peek(b[recordHeader:])
		}
		fragment := b[recordHeader : recordHeader+n]
		s.off += recordHeader + n
		msg, err := s.record(b[0], fragment)
		if msg != nil || err != nil {
			return msg, err
		}
	}
	return nil, nil
}

// first looks at the leading byte alone, so that a wrong protocol is refused
// without waiting for a header.
func (s *stream) first(b []byte) error {
	if s.off != 0 || s.side != fromClient || b[0] == recordHandshake {
		return nil
	}
	if b[0]&0x80 != 0 && (len(b) < 3 || b[2] == 1) {
		if len(b) < 3 {
			return nil
		}
		return fail(SSLv2, "client: an SSLv2 hello")
	}
	return fail(NotTLS, "client: first byte %#02x, want the handshake record 0x16", b[0])
}

// header checks type, version and length of the record at the front of b.
func (s *stream) header(b []byte) error {
	version, n := int(b[1])<<8|int(b[2]), int(b[3])<<8|int(b[4])
	switch {
	case s.off == 0 && s.side == fromClient && b[1] != 3:
		return fail(NotTLS, "client: record version %#04x, want 0x0301 or 0x0303", version)
	case b[0] < recordCCS || b[0] > recordData:
		return fail(Malformed, "record type %d, want %d to %d", b[0], recordCCS, recordData)
	case s.side == fromServer && b[0] == recordHandshake && version >= 0x0300 && version < 0x0303:
		return fail(TLS12, "server: handshake record of version %#04x, want 0x0303", version)
	case version < 0x0301 || version > 0x0303:
		return fail(Malformed, "record version %#04x, want 0x0301 to 0x0303", version)
	case n == 0:
		return fail(Malformed, "empty record of type %d", b[0])
	case b[0] != recordData && n > maxFragment:
		return fail(Malformed, "record of %d bytes, at most %d", n, maxFragment)
	case b[0] == recordData && n > maxFragment+256:
		return fail(Malformed, "encrypted record of %d bytes, at most %d", n, maxFragment+256)
	case s.count == 0 && b[0] == recordData:
		return fail(Malformed, "encrypted record before the hello")
	// RFC 8446 appendix D.4 lets a server send it behind its first handshake
	// message only. What looks for hellos in other streams relies on it: a
	// stream with a hello begins with a handshake record.
	case s.count == 0 && b[0] == recordCCS && s.side == fromServer:
		return fail(Malformed, "server: change_cipher_spec before the hello")
	case s.off == 0 && s.side == fromClient && b[0] != recordHandshake:
		return fail(NotTLS, "client: record type %d before the hello", b[0])
	case len(s.part) > 0 && b[0] != recordHandshake:
		return fail(Malformed, "record of type %d between the parts of a hello", b[0])
	}
	return nil
}

// peek judges the beginning of a handshake record that is not complete, so that
// a hello of the wrong type or size is refused before it fills the window.
func (s *stream) peek(fragment []byte) error {
	if len(s.part) == 0 && len(fragment) >= 4 {
		return s.message(fragment)
	}
	return nil
}

// message checks the first four bytes of a handshake message.
func (s *stream) message(b []byte) error {
	want := uint8(typeClientHello)
	if s.side == fromServer {
		want = typeServerHello
	}
	switch {
	case s.side == fromServer && s.count > 0 && b[0] != want:
		return fail(PlainAfterHello, "server: plaintext handshake message of type %d behind the hello", b[0])
	case b[0] != want:
		return fail(Malformed, "handshake message of type %d, want %d", b[0], want)
	case 4+int(b[1])<<16+int(b[2])<<8+int(b[3]) > MaxMessage:
		return fail(HelloTooLarge, "hello of more than %d bytes", MaxMessage)
	}
	return nil
}

func (s *stream) want() int {
	if len(s.part) < 4 {
		return 4
	}
	return 4 + int(s.part[1])<<16 + int(s.part[2])<<8 + int(s.part[3])
}

func (s *stream) complete() bool { return len(s.part) >= 4 && len(s.part) == s.want() }

// record takes one whole record that is not encrypted.
func (s *stream) record(kind uint8, fragment []byte) ([]byte, error) {
	switch kind {
	case recordCCS:
		if len(fragment) != 1 || fragment[0] != 1 {
			return nil, fail(Malformed, "change_cipher_spec that is not the single byte 1")
		}
		return nil, nil
	case recordAlert:
		if len(fragment) != 2 {
			return nil, fail(Malformed, "plaintext alert of %d bytes, want 2", len(fragment))
		}
		s.ended, s.alert = true, &Alert{Level: fragment[0], Description: fragment[1]}
		return nil, nil
	}
	s.part = append(s.part, fragment...)
	if len(s.part) < 4 {
		return nil, nil
	}
	if err := s.message(s.part); err != nil {
		return nil, err
	}
	switch w := s.want(); {
	case len(s.part) < w:
		return nil, nil
	case len(s.part) > w:
		return nil, fail(RecordBoundary, "%d bytes of the record follow the hello", len(s.part)-w)
	}
	s.count++
	return s.part, nil
}
