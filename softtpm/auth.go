// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// sessionUse is one session of a command: a password or a session by handle.
type sessionUse struct {
	handle   tpm2.Handle
	attrs    tpm2.SessionAttributes
	nonce    []byte // nonceCaller
	hmac     []byte // or the password
	entity   tpm2.Handle
	hasAuth  bool   // the session authorizes entity
	authUsed []byte // authValue of entity before the command, nil if not hasAuth
	wasBound bool   // bound to entity before the command: authValue is not in the HMAC key
}

func (u *sessionUse) isPassword() bool { return u.handle == tpm2.RSPW }

// readSessions reads the session area and checks all authorizations, in the
// order of Part 3, 5.5 and 5.6. Afterwards c.params are the parameters,
// decrypted.
func (c *call) readSessions(r *tpm2.Reader) tpm2.RC {
	size := r.U32()
	if r.Code() != tpm2.RCSuccess {
		return tpm2.RCInsufficient
	}
	if size < 9 || int64(size) > int64(r.Len()) {
		return tpm2.RCAuthSize
	}
	var area tpm2.Reader
	area.Reset(r.Bytes(int(size)))
	c.params = r.Rest()
	for area.Len() > 0 {
		if c.nSess == maxSessionArea {
			return tpm2.RCAuthSize
		}
		if rc := c.readSession(&area, c.nSess); rc != tpm2.RCSuccess {
			return rc
		}
		c.nSess++
	}
	if c.nSess < c.cmd.authHandles() {
		return tpm2.RCAuthMissing
	}
	if rc := c.checkSessionUses(); rc != tpm2.RCSuccess {
		return rc
	}
	for i := 0; i < c.nSess; i++ {
		if rc := c.authorize(i); rc != tpm2.RCSuccess {
			return rc
		}
	}
	c.saveCpHashes()
	return c.decryptParameter()
}

// readSession reads session number i (from 0).
func (c *call) readSession(r *tpm2.Reader, i int) tpm2.RC {
	var a tpm2.AuthCommand
	ahead := *r
	if h := ahead.Handle(); ahead.Code() == tpm2.RCSuccess && h != tpm2.RSPW && h.Type() != tpm2.HTHMACSession && h.Type() != tpm2.HTPolicySession {
		return tpm2.RCValue.Session(i + 1)
	}
	a.Unmarshal(r)
	if rc := r.Code(); rc != tpm2.RCSuccess {
		return rc.Session(i + 1)
	}
	switch a.Handle.Type() {
	case tpm2.HTHMACSession, tpm2.HTPolicySession:
		if c.st.session(a.Handle) == nil {
			return tpm2.RCReferenceS0 + tpm2.RC(i)
		}
	}
	c.sess[i] = sessionUse{handle: a.Handle, attrs: a.Attributes, nonce: a.Nonce, hmac: a.HMAC}
	if i < c.cmd.authHandles() {
		c.sess[i].entity, c.sess[i].hasAuth = c.handles[i], true
	}
	return tpm2.RCSuccess
}

// checkSessionUses checks the attributes of the sessions against each other
// and against the command (Part 3, 5.5).
func (c *call) checkSessionUses() tpm2.RC {
	var dec, enc, aud bool
	for i := range c.sess[:c.nSess] {
		u := &c.sess[i]
		bad := tpm2.RCAttributes.Session(i + 1)
		if u.isPassword() {
			if u.attrs&^tpm2.SessionContinue != 0 {
				return bad
			}
			if !u.hasAuth {
				return tpm2.RCHandle.Session(i + 1)
			}
			continue
		}
		for j := range c.sess[:i] {
			if c.sess[j].handle == u.handle {
				return tpm2.RCHandle.Session(i + 1)
			}
		}
		s := c.st.session(u.handle)
		if u.attrs.Has(tpm2.SessionDecrypt) {
			if dec || !c.cmd.has(fDecrypt) {
				return bad
			}
			if s.sym.Alg == tpm2.AlgNull { // Part 1, 21.2
				return tpm2.RCSymmetric.Session(i + 1)
			}
			dec = true
		}
		if u.attrs.Has(tpm2.SessionEncrypt) {
			if enc || !c.cmd.has(fEncrypt) {
				return bad
			}
			if s.sym.Alg == tpm2.AlgNull {
				return tpm2.RCSymmetric.Session(i + 1)
			}
			enc = true
		}
		if u.attrs.Has(tpm2.SessionAudit) {
			if aud || s.policy {
				return bad
			}
			aud = true
			if u.attrs.Has(tpm2.SessionAuditExclusive) && !u.attrs.Has(tpm2.SessionAuditReset) && s.audit && c.st.volatile.exclusive != u.handle {
				return tpm2.RCExclusive
			}
		} else if u.attrs&(tpm2.SessionAuditExclusive|tpm2.SessionAuditReset) != 0 {
			return bad
		}
		if !u.hasAuth && u.attrs&(tpm2.SessionDecrypt|tpm2.SessionEncrypt|tpm2.SessionAudit) == 0 {
			return bad
		}
		if u.hasAuth && s.trial {
			return bad
		}
	}
	return tpm2.RCSuccess
}

