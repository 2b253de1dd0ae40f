// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"crypto/sha256"
	"encoding/binary"
)

// BatchHead is the head of a batch manifest: what its report signs in the
// place of a tree's root. It makes the manifests of one agent a chain.
//
//	SHA-256("holdfast/latch/v1/batch" ‖ instance (16 bytes) ‖ number u64 ‖ previous head ‖ leaves u64 ‖ root)
//
// instance is random for each start of the agent, numbers begin at 1, and the
// previous head of number 1 is zero. root is that of the tree over the leaves
// in the manifest's order.
func BatchHead(instance [16]byte, number uint64, previous [32]byte, leaves uint64, root [32]byte) [32]byte {
	b := append([]byte(label+"/batch"), instance[:]...)
	b = binary.BigEndian.AppendUint64(b, number)
	b = append(b, previous[:]...)
	b = binary.BigEndian.AppendUint64(b, leaves)
	return sha256.Sum256(append(b, root[:]...))
}
