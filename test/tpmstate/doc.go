// SPDX-License-Identifier: Apache-2.0

// Package tpmstate tests that the TPM's state survives: a process that is
// killed before each single system call, and damaged state files. It has no
// code outside its tests.
package tpmstate
