// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

func init() {
	register(&command{code: tpm2.CCStartup, flags: fNV | fSave | fNoSessions | fNotAudited | fBeforeStartup | fReadOnlyOK, run: startup})
	register(&command{code: tpm2.CCShutdown, flags: fNV | fSave | fReadOnlyOK, run: shutdown})
}

// startup is TPM2_Startup (Part 3, 9.3): TPM Reset, TPM Restart or TPM Resume
// (Part 1, 12.2.3).
func startup(c *call) tpm2.RC {
	su := tpm2.SU(c.next().U16())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	s := c.st
	v, p := &s.volatile, &s.perm
	if v.started {
		return tpm2.RCInitialize
	}
	if su != tpm2.SUClear && su != tpm2.SUState {
		return tpm2.RCValue.Parameter(1)
	}
	if c.locality != 0 && c.locality != 3 {
		return tpm2.RCLocality
	}
	saved := p.savedReset != nil && p.savedClear != nil && p.savedPCR != nil && p.orderly == tpm2.SUState
	if su == tpm2.SUState && !saved {
		return tpm2.RCValue.Parameter(1)
	}
	hcrtm := v.drtm
	v.startLocality = c.locality
	v.phEnable = true
	v.timeEpoch = c.t.epoch()
	v.healTimer, v.lockoutTimer = c.now(), c.now()
	v.prevOrderly = p.orderly
	v.clockSafe = p.orderly != suNone
	if !v.clockSafe {
		// The Clock in the Store may lag: jump to where it certainly was not yet reported.
		v.clockUnsafeTil = (p.clock/clockInterval + 1) * clockInterval
	}
	if p.lockoutBlocked && p.lockoutRecovery == 0 {
		p.lockoutBlocked = false // Part 3, 25.3: recovery 0 means the next Startup
	}
	switch {
	case su == tpm2.SUState: // Resume
		s.reset, s.clear = *p.savedReset, *p.savedClear
		s.resumeACTs(c.now())
		s.reset.restartCount++
	case saved: // Restart
		s.reset = *p.savedReset
		s.reset.restartCount++
		s.reset.clearCount++ // contexts of objects with stClear end
		s.clear = newStateClear()
	default: // Reset
		p.totalResets++
		p.resetCount++
		s.reset = c.t.newStateReset()
		s.clear = newStateClear()
	}
	if su == tpm2.SUClear {
		s.reset.pcrCounter = 0
		p.pcrAlloc = p.pcrNext
	}
	keep := func(pcr int) bool { return pcr == 0 && hcrtm }
	if su == tpm2.SUState {
		if hcrtm || c.locality != 0 && c.locality != 3 {
			return tpm2.RCLocality
		}
		v.pcr = *p.savedPCR
		keep = func(pcr int) bool { return pcrAttrs[pcr].save }
	}
	s.initPCRs(keep)
	for i, slot := range s.reset.contextSlots {
		v.savedSessions[i] = slot != 0
	}
	p.savedReset, p.savedClear, p.savedPCR = nil, nil, nil
	p.orderly = suNone
	s.dropStClear(su)
	v.started = true
	return tpm2.RCSuccess
}

// newStateReset returns the state after TPM Reset: fresh null seed and proof.
func (t *TPM) newStateReset() stateReset {
	return stateReset{nullSeed: t.random(seedSize), nullProof: t.random(seedSize), commitNonce: t.random(seedSize)}
}

// newStateClear returns the state after TPM Reset or Restart.
func newStateClear() stateClear {
	return stateClear{shEnable: true, ehEnable: true, phEnableNV: true, platformPolicy: noPolicy, acts: newACTs()}
}

// epoch returns a value that no earlier start of the Time counter had.
func (t *TPM) epoch() uint64 {
	b := t.random(8)
	var e uint64
	for _, x := range b {
		e = e<<8 | uint64(x)
	}
	return e
}

// dropStClear does at Startup what NV indices' attributes ask: those with
// WRITEDEFINE or STCLEAR locks become writable and readable, CLEAR_STCLEAR
// and orderly data that was not saved become unwritten (Part 1, 37.5).
func (s *state) dropStClear(su tpm2.SU) {
	for _, x := range s.perm.nv {
		a := x.pub.Attributes
		n := a
		if su == tpm2.SUClear {
			n &^= tpm2.NVReadLocked
			if a.Has(tpm2.NVClearStClear) {
				n &^= tpm2.NVWritten
			}
			if !a.Has(tpm2.NVWriteDefine) || !a.Has(tpm2.NVWritten) {
				n &^= tpm2.NVWriteLocked
			}
		}
		if a.Has(tpm2.NVOrderly) && s.volatile.prevOrderly == suNone && a.Type() != tpm2.NTCounter {
			n &^= tpm2.NVWritten
		}
		if n == a {
			continue
		}
		y := *x
		y.pub.Attributes = n
		s.setNV(&y)
	}
}

// shutdown is TPM2_Shutdown (Part 3, 9.4).
func shutdown(c *call) tpm2.RC {
	su := tpm2.SU(c.next().U16())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if su != tpm2.SUClear && su != tpm2.SUState {
		return tpm2.RCValue.Parameter(1)
	}
	p := &c.st.perm
	if su == tpm2.SUState && p.pcrAlloc != p.pcrNext {
		return tpm2.RCType.Parameter(1) // saved PCRs would not fit the new allocation
	}
	p.savedReset, p.savedClear, p.savedPCR = nil, nil, nil
	if su == tpm2.SUState {
		r, cl, pcr := c.st.reset, c.st.clear, c.st.volatile.pcr
		for i, s := range c.st.volatile.sessions {
			if s != nil {
				r.contextSlots[i] = 0 // loaded sessions are lost, saved ones are not
			}
		}
		cl.saveACTs(c.now())
		p.savedReset, p.savedClear, p.savedPCR = &r, &cl, &pcr
	}
	p.orderly = su
	return tpm2.RCSuccess
}
