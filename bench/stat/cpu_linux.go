// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time that a process has used up to now, all its threads
// together, those that have ended included; in nanoseconds, not in ticks. It
// reads the process's CPU clock (clock_getcpuclockid(3): ~pid << 3 | 2).
func CPU(pid int) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
