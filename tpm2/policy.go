// SPDX-License-Identifier: Apache-2.0

package tpm2

import "encoding/binary"

// PolicyDigest computes the policyDigest that a policy session reaches (Part
// 1, 19.7; the equations stand with each command in Part 3, 23). Begin with
// NewPolicyDigest and call the assertions in the order in which the session
// will run them; Sum is the authPolicy.
type PolicyDigest struct {
	alg Alg
	d   []byte
}

// NewPolicyDigest returns the digest of a fresh policy session, all zero; nil
// if alg is no hash that we know.
func NewPolicyDigest(alg Alg) *PolicyDigest {
	if !alg.IsHash() {
		return nil
	}
	return &PolicyDigest{alg: alg, d: make([]byte, alg.DigestSize())}
}

// PolicyDigestFrom returns a PolicyDigest that goes on from digest d of alg;
// nil if d has the wrong size.
func PolicyDigestFrom(alg Alg, d []byte) *PolicyDigest {
	if !alg.IsHash() || len(d) != alg.DigestSize() {
		return nil
	}
	return &PolicyDigest{alg: alg, d: append([]byte(nil), d...)}
}

// Sum returns the digest reached so far.
func (p *PolicyDigest) Sum() []byte { return append([]byte(nil), p.d...) }

// extend sets digest = H(digest ‖ commandCode ‖ args...).
func (p *PolicyDigest) extend(cc CC, args ...[]byte) {
	var c [4]byte
	binary.BigEndian.PutUint32(c[:], uint32(cc))
	p.d = p.alg.Sum(append([][]byte{p.d, c[:]}, args...)...)
}

// update is PolicyUpdate() (Part 3, 23.2.3): two hashes, over the entity and
// over the reference, the second also when ref is empty.
func (p *PolicyDigest) update(cc CC, name, ref []byte) {
	p.extend(cc, name)
	p.d = p.alg.Sum(p.d, ref)
}

// reset sets the digest to zero, as the commands that replace a policy do.
func (p *PolicyDigest) reset() { p.d = make([]byte, p.alg.DigestSize()) }

// Signed is PolicySigned by the key with the given Name (Part 3, 23.3).
func (p *PolicyDigest) Signed(keyName, ref []byte) { p.update(CCPolicySigned, keyName, ref) }

// Secret is PolicySecret with the entity of the given Name (Part 3, 23.4).
func (p *PolicyDigest) Secret(entityName, ref []byte) { p.update(CCPolicySecret, entityName, ref) }

// OR is PolicyOR over 2 to 8 branch digests (Part 3, 23.6).
func (p *PolicyDigest) OR(branches ...[]byte) {
	p.reset()
	p.extend(CCPolicyOR, branches...)
}

// PCR is PolicyPCR with the selection and the digest over the values of the
// selected PCRs in their order (Part 3, 23.7).
func (p *PolicyDigest) PCR(sel []PCRSelection, pcrDigest []byte) {
	var w Writer
	MarshalPCRSelections(&w, sel)
	p.extend(CCPolicyPCR, w.b, pcrDigest)
}

// Locality is PolicyLocality (Part 3, 23.8).
func (p *PolicyDigest) Locality(l Locality) { p.extend(CCPolicyLocality, []byte{uint8(l)}) }

// operation returns H(operandB ‖ offset ‖ operation ‖ more).
func (p *PolicyDigest) operation(operandB []byte, offset uint16, op EO, more ...[]byte) []byte {
	var w Writer
	w.U16(offset)
	w.U16(uint16(op))
	return p.alg.Sum(append([][]byte{operandB, w.b}, more...)...)
}

// NV is PolicyNV (Part 3, 23.9).
func (p *PolicyDigest) NV(operandB []byte, offset uint16, op EO, nvName []byte) {
	p.extend(CCPolicyNV, p.operation(operandB, offset, op), nvName)
}

