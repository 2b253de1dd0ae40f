// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"maps"

	"holdfast/tpm2"
)

// Command audit (Part 3, 21), miscellaneous management (26), clock rate (29.3).

func init() {
	register(&command{code: tpm2.CCSetCommandCodeAuditStatus, slots: []slot{{kProvision, roleUser}}, flags: fNV | fSave | fPP, run: setCommandCodeAuditStatus})
	register(&command{code: tpm2.CCPPCommands, slots: []slot{{kPlatform, roleUser}}, flags: fNV | fSave | fPPAlways, run: ppCommands})
	register(&command{code: tpm2.CCSetAlgorithmSet, slots: []slot{{kPlatform, roleUser}}, flags: fNV | fSave | fPP, run: setAlgorithmSet})
	register(&command{code: tpm2.CCClockRateAdjust, slots: []slot{{kProvision, roleUser}}, flags: fPP, run: clockRateAdjust})
}

// maxCommandCodes bounds a TPML_CC (MAX_CAP_CC; Part 2, 10.9.1).
const maxCommandCodes = 256

// commandCodes reads a TPML_CC.
func commandCodes(r *tpm2.Reader) []tpm2.CC {
	var l []tpm2.CC
	for n := r.Count(maxCommandCodes); n > 0 && r.Code() == tpm2.RCSuccess; n-- {
		l = append(l, tpm2.CC(r.U32()))
	}
	return l
}

// setCommandCodeAuditStatus is TPM2_SetCommandCodeAuditStatus (Part 3, 21.2).
// Codes that are not implemented are skipped.
func setCommandCodeAuditStatus(c *call) tpm2.RC {
	alg := readHashNull(c.next())
	set := commandCodes(c.next())
	clear := commandCodes(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p := &c.st.perm
	if alg != tpm2.AlgNull && alg != p.auditHash {
		if len(set)+len(clear) != 0 {
			return tpm2.RCValue.Parameter(1)
		}
		// The digest begins anew, and this command is not part of it.
		p.auditHash = alg
		c.st.reset.auditDigest = nil
		c.cp.audit = nil
		return tpm2.RCSuccess
	}
	audited := maps.Clone(p.audited)
	for _, cc := range set {
		if c.t.table.byCode[cc] != nil && cc != tpm2.CCShutdown {
			audited[cc] = true
		}
	}
	for _, cc := range clear {
		if cc != tpm2.CCSetCommandCodeAuditStatus { // always audited
			delete(audited, cc)
		}
	}
	p.audited = audited
	return tpm2.RCSuccess
}

// ppCommands is TPM2_PP_Commands (Part 3, 26.2). Only commands that take
// platform authorization can ask for physical presence.
func ppCommands(c *call) tpm2.RC {
	set := commandCodes(c.next())
	clear := commandCodes(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	pp := maps.Clone(c.st.perm.ppCommands)
	for _, cc := range set {
		if m := c.t.table.byCode[cc]; m != nil && m.has(fPP) {
			pp[cc] = true
		}
	}
	for _, cc := range clear {
		delete(pp, cc)
	}
	c.st.perm.ppCommands = pp
	return tpm2.RCSuccess
}

// setAlgorithmSet is TPM2_SetAlgorithmSet (Part 3, 26.3). The value is kept and
// reported; every algorithm stays available whatever it is.
func setAlgorithmSet(c *call) tpm2.RC {
	v := c.next().U32()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	c.st.perm.algorithmSet = v
	return tpm2.RCSuccess
}

// maxClockRate bounds the sum of all adjustments, in percent: Part 1, 36.4
// allows 32.5 %.
const maxClockRate = 30

// clockRateAdjust is TPM2_ClockRateAdjust (Part 3, 29.3): each call adds one,
// two or three percent (fine, medium, coarse).
func clockRateAdjust(c *call) tpm2.RC {
	r := c.next()
	d := int(int8(r.U8()))
	if r.Code() == tpm2.RCSuccess && (d < -3 || d > 3) {
		r.Fail(tpm2.RCValue)
	}
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	c.t.clk.rate = max(-maxClockRate, min(maxClockRate, c.t.clk.rate+d))
	return tpm2.RCSuccess
}
