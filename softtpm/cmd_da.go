// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

// Dictionary-attack protection: Part 3, 25.

func init() {
	lockout := []slot{{kLockout, roleUser}}
	register(&command{code: tpm2.CCDictionaryAttackLockReset, slots: lockout, flags: fNV | fSave | fReadOnlyOK, run: daLockReset})
	register(&command{code: tpm2.CCDictionaryAttackParameters, slots: lockout, flags: fNV | fSave, run: daParameters})
}

// daLockReset is TPM2_DictionaryAttackLockReset (Part 3, 25.2).
func daLockReset(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	c.st.perm.failedTries = 0
	return tpm2.RCSuccess
}

// daParameters is TPM2_DictionaryAttackParameters (Part 3, 25.3).
func daParameters(c *call) tpm2.RC {
	tries, recovery, lockout := c.next().U32(), c.next().U32(), c.next().U32()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p := &c.st.perm
	p.maxTries, p.recoveryTime, p.lockoutRecovery = tries, recovery, lockout
	// failedTries stays: fewer tries than were used up mean lockout at once.
	c.st.volatile.healTimer = c.now()
	return tpm2.RCSuccess
}
