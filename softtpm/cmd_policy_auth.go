// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"encoding/binary"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Assertions by which somebody authorizes: Part 3, 23.2 to 23.5, 23.16, 23.22.

func init() {
	register(&command{code: tpm2.CCPolicySecret, slots: []slot{{kEntity, roleUser}, {kPolicy, roleNone}}, flags: fDecrypt | fEncrypt, run: policySecret})
	register(&command{code: tpm2.CCPolicySigned, slots: []slot{{kObject, roleNone}, {kPolicy, roleNone}}, flags: fDecrypt | fEncrypt, run: policySigned})
	register(&command{code: tpm2.CCPolicyAuthorize, slots: []slot{{kPolicy, roleNone}}, flags: fDecrypt, run: policyAuthorize})
	register(&command{code: tpm2.CCPolicyTicket, slots: []slot{{kPolicy, roleNone}}, flags: fDecrypt, run: policyTicket})
	register(&command{code: tpm2.CCPolicyAuthorizeNV, slots: []slot{{kNVAuth, roleUser}, {kNV, roleNone}, {kPolicy, roleNone}}, run: policyAuthorizeNV})
}

// authorization are the parameters that PolicySigned and PolicySecret share.
type authorization struct {
	nonceTPM, cpHash, ref []byte
	expiration            int32
}

func (c *call) authorization() authorization {
	return authorization{
		nonceTPM:   c.next().Sized(tpm2.MaxDigest),
		cpHash:     c.next().Sized(tpm2.MaxDigest),
		ref:        c.next().Sized(tpm2.MaxDigest),
		expiration: int32(c.next().U32()),
	}
}

// timeout returns the Time in milliseconds at which the authorization ends, 0
// for never: so many seconds after the session's start if the authorization is
// for this session (it has a nonceTPM), else a moment of Time itself.
func (a *authorization) timeout(c *call, s *session) uint64 {
	// Negation in 64 bits: the smallest int32 has no positive twin.
	e := int64(a.expiration)
	if e < 0 {
		e = -e
	}
	ms := uint64(e) * 1000
	switch {
	case e == 0:
		return 0
	case len(a.nonceTPM) == 0:
		return ms + c.now()%1000
	}
	return s.startTime + ms
}

// checkAuthorization makes the checks of Part 3, 23.2.2. cpHashP and timeP are
// the parameters to blame.
func (c *call) checkAuthorization(s *session, cpHash []byte, timeout uint64, cpHashP, timeP int) tpm2.RC {
	if timeout != 0 && (timeout < c.now() || s.epoch != c.st.volatile.timeEpoch) {
		return tpm2.RCExpired.Parameter(timeP)
	}
	if len(cpHash) == 0 {
		return tpm2.RCSuccess
	}
	if len(cpHash) != s.hash.DigestSize() {
		return tpm2.RCSize.Parameter(cpHashP)
	}
	if !s.policyAssert.again(s.policyAssert.cpHash, cpHash) {
		return tpm2.RCCpHash
	}
	return tpm2.RCSuccess
}

// authorized updates the session after an authorization (Part 3, 23.2.4).
func (p policySession) authorized(cpHash []byte, timeout uint64) tpm2.RC {
	if len(cpHash) != 0 {
		p.policyAssert.cpHash = append([]byte(nil), cpHash...)
	}
	if timeout != 0 && (p.policyAssert.timeout == 0 || timeout < p.policyAssert.timeout) {
		p.policyAssert.timeout = timeout
	}
	return p.extended()
}

// policySecret is TPM2_PolicySecret (Part 3, 23.4). That the caller knows the
// authValue was checked with the session of handle 1.
func policySecret(c *call) tpm2.RC {
	a := c.authorization()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	entity := c.handle(0)
	pinPass := false
	if x := c.nv(0); x != nil {
		t := x.pub.Attributes.Type()
		pinPass = t == tpm2.NTPinPass
		if c.st.clear.readOnly && (pinPass || t == tpm2.NTPinFail) {
			return tpm2.RCReadOnly
		}
	}
	// A policy that does not prove knowledge of the authValue is not enough.
	if u := &c.sess[0]; !u.isPassword() {
		if s := c.st.session(u.handle); s.policy && !s.policyAssert.authValue && !s.policyAssert.password {
			return tpm2.RCMode
		}
	}
	s := c.policySession(1)
	var timeout uint64
	if !s.trial {
		timeout = a.timeout(c, s.session)
		if len(a.nonceTPM) != 0 && !tpmcrypto.Equal(a.nonceTPM, s.nonce) {
			return tpm2.RCNonce.Parameter(1)
		}
		if rc := c.checkAuthorization(s.session, a.cpHash, timeout, 2, 4); rc != tpm2.RCSuccess {
			return rc
		}
	}
	name := c.st.name(entity)
	s.digest.Secret(name, a.ref)
	if rc := s.authorized(a.cpHash, timeout); rc != tpm2.RCSuccess {
		return rc
	}
	c.writeAuthTicket(tpm2.STAuthSecret, c.st.entityHierarchy(entity), a, timeout, name, a.expiration < 0 && !s.trial && !pinPass)
	return tpm2.RCSuccess
}

