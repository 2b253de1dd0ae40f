// SPDX-License-Identifier: Apache-2.0

package tlshello

// extension reads one extension of a ClientHello. Unknown ones are left alone:
// they stand in Extensions and are covered by the transcript.
func (m *ClientHello) extension(e Extension) error {
	c := cursor{b: e.Data}
	switch e.Type {
	case extServerName:
		return m.serverName(e.Data)
	case extSupportedGroups:
		var ok bool
		v := c.vec16()
		if m.Groups, ok = u16s(m.Groups, v); !ok || len(v) == 0 || !c.done() {
			return fail(Malformed, "ClientHello: supported_groups of %d bytes", len(e.Data))
		}
	case extALPN:
		v := cursor{b: c.vec16()}
		if !c.done() || len(v.b) == 0 {
			return fail(Malformed, "ClientHello: ALPN of %d bytes", len(e.Data))
		}
		for len(v.b) > 0 {
			p := v.vec8()
			if len(p) == 0 {
				return fail(Malformed, "ClientHello: empty or cut protocol name in ALPN")
			}
			m.ALPN = append(m.ALPN, p)
		}
	case extSupportedVersions:
		var ok bool
		v := c.vec8()
		if m.Versions, ok = u16s(m.Versions, v); !ok || len(v) == 0 || !c.done() {
			return fail(Malformed, "ClientHello: supported_versions of %d bytes", len(e.Data))
		}
	case extPSKModes:
		if m.PSKModes = c.vec8(); len(m.PSKModes) == 0 || !c.done() {
			return fail(Malformed, "ClientHello: psk_key_exchange_modes of %d bytes", len(e.Data))
		}
	case extKeyShare:
		m.HasShares = true
		v := cursor{b: c.vec16()}
		if !c.done() {
			return fail(Malformed, "ClientHello: key_share of %d bytes", len(e.Data))
		}
		for len(v.b) > 0 {
			s := KeyShare{Group: v.u16(), Share: v.vec16()}
			if len(s.Share) == 0 {
				return fail(Malformed, "ClientHello: empty or cut share for group %#04x", s.Group)
			}
			m.KeyShares = append(m.KeyShares, s)
		}
	case extPreSharedKey:
		return m.preSharedKey(e.Data)
	case extCookie:
		if m.Cookie = c.vec16(); len(m.Cookie) == 0 || !c.done() {
			return fail(Malformed, "ClientHello: cookie of %d bytes", len(e.Data))
		}
	case extEarlyData:
		if len(e.Data) != 0 {
			return fail(Malformed, "ClientHello: early_data of %d bytes, want 0", len(e.Data))
		}
		m.EarlyData = true
	case extECH:
		m.ECH = true
	}
	return nil
}

// serverName reads RFC 6066 section 3: exactly one host_name, of letters,
// digits, hyphen, underscore and dot, without a dot at either end.
func (m *ClientHello) serverName(data []byte) error {
	c := cursor{b: data}
	list := cursor{b: c.vec16()}
	kind := list.u8()
	name := list.vec16()
	if !c.done() || !list.done() || kind != 0 {
		return fail(Malformed, "ClientHello: server_name is not one host_name")
	}
	if len(name) == 0 || len(name) > len(m.name) || name[0] == '.' || name[len(name)-1] == '.' {
		return fail(Malformed, "ClientHello: server name of %d bytes, want 1 to %d and no dot at an end", len(name), len(m.name))
	}
	for i, b := range name {
		switch {
		case b >= 'A' && b <= 'Z':
			b += 'a' - 'A'
		case b >= 'a' && b <= 'z', b >= '0' && b <= '9', b == '-', b == '_':
		case b == '.' && name[i-1] != '.':
		default:
			return fail(Malformed, "ClientHello: server name has byte %#02x at %d, which is not allowed in a host name", b, i)
		}
		m.name[i] = b
	}
	m.ServerName = m.name[:len(name):len(name)]
	return nil
}

func (m *ClientHello) preSharedKey(data []byte) error {
	c := cursor{b: data}
	ids, binders := cursor{b: c.vec16()}, cursor{b: c.vec16()}
	if !c.done() || len(ids.b) == 0 {
		return fail(Malformed, "ClientHello: pre_shared_key of %d bytes", len(data))
	}
	for len(ids.b) > 0 {
		id := PSKIdentity{Identity: ids.vec16(), Age: ids.u32(), Binder: binders.vec8()}
		if ids.bad || binders.bad || len(id.Identity) == 0 || len(id.Binder) < 32 {
			return fail(Malformed, "ClientHello: identity %d of pre_shared_key, or its binder, is cut or too short", len(m.PSKs))
		}
		m.PSKs = append(m.PSKs, id)
	}
	if len(binders.b) != 0 {
		return fail(Malformed, "ClientHello: more binders than identities in pre_shared_key")
	}
	return nil
}
