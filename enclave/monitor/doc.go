// SPDX-License-Identifier: Apache-2.0

// Package monitor is the core of the enclave platform: it keeps the page states
// (EPCM) and carries out the ENCLS and ENCLU leaves after the pseudo-code of
// the Intel SDM (volume 3D, "SGX Instruction References"), without a processor
// that has SGX.
//
// Call [New] with a [Backend]; a supervisor drives the ENCLS leaves (ECREATE,
// EADD, EEXTEND, EINIT ...), a backend forwards an enclave's ENCLU instructions
// to [Monitor.ENCLU] and interrupts and exceptions to [Monitor.AEX].
//
// Promises: each leaf either carries out all of it or changes nothing; nothing
// that an application, a supervisor or an enclave passes makes it panic;
// EENTER, EEXIT, AEX and ERESUME do not allocate. Memory of others is read
// once: what the caller passes as a page is a private copy.
//
// Limits: 64-bit enclaves only. The caller holds one lock for all calls of a
// monitor. The core does no I/O, starts no goroutine and knows no operating
// system; a backend has all of that. Which adversary is kept out depends on the
// backend, not on this package.
package monitor
