// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

// authValue returns the authorization value of an entity and which
// dictionary-attack protection it has.
func (s *state) authValue(h tpm2.Handle) ([]byte, failure) {
	switch h.Type() {
	case tpm2.HTPCR:
		if h < numPCRs {
			return s.clear.pcrAuth[h], failNone
		}
	case tpm2.HTNVIndex:
		if x := s.nv(h); x != nil {
			if x.pub.Attributes.Has(tpm2.NVNoDA) {
				return x.auth, failNone
			}
			return x.auth, failDA
		}
	case tpm2.HTTransient, tpm2.HTPersistent:
		if o := s.object(h); o != nil {
			if o.isSequence() || o.pub.Attributes.Has(tpm2.ObjectNoDA) {
				return o.sens.Auth, failNone
			}
			return o.sens.Auth, failDA
		}
	case tpm2.HTPermanent:
		switch h {
		case tpm2.RHOwner:
			return s.perm.ownerAuth, failNone
		case tpm2.RHEndorsement:
			return s.perm.endorsementAuth, failNone
		case tpm2.RHPlatform:
			return s.clear.platformAuth, failNone
		case tpm2.RHLockout:
			return s.perm.lockoutAuth, failLockout
		}
		if isACT(h) {
			return s.clear.platformAuth, failNone // Part 1, 40.2
		}
	}
	return nil, failNone
}

// policy returns the authorization policy of an entity; its digest is empty if it has none.
func (s *state) policy(h tpm2.Handle) tpm2.HA {
	switch h.Type() {
	case tpm2.HTPCR:
		if h < numPCRs {
			return s.perm.pcrPolicies[h]
		}
	case tpm2.HTNVIndex:
		if x := s.nv(h); x != nil {
			return tpm2.HA{Alg: x.pub.NameAlg, Digest: x.pub.AuthPolicy}
		}
	case tpm2.HTTransient, tpm2.HTPersistent:
		if o := s.object(h); o != nil {
			return tpm2.HA{Alg: o.pub.NameAlg, Digest: o.pub.AuthPolicy}
		}
	case tpm2.HTPermanent:
		switch h {
		case tpm2.RHOwner:
			return s.perm.ownerPolicy
		case tpm2.RHEndorsement:
			return s.perm.endorsementPolicy
		case tpm2.RHPlatform:
			return s.clear.platformPolicy
		case tpm2.RHLockout:
			return s.perm.lockoutPolicy
		}
		if isACT(h) {
			return s.clear.acts[h-tpm2.RHACT0].policy
		}
	}
	return noPolicy
}

// name returns the Name of an entity (Part 1, 14); empty for sequences.
func (s *state) name(h tpm2.Handle) []byte {
	switch h.Type() {
	case tpm2.HTNVIndex:
		if x := s.nv(h); x != nil {
			return x.name()
		}
	case tpm2.HTTransient, tpm2.HTPersistent:
		if o := s.object(h); o != nil {
			return o.name
		}
		return nil
	}
	return tpm2.HandleName(h)
}

// persistentObject returns the persistent object h whether or not its
// hierarchy is enabled, nil if there is none.
func (s *state) persistentObject(h tpm2.Handle) *object {
	for _, o := range s.perm.persistent {
		if o.handle == h {
			return o
		}
	}
	return nil
}
