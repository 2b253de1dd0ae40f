// SPDX-License-Identifier: Apache-2.0

package tlshello

import "bytes"

// retryRandom marks a HelloRetryRequest: SHA-256("HelloRetryRequest")
// (RFC 8446 section 4.1.3).
var retryRandom = [32]byte{
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
	0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
}

// downgradePrefix is followed by 1 (TLS 1.2) or 0 (older) at the end of the
// random of a server that knows TLS 1.3 and did not choose it.
var downgradePrefix = []byte("DOWNGRD")

// ServerHello is a parsed ServerHello or HelloRetryRequest of TLS 1.3
// (RFC 8446 sections 4.1.3 and 4.1.4). Slices are views of Raw.
type ServerHello struct {
	Raw         []byte // the message with its 4-byte header
	Random      [32]byte
	SessionID   []byte // echo of the client's
	CipherSuite uint16
	Extensions  []Extension

	Retry  bool   // this is a HelloRetryRequest
	Group  uint16 // of the share, or the group that a retry asks for; 0 when there is none
	Share  []byte // the server's key exchange value; nil in a retry
	PSK    bool   // an offered pre-shared key was chosen
	PSKID  uint16 // its index in the ClientHello
	Cookie []byte // of a retry
	ECH    bool   // encrypted_client_hello confirmation in a retry
}

// ParseServerHello parses one handshake message with its 4-byte header. A
// version below TLS 1.3 is refused with code TLS12 or Downgrade, a ServerHello
// without a key share with PSKWithoutShare.
func ParseServerHello(msg []byte) (*ServerHello, error) {
	m := new(ServerHello)
	if err := m.Parse(msg); err != nil {
		return nil, err
	}
	return m, nil
}

// Parse is [ParseServerHello] into m, whose slices it reuses. After an error m
// is empty.
func (m *ServerHello) Parse(msg []byte) error {
	*m = ServerHello{Extensions: m.Extensions[:0]}
	if err := m.parse(msg); err != nil {
		*m = ServerHello{Extensions: m.Extensions[:0]}
		return err
	}
	return nil
}

func (m *ServerHello) parse(msg []byte) error {
	b, err := body(msg, typeServerHello, "ServerHello")
	if err != nil {
		return err
	}
	c := cursor{b: b}
	version := c.u16()
	copy(m.Random[:], c.take(32))
	m.SessionID = c.vec8()
	m.CipherSuite = c.u16()
	compression := c.u8()
	if c.bad {
		return fail(Malformed, "ServerHello: cut before the extensions")
	}
	if len(m.SessionID) > 32 {
		return fail(Malformed, "ServerHello: session id of %d bytes, at most 32", len(m.SessionID))
	}
	if version < 0x0303 && version >= 0x0300 || version == 0x0303 && len(c.b) == 0 {
		return m.old(version)
	}
	if version != 0x0303 {
		return fail(Malformed, "ServerHello: legacy_version %#04x, want 0x0303", version)
	}
	block := c.vec16()
	if !c.done() {
		return fail(Malformed, "ServerHello: the extensions do not end with the message")
	}
	if m.Extensions, err = splitExtensions(m.Extensions, block); err != nil {
		return err
	}
	v, ok := find(m.Extensions, extSupportedVersions)
	if !ok {
		return m.old(version)
	}
	if len(v) != 2 || v[0] != 3 || v[1] != 4 {
		return fail(Malformed, "ServerHello: supported_versions is not TLS 1.3")
	}
	if compression != 0 {
		return fail(Malformed, "ServerHello: compression method %d, want 0", compression)
	}
	m.Retry = m.Random == retryRandom
	for _, e := range m.Extensions {
		if err := m.extension(e); err != nil {
			return err
		}
	}
	switch {
	case m.Retry && m.Group == 0 && m.Cookie == nil:
		return fail(RetryGroup, "HelloRetryRequest: neither a group nor a cookie, so it would change nothing")
	case !m.Retry && m.Share == nil:
		return fail(PSKWithoutShare, "ServerHello: no key share")
	}
	m.Raw = msg
	return nil
}

// old refuses a ServerHello of TLS 1.2 or before.
func (m *ServerHello) old(version uint16) error {
	tail := m.Random[24:]
	if bytes.HasPrefix(tail, downgradePrefix) && tail[7] <= 1 {
		return fail(Downgrade, "ServerHello: an older version (%#04x) from a server that knows TLS 1.3", version)
	}
	return fail(TLS12, "ServerHello: version %#04x, want TLS 1.3", version)
}

// extension reads one extension. RFC 8446 section 4.2 lists which may stand
// here; any other could change the meaning of the hello and is refused.
func (m *ServerHello) extension(e Extension) error {
	c := cursor{b: e.Data}
	switch {
	case e.Type == extSupportedVersions:
		return nil
	case e.Type == extKeyShare && m.Retry:
		if m.Group = c.u16(); !c.done() || m.Group == 0 {
			return fail(Malformed, "HelloRetryRequest: key_share of %d bytes, want a group", len(e.Data))
		}
	case e.Type == extKeyShare:
		m.Group, m.Share = c.u16(), c.vec16()
		if !c.done() || len(m.Share) == 0 || m.Group == 0 {
			return fail(Malformed, "ServerHello: key_share of %d bytes is not one share", len(e.Data))
		}
		if g, ok := GroupByID(m.Group); ok && len(m.Share) != g.Server {
			return fail(Malformed, "ServerHello: %s share of %d bytes, want %d", g.Name, len(m.Share), g.Server)
		}
		if grease(m.Group) {
			return fail(Malformed, "ServerHello: chooses the reserved group %#04x", m.Group)
		}
	case e.Type == extPreSharedKey && !m.Retry:
		m.PSK, m.PSKID = true, c.u16()
		if !c.done() {
			return fail(Malformed, "ServerHello: pre_shared_key of %d bytes, want 2", len(e.Data))
		}
	case e.Type == extCookie && m.Retry:
		if m.Cookie = c.vec16(); len(m.Cookie) == 0 || !c.done() {
			return fail(Malformed, "HelloRetryRequest: cookie of %d bytes", len(e.Data))
		}
	case e.Type == extECH && m.Retry:
		if m.ECH = true; len(e.Data) != 8 {
			return fail(Malformed, "HelloRetryRequest: encrypted_client_hello of %d bytes, want 8", len(e.Data))
		}
	default:
		return fail(Malformed, "ServerHello: extension %#04x is not allowed here", e.Type)
	}
	return nil
}
