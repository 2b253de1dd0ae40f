// SPDX-License-Identifier: Apache-2.0

package kvm_test

import (
	"testing"

	"holdfast/enclave/kvm"
	"holdfast/test/host"
)

// TestProbe needs a KVM; test/enclavevm brings one.
func TestProbe(t *testing.T) {
	host.Need(t, "kvm", "enclave-gu", "enclave-p")
	for _, mode := range []kvm.Mode{kvm.GU, kvm.P} {
		f, err := kvm.Probe(mode)
		if err != nil || f.Mode != mode.String() {
			t.Fatalf("%v: %+v %v", mode, f, err)
		}
		t.Logf("mode %v: deviations %q", mode, f.Deviations)
	}
}
