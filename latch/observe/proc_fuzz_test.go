// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// FuzzProc: whatever a process calls itself, its start and its user are those
// that the kernel wrote: names belong to the adversary.
func FuzzProc(f *testing.F) {
	f.Add("nginx", uint64(4711), uint32(33))
	f.Add(") R 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 99 (", uint64(1), uint32(0))
	f.Add("x\nUid:\t0\t0\t0\t0", uint64(math.MaxUint64), uint32(1000))
	f.Fuzz(func(t *testing.T, name string, start uint64, uid uint32) {
		stat := fmt.Sprintf("12 (%s) S 1 12 12 0 -1 4194560 5 0 0 0 0 0 0 0 20 0 1 0 %d 4096 1 18446744073709551615 1\n", name, start)
		got, err := startOf([]byte(stat))
		switch {
		case start > math.MaxUint64/tick:
			if err == nil || got != 0 {
				t.Fatalf("%q: %d, %v", stat, got, err)
			}
		case err != nil || got != start*tick:
			t.Fatalf("%q: %d, %v", stat, got, err)
		}
		// The kernel writes the ends of lines in a name as \n (proc_task_name).
		line := strings.NewReplacer("\n", `\n`, `\`, `\\`).Replace(name)
		status := fmt.Sprintf("Name:\t%s\nUmask:\t0022\nUid:\t%d\t0\t0\t0\nGid:\t0\t0\t0\t0\n", line, uid)
		if got, err := uidOf([]byte(status)); err != nil || got != uid {
			t.Fatalf("%q: %d, %v", status, got, err)
		}
		if got, err := uidOf([]byte(name)); err != nil && got != 0 {
			t.Fatalf("%q: %d beside %v", name, got, err)
		}
		if got, err := startOf([]byte(name)); err != nil && got != 0 {
			t.Fatalf("%q: %d beside %v", name, got, err)
		}
	})
}