// checkNoSessions is the authorization of a command without sessions.
func (c *call) checkNoSessions() tpm2.RC {
	if c.cmd.authHandles() > 0 {
		return tpm2.RCAuthMissing
	}
	c.saveCpHashes()
	return tpm2.RCSuccess
}

// authorize checks session number i (from 0).
func (c *call) authorize(i int) tpm2.RC {
	u := &c.sess[i]
	if !u.hasAuth {
		return c.checkHMAC(i, c.st.session(u.handle), false)
	}
	role := c.cmd.slots[i].role
	auth, da := c.st.authValue(u.entity)
	u.authUsed = auth
	var s *session
	if !u.isPassword() {
		s = c.st.session(u.handle)
		u.wasBound = s.boundTo(c.st.name(u.entity), auth)
	}
	policy := s != nil && s.policy
	if !policy || s.policyAssert.authValue || s.policyAssert.password {
		if da != failNone && c.t.lockedOut(da) {
			return tpm2.RCLockout
		}
	}
	if u.entity == tpm2.RHPlatform && !c.t.present && (c.cmd.has(fPPAlways) || c.st.perm.ppCommands[c.cmd.code]) {
		return tpm2.RCPP.Session(i + 1)
	}
	if policy {
		if !c.policyAvailable(u.entity, role) {
			return tpm2.RCAuthUnavailable
		}
		if rc := c.checkPolicy(i, s, role); rc != tpm2.RCSuccess {
			return rc
		}
		if s.policyAssert.password {
			return c.checkPassword(i)
		}
		return c.checkHMAC(i, s, s.policyAssert.authValue)
	}
	if c.policyRequired(u.entity, role) {
		return tpm2.RCAuthType
	}
	if !c.authValueAvailable(u.entity, role) {
		return tpm2.RCAuthUnavailable
	}
	if s == nil {
		return c.checkPassword(i)
	}
	return c.checkHMAC(i, s, !u.wasBound)
}

// checkPassword compares the authValue in constant time.
func (c *call) checkPassword(i int) tpm2.RC {
	u := &c.sess[i]
	if !tpmcrypto.Equal(trimAuth(u.hmac), u.authUsed) {
		return c.authFailed(i)
	}
	return c.pinUsed(u.entity)
}

// checkHMAC checks the HMAC of session number i; withAuth says whether the
// entity's authValue is part of the key (Part 1, 19.6.8).
func (c *call) checkHMAC(i int, s *session, withAuth bool) tpm2.RC {
	u := &c.sess[i]
	var auth []byte
	if withAuth {
		auth = u.authUsed
	}
	if len(s.key)+len(auth) == 0 && len(u.hmac) == 0 { // Part 1, 19.6.5: nothing to prove
		if withAuth {
			return c.pinUsed(u.entity)
		}
		return tpm2.RCSuccess
	}
	want := c.sessionHMAC(i, s, auth, c.cpHash(s.hash), u.nonce, s.nonce, u.attrs, true)
	if !tpmcrypto.Equal(want, u.hmac) {
		return c.authFailed(i)
	}
	if withAuth {
		return c.pinUsed(u.entity)
	}
	return tpm2.RCSuccess
}

