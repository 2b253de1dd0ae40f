// SPDX-License-Identifier: Apache-2.0

package kvm

// Mode is where in the machine the enclave runs.
type Mode int

// The modes; see the package comment.
const (
	GU Mode = iota // ring 3
	P              // ring 0
)

func (m Mode) String() string {
	if m == P {
		return "P"
	}
	return "GU"
}
