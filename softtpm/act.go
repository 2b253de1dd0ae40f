// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

// numACTs is how many authenticated countdown timers there are (Part 1, 40).
const numACTs = 4

// act is one authenticated countdown timer. It is part of stateClear, so that
// TPM Reset and Restart stop it and TPM Resume goes on with it.
type act struct {
	policy   tpm2.HA
	signaled bool
	preserve bool   // signaled before the last Resume
	updated  bool   // set by ACT_SetTimeout since the last Startup
	deadline uint64 // value of Time at which it expires, 0: it does not count
	saved    uint32 // seconds left, from Shutdown(STATE) to Startup(STATE)
}

func newACTs() (l [numACTs]act) {
	for i := range l {
		l[i].policy = noPolicy
	}
	return l
}

// act visits all fields.
func (x codec) act(a *act) {
	x.ha(&a.policy)
	x.flag(&a.signaled)
	x.flag(&a.preserve)
	x.flag(&a.updated)
	x.u64(&a.deadline)
	x.u32(&a.saved)
}

func isACT(h tpm2.Handle) bool { return h >= tpm2.RHACT0 && h < tpm2.RHACT0+numACTs }

func actHandles() (l []tpm2.Handle) {
	for i := tpm2.Handle(0); i < numACTs; i++ {
		l = append(l, tpm2.RHACT0+i)
	}
	return l
}

// left returns the seconds until the timer expires, rounded up.
func (a *act) left(now uint64) uint32 {
	if a.deadline <= now {
		return 0
	}
	return uint32((a.deadline - now + 999) / 1000)
}

// start sets the timer to a number of seconds.
func (a *act) start(now uint64, seconds uint32) {
	a.deadline = 0
	if seconds != 0 {
		a.deadline = now + 1000*uint64(seconds)
	}
}

// countDown lets the timers expire whose time has come.
func (s *state) countDown(now uint64) {
	for i := range s.clear.acts {
		if a := &s.clear.acts[i]; a.deadline != 0 && a.deadline <= now {
			a.deadline, a.signaled = 0, true
		}
	}
}

// saveACTs puts down what Startup(STATE) continues. A timer that nobody set
// since Startup loses half of its time, so that a loop of Shutdown and Resume
// cannot hold it up (Part 1, 40.2).
func (s *stateClear) saveACTs(now uint64) {
	for i := range s.acts {
		a := &s.acts[i]
		a.saved = a.left(now)
		if !a.updated && a.saved > 1 {
			a.saved /= 2
		}
		a.deadline = 0
	}
}

// resumeACTs goes on with what saveACTs saved.
func (s *state) resumeACTs(now uint64) {
	for i := range s.clear.acts {
		a := &s.clear.acts[i]
		a.start(now, a.saved)
		a.saved, a.updated = 0, false
		a.preserve = a.preserve || a.signaled
	}
}

// actData is what TPM_CAP_ACT tells.
func (s *state) actData(now uint64) (l []tpm2.ACTData) {
	for i := range s.clear.acts {
		a := &s.clear.acts[i]
		d := tpm2.ACTData{Handle: tpm2.RHACT0 + tpm2.Handle(i), Timeout: a.left(now)}
		if a.signaled {
			d.Attributes |= tpm2.ACTSignaled
		}
		if a.preserve {
			d.Attributes |= tpm2.ACTPreserveSignaled
		}
		l = append(l, d)
	}
	return l
}

// tellACTs calls Options.OnACT for each timer whose signal differs from the
// one that was told last.
func (t *TPM) tellACTs() {
	for i := range t.state.clear.acts {
		if on := t.state.clear.acts[i].signaled; on != t.told[i] {
			t.told[i] = on
			if t.opt.OnACT != nil {
				t.opt.OnACT(i, on)
			}
		}
	}
}

// ACTSignaled says whether an authenticated countdown timer, 0 to 3, has
// expired and signals. It lets the timers run up to now, also in failure mode
// (Part 1, 40.4), and calls Options.OnACT for those that expire.
func (t *TPM) ACTSignaled(timer int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || timer < 0 || timer >= numACTs {
		return false
	}
	t.tick()
	t.state.countDown(t.clk.time)
	t.tellACTs()
	return t.state.clear.acts[timer].signaled
}
