// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

func init() {
	register(&command{code: tpm2.CCReadClock, run: readClock})
	register(&command{code: tpm2.CCClockSet, slots: []slot{{kProvision, roleUser}}, flags: fNV | fSave | fPP, run: clockSet})
}

// timeInfo returns TPMS_TIME_INFO as it is.
func (c *call) timeInfo() tpm2.TimeInfo {
	return tpm2.TimeInfo{Time: c.now(), ClockInfo: c.st.clockInfo()}
}

// readClock is TPM2_ReadClock (Part 3, 29.1).
func readClock(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	c.timeInfo().Marshal(&c.out)
	return tpm2.RCSuccess
}

// clockSet is TPM2_ClockSet (Part 3, 29.2): the Clock goes forward only, and
// not to where it would soon overflow.
func clockSet(c *call) tpm2.RC {
	to := c.next().U64()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if to > 0xFFFF_0000_0000_0000 || to < c.st.perm.clock {
		return tpm2.RCValue.Parameter(1)
	}
	c.st.advanceClock(to)
	return tpm2.RCSuccess
}
