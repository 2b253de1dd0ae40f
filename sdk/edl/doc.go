// SPDX-License-Identifier: Apache-2.0

// Package edl compiles EDL, the language in which authors of SGX enclaves
// describe the calls into an enclave (ECALLs) and out of it (OCALLs), to the C
// code on both sides of the border.
//
// Call [Loader.Load] to read a file with its imports, then [Interface.Untrusted]
// and [Interface.Trusted] for the C text. [Parse] and [File.String] are the bare
// language: what parses prints to text that parses to the same tree.
//
// The generated code keeps the conventions of Intel's runtime (marshalling
// structures ms_*, g_ecall_table, g_dyn_entry_table, sgx_ocalloc), so that it
// works with Intel's libraries as with ours. The trusted side takes each value of
// the application once, refuses pointers that are not wholly outside the enclave,
// and sizes that overflow; it ends strings itself.
//
// Source: Intel SGX Developer Reference for Linux, "Enclave Definition Language
// Syntax". Refused as Intel's compiler refuses it: sizefunc.
package edl
