// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/tpm2"
)

// Hierarchies: Part 3, 24 (TPM2_CreatePrimary is in cmd_create.go).

func init() {
	auths := kOwner | kEndorsement | kPlatform | kLockout
	register(&command{code: tpm2.CCHierarchyControl, slots: []slot{{kOwner | kEndorsement | kPlatform, roleUser}}, flags: fNV | fExtensive | fPP, run: hierarchyControl})
	register(&command{code: tpm2.CCSetPrimaryPolicy, slots: []slot{{auths | kACT, roleUser}}, flags: fNV | fSave | fDecrypt | fPP, run: setPrimaryPolicy})
	register(&command{code: tpm2.CCChangePPS, slots: []slot{{kPlatform, roleUser}}, flags: fNV | fSave | fExtensive | fPP, run: changePPS})
	register(&command{code: tpm2.CCChangeEPS, slots: []slot{{kPlatform, roleUser}}, flags: fNV | fSave | fExtensive | fPP, run: changeEPS})
	register(&command{code: tpm2.CCClear, slots: []slot{{kClear, roleUser}}, flags: fNV | fSave | fExtensive | fPP, run: clearCommand})
	register(&command{code: tpm2.CCClearControl, slots: []slot{{kClear, roleUser}}, flags: fNV | fSave | fPP, run: clearControl})
	register(&command{code: tpm2.CCHierarchyChangeAuth, slots: []slot{{auths, roleUser}}, flags: fNV | fSave | fDecrypt | fPP, run: hierarchyChangeAuth})
	register(&command{code: tpm2.CCReadOnlyControl, slots: []slot{{kPlatform, roleUser}}, flags: fNV | fReadOnlyOK, run: readOnlyControl})
}

// hierarchyControl is TPM2_HierarchyControl (Part 3, 24.2).
func hierarchyControl(c *call) tpm2.RC {
	r := c.next()
	enable := r.Handle()
	if r.Code() == tpm2.RCSuccess && enable != tpm2.RHOwner && enable != tpm2.RHEndorsement && enable != tpm2.RHPlatform && enable != tpm2.RHPlatformNV {
		r.Fail(tpm2.RCValue)
	}
	on := c.next().Bool()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	by := c.handle(0)
	var flag *bool
	switch enable {
	case tpm2.RHOwner:
		flag = &c.st.clear.shEnable
	case tpm2.RHEndorsement:
		flag = &c.st.clear.ehEnable
	case tpm2.RHPlatform:
		flag = &c.st.volatile.phEnable
	default:
		flag = &c.st.clear.phEnableNV
	}
	// The platform controls all; owner and endorsement can switch themselves off.
	if by != tpm2.RHPlatform && (by != enable || on && !*flag) {
		return tpm2.RCAuthType
	}
	if *flag == on {
		return tpm2.RCSuccess
	}
	*flag = on
	if !on && enable != tpm2.RHPlatformNV {
		c.flushObjects(enable)
	}
	return tpm2.RCSuccess
}

// flushObjects removes the transient objects of a hierarchy.
func (c *call) flushObjects(hierarchy tpm2.Handle) {
	for i, o := range c.st.volatile.objects {
		if o != nil && o.hierarchy == hierarchy {
			c.st.volatile.objects[i] = nil
		}
	}
}

// evictObjects removes transient and persistent objects of a hierarchy whose
// seed or proof ends.
func (c *call) evictObjects(hierarchy tpm2.Handle) {
	c.flushObjects(hierarchy)
	var keep []*object
	for _, o := range c.st.perm.persistent {
		if o.hierarchy != hierarchy {
			keep = append(keep, o)
		}
	}
	c.st.perm.persistent = keep
}

