// SPDX-License-Identifier: Apache-2.0

package tpm2

import (
	"encoding/binary"
	"fmt"
)

// nameOf returns alg ‖ H(area).
func nameOf(alg Alg, area []byte) ([]byte, error) {
	if !alg.IsHash() {
		return nil, fmt.Errorf("tpm2: Name with algorithm %v: not a hash that this version knows", alg)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(alg)), alg.Sum(area)...), nil
}

// HandleName returns the Name of an entity that is named by its handle: PCRs,
// sessions and permanent handles (Part 1, 14).
func HandleName(h Handle) []byte { return binary.BigEndian.AppendUint32(nil, uint32(h)) }

// QualifiedName returns the qualified Name of an object with the given Name
// under a parent with the given qualified Name (Part 1, 26.5):
// nameAlg ‖ H(parentQN ‖ name).
func QualifiedName(nameAlg Alg, parentQN, name []byte) ([]byte, error) {
	if !nameAlg.IsHash() {
		return nil, fmt.Errorf("tpm2: qualified Name with algorithm %v: not a hash that this version knows", nameAlg)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(nameAlg)), nameAlg.Sum(parentQN, name)...), nil
}
