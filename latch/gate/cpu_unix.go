// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gate

import "syscall"

// cpuSeconds is the CPU time of this process.
func cpuSeconds() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
