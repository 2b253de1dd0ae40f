// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package host

import (
	"errors"
	"runtime"
)

// systemProbes: what these ask for exists on Linux only.
var systemProbes = func() []probe {
	var out []probe
	for _, name := range []string{"root", "kernel", "netns", "bpf", "cgroup2", "cgroup-bpf", "bpffs", "btf", "mptcp", "nfqueue", "nft-queue", "vlan", "vxlan", "tun", "kvm", "vtpmx", "tpm"} {
		out = append(out, probe{name, "Linux only", func() (string, error) { return "", errors.New("needs Linux, this is " + runtime.GOOS) }})
	}
	return out
}()

// CgroupRoot exists on Linux only.
func CgroupRoot() (string, error) { return "", errors.New("needs Linux, this is " + runtime.GOOS) }
