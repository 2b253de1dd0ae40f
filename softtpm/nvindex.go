// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"slices"

	"holdfast/tpm2"
)

// nvIndex is one NV index. It does not change once it is in the state: a
// command that writes makes a changed copy (see state).
type nvIndex struct {
	pub  tpm2.NVPublic
	auth []byte
	data []byte // DataSize bytes once written, else what the type says
}

// name returns the index's Name, which its attributes (for example WRITTEN) are part of.
func (x *nvIndex) name() []byte {
	n, err := x.pub.Name()
	if err != nil {
		// The index was made with an implemented nameAlg.
		return nil
	}
	return n
}

// nvFind returns the position of index h in the sorted list and whether it is there.
func (s *state) nvFind(h tpm2.Handle) (int, bool) {
	return slices.BinarySearchFunc(s.perm.nv, h, func(x *nvIndex, h tpm2.Handle) int {
		return int(int64(x.pub.Index) - int64(h))
	})
}

// nv returns the NV index h, nil if it is not defined or not accessible
// because its hierarchy is disabled.
func (s *state) nv(h tpm2.Handle) *nvIndex {
	i, ok := s.nvFind(h)
	if !ok {
		return nil
	}
	x := s.perm.nv[i]
	if x.pub.Attributes.Has(tpm2.NVPlatformCreate) {
		if !s.clear.phEnableNV {
			return nil
		}
	} else if !s.clear.shEnable {
		return nil
	}
	return x
}

// setNV replaces or adds an index; the list is copied.
func (s *state) setNV(x *nvIndex) {
	i, ok := s.nvFind(x.pub.Index)
	l := slices.Clone(s.perm.nv)
	if ok {
		l[i] = x
	} else {
		l = slices.Insert(l, i, x)
	}
	s.perm.nv = l
}

// deleteNV removes an index; the list is copied.
func (s *state) deleteNV(h tpm2.Handle) {
	if i, ok := s.nvFind(h); ok {
		s.perm.nv = slices.Delete(slices.Clone(s.perm.nv), i, i+1)
	}
}
