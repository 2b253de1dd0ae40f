// SPDX-License-Identifier: Apache-2.0

package tlshello

import "encoding/binary"

// The tests' encoder builds a message from the parsed fields alone, known
// extensions included, so that equality proves that the parser lost nothing.

func vec(width int, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	var l [4]byte
	binary.BigEndian.PutUint32(l[:], uint32(n))
	b := append([]byte{}, l[4-width:]...)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func be16(v ...uint16) (b []byte) {
	for _, x := range v {
		b = binary.BigEndian.AppendUint16(b, x)
	}
	return b
}

func message(kind byte, body []byte) []byte { return append([]byte{kind}, vec(3, body)...) }

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func (m *ClientHello) data(e Extension) []byte {
	switch e.Type {
	case extSupportedGroups:
		return vec(2, be16(m.Groups...))
	case extALPN:
		var l []byte
		for _, p := range m.ALPN {
			l = append(l, vec(1, p)...)
		}
		return vec(2, l)
	case extSupportedVersions:
		return vec(1, be16(m.Versions...))
	case extPSKModes:
		return vec(1, m.PSKModes)
	case extCookie:
		return vec(2, m.Cookie)
	case extEarlyData:
		return nil
	case extKeyShare:
		var l []byte
		for _, s := range m.KeyShares {
			l = append(l, join(be16(s.Group), vec(2, s.Share))...)
		}
		return vec(2, l)
	case extPreSharedKey:
		var ids, binders []byte
		for _, p := range m.PSKs {
			ids = append(ids, join(vec(2, p.Identity), binary.BigEndian.AppendUint32(nil, p.Age))...)
			binders = append(binders, vec(1, p.Binder)...)
		}
		return join(vec(2, ids), vec(2, binders))
	}
	return e.Data
}

func (m *ClientHello) marshal() []byte {
	var ext []byte
	for _, e := range m.Extensions {
		ext = append(ext, join(be16(e.Type), vec(2, m.data(e)))...)
	}
	at := 4 + 2 + 32 + 1 + len(m.SessionID) + 2 + 2*len(m.CipherSuites)
	compression := m.Raw[at+1 : at+1+int(m.Raw[at])]
	return message(typeClientHello, join(be16(0x0303), m.Random[:], vec(1, m.SessionID), vec(2, be16(m.CipherSuites...)),
		vec(1, compression), vec(2, ext)))
}

func (m *ServerHello) marshal() []byte {
	var ext []byte
	for _, e := range m.Extensions {
		d := e.Data
		switch e.Type {
		case extSupportedVersions:
			d = be16(0x0304)
		case extKeyShare:
			if d = be16(m.Group); !m.Retry {
				d = join(d, vec(2, m.Share))
			}
		case extPreSharedKey:
			d = be16(m.PSKID)
		case extCookie:
			d = vec(2, m.Cookie)
		}
		ext = append(ext, join(be16(e.Type), vec(2, d))...)
	}
	return message(typeServerHello, join(be16(0x0303), m.Random[:], vec(1, m.SessionID), be16(m.CipherSuite), []byte{0}, vec(2, ext)))
}

// hs wraps a handshake message in one record.
func hs(msg []byte) []byte { return rec(recordHandshake, msg) }

func rec(kind byte, b []byte) []byte { return join([]byte{kind, 3, 3}, vec(2, b)) }
