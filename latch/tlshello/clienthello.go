// SPDX-License-Identifier: Apache-2.0

package tlshello

import "bytes"

// A KeyShare is one key exchange value of a hello: a group and its share.
type KeyShare struct {
	Group uint16
	Share []byte
}

// A PSKIdentity is one offered pre-shared key (RFC 8446 section 4.2.11).
type PSKIdentity struct {
	Identity []byte
	Age      uint32 // obfuscated ticket age
	Binder   []byte
}

// PSK key exchange modes (RFC 8446 section 4.2.9).
const (
	PSKModeKE    = 0 // psk_ke: no fresh share
	PSKModeDHEKE = 1 // psk_dhe_ke: with a fresh share
)

// ClientHello is a parsed ClientHello (RFC 8446 section 4.1.2). All slices of
// bytes are views of Raw, except ServerName.
type ClientHello struct {
	Raw          []byte // the message with its 4-byte header
	Random       [32]byte
	SessionID    []byte // legacy_session_id, 0 to 32 bytes
	CipherSuites []uint16
	Extensions   []Extension // all of them, in order

	ServerName []byte   // host_name of server_name in lower case; nil when there is none
	ALPN       [][]byte // protocol names in order
	Versions   []uint16 // supported_versions
	Groups     []uint16 // supported_groups
	KeyShares  []KeyShare
	HasShares  bool    // the key_share extension is there (its list may be empty)
	PSKModes   []uint8 // psk_key_exchange_modes
	PSKs       []PSKIdentity
	Cookie     []byte // after a HelloRetryRequest; nil when there is none
	EarlyData  bool   // the client wants to send 0-RTT data
	ECH        bool   // encrypted_client_hello is there, real or GREASE

	name [255]byte // backing of ServerName
}

// ParseClientHello parses one handshake message with its 4-byte header. It
// refuses what is malformed; use [ClientHello.Check] for what is well formed
// and still cannot be gated (TLS 1.2 only, early data, psk_ke only).
func ParseClientHello(msg []byte) (*ClientHello, error) {
	m := new(ClientHello)
	if err := m.Parse(msg); err != nil {
		return nil, err
	}
	return m, nil
}

// Parse is [ParseClientHello] into m, whose slices it reuses. After an error m
// is empty.
func (m *ClientHello) Parse(msg []byte) error {
	m.reset()
	if err := m.parse(msg); err != nil {
		m.reset()
		return err
	}
	return nil
}

func (m *ClientHello) reset() {
	*m = ClientHello{
		CipherSuites: m.CipherSuites[:0], Extensions: m.Extensions[:0], ALPN: m.ALPN[:0], Versions: m.Versions[:0],
		Groups: m.Groups[:0], KeyShares: m.KeyShares[:0], PSKs: m.PSKs[:0],
	}
}

func (m *ClientHello) parse(msg []byte) error {
	b, err := body(msg, typeClientHello, "ClientHello")
	if err != nil {
		return err
	}
	c := cursor{b: b}
	version := c.u16()
	copy(m.Random[:], c.take(32))
	m.SessionID = c.vec8()
	suites := c.vec16()
	compression := c.vec8()
	if c.bad {
		return fail(Malformed, "ClientHello: cut before the extensions")
	}
	if version != 0x0303 {
		if version < 0x0303 && version >= 0x0300 {
			return fail(TLS12, "ClientHello: legacy_version %#04x, want 0x0303", version)
		}
		return fail(Malformed, "ClientHello: legacy_version %#04x, want 0x0303", version)
	}
	if len(m.SessionID) > 32 {
		return fail(Malformed, "ClientHello: session id of %d bytes, at most 32", len(m.SessionID))
	}
	var ok bool
	if m.CipherSuites, ok = u16s(m.CipherSuites, suites); !ok || len(suites) == 0 {
		return fail(Malformed, "ClientHello: cipher suite list of %d bytes", len(suites))
	}
	if len(c.b) == 0 {
		return fail(TLS12, "ClientHello: no extensions, so no TLS 1.3")
	}
	block := c.vec16()
	if !c.done() {
		return fail(Malformed, "ClientHello: the extensions do not end with the message")
	}
	if m.Extensions, err = splitExtensions(m.Extensions, block); err != nil {
		return err
	}
	for i, e := range m.Extensions {
		if err := m.extension(e); err != nil {
			return err
		}
		if e.Type == extPreSharedKey && i != len(m.Extensions)-1 {
			return fail(Malformed, "ClientHello: pre_shared_key is not the last extension")
		}
	}
	// Older versions may offer compression; a ClientHello of TLS 1.3 may not.
	if m.Offers13() && (len(compression) != 1 || compression[0] != 0) {
		return fail(Malformed, "ClientHello: TLS 1.3 with compression methods")
	}
	if len(compression) == 0 {
		return fail(Malformed, "ClientHello: no compression method")
	}
	m.Raw = msg
	return m.consistent()
}

// consistent checks the rules between extensions.
func (m *ClientHello) consistent() error {
	if m.EarlyData && len(m.PSKs) == 0 {
		return fail(EarlyData, "ClientHello: early_data without pre_shared_key")
	}
	if len(m.PSKs) > 0 && m.PSKModes == nil {
		return fail(Malformed, "ClientHello: pre_shared_key without psk_key_exchange_modes")
	}
	if m.HasShares && len(m.Groups) == 0 {
		return fail(Malformed, "ClientHello: key_share without supported_groups")
	}
	for i, s := range m.KeyShares {
		if !containsU16(m.Groups, s.Group) {
			return fail(Malformed, "ClientHello: key share for group %#04x, which supported_groups does not list", s.Group)
		}
		for _, t := range m.KeyShares[:i] {
			if t.Group == s.Group {
				return fail(Malformed, "ClientHello: two key shares for group %#04x", s.Group)
			}
		}
		if g, ok := GroupByID(s.Group); ok && len(s.Share) != g.Client {
			return fail(Malformed, "ClientHello: %s share of %d bytes, want %d", g.Name, len(s.Share), g.Client)
		}
	}
	return nil
}

// Offers13 reports whether supported_versions lists TLS 1.3.
func (m *ClientHello) Offers13() bool { return containsU16(m.Versions, 0x0304) }

// Check refuses a well-formed hello whose session could not be attested before
// the client's data leaves: no TLS 1.3, early data, a PSK with psk_ke as the
// only mode, or neither share nor group.
func (m *ClientHello) Check() error {
	switch {
	case !m.Offers13():
		return fail(TLS12, "ClientHello: supported_versions does not list TLS 1.3")
	case m.EarlyData:
		return fail(EarlyData, "ClientHello: early_data is offered")
	case len(m.PSKs) > 0 && bytes.IndexByte(m.PSKModes, PSKModeDHEKE) < 0:
		return fail(PSKWithoutShare, "ClientHello: pre-shared keys without psk_dhe_ke")
	case !m.HasShares:
		return fail(PSKWithoutShare, "ClientHello: no key_share extension")
	}
	return nil
}

func containsU16(list []uint16, v uint16) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// Share returns the client's key share of a group, or nil when there is none.
func (m *ClientHello) Share(group uint16) []byte {
	for i := range m.KeyShares {
		if m.KeyShares[i].Group == group {
			return m.KeyShares[i].Share
		}
	}
	return nil
}
