// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
)

// MaxLeaves bounds a tree: one report group.
const MaxLeaves = 1 << 20

func node(left, right *[32]byte) [32]byte {
	var b [65]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[33:], right[:])
	return sha256.Sum256(b[:])
}

// Tree is a Merkle tree over leaves, in the shape of RFC 9162 section 2.1.1.
// The zero value is empty; Build fills it and may be called again, which
// reuses the memory. Not safe for use while Build runs.
type Tree struct {
	nodes  [][32]byte // level after level, leaves first
	levels []int      // start of each level in nodes
	size   int
}

// Build makes the tree over leaves (results of [Leaf]), at least one and at
// most MaxLeaves. The slice is copied.
func (t *Tree) Build(leaves [][32]byte) error {
	t.nodes, t.levels, t.size = t.nodes[:0], t.levels[:0], 0
	if len(leaves) == 0 || len(leaves) > MaxLeaves {
		return fmt.Errorf("binder: tree over %d leaves, want 1 to %d", len(leaves), MaxLeaves)
	}
	t.nodes = append(t.nodes, leaves...)
	t.levels = append(t.levels, 0)
	t.size = len(leaves)
	// Pairing from the left and lifting an odd last node unchanged gives the
	// tree that RFC 9162 defines by splitting at the largest power of two.
	for start, n := 0, t.size; n > 1; {
		next := len(t.nodes)
		for i := 0; i+1 < n; i += 2 {
			t.nodes = append(t.nodes, node(&t.nodes[start+i], &t.nodes[start+i+1]))
		}
		if n%2 == 1 {
			t.nodes = append(t.nodes, t.nodes[start+n-1])
		}
		t.levels = append(t.levels, next)
		start, n = next, (n+1)/2
	}
	return nil
}

// Size returns the number of leaves.
func (t *Tree) Size() int { return t.size }

// Root returns the root. It panics on an empty tree.
func (t *Tree) Root() [32]byte { return t.nodes[len(t.nodes)-1] }

// NewTree is Build into a new tree. It panics when the number of leaves is not
// 1 to MaxLeaves.
func NewTree(leaves [][32]byte) *Tree {
	t := new(Tree)
	if err := t.Build(leaves); err != nil {
		panic(err)
	}
	return t
}

// Path returns the inclusion path of leaf i: the siblings from the leaf up
// (RFC 9162 section 2.1.3.1). It panics when i is no leaf.
func (t *Tree) Path(i int) [][32]byte { return t.AppendPath(nil, i) }

// AppendPath is Path into dst.
func (t *Tree) AppendPath(dst [][32]byte, i int) [][32]byte {
	if i < 0 || i >= t.size {
		panic("binder: path of a leaf that is not in the tree")
	}
	for level, n := 0, t.size; n > 1; level, n, i = level+1, (n+1)/2, i/2 {
		if sibling := i ^ 1; sibling < n {
			dst = append(dst, t.nodes[t.levels[level]+sibling])
		}
	}
	return dst
}

var errPath = errors.New("binder: inclusion path does not fit index and size of the tree")

// RootFromPath returns the root of the tree of size leaves in which leaf
// stands at index with the given inclusion path (RFC 9162 section 2.1.3.2). It
// only computes: compare the root with what the report signs.
func RootFromPath(leaf [32]byte, index, size uint64, path [][32]byte) ([32]byte, error) {
	if index >= size || size > MaxLeaves || len(path) > bits.Len64(size) {
		return [32]byte{}, errPath
	}
	fn, sn, r := index, size-1, leaf
	for i := range path {
		if sn == 0 {
			return [32]byte{}, errPath
		}
		if fn&1 == 1 || fn == sn {
			r = node(&path[i], &r)
			for fn&1 == 0 && fn != 0 {
				fn, sn = fn>>1, sn>>1
			}
		} else {
			r = node(&r, &path[i])
		}
		fn, sn = fn>>1, sn>>1
	}
	if sn != 0 {
		return [32]byte{}, errPath
	}
	return r, nil
}
