// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

// isHierarchy says whether h is one of the four base hierarchies.
func isHierarchy(h tpm2.Handle) bool {
	return h == tpm2.RHOwner || h == tpm2.RHEndorsement || h == tpm2.RHPlatform || h == tpm2.RHNull
}

// hierarchyEnabled says whether the hierarchy is enabled (Part 1, 13).
func (s *state) hierarchyEnabled(h tpm2.Handle) bool {
	switch h {
	case tpm2.RHOwner:
		return s.clear.shEnable
	case tpm2.RHEndorsement:
		return s.clear.ehEnable
	case tpm2.RHPlatform:
		return s.volatile.phEnable
	}
	return true
}

// seed returns the primary seed of a hierarchy.
func (s *state) seed(h tpm2.Handle) []byte {
	switch h {
	case tpm2.RHOwner:
		return s.perm.spSeed
	case tpm2.RHEndorsement:
		return s.perm.epSeed
	case tpm2.RHPlatform:
		return s.perm.ppSeed
	}
	return s.reset.nullSeed
}

// proof returns the proof of a hierarchy, the secret of its tickets.
func (s *state) proof(h tpm2.Handle) []byte {
	switch h {
	case tpm2.RHOwner:
		return s.perm.shProof
	case tpm2.RHEndorsement:
		return s.perm.ehProof
	case tpm2.RHPlatform:
		return s.perm.phProof
	}
	return s.reset.nullProof
}

// hierarchyOf returns the hierarchy of an object or hierarchy handle; RHNull
// for what is not there.
func (s *state) hierarchyOf(h tpm2.Handle) tpm2.Handle {
	if isHierarchy(h) {
		return h
	}
	if o := s.object(h); o != nil {
		return o.hierarchy
	}
	return tpm2.RHNull
}