// CounterTimer is PolicyCounterTimer (Part 3, 23.10).
func (p *PolicyDigest) CounterTimer(operandB []byte, offset uint16, op EO) {
	p.extend(CCPolicyCounterTimer, p.operation(operandB, offset, op))
}

// CommandCode is PolicyCommandCode (Part 3, 23.11).
func (p *PolicyDigest) CommandCode(cc CC) {
	p.extend(CCPolicyCommandCode, binary.BigEndian.AppendUint32(nil, uint32(cc)))
}

// PhysicalPresence is PolicyPhysicalPresence (Part 3, 23.12).
func (p *PolicyDigest) PhysicalPresence() { p.extend(CCPolicyPhysicalPresence) }

// CpHash is PolicyCpHash (Part 3, 23.13).
func (p *PolicyDigest) CpHash(cpHash []byte) { p.extend(CCPolicyCpHash, cpHash) }

// NameHash is PolicyNameHash (Part 3, 23.14).
func (p *PolicyDigest) NameHash(nameHash []byte) { p.extend(CCPolicyNameHash, nameHash) }

// DuplicationSelect is PolicyDuplicationSelect (Part 3, 23.15). The object's
// Name counts only if includeObject.
func (p *PolicyDigest) DuplicationSelect(objectName, newParentName []byte, includeObject bool) {
	if includeObject {
		p.extend(CCPolicyDuplicationSelect, objectName, newParentName, []byte{1})
	} else {
		p.extend(CCPolicyDuplicationSelect, newParentName, []byte{0})
	}
}

// Authorize is PolicyAuthorize by the key with the given Name (Part 3, 23.16).
func (p *PolicyDigest) Authorize(keyName, ref []byte) {
	p.reset()
	p.update(CCPolicyAuthorize, keyName, ref)
}

// AuthValue is PolicyAuthValue (Part 3, 23.17).
func (p *PolicyDigest) AuthValue() { p.extend(CCPolicyAuthValue) }

// Password is PolicyPassword (Part 3, 23.18); it has the digest of AuthValue.
func (p *PolicyDigest) Password() { p.extend(CCPolicyAuthValue) }

// NvWritten is PolicyNvWritten (Part 3, 23.20).
func (p *PolicyDigest) NvWritten(written bool) {
	b := []byte{0}
	if written {
		b[0] = 1
	}
	p.extend(CCPolicyNvWritten, b)
}

// Template is PolicyTemplate (Part 3, 23.21).
func (p *PolicyDigest) Template(templateHash []byte) { p.extend(CCPolicyTemplate, templateHash) }

// AuthorizeNV is PolicyAuthorizeNV (Part 3, 23.22).
func (p *PolicyDigest) AuthorizeNV(nvName []byte) {
	p.reset()
	p.extend(CCPolicyAuthorizeNV, nvName)
}

// Capability is PolicyCapability (Part 3, 23.23).
func (p *PolicyDigest) Capability(operandB []byte, offset uint16, op EO, c Cap, property uint32) {
	var w Writer
	w.U32(uint32(c))
	w.U32(property)
	p.extend(CCPolicyCapability, p.operation(operandB, offset, op, w.b))
}

// Parameters is PolicyParameters (Part 3, 23.24).
func (p *PolicyDigest) Parameters(pHash []byte) { p.extend(CCPolicyParameters, pHash) }

// ACSendSelect is Policy_AC_SendSelect (Part 3, 32.4).
func (p *PolicyDigest) ACSendSelect(objectName, authHandleName, acName []byte, includeObject bool) {
	if includeObject {
		p.extend(CCPolicyACSendSelect, objectName, authHandleName, acName, []byte{1})
	} else {
		p.extend(CCPolicyACSendSelect, authHandleName, acName, []byte{0})
	}
}

// PCRDigest returns the digest over PCR values in the order of a selection, as
// PolicyPCR, Quote and creation data use it.
func PCRDigest(alg Alg, values ...[]byte) []byte { return alg.Sum(values...) }
