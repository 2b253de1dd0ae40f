// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"encoding/binary"
	"fmt"
)

var le = binary.LittleEndian

// A LayoutError says which field of which structure breaks the layout.
type LayoutError struct {
	Structure string // such as "SIGSTRUCT"
	Field     string
	Problem   string // expected, and what came
}

func (e *LayoutError) Error() string {
	return fmt.Sprintf("sgx: %s.%s: %s", e.Structure, e.Field, e.Problem)
}

func wantSize(structure string, b []byte, size int) error {
	if len(b) != size {
		return &LayoutError{structure, "size", fmt.Sprintf("expected %d bytes, got %d", size, len(b))}
	}
	return nil
}

// wantZero refuses a reserved range that is not zero: it may carry a meaning
// that this version does not know.
func wantZero(structure string, b []byte, ranges ...[2]int) error {
	for _, r := range ranges {
		for i := r[0]; i < r[1]; i++ {
			if b[i] != 0 {
				return &LayoutError{structure, "reserved", fmt.Sprintf("byte %d must be zero, got %#02x", i, b[i])}
			}
		}
	}
	return nil
}
