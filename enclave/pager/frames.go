// SPDX-License-Identifier: Apache-2.0

package pager

import (
	"math/bits"

	"holdfast/enclave/monitor"
)

// frames are those of the EPC, free or taken. The lowest free one is taken
// first: an enclave that is loaded at once gets frames that follow each other,
// which backends map by a few system calls instead of one for each page.
type frames struct {
	taken []uint64 // a bit for each frame; those beyond the end are set
	low   int      // all words before this one are full
	total int
	used  int
}

func newFrames(n int) frames {
	f := frames{taken: make([]uint64, (n+63)/64), total: n}
	if rest := n % 64; rest != 0 {
		f.taken[len(f.taken)-1] = ^uint64(0) << rest
	}
	return f
}

func (f *frames) available() int { return f.total - f.used }

// take returns the lowest free frame, or NoFrame.
func (f *frames) take() monitor.Frame {
	for ; f.low < len(f.taken); f.low++ {
		if w := f.taken[f.low]; w != ^uint64(0) {
			bit := bits.TrailingZeros64(^w)
			f.taken[f.low] |= 1 << bit
			f.used++
			return monitor.Frame(64*f.low + bit)
		}
	}
	return monitor.NoFrame
}

// put gives a taken frame back.
func (f *frames) put(n monitor.Frame) {
	word := int(n / 64)
	f.taken[word] &^= 1 << (n % 64)
	f.used--
	f.low = min(f.low, word)
}
