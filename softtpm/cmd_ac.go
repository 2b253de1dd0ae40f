// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/tpm2"
)

// Attached components: Part 3, 32.

func init() {
	register(&command{code: tpm2.CCACGetCapability, slots: []slot{{kAC, roleNone}}, run: acGetCapability})
	register(&command{code: tpm2.CCACSend, slots: []slot{{kObject, roleDup}, {kNVAuth, roleUser}, {kAC, roleNone}}, flags: fDecrypt, run: acSend})
	register(&command{code: tpm2.CCPolicyACSendSelect, slots: []slot{{kPolicy, roleNone}}, flags: fDecrypt, run: policyACSendSelect})
}

// acGetCapability is TPM2_AC_GetCapability (Part 3, 32.2).
func acGetCapability(c *call) tpm2.RC {
	from := c.next().U32()
	count := c.next().U32()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	l, more := page(c.t.component(c.handle(0)).Values(), func(o tpm2.ACOutput) uint32 { return uint32(o.Type) }, from, count, 8)
	c.out.Bool(more)
	tpm2.MarshalACOutputs(&c.out, l)
	return tpm2.RCSuccess
}

// acSend is TPM2_AC_Send (Part 3, 32.3): the object goes to the component with
// its secrets, for which the DUP role asks by a policy that names this command.
func acSend(c *call) tpm2.RC {
	data := c.next().Sized(tpm2.MaxBuffer)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	alias := c.st.nv(c.handle(2) - tpm2.HandleACFirst + tpm2.HandleNVACFirst)
	switch {
	case alias == nil:
		if c.handle(1).Type() == tpm2.HTNVIndex {
			return tpm2.RCHandle.Handle(2)
		}
	case alias.pub.Attributes.Has(tpm2.NVWriteLocked):
		return tpm2.RCNVLocked
	case !nvAuthorized(c.handle(1), alias.pub.Index, alias.pub.Attributes, tpm2.NVOwnerWrite, tpm2.NVPPWrite):
		return tpm2.RCNVAuthorization
	}
	o := c.object(0)
	if o.isSequence() {
		return tpm2.RCType.Handle(1)
	}
	if o.pub.Attributes&(tpm2.ObjectFixedTPM|tpm2.ObjectFixedParent|tpm2.ObjectEncryptedDuplication) != 0 {
		return tpm2.RCAttributes.Handle(1)
	}
	n := o.clone()
	defer n.wipe()
	n.pub = clonePublic(o.pub)
	c.t.component(c.handle(2)).Receive(&n.pub, &n.sens, bytes.Clone(data)).Marshal(&c.out)
	return tpm2.RCSuccess
}

// policyACSendSelect is TPM2_Policy_AC_SendSelect (Part 3, 32.4).
func policyACSendSelect(c *call) tpm2.RC {
	object := c.next().Sized(tpm2.MaxName)
	auth := c.next().Sized(tpm2.MaxName)
	ac := c.next().Sized(tpm2.MaxName)
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
	s.policyAssert.nameHash = s.hash.Sum(object, auth, ac)
	s.policyAssert.commandCode = tpm2.CCACSend
	s.digest.ACSendSelect(object, auth, ac, include)
	return s.extended()
}
