// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/tpm2"
)

// Enhanced authorization: Part 3, 23. This file has the assertions about the
// command that the session will authorize and about the state of the TPM;
// cmd_policy_auth.go those by which somebody authorizes.

func init() {
	policy := []slot{{kPolicy, roleNone}}
	nv := []slot{{kNVAuth, roleUser}, {kNV, roleNone}, {kPolicy, roleNone}}
	register(&command{code: tpm2.CCPolicyOR, slots: policy, run: policyOR})
	register(&command{code: tpm2.CCPolicyPCR, slots: policy, flags: fDecrypt, run: policyPCR})
	register(&command{code: tpm2.CCPolicyLocality, slots: policy, run: policyLocality})
	register(&command{code: tpm2.CCPolicyNV, slots: nv, flags: fDecrypt, run: policyNV})
	register(&command{code: tpm2.CCPolicyCounterTimer, slots: policy, flags: fDecrypt, run: policyCounterTimer})
	register(&command{code: tpm2.CCPolicyCapability, slots: policy, flags: fDecrypt, run: policyCapability})
	register(&command{code: tpm2.CCPolicyCommandCode, slots: policy, run: policyCommandCode})
	register(&command{code: tpm2.CCPolicyPhysicalPresence, slots: policy, run: policyPhysicalPresence})
	register(&command{code: tpm2.CCPolicyCpHash, slots: policy, flags: fDecrypt, run: policyCpHash})
	register(&command{code: tpm2.CCPolicyNameHash, slots: policy, flags: fDecrypt, run: policyNameHash})
	register(&command{code: tpm2.CCPolicyParameters, slots: policy, flags: fDecrypt, run: policyParameters})
	register(&command{code: tpm2.CCPolicyTemplate, slots: policy, flags: fDecrypt, run: policyTemplate})
	register(&command{code: tpm2.CCPolicyDuplicationSelect, slots: policy, flags: fDecrypt, run: policyDuplicationSelect})
	register(&command{code: tpm2.CCPolicyAuthValue, slots: policy, run: policyAuthValue})
	register(&command{code: tpm2.CCPolicyPassword, slots: policy, run: policyPassword})
	register(&command{code: tpm2.CCPolicyNvWritten, slots: policy, run: policyNvWritten})
	register(&command{code: tpm2.CCPolicyGetDigest, slots: policy, flags: fEncrypt, run: policyGetDigest})
	register(&command{code: tpm2.CCPolicyRestart, slots: policy, run: policyRestart})
}

// policySession is the session under assertion, already a copy in the state,
// with the digest that the assertion extends.
type policySession struct {
	*session
	digest *tpm2.PolicyDigest
}

// policySession returns the session of handle number i for changing. The
// assertion ends with extended.
func (c *call) policySession(i int) policySession {
	s := c.editSession(c.handle(i))
	return policySession{s, tpm2.PolicyDigestFrom(s.hash, s.policyAssert.digest)}
}

// extended puts the digest into the session and returns success.
func (p policySession) extended() tpm2.RC {
	p.policyAssert.digest = p.digest.Sum()
	return tpm2.RCSuccess
}

// policyOR is TPM2_PolicyOR (Part 3, 23.6).
func policyOR(c *call) tpm2.RC {
	branches := tpm2.UnmarshalDigests(c.next(), 2)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	ok := s.trial
	for _, b := range branches {
		ok = ok || string(b) == string(s.policyAssert.digest)
	}
	if !ok {
		return tpm2.RCValue.Parameter(1)
	}
	s.digest.OR(branches...)
	return s.extended()
}

