// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"crypto/sha256"
	"testing"
)

func TestTreeVectors(t *testing.T) {
	for i, v := range load(t).Trees {
		var leaves [][32]byte
		for j := range v.Leaves {
			l := Leaf(hash(t, v.Binders[j]), hash(t, v.ClaimsDigest))
			if l != hash(t, v.Leaves[j]) {
				t.Errorf("tree %d: leaf %d is %x", i, j, l)
			}
			leaves = append(leaves, l)
		}
		var tree Tree
		if err := tree.Build(leaves); err != nil {
			t.Fatal(err)
		}
		if tree.Root() != hash(t, v.Root) {
			t.Errorf("tree %d: root %x", i, tree.Root())
		}
		for j := range leaves {
			path := tree.Path(j)
			if len(path) != len(v.Paths[j]) {
				t.Fatalf("tree %d: path %d has %d nodes, want %d", i, j, len(path), len(v.Paths[j]))
			}
			for k := range path {
				if path[k] != hash(t, v.Paths[j][k]) {
					t.Errorf("tree %d: path %d node %d", i, j, k)
				}
			}
		}
		d, tail := ReportData(tree.Root()), sha256.Sum256([]byte("holdfast/latch/v1/tail"))
		if string(d[:]) != string(unhex(t, v.ReportData)) || string(d[32:]) != string(tail[:]) {
			t.Errorf("tree %d: report data %x", i, d)
		}
	}
}

// mth is the definition of RFC 9162 section 2.1.1, as it is written there.
func mth(d [][32]byte) [32]byte {
	if len(d) == 1 {
		return d[0]
	}
	k := 1
	for k*2 < len(d) {
		k *= 2
	}
	l, r := mth(d[:k]), mth(d[k:])
	return sha256.Sum256(append(append([]byte{1}, l[:]...), r[:]...))
}

func someLeaves(n int) (out [][32]byte) {
	for i := 0; i < n; i++ {
		out = append(out, Leaf(sha256.Sum256([]byte{byte(i), byte(i >> 8)}), [32]byte{}))
	}
	return out
}

func TestTreeAgainstDefinition(t *testing.T) {
	var tree Tree // reused over all sizes
	for n := 1; n <= 130; n++ {
		leaves := someLeaves(n)
		if err := tree.Build(leaves); err != nil {
			t.Fatal(err)
		}
		root := mth(leaves)
		if tree.Root() != root || tree.Size() != n {
			t.Fatalf("size %d: root differs from the definition", n)
		}
		for i := range leaves {
			path := tree.Path(i)
			if r, err := RootFromPath(leaves[i], uint64(i), uint64(n), path); err != nil || r != root {
				t.Fatalf("leaf %d of %d: %v", i, n, err)
			}
			// The same leaf at any other place, or another leaf here, is no member.
			if r, err := RootFromPath(leaves[i], uint64(i)^1, uint64(n), path); err == nil && r == root {
				t.Fatalf("leaf %d of %d passes for its neighbour", i, n)
			}
			if r, err := RootFromPath(leaves[(i+1)%n], uint64(i), uint64(n), path); n > 1 && err == nil && r == root {
				t.Fatalf("another leaf passes for %d of %d", i, n)
			}
			if len(path) > 0 {
				if _, err := RootFromPath(leaves[i], uint64(i), uint64(n), path[1:]); err == nil {
					t.Fatalf("a short path for %d of %d", i, n)
				}
			}
			if _, err := RootFromPath(leaves[i], uint64(i), uint64(n), append(path, root)); err == nil {
				t.Fatalf("a long path for %d of %d", i, n)
			}
		}
	}
	if tree.Build(nil) == nil {
		t.Error("an empty tree has no root")
	}
	if _, err := RootFromPath([32]byte{}, 0, 0, nil); err == nil {
		t.Error("a tree of size 0 has no leaf 0")
	}
	if _, err := RootFromPath([32]byte{}, 1<<40, 1<<41, nil); err == nil {
		t.Error("size above MaxLeaves")
	}
}

// An inner node must not pass for a leaf: a leaf is a hash with tag 0 and the
// gate computes it from a binder, so no binder and claims can make it a node.
func TestSecondPreimage(t *testing.T) {
	leaves := someLeaves(4)
	var tree Tree
	if err := tree.Build(leaves); err != nil {
		t.Fatal(err)
	}
	left := node(&leaves[0], &leaves[1])
	right := node(&leaves[2], &leaves[3])
	// With the node itself in the place of a leaf the arithmetic works in a
	// smaller tree; that is why the gate only ever starts from Leaf.
	if r, err := RootFromPath(left, 0, 2, [][32]byte{right}); err != nil || r != tree.Root() {
		t.Fatal("the test's own assumption about the tree is wrong")
	}
	// What an attacker may choose is binder and claims digest: the children of
	// the node. The tag keeps the two hashes apart.
	if Leaf(leaves[0], leaves[1]) == left {
		t.Fatal("leaf and node have the same tag")
	}
	if r, err := RootFromPath(Leaf(leaves[0], leaves[1]), 0, 2, [][32]byte{right}); err != nil || r == tree.Root() {
		t.Fatalf("an inner node passes for a leaf (%v)", err)
	}
}