// policySigned is TPM2_PolicySigned (Part 3, 23.3): the key of handle 1 signed
// nonceTPM ‖ expiration ‖ cpHashA ‖ policyRef. A wrong signature is
// TPM_RC_SIGNATURE, as from TPMs of the reference code; the text says
// TPM_RC_POLICY_FAIL.
func policySigned(c *call) tpm2.RC {
	a := c.authorization()
	sig := readSignature(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	s := c.policySession(1)
	var timeout uint64
	if !s.trial {
		timeout = a.timeout(c, s.session)
		if len(a.nonceTPM) != 0 && !tpmcrypto.Equal(a.nonceTPM, s.nonce) {
			return tpm2.RCNonce.Parameter(1)
		}
		if rc := c.checkAuthorization(s.session, a.cpHash, timeout, 2, 4); rc != tpm2.RCSuccess {
			return rc
		}
		signed := bytes.Clone(a.nonceTPM)
		signed = binary.BigEndian.AppendUint32(signed, uint32(a.expiration))
		signed = append(append(signed, a.cpHash...), a.ref...)
		if rc := verifyMessage(o, &sig, signed); rc != tpm2.RCSuccess {
			return rc.Parameter(5)
		}
	}
	s.digest.Signed(o.name, a.ref)
	if rc := s.authorized(a.cpHash, timeout); rc != tpm2.RCSuccess {
		return rc
	}
	c.writeAuthTicket(tpm2.STAuthSigned, o.hierarchy, a, timeout, o.name, a.expiration < 0 && !s.trial)
	return tpm2.RCSuccess
}

// policyAuthorize is TPM2_PolicyAuthorize (Part 3, 23.16): a ticket says that
// the key named keySign signed approvedPolicy ‖ policyRef. A wrong ticket is
// TPM_RC_VALUE, as from TPMs of the reference code; the text says
// TPM_RC_POLICY.
func policyAuthorize(c *call) tpm2.RC {
	approved := c.next().Sized(tpm2.MaxDigest)
	ref := c.next().Sized(tpm2.MaxDigest)
	keySign := c.next().Sized(tpm2.MaxName)
	var ticket tpm2.Ticket
	ticket.UnmarshalVerified(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if len(keySign) < 2 {
		return tpm2.RCSize.Parameter(3)
	}
	nameAlg := tpm2.Alg(binary.BigEndian.Uint16(keySign))
	if !hashImplemented(nameAlg) {
		return tpm2.RCHash.Parameter(3)
	}
	if len(keySign) != 2+nameAlg.DigestSize() {
		return tpm2.RCSize.Parameter(3)
	}
	s := c.policySession(0)
	if !s.trial {
		if !tpmcrypto.Equal(approved, s.policyAssert.digest) {
			return tpm2.RCValue.Parameter(1)
		}
		if !c.st.checkVerified(ticket, verifiedDigest(ticket, nameAlg, approved, ref), keySign) {
			return tpm2.RCValue.Parameter(4)
		}
	}
	s.digest.Authorize(keySign, ref)
	return s.extended()
}

// verifiedDigest returns what a ticket of each kind holds of a message: the
// digest by the key's nameAlg for VerifySignature, which does not record its
// hash (Part 3, 23.16.2), by ticketHash for a message, by the recorded hash for
// a digest.
func verifiedDigest(t tpm2.Ticket, nameAlg tpm2.Alg, parts ...[]byte) []byte {
	switch t.Tag {
	case tpm2.STMessageVerified:
		return ticketHash.Sum(parts...)
	case tpm2.STDigestVerified:
		if t.Hash == tpm2.AlgSHAKE256_512 { // Ed448ph
			return tpmcrypto.EdPrehash(tpmcrypto.Curve448, parts...)
		}
		if !hashImplemented(t.Hash) {
			return nil
		}
		return t.Hash.Sum(parts...)
	}
	return nameAlg.Sum(parts...)
}

// expiresOnReset is the bit of the timeout that a ticket returns which says
// that the ticket ends with the next TPM Reset.
const expiresOnReset = 1 << 63

// writeAuthTicket writes the response of PolicySigned and PolicySecret: timeout
// and ticket, or both empty (Part 3, 23.2.5).
func (c *call) writeAuthTicket(tag tpm2.Tag, hierarchy tpm2.Handle, a authorization, timeout uint64, name []byte, ticket bool) {
	if !ticket {
		c.out.Sized(nil)
		tpm2.Ticket{Tag: tag, Hierarchy: tpm2.RHNull}.Marshal(&c.out)
		return
	}
	timeout &^= expiresOnReset
	reset := len(a.nonceTPM) == 0
	wire := timeout
	if reset {
		wire |= expiresOnReset
	}
	c.out.Sized(binary.BigEndian.AppendUint64(nil, wire))
	tpm2.Ticket{Tag: tag, Hierarchy: hierarchy, HMAC: c.authTicket(tag, hierarchy, timeout, reset, a.cpHash, a.ref, name)}.Marshal(&c.out)
}

// authTicket is the HMAC of a TPMT_TK_AUTH (Part 3, 23.2.5, equation 2).
func (c *call) authTicket(tag tpm2.Tag, hierarchy tpm2.Handle, timeout uint64, reset bool, cpHash, ref, name []byte) []byte {
	var w tpm2.Writer
	w.Sized(cpHash) // with sizes, so that no octet can move from one field to another
	w.Sized(ref)
	w.Sized(name)
	w.U64(timeout)
	if timeout != 0 {
		w.U64(c.st.volatile.timeEpoch)
		if reset {
			w.U64(c.st.perm.totalResets)
		}
	}
	return c.st.ticketHMAC(hierarchy, tag, w.Bytes())
}

// entityHierarchy returns the hierarchy whose proof vouches for an entity's
// tickets.
func (s *state) entityHierarchy(h tpm2.Handle) tpm2.Handle {
	switch h.Type() {
	case tpm2.HTNVIndex:
		if x := s.nv(h); x != nil && x.pub.Attributes.Has(tpm2.NVPlatformCreate) {
			return tpm2.RHPlatform
		}
		return tpm2.RHOwner
	case tpm2.HTTransient, tpm2.HTPersistent:
		return s.hierarchyOf(h)
	}
	switch h {
	case tpm2.RHPlatform, tpm2.RHEndorsement, tpm2.RHNull:
		return h
	case tpm2.RHLockout, tpm2.RHOwner:
		return tpm2.RHOwner
	}
	return tpm2.RHNull // PCRs
}

// policyTicket is TPM2_PolicyTicket (Part 3, 23.5): the ticket stands for the
// authorization that it was made of.
func policyTicket(c *call) tpm2.RC {
	timeoutOctets := c.next().Sized(8)
	cpHash := c.next().Sized(tpm2.MaxDigest)
	ref := c.next().Sized(tpm2.MaxDigest)
	name := c.next().Sized(tpm2.MaxName)
	var ticket tpm2.Ticket
	ticket.UnmarshalTicket(c.next(), tpm2.STAuthSigned, tpm2.STAuthSecret)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	if s.trial {
		return tpm2.RCAttributes.Handle(1)
	}
	if len(timeoutOctets) != 8 {
		return tpm2.RCSize.Parameter(1)
	}
	timeout := binary.BigEndian.Uint64(timeoutOctets)
	reset := timeout&expiresOnReset != 0
	timeout &^= expiresOnReset
	if rc := c.checkAuthorization(s.session, cpHash, timeout, 2, 1); rc != tpm2.RCSuccess {
		return rc
	}
	want := c.authTicket(ticket.Tag, ticket.Hierarchy, timeout, reset, cpHash, ref, name)
	if !tpmcrypto.Equal(want, ticket.HMAC) {
		return tpm2.RCTicket.Parameter(5)
	}
	if ticket.Tag == tpm2.STAuthSigned {
		s.digest.Signed(name, ref)
	} else {
		s.digest.Secret(name, ref)
	}
	return s.authorized(cpHash, timeout)
}

// policyAuthorizeNV is TPM2_PolicyAuthorizeNV (Part 3, 23.22): the index holds
// the approved policy as TPMT_HA.
func policyAuthorizeNV(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(2)
	if !s.trial {
		x, rc := c.nvRead(0, 1)
		if rc != tpm2.RCSuccess {
			return rc
		}
		var ha tpm2.HA
		r := tpm2.NewReader(x.data)
		ha.Unmarshal(r)
		if rc := r.Code(); rc != tpm2.RCSuccess {
			return rc
		}
		if ha.Alg != s.hash {
			return tpm2.RCHash
		}
		if !tpmcrypto.Equal(ha.Digest, s.policyAssert.digest) {
			return tpm2.RCValue
		}
	}
	s.digest.AuthorizeNV(c.nv(1).name())
	return s.extended()
}
