// SPDX-License-Identifier: Apache-2.0

// Package urts is the untrusted runtime: it loads an enclave image, makes
// ECALLs, serves OCALLs, and handles exceptions, as Intel's SDK expects of its
// runtime, but over the monitor instead of a processor with SGX.
//
// Call [Load] with a platform and an image, then [Enclave.ECall]. Application
// and enclave exchange data in [Memory], which both see; the enclave sees
// nothing else of the application.
//
// Source of the calling convention: linux-sgx (psw/urts, common/inc/internal
// rts_cmd.h): RDI command or index, RSI marshalling structure.
package urts
