// SPDX-License-Identifier: Apache-2.0

// Package sign makes a signed enclave of a shared object: it lays the enclave out,
// writes the metadata that loaders read, measures, and signs.
//
// Call [ParseConfig] (or take [Default]), [Prepare], then [Draft.Sign] with the
// author's key; or, where the key stays elsewhere, [Draft.Material] for what is to
// be signed and [Draft.Attach] with the signature. [Resign] gives an enclave that
// is signed already another signer and the same MRENCLAVE.
//
// The measurement is taken by the loader's own reader of such files
// (enclave/sgx/image), so that what is signed is what EINIT compares.
//
// Source: linux-sgx common/inc/internal/{metadata,global_data,thread_data}.h for
// layouts, the SDK's Developer Reference, "Enclave Configuration File", for the
// configuration. Not made: enclaves that grow at run time (EDMM): everything is
// there from the start, at its highest size.
package sign
