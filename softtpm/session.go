// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// session is an authorization session (Part 1, 19.6 and 19.7). It does not
// change once it is in the state: see call.editSession.
type session struct {
	handle tpm2.Handle
	hash   tpm2.Alg
	sym    tpm2.SymDef
	key    []byte // sessionKey; empty if neither salted nor bound
	nonce  []byte // nonceTPM

	// The entity that the session is bound to: its Name and authValue at the
	// time. bound is false if it is not bound.
	bound        bool
	bindName     []byte
	bindAuth     []byte
	bindDA       bool // the bound entity is protected against dictionary attacks
	bindLockout  bool // the bound entity is lockout
	audit        bool
	auditDigest  []byte
	policy       bool // policy or trial session
	trial        bool
	startTime    uint64 // Time of creation, in milliseconds
	epoch        uint64 // volatile.timeEpoch at creation
	policyAssert policyAsserts
}

// policyAsserts is what the assertions of a policy session have gathered; PolicyRestart makes it new.
type policyAsserts struct {
	digest       []byte // policyDigest
	timeout      uint64 // Time at which the session expires, 0 never
	commandCode  tpm2.CC
	cpHash       []byte // at most one of the four hashes is set
	nameHash     []byte
	templateHash []byte
	paramHash    []byte
	locality     tpm2.Locality // 0: any
	pcrSet       bool
	pcrCounter   uint32
	authValue    bool // PolicyAuthValue
	password     bool // PolicyPassword
	pp           bool // PolicyPhysicalPresence
	nvCheck      bool // PolicyNvWritten
	nvWritten    bool
}

// hashUsed says whether one of the mutually exclusive hashes is set.
func (p *policyAsserts) hashUsed() bool {
	return len(p.cpHash)+len(p.nameHash)+len(p.templateHash)+len(p.paramHash) != 0
}

// newAsserts returns the asserts of a fresh policy session with hash alg.
func newAsserts(alg tpm2.Alg) policyAsserts {
	return policyAsserts{digest: make([]byte, alg.DigestSize())}
}

// boundTo says whether the session is bound to the entity with this Name and authValue.
func (s *session) boundTo(name, auth []byte) bool {
	return s.bound && bytes.Equal(s.bindName, name) && tpmcrypto.Equal(s.bindAuth, auth)
}

// slot returns the session's index in the arrays of the state.
func sessionSlot(h tpm2.Handle) int { return int(h & 0x00FFFFFF) }

// session returns the loaded session h, nil if there is none.
func (s *state) session(h tpm2.Handle) *session {
	if t := h.Type(); t != tpm2.HTHMACSession && t != tpm2.HTPolicySession {
		return nil
	}
	i := sessionSlot(h)
	if i >= maxSessions {
		return nil
	}
	if x := s.volatile.sessions[i]; x != nil && x.handle == h {
		return x
	}
	return nil
}

// editSession returns a copy of the loaded session h that is already in the
// state and may be changed until the command ends. The session must exist.
func (c *call) editSession(h tpm2.Handle) *session {
	n := *c.st.session(h)
	c.st.volatile.sessions[sessionSlot(h)] = &n
	return &n
}

// dropSession frees the session's slot.
func (s *state) dropSession(h tpm2.Handle) {
	i := sessionSlot(h)
	if i < maxSessions {
		s.volatile.sessions[i] = nil
		s.volatile.savedSessions[i] = false
		s.reset.contextSlots[i] = 0
	}
	if s.volatile.exclusive == h {
		s.volatile.exclusive = 0
	}
}

// wipe erases the session's secrets.
func (s *session) wipe() {
	tpmcrypto.Zero(s.key)
	tpmcrypto.Zero(s.bindAuth)
}
