// SPDX-License-Identifier: Apache-2.0

// Package vm boots a distribution's own kernel in QEMU and runs one command
// in it, for tests that depend on a kernel that is not this machine's: other
// modules, other devices, another processor.
//
//	r := vm.Run(t, vm.Config{
//		Modules: []string{"tpm_vtpm_proxy"},
//		Files:   map[string]string{"/bin/holdfast": vm.GoBinary(t, "holdfast/cmd/holdfast")},
//		Cmd:     []string{"/bin/holdfast", "doctor", "--json"},
//	})
//	if r.ExitCode != 0 { t.Fatal(r) }
//
// Call [Run] for a command with an end, or [Start] for a machine to talk to
// while it runs (its [Machine.QMP], its standard input, its output so far).
//
// The machine has an initial file system and nothing else: a first process of
// ours (test/vm/guest), the modules named with what they depend on, the
// caller's files. No disk, no network card unless QEMUArgs adds them. The
// kernel is the one that tools/setup/kernel.sh unpacked ([host.StockKernel]).
//
// Without /dev/kvm the processor is emulated (QEMU TCG): a boot takes some
// seconds, and times measured inside mean nothing. A machine ends when its
// command ends, when the kernel panics, and at the latest after Timeout, even
// if the test binary has been killed by then.
package vm
