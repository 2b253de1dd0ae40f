// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"

	"holdfast/tpm2"
)

// policy runs an assertion without authorization on a policy session.
func (t *TPM) policy(cc tpm2.CC, s *Session, sized bool, params func(w *tpm2.Writer)) error {
	if err := s.checkPolicy(); err != nil {
		return err
	}
	return t.simple(&call{cc: cc, refs: [3]Ref{{Handle: s.handle}}, handles: 1, inSized: sized}, params)
}

// PolicyPCR is TPM2_PolicyPCR (Part 3, 23.7). An empty digest means the PCRs
// as they are now; in a trial session give the digest.
func (t *TPM) PolicyPCR(s *Session, digest []byte, sel []tpm2.PCRSelection) error {
	return t.policy(tpm2.CCPolicyPCR, s, true, func(w *tpm2.Writer) {
		w.Sized(digest)
		tpm2.MarshalPCRSelections(w, sel)
	})
}

// PolicyOR is TPM2_PolicyOR (Part 3, 23.6).
func (t *TPM) PolicyOR(s *Session, branches ...[]byte) error {
	return t.policy(tpm2.CCPolicyOR, s, false, func(w *tpm2.Writer) { tpm2.MarshalDigests(w, branches) })
}

// PolicyCommandCode is TPM2_PolicyCommandCode (Part 3, 23.11).
func (t *TPM) PolicyCommandCode(s *Session, cc tpm2.CC) error {
	return t.policy(tpm2.CCPolicyCommandCode, s, false, func(w *tpm2.Writer) { w.U32(uint32(cc)) })
}

// PolicyLocality is TPM2_PolicyLocality (Part 3, 23.8).
func (t *TPM) PolicyLocality(s *Session, l tpm2.Locality) error {
	return t.policy(tpm2.CCPolicyLocality, s, false, func(w *tpm2.Writer) { w.U8(uint8(l)) })
}

// PolicyAuthValue is TPM2_PolicyAuthValue (Part 3, 23.17): the session's HMAC
// then covers the entity's authValue.
func (t *TPM) PolicyAuthValue(s *Session) error {
	err := t.policy(tpm2.CCPolicyAuthValue, s, false, nil)
	if err == nil {
		s.needsValue, s.usesPassword = true, false
	}
	return err
}

// PolicyPassword is TPM2_PolicyPassword (Part 3, 23.18): the entity's
// authValue goes with the command as it is.
func (t *TPM) PolicyPassword(s *Session) error {
	err := t.policy(tpm2.CCPolicyPassword, s, false, nil)
	if err == nil {
		s.needsValue, s.usesPassword = false, true
	}
	return err
}

// PolicyCpHash is TPM2_PolicyCpHash (Part 3, 23.13).
func (t *TPM) PolicyCpHash(s *Session, cpHash []byte) error {
	return t.policy(tpm2.CCPolicyCpHash, s, true, func(w *tpm2.Writer) { w.Sized(cpHash) })
}

// PolicyNameHash is TPM2_PolicyNameHash (Part 3, 23.14).
func (t *TPM) PolicyNameHash(s *Session, nameHash []byte) error {
	return t.policy(tpm2.CCPolicyNameHash, s, true, func(w *tpm2.Writer) { w.Sized(nameHash) })
}

// PolicyNvWritten is TPM2_PolicyNvWritten (Part 3, 23.20).
func (t *TPM) PolicyNvWritten(s *Session, written bool) error {
	return t.policy(tpm2.CCPolicyNvWritten, s, false, func(w *tpm2.Writer) { w.Bool(written) })
}

// PolicySecret is TPM2_PolicySecret (Part 3, 23.4) without expiration, cpHash
// and use of the session's nonce; the usual form for EK and owner policies.
func (t *TPM) PolicySecret(entity Ref, s *Session, policyRef []byte) error {
	if err := s.checkPolicy(); err != nil {
		return err
	}
	c := call{cc: tpm2.CCPolicySecret, refs: [3]Ref{entity, {Handle: s.handle}}, handles: 2, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(nil) // nonceTPM
		w.Sized(nil) // cpHashA
		w.Sized(policyRef)
		w.U32(0) // expiration
	})
	if err != nil {
		return err
	}
	return r.ticket(c.cc)
}

// ticket reads {TPM2B_TIMEOUT, TPMT_TK_AUTH}, which without expiration say nothing.
func (r *reply) ticket(cc tpm2.CC) error {
	r.Sized(r.Len())
	var k tpm2.Ticket
	k.UnmarshalTicket(&r.Reader, tpm2.STAuthSecret, tpm2.STAuthSigned)
	return r.end(cc)
}

// PolicySigned is TPM2_PolicySigned (Part 3, 23.3) without expiration and
// cpHash. What sig signs is the digest of nonceTPM ‖ 0 (u32) ‖ policyRef;
// nonceTPM is that of the session, or nil for a signature good in any session.
func (t *TPM) PolicySigned(key Ref, s *Session, nonceTPM, policyRef []byte, sig *tpm2.Signature) error {
	if err := s.checkPolicy(); err != nil {
		return err
	}
	c := call{cc: tpm2.CCPolicySigned, refs: [3]Ref{key, {Handle: s.handle}}, handles: 2, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(nonceTPM)
		w.Sized(nil)
		w.Sized(policyRef)
		w.U32(0)
		sig.Marshal(w)
	})
	if err != nil {
		return err
	}
	return r.ticket(c.cc)
}

// PolicyAuthorize is TPM2_PolicyAuthorize (Part 3, 23.16). ticket is what
// VerifySignature returned for the digest of approved ‖ policyRef.
func (t *TPM) PolicyAuthorize(s *Session, approved, policyRef, keyName []byte, ticket tpm2.Ticket) error {
	return t.policy(tpm2.CCPolicyAuthorize, s, true, func(w *tpm2.Writer) {
		w.Sized(approved)
		w.Sized(policyRef)
		w.Sized(keyName)
		ticket.Marshal(w)
	})
}

// PolicyNV is TPM2_PolicyNV (Part 3, 23.9).
func (t *TPM) PolicyNV(auth, index Ref, s *Session, operand []byte, offset uint16, op tpm2.EO) error {
	if err := s.checkPolicy(); err != nil {
		return err
	}
	c := call{cc: tpm2.CCPolicyNV, refs: [3]Ref{auth, index, {Handle: s.handle}}, handles: 3, auths: 1, inSized: true}
	return t.simple(&c, func(w *tpm2.Writer) {
		w.Sized(operand)
		w.U16(offset)
		w.U16(uint16(op))
	})
}

// PolicyGetDigest is TPM2_PolicyGetDigest (Part 3, 23.19).
func (t *TPM) PolicyGetDigest(s *Session) ([]byte, error) {
	c := call{cc: tpm2.CCPolicyGetDigest, refs: [3]Ref{{Handle: s.handle}}, handles: 1, outSized: true}
	r, err := t.do(&c, nil)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(r.Sized(tpm2.MaxDigest)), r.end(c.cc)
}

// PolicyRestart is TPM2_PolicyRestart (Part 3, 11.2): the session begins anew.
func (t *TPM) PolicyRestart(s *Session) error {
	err := t.policy(tpm2.CCPolicyRestart, s, false, nil)
	if err == nil {
		s.needsValue, s.usesPassword = false, false
	}
	return err
}
