// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

func init() {
	register(&command{code: tpm2.CCACTSetTimeout, slots: []slot{{kACT, roleUser}}, run: actSetTimeout})
}

// actStop is the timeout that ends a signal.
const actStop = 0xFFFFFFFF

// actSetTimeout is TPM2_ACT_SetTimeout (Part 3, 33.2).
func actSetTimeout(c *call) tpm2.RC {
	seconds := c.next().U32()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	a := &c.st.clear.acts[c.handle(0)-tpm2.RHACT0]
	switch {
	case seconds == actStop:
		if !a.signaled {
			return tpm2.RCValue.Parameter(1)
		}
		a.signaled, a.deadline = false, 0
	case seconds != 0:
		a.signaled = false
		a.start(c.now(), seconds)
	case a.deadline != 0: // from counting to zero: it expires here
		a.signaled, a.deadline = true, 0
	}
	a.updated, a.preserve = true, false
	return tpm2.RCSuccess
}
