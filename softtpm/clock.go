// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"time"

	"holdfast/tpm2"
)

// clockInterval is TPM_PT_CLOCK_UPDATE in milliseconds: how far the Clock in
// the Store may lag behind. A power of two.
const clockInterval = 1 << 16

// clock turns the host's time into the TPM's (Part 1, 36): Time counts from
// _TPM_Init, Clock over the life of the TPM while it is powered.
type clock struct {
	last time.Time // when the counters below were right
	time uint64    // milliseconds since _TPM_Init
	rate int       // of ClockRateAdjust, in percent
	frac int64     // nanoseconds not yet counted
}

// tick brings Time and Clock up to date and returns whether Clock reached a
// value that should be saved.
func (t *TPM) tick() (save bool) {
	now := t.opt.Now()
	d := now.Sub(t.clk.last)
	t.clk.last = now
	if d <= 0 {
		return false
	}
	ns := int64(d) + int64(d)/100*int64(t.clk.rate) + t.clk.frac
	ms := uint64(ns / int64(time.Millisecond))
	t.clk.frac = ns % int64(time.Millisecond)
	t.clk.time += ms
	if !t.state.volatile.started {
		return false
	}
	return t.state.advanceClock(t.state.perm.clock + ms)
}

// advanceClock sets Clock and returns whether it passed a multiple of clockInterval.
func (s *state) advanceClock(to uint64) (save bool) {
	save = to/clockInterval != s.perm.clock/clockInterval
	s.perm.clock = to
	if !s.volatile.clockSafe && to >= s.volatile.clockUnsafeTil {
		s.volatile.clockSafe = true
	}
	return save
}

// clockInfo returns TPMS_CLOCK_INFO as it is.
func (s *state) clockInfo() tpm2.ClockInfo {
	return tpm2.ClockInfo{Clock: s.perm.clock, ResetCount: s.perm.resetCount, RestartCount: s.reset.restartCount, Safe: s.volatile.clockSafe}
}