// sessionHMAC is the HMAC of a command or response (Part 1, 19.6.5). In a
// command, the first session also covers the nonces of sessions that encrypt.
func (c *call) sessionHMAC(i int, s *session, auth, pHash, newer, older []byte, attrs tpm2.SessionAttributes, isCommand bool) []byte {
	key := make([]byte, 0, len(s.key)+len(auth))
	key = append(append(key, s.key...), auth...)
	defer tpmcrypto.Zero(key)
	var nonceDec, nonceEnc []byte
	if isCommand && i == 0 {
		d := c.sessionWith(tpm2.SessionDecrypt)
		if d > 0 {
			nonceDec = c.st.session(c.sess[d].handle).nonce
		}
		if e := c.sessionWith(tpm2.SessionEncrypt); e > 0 && e != d {
			nonceEnc = c.st.session(c.sess[e].handle).nonce
		}
	}
	return tpmcrypto.HMAC(tpmcrypto.Hash(s.hash), key, pHash, newer, older, nonceDec, nonceEnc, []byte{byte(attrs)})
}

// sessionWith returns the index of the session with attribute a, -1 if there is none.
func (c *call) sessionWith(a tpm2.SessionAttributes) int {
	for i := range c.sess[:c.nSess] {
		if !c.sess[i].isPassword() && c.sess[i].attrs.Has(a) {
			return i
		}
	}
	return -1
}

// cpHash is H(commandCode ‖ names ‖ parameters) (Part 1, 16.7).
func (c *call) cpHash(alg tpm2.Alg) []byte {
	var w tpm2.Writer
	w.U32(uint32(c.cmd.code))
	for i := range c.cmd.slots {
		w.Raw(c.st.name(c.handles[i]))
	}
	return alg.Sum(w.Bytes(), c.params)
}

// nameHash is H(names) (Part 3, 23.14).
func (c *call) nameHash(alg tpm2.Alg) []byte {
	var w tpm2.Writer
	for i := range c.cmd.slots {
		w.Raw(c.st.name(c.handles[i]))
	}
	return alg.Sum(w.Bytes())
}

// authFailed records a failed authorization of session number i and returns
// its response code (Part 1, 19.8).
func (c *call) authFailed(i int) tpm2.RC {
	u := &c.sess[i]
	if u.hasAuth {
		_, c.fail = c.st.authValue(u.entity)
		if x := c.st.nv(u.entity); x != nil && x.pub.Attributes.Type() == tpm2.NTPinFail && !isNVWrite(c.cmd.code) {
			c.fail, c.failed = failPIN, u.entity
			return tpm2.RCBadAuth.Session(i + 1) // such an index has NO_DA set
		}
	}
	if c.fail == failNone && !u.isPassword() {
		switch s := c.st.session(u.handle); {
		case s.bindLockout:
			c.fail = failLockout
		case s.bindDA:
			c.fail = failDA
		}
	}
	if c.fail == failNone {
		return tpm2.RCBadAuth.Session(i + 1)
	}
	return tpm2.RCAuthFail.Session(i + 1)
}

// policyRequired says whether only a policy can give the role (Part 1, 19.2).
func (c *call) policyRequired(h tpm2.Handle, r role) bool {
	switch {
	case r == roleDup:
		return true
	case r != roleAdmin:
		return false
	}
	if o := c.st.object(h); o != nil {
		return o.pub.Attributes.Has(tpm2.ObjectAdminWithPolicy)
	}
	return h.Type() == tpm2.HTNVIndex
}

// authValueAvailable says whether the entity's authValue can give the role.
func (c *call) authValueAvailable(h tpm2.Handle, r role) bool {
	if o := c.st.object(h); o != nil {
		if o.publicOnly {
			return false
		}
		return r != roleUser || o.isSequence() || o.pub.Attributes.Has(tpm2.ObjectUserWithAuth)
	}
	if x := c.st.nv(h); x != nil {
		if isNVWrite(c.cmd.code) {
			return x.pub.Attributes.Has(tpm2.NVAuthWrite)
		}
		return x.pub.Attributes.Has(tpm2.NVAuthRead) && !c.pinBlocked(x)
	}
	if isACT(h) {
		return c.st.volatile.phEnable
	}
	return true
}