// policyPCR is TPM2_PolicyPCR (Part 3, 23.7).
func policyPCR(c *call) tpm2.RC {
	want := c.next().Sized(tpm2.MaxDigest)
	sel := readSelections(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	sel, values := c.st.selectPCRs(sel)
	digest := tpm2.PCRDigest(s.hash, values...)
	if s.trial {
		if len(want) != 0 {
			digest = want
		}
	} else {
		if s.policyAssert.pcrSet && s.policyAssert.pcrCounter != c.st.reset.pcrCounter {
			return tpm2.RCPCRChanged
		}
		if len(want) != 0 && string(want) != string(digest) {
			return tpm2.RCValue.Parameter(1)
		}
		s.policyAssert.pcrSet, s.policyAssert.pcrCounter = true, c.st.reset.pcrCounter
	}
	s.digest.PCR(sel, digest)
	return s.extended()
}

// policyLocality is TPM2_PolicyLocality (Part 3, 23.8): localities 0 to 4 as
// bits, of which repeated assertions leave the common ones; or one number from 32.
func policyLocality(c *call) tpm2.RC {
	l := tpm2.Locality(c.next().U8())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	old, now := s.policyAssert.locality, l
	switch {
	case l == 0, old != 0 && (old < 32) != (l < 32):
		return tpm2.RCRange.Parameter(1)
	case l < 32 && old != 0:
		now = l & old
	case l >= 32 && old != 0 && old != l:
		now = 0
	}
	if now == 0 {
		return tpm2.RCRange.Parameter(1)
	}
	s.policyAssert.locality = now
	s.digest.Locality(l)
	return s.extended()
}

// policyNV is TPM2_PolicyNV (Part 3, 23.9).
func policyNV(c *call) tpm2.RC {
	operand := c.next().Sized(tpm2.MaxDigest)
	offset := c.next().U16()
	op := operation(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(2)
	if !s.trial {
		x, rc := c.nvRead(0, 1)
		if rc != tpm2.RCSuccess {
			return rc
		}
		switch {
		case int(offset) > len(x.data):
			return tpm2.RCValue.Parameter(2)
		case len(operand) > len(x.data)-int(offset):
			return tpm2.RCSize.Parameter(1)
		case !c.t.opt.Profile.holds(op, x.data[offset:int(offset)+len(operand)], operand):
			return tpm2.RCPolicy
		}
	}
	s.digest.NV(operand, offset, op, c.nv(1).name())
	return s.extended()
}

// policyCounterTimer is TPM2_PolicyCounterTimer (Part 3, 23.10) on the octets
// of TPMS_TIME_INFO.
func policyCounterTimer(c *call) tpm2.RC {
	operand := c.next().Sized(tpm2.MaxDigest)
	offset := c.next().U16()
	op := operation(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	var w tpm2.Writer
	tpm2.TimeInfo{Time: c.now(), ClockInfo: c.st.clockInfo()}.Marshal(&w)
	info := w.Bytes()
	if int(offset) > len(info) {
		return tpm2.RCValue.Parameter(2)
	}
	if int(offset)+len(operand) > len(info) {
		return tpm2.RCRange
	}
	s := c.policySession(0)
	if !s.trial && !c.t.opt.Profile.holds(op, info[offset:int(offset)+len(operand)], operand) {
		return tpm2.RCPolicy
	}
	s.digest.CounterTimer(operand, offset, op)
	return s.extended()
}

// policyCapability is TPM2_PolicyCapability (Part 3, 23.23): the comparison is
// with the octets of the one value that GetCapability would return for exactly
// this property. If there is none, only "not equal" holds.
func policyCapability(c *call) tpm2.RC {
	operand := c.next().Sized(tpm2.MaxDigest)
	offset := c.next().U16()
	op := operation(c.next())
	cap := tpm2.Cap(c.next().U32())
	property := c.next().U32()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	if !s.trial {
		value, rc := c.oneCapability(cap, property)
		switch {
		case rc != tpm2.RCSuccess:
			return rc
		case value == nil:
			if op != tpm2.EONeq {
				return tpm2.RCPolicy
			}
		case int(offset) > len(value):
			return tpm2.RCValue.Parameter(2)
		case len(operand) > len(value)-int(offset):
			return tpm2.RCSize.Parameter(1)
		case !c.t.opt.Profile.holds(op, value[offset:int(offset)+len(operand)], operand):
			return tpm2.RCPolicy
		}
	}
	s.digest.Capability(operand, offset, op, cap, property)
	return s.extended()
}

// oneCapability returns the octets of one value, nil if there is none.
func (c *call) oneCapability(cap tpm2.Cap, property uint32) ([]byte, tpm2.RC) {
	if cap == tpm2.CapPCRs {
		return nil, tpm2.RCValue.Parameter(4) // not a list of values by property
	}
	d, _, rc := c.capability(cap, property, 1)
	switch rc.Base() {
	case tpm2.RCSuccess:
	case tpm2.RCHandle:
		return nil, rc.Base().Parameter(5)
	default:
		return nil, rc.Base().Parameter(4)
	}
	key, ok := capabilityKey(&d)
	if !ok || key != property {
		return nil, tpm2.RCSuccess
	}
	var w tpm2.Writer
	d.Marshal(&w)
	return w.Bytes()[8:], tpm2.RCSuccess // after the capability and the count
}

// capabilityKey returns the property of the only value in d, false if d is
// empty.
func capabilityKey(d *tpm2.CapabilityData) (uint32, bool) {
	switch {
	case len(d.Algs) == 1:
		return uint32(d.Algs[0].Alg), true
	case len(d.Handles) == 1:
		return uint32(d.Handles[0]), true
	case len(d.Commands) == 1:
		return uint32(d.Commands[0].CC()), true
	case len(d.CCs) == 1:
		return uint32(d.CCs[0]), true
	case len(d.Properties) == 1:
		return uint32(d.Properties[0].Property), true
	case len(d.PCRProperties) == 1:
		return uint32(d.PCRProperties[0].Property), true
	case len(d.Curves) == 1:
		return uint32(d.Curves[0]), true
	case len(d.Policies) == 1:
		return uint32(d.Policies[0].Handle), true
	}
	return 0, false
}

// policyCommandCode is TPM2_PolicyCommandCode (Part 3, 23.11).
func policyCommandCode(c *call) tpm2.RC {
	cc := tpm2.CC(c.next().U32())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	if s.policyAssert.commandCode != 0 && s.policyAssert.commandCode != cc {
		return tpm2.RCValue.Parameter(1)
	}
	if c.t.table.byCode[cc] == nil {
		return tpm2.RCPolicyCC.Parameter(1)
	}
	s.policyAssert.commandCode = cc
	s.digest.CommandCode(cc)
	return s.extended()
}

// policyPhysicalPresence is TPM2_PolicyPhysicalPresence (Part 3, 23.12).
func policyPhysicalPresence(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	s.policyAssert.pp = true
	s.digest.PhysicalPresence()
	return s.extended()
}

// policyHash reads the digest parameter of the assertions below and checks its size.
func (c *call) policyHash() (policySession, []byte, tpm2.RC) {
	h := c.next().Sized(tpm2.MaxDigest)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return policySession{}, nil, rc
	}
	s := c.policySession(0)
	if len(h) != s.hash.DigestSize() {
		return s, nil, tpm2.RCSize.Parameter(1)
	}
	return s, append([]byte(nil), h...), tpm2.RCSuccess
}

// again says whether an assertion may set its hash field to h: no other hash
// is set, or the same is.
func (p *policyAsserts) again(field, h []byte) bool {
	return !p.hashUsed() || string(field) == string(h)
}

// policyCpHash is TPM2_PolicyCpHash (Part 3, 23.13).
func policyCpHash(c *call) tpm2.RC {
	s, h, rc := c.policyHash()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if !s.policyAssert.again(s.policyAssert.cpHash, h) {
		return tpm2.RCCpHash
	}
	s.policyAssert.cpHash = h
	s.digest.CpHash(h)
	return s.extended()
}

// policyNameHash is TPM2_PolicyNameHash (Part 3, 23.14).
func policyNameHash(c *call) tpm2.RC {
	s, h, rc := c.policyHash()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if s.policyAssert.hashUsed() {
		return tpm2.RCCpHash
	}
	s.policyAssert.nameHash = h
	s.digest.NameHash(h)
	return s.extended()
}

// policyParameters is TPM2_PolicyParameters (Part 3, 23.24).
func policyParameters(c *call) tpm2.RC {
	s, h, rc := c.policyHash()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if s.policyAssert.hashUsed() {
		return tpm2.RCCpHash
	}
	s.policyAssert.paramHash = h
	s.digest.Parameters(h)
	return s.extended()
}

// policyTemplate is TPM2_PolicyTemplate (Part 3, 23.21).
func policyTemplate(c *call) tpm2.RC {
	s, h, rc := c.policyHash()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if !s.policyAssert.again(s.policyAssert.templateHash, h) {
		return tpm2.RCCpHash
	}
	s.policyAssert.templateHash = h
	s.digest.Template(h)
	return s.extended()
}

// policyDuplicationSelect is TPM2_PolicyDuplicationSelect (Part 3, 23.15): it
// also names the command, TPM2_Duplicate.
func policyDuplicationSelect(c *call) tpm2.RC {
	object := c.next().Sized(tpm2.MaxName)
	parent := c.next().Sized(tpm2.MaxName)
	include := c.next().Bool()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	if s.policyAssert.hashUsed() {
		return tpm2.RCCpHash
	}
	if s.policyAssert.commandCode != 0 {
		return tpm2.RCCommandCode
	}
	s.policyAssert.nameHash = s.hash.Sum(object, parent)
	s.policyAssert.commandCode = tpm2.CCDuplicate
	s.digest.DuplicationSelect(object, parent, include)
	return s.extended()
}

// policyAuthValue is TPM2_PolicyAuthValue (Part 3, 23.17).
func policyAuthValue(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	s.policyAssert.authValue, s.policyAssert.password = true, false
	s.digest.AuthValue()
	return s.extended()
}

// policyPassword is TPM2_PolicyPassword (Part 3, 23.18).
func policyPassword(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	s.policyAssert.authValue, s.policyAssert.password = false, true
	s.digest.Password()
	return s.extended()
}

// policyNvWritten is TPM2_PolicyNvWritten (Part 3, 23.20).
func policyNvWritten(c *call) tpm2.RC {
	written := c.next().Bool()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.policySession(0)
	if s.policyAssert.nvCheck && s.policyAssert.nvWritten != written {
		return tpm2.RCValue.Parameter(1)
	}
	s.policyAssert.nvCheck, s.policyAssert.nvWritten = true, written
	s.digest.NvWritten(written)
	return s.extended()
}

// policyGetDigest is TPM2_PolicyGetDigest (Part 3, 23.19).
func policyGetDigest(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(c.st.session(c.handle(0)).policyAssert.digest)
	return tpm2.RCSuccess
}

// policyRestart is TPM2_PolicyRestart (Part 3, 11.2): all assertions are gone,
// the kind of session stays, its age begins anew.
func policyRestart(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.editSession(c.handle(0))
	s.policyAssert = newAsserts(s.hash)
	s.startTime, s.epoch = c.now(), c.st.volatile.timeEpoch
	return tpm2.RCSuccess
}