// setPrimaryPolicy is TPM2_SetPrimaryPolicy (Part 3, 24.3).
func setPrimaryPolicy(c *call) tpm2.RC {
	digest := bytes.Clone(c.next().Sized(tpm2.MaxDigest))
	alg := readHashNull(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if len(digest) != alg.DigestSize() {
		return tpm2.RCSize.Parameter(1)
	}
	policy := tpm2.HA{Alg: alg, Digest: digest}
	switch c.handle(0) {
	case tpm2.RHOwner:
		c.st.perm.ownerPolicy = policy
	case tpm2.RHEndorsement:
		c.st.perm.endorsementPolicy = policy
	case tpm2.RHLockout:
		c.st.perm.lockoutPolicy = policy
	case tpm2.RHPlatform:
		c.st.clear.platformPolicy = policy
	default:
		c.st.clear.acts[c.handle(0)-tpm2.RHACT0].policy = policy
	}
	return tpm2.RCSuccess
}

// changePPS is TPM2_ChangePPS (Part 3, 24.4).
func changePPS(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p := &c.st.perm
	p.ppSeed, p.phProof = c.t.random(seedSize), c.t.random(seedSize)
	c.st.clear.platformPolicy = noPolicy
	for i := range p.pcrPolicies {
		p.pcrPolicies[i] = noPolicy
	}
	c.evictObjects(tpm2.RHPlatform)
	return tpm2.RCSuccess
}

// changeEPS is TPM2_ChangeEPS (Part 3, 24.5).
func changeEPS(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p := &c.st.perm
	p.epSeed, p.ehProof = c.t.random(seedSize), c.t.random(seedSize)
	p.epsMade = true
	p.endorsementAuth, p.endorsementPolicy = nil, noPolicy
	c.st.clear.ehEnable = true
	c.evictObjects(tpm2.RHEndorsement)
	return tpm2.RCSuccess
}

// Values of dictionary-attack protection after Clear and of a new TPM.
const (
	defaultMaxTries        = 3
	defaultRecoveryTime    = 1000 // seconds
	defaultLockoutRecovery = 1000 // seconds
)

// clearCommand is TPM2_Clear (Part 3, 24.6): what the owner made ends.
func clearCommand(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p := &c.st.perm
	if p.disableClear {
		return tpm2.RCDisabled
	}
	p.spSeed, p.shProof, p.ehProof = c.t.random(seedSize), c.t.random(seedSize), c.t.random(seedSize)
	p.ownerAuth, p.endorsementAuth, p.lockoutAuth = nil, nil, nil
	p.ownerPolicy, p.endorsementPolicy, p.lockoutPolicy = noPolicy, noPolicy, noPolicy
	c.st.clear.shEnable, c.st.clear.ehEnable = true, true
	c.evictObjects(tpm2.RHOwner)
	c.evictObjects(tpm2.RHEndorsement)
	for _, x := range p.nv { // removeNV replaces the list, not this one
		if !x.pub.Attributes.Has(tpm2.NVPlatformCreate) {
			c.removeNV(x)
		}
	}
	p.failedTries, p.lockoutBlocked = 0, false
	p.maxTries, p.recoveryTime, p.lockoutRecovery = defaultMaxTries, defaultRecoveryTime, defaultLockoutRecovery
	p.clock, c.st.volatile.clockSafe = 0, true
	p.resetCount, c.st.reset.restartCount, c.st.reset.clearCount = 0, 0, 0
	p.auditCount = 0
	c.st.reset.pcrCounter++
	return tpm2.RCSuccess
}

// clearControl is TPM2_ClearControl (Part 3, 24.7). Lockout can forbid Clear,
// the platform alone can allow it again.
func clearControl(c *call) tpm2.RC {
	disable := c.next().Bool()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if c.handle(0) == tpm2.RHLockout && !disable {
		return tpm2.RCAuthFail
	}
	c.st.perm.disableClear = disable
	return tpm2.RCSuccess
}

// hierarchyChangeAuth is TPM2_HierarchyChangeAuth (Part 3, 24.8).
func hierarchyChangeAuth(c *call) tpm2.RC {
	auth := bytes.Clone(trimAuth(c.next().Sized(tpm2.MaxDigest)))
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	switch c.handle(0) {
	case tpm2.RHOwner:
		c.st.perm.ownerAuth = auth
	case tpm2.RHEndorsement:
		c.st.perm.endorsementAuth = auth
	case tpm2.RHLockout:
		c.st.perm.lockoutAuth = auth
	case tpm2.RHPlatform:
		c.st.clear.platformAuth = auth
	}
	return tpm2.RCSuccess
}

// readOnlyControl is TPM2_ReadOnlyControl (Part 3, 24.9).
func readOnlyControl(c *call) tpm2.RC {
	on := c.next().Bool()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	c.st.clear.readOnly = on
	return tpm2.RCSuccess
}
