// SPDX-License-Identifier: Apache-2.0

package pager

import (
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/enclave/monitor"
)

// TestFrames: each frame is given once, the lowest first, whatever was given
// back before.
func TestFrames(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 200} {
		f := newFrames(n)
		free := make([]int, n)
		for i := range free {
			free[i] = i
		}
		var held []int
		r := rand.New(rand.NewPCG(1, uint64(n)))
		for range 20 * n {
			if len(held) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(held))
				f.put(monitor.Frame(held[i]))
				free = append(free, held[i])
				held = slices.Delete(held, i, i+1)
				continue
			}
			got := f.take()
			if len(free) == 0 {
				if got != monitor.NoFrame {
					t.Fatalf("of %d: frame %d, none is free", n, got)
				}
				continue
			}
			want := slices.Min(free)
			if got != monitor.Frame(want) {
				t.Fatalf("of %d: frame %d, want %d", n, got, want)
			}
			free = slices.DeleteFunc(free, func(x int) bool { return x == want })
			held = append(held, want)
		}
		if f.used != len(held) || f.available() != len(free) {
			t.Errorf("of %d: %d used, %d available; want %d, %d", n, f.used, f.available(), len(held), len(free))
		}
	}
}
