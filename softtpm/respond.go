// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding/binary"

	"holdfast/tpm2"
)

// cpHashes are the cpHash values that auditing needs after the command ran
// (its handles may be gone by then, its parameters decrypted).
type cpHashes struct {
	saved          bool
	session, audit []byte
}

// auditSession returns the index of the session that audits, -1 if there is none.
func (c *call) auditSession() int { return c.sessionWith(tpm2.SessionAudit) }

// commandAudited says whether command audit covers the command.
func (c *call) commandAudited() bool {
	return c.st.perm.audited[c.cmd.code] && !c.cmd.has(fNotAudited)
}

// saveCpHashes computes the cpHashes for audits from the command as received.
func (c *call) saveCpHashes() {
	if c.cp.saved {
		return
	}
	c.cp.saved = true
	if i := c.auditSession(); i >= 0 {
		c.cp.session = c.cpHash(c.st.session(c.sess[i].handle).hash)
	}
	if c.commandAudited() {
		c.cp.audit = c.cpHash(c.st.perm.auditHash)
	}
}

// finishSessions does what follows a successful command: encrypts the first
// response parameter, extends audits, and appends the response's session
// area (Part 1, 18.10 and 19.6). first is the offset of the parameters in out.
func (c *call) finishSessions(first int, withArea bool) tpm2.RC {
	if c.cmd.has(fNotAudited) && c.nSess == 0 {
		return tpm2.RCSuccess
	}
	if c.nSess == 0 && !c.commandAudited() {
		if !c.cmd.has(fNotAudited) {
			c.st.volatile.exclusive = 0
		}
		return tpm2.RCSuccess
	}
	// New nonces first: encryption and HMACs use them.
	for i := range c.sess[:c.nSess] {
		if u := &c.sess[i]; !u.isPassword() && c.st.session(u.handle) != nil {
			s := c.editSession(u.handle)
			s.nonce = c.t.random(len(s.nonce))
		}
	}
	params := c.out.Bytes()
	if params == nil {
		return tpm2.RCSize
	}
	params = params[first:]
	if i := c.sessionWith(tpm2.SessionEncrypt); i >= 0 {
		if s := c.st.session(c.sess[i].handle); s != nil {
			n := int(binary.BigEndian.Uint16(params))
			cryptParameter(s, c.authNow(i), s.nonce, c.sess[i].nonce, params[2:2+n], false)
		}
	}
	c.extendAudits(params)
	if !withArea {
		return tpm2.RCSuccess
	}
	var hashAlg tpm2.Alg
	var rpHash []byte
	for i := range c.sess[:c.nSess] {
		u := &c.sess[i]
		if u.isPassword() {
			a := tpm2.AuthResponse{Attributes: tpm2.SessionContinue}
			a.Marshal(&c.out)
			continue
		}
		s := c.st.session(u.handle)
		if s == nil {
			return tpm2.RCFailure // a command flushed a session that it was given; none may
		}
		if hashAlg != s.hash {
			hashAlg, rpHash = s.hash, c.rpHash(s.hash, params)
		}
		attrs := u.attrs
		if u.attrs.Has(tpm2.SessionAudit) {
			attrs &^= tpm2.SessionAuditExclusive | tpm2.SessionAuditReset
			if c.st.volatile.exclusive == u.handle {
				attrs |= tpm2.SessionAuditExclusive
			}
		}
		a := tpm2.AuthResponse{Nonce: s.nonce, Attributes: attrs}
		if !(s.policy && s.policyAssert.password) {
			var auth []byte
			if u.hasAuth && (s.policy && s.policyAssert.authValue || !s.policy && !u.wasBound) {
				auth = c.authNow(i)
			}
			if len(s.key)+len(auth) != 0 {
				a.HMAC = c.sessionHMAC(i, s, auth, rpHash, s.nonce, u.nonce, attrs, false)
			} else if len(u.hmac) != 0 {
				a.HMAC = c.sessionHMAC(i, s, nil, rpHash, s.nonce, u.nonce, attrs, false)
			}
		}
		a.Marshal(&c.out)
		if s.policy && u.hasAuth {
			// Part 1, 19.7.5: an authorization uses up the assertions.
			e := c.editSession(u.handle)
			e.policyAssert = newAsserts(s.hash)
			e.startTime, e.epoch = c.now(), c.st.volatile.timeEpoch
		}
		if !u.attrs.Has(tpm2.SessionContinue) {
			c.st.dropSession(u.handle)
		}
	}
	return tpm2.RCSuccess
}

// authNow returns the authValue for the response of session i: that of the
// entity now, since commands that change it prove the new one, or the one
// before if the command removed the entity.
func (c *call) authNow(i int) []byte {
	u := &c.sess[i]
	if !u.hasAuth {
		return nil
	}
	if c.gone(u.entity) {
		return u.authUsed
	}
	a, _ := c.st.authValue(u.entity)
	return a
}

// gone says whether an object or NV index is not there any more.
func (c *call) gone(h tpm2.Handle) bool {
	switch h.Type() {
	case tpm2.HTTransient, tpm2.HTPersistent:
		return c.st.object(h) == nil
	case tpm2.HTNVIndex:
		return c.st.nv(h) == nil
	}
	return false
}

// rpHash is H(responseCode ‖ commandCode ‖ parameters) (Part 1, 16.8).
func (c *call) rpHash(alg tpm2.Alg, params []byte) []byte {
	var b [8]byte
	binary.BigEndian.PutUint32(b[4:], uint32(c.cmd.code))
	return alg.Sum(b[:], params)
}

// extendAudits extends the digests of an audit session and of command audit
// (Part 1, 19.6.3 "audit", and 33).
func (c *call) extendAudits(params []byte) {
	if i := c.auditSession(); i >= 0 && !c.noAudit {
		u := &c.sess[i]
		s := c.editSession(u.handle)
		first := !s.audit || u.attrs.Has(tpm2.SessionAuditReset)
		if first {
			s.audit, s.bound = true, false
			s.auditDigest = make([]byte, s.hash.DigestSize())
		}
		s.auditDigest = s.hash.Sum(s.auditDigest, c.cp.session, c.rpHash(s.hash, params))
		if first || c.st.volatile.exclusive != u.handle {
			if first {
				c.st.volatile.exclusive = u.handle
			} else {
				c.st.volatile.exclusive = 0
			}
		}
	} else if !c.cmd.has(fNotAudited) {
		c.st.volatile.exclusive = 0
	}
	if c.cp.audit != nil {
		h := c.st.perm.auditHash
		old := c.st.reset.auditDigest
		if len(old) == 0 {
			c.st.perm.auditCount++
			c.st.volatile.dirty = true
			old = make([]byte, h.DigestSize())
		}
		c.st.reset.auditDigest = h.Sum(old, c.cp.audit, c.rpHash(h, params))
	}
}
