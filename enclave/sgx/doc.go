// SPDX-License-Identifier: Apache-2.0

// Package sgx holds the words of Intel SGX: the layouts of its structures, the
// enclave measurement, and SIGSTRUCT. It has no state and does no I/O; monitor,
// runtime, signer and verifier share it.
//
// Start with [Measurement] (what MRENCLAVE is made of), [SigStruct] (who vouches
// for it) and [Report] (what an enclave says of itself). Every structure has a
// Size constant in bytes, a Parse function that refuses reserved bits and wrong
// sizes, and AppendTo, its exact inverse. All integers are little-endian.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume
// 3D, chapters "Enclave Access Control and Data Structures" and "SGX
// Instruction References" (called SDM below).
package sgx

// PageSize is the size in bytes of an EPC page and of SECS and TCS.
const PageSize = 4096
