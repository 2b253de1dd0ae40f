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

// Found is what a mode's probe found out about this KVM by running instructions
// in a machine like an enclave's.
type Found struct {
	Mode string `json:"mode"`
	// Deviations are instructions that do not raise what SGX raises inside an
	// enclave: empty on a processor and KVM that intercept all of them.
	Deviations []string `json:"deviations"`
}
