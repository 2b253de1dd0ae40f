// SPDX-License-Identifier: Apache-2.0

// Package emulated runs the TPM rooms' own tests on the processors of small
// machines, ARMv7 and 64-bit RISC-V, emulated by QEMU's user mode. It shows
// that the 32-bit and the RISC-V build do the same, not how fast a board is.
// It has no code outside its tests.
package emulated
