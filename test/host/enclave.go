// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"strings"

	"holdfast/enclave/kvm"
)

// probeEnclave runs a few instructions in a virtual machine as enclaves have it.
func probeEnclave(m kvm.Mode) func() (string, error) {
	return func() (string, error) {
		f, err := kvm.Probe(m)
		if err != nil {
			return "", err
		}
		if len(f.Deviations) == 0 {
			return "every instruction tried behaves as in SGX", nil
		}
		return fmt.Sprintf("unlike in SGX: %s", strings.Join(f.Deviations, ", ")), nil
	}
}