// policyAvailable says whether the entity has a policy that can give the role.
func (c *call) policyAvailable(h tpm2.Handle, r role) bool {
	if x := c.st.nv(h); x != nil {
		if len(x.pub.AuthPolicy) == 0 {
			return false
		}
		if r == roleAdmin {
			return true
		}
		if isNVWrite(c.cmd.code) {
			return x.pub.Attributes.Has(tpm2.NVPolicyWrite)
		}
		return x.pub.Attributes.Has(tpm2.NVPolicyRead)
	}
	if o := c.st.object(h); o != nil {
		return !o.publicOnly // an empty policy is one that no session satisfies (Part 3, 5.6, 8)
	}
	p := c.st.policy(h)
	return len(p.Digest) != 0
}

// isNVWrite says whether the command writes to the NV index that authorizes it.
func isNVWrite(cc tpm2.CC) bool {
	switch cc {
	case tpm2.CCNVWrite, tpm2.CCNVIncrement, tpm2.CCNVSetBits, tpm2.CCNVExtend, tpm2.CCNVWriteLock, tpm2.CCACSend:
		return true
	}
	return false
}

// checkPolicy checks that the policy session satisfies the entity's policy
// and all that its assertions demand (Part 3, 5.6.4 and 23).
func (c *call) checkPolicy(i int, s *session, r role) tpm2.RC {
	p, u := &s.policyAssert, &c.sess[i]
	at := func(rc tpm2.RC) tpm2.RC { return rc.Session(i + 1) }
	want := c.st.policy(u.entity)
	if want.Alg != s.hash || !tpmcrypto.Equal(want.Digest, p.digest) {
		return at(tpm2.RCPolicyFail)
	}
	if p.timeout != 0 && (s.epoch != c.st.volatile.timeEpoch || c.now() > p.timeout) {
		return at(tpm2.RCExpired)
	}
	if p.pcrSet && p.pcrCounter != c.st.reset.pcrCounter {
		return tpm2.RCPCRChanged
	}
	switch {
	case p.commandCode != 0:
		if p.commandCode != c.cmd.code {
			return at(tpm2.RCPolicyCC)
		}
	case r == roleAdmin || r == roleDup:
		return at(tpm2.RCPolicyFail)
	}
	if p.locality != 0 && !localityAllowed(p.locality, c.locality) {
		return tpm2.RCLocality
	}
	if p.pp && !c.t.present {
		return tpm2.RCPP
	}
	switch {
	case len(p.cpHash) != 0 && !tpmcrypto.Equal(p.cpHash, c.cpHash(s.hash)),
		len(p.nameHash) != 0 && !tpmcrypto.Equal(p.nameHash, c.nameHash(s.hash)),
		len(p.paramHash) != 0 && !tpmcrypto.Equal(p.paramHash, c.paramHash(s.hash)),
		len(p.templateHash) != 0 && !c.templateMatches(s.hash, p.templateHash):
		return at(tpm2.RCPolicyFail)
	}
	if p.nvCheck {
		x := c.st.nv(u.entity)
		if x == nil || x.pub.Attributes.Has(tpm2.NVWritten) != p.nvWritten {
			return at(tpm2.RCPolicyFail)
		}
	}
	return tpm2.RCSuccess
}

// localityAllowed says whether a TPMA_LOCALITY allows a locality.
func localityAllowed(l tpm2.Locality, locality uint8) bool {
	if l < 32 {
		return locality <= 4 && l>>locality&1 == 1
	}
	return uint8(l) == locality
}

// paramHash is H(commandCode ‖ parameters) (Part 3, 23.24).
func (c *call) paramHash(alg tpm2.Alg) []byte {
	var w tpm2.Writer
	w.U32(uint32(c.cmd.code))
	return alg.Sum(w.Bytes(), c.params)
}

// templateMatches says whether the command creates an object from the
// template with the given hash (PolicyTemplate, Part 3, 23.21). The template
// is the content of the second parameter of the commands that create.
func (c *call) templateMatches(alg tpm2.Alg, want []byte) bool {
	switch c.cmd.code {
	case tpm2.CCCreate, tpm2.CCCreatePrimary, tpm2.CCCreateLoaded:
	default:
		return false
	}
	r := tpm2.NewReader(c.params)
	r.Sized(0xFFFF)
	template := r.Sized(0xFFFF)
	return r.Code() == tpm2.RCSuccess && tpmcrypto.Equal(alg.Sum(template), want)
}
