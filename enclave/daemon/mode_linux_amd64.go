// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"

	"holdfast/attest/evidence"
	"holdfast/enclave/epc"
	"holdfast/enclave/host"
	"holdfast/enclave/kvm"
	"holdfast/enclave/monitor"
)

// newPlatform makes a platform whose enclaves run in a mode of
// evidence.EnclaveModes. The empty one is GU where it works, else HU.
func newPlatform(frames int, o monitor.Options, mode string) (*epc.Platform, error) {
	switch mode {
	case "":
		if _, err := kvm.Probe(kvm.GU); err != nil {
			return host.New(frames, o)
		}
		return kvm.New(frames, o, kvm.GU)
	case evidence.ModeHU:
		return host.New(frames, o)
	case evidence.ModeGU, evidence.ModeP:
		m := kvm.GU
		if mode == evidence.ModeP {
			m = kvm.P
		}
		if _, err := kvm.Probe(m); err != nil {
			return nil, fmt.Errorf("mode %s does not work here: %w", mode, err)
		}
		return kvm.New(frames, o, m)
	}
	return nil, fmt.Errorf("expected a mode of %v, got %q", evidence.EnclaveModes, mode)
}
