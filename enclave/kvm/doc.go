// SPDX-License-Identifier: Apache-2.0

// Package kvm is the backend of the enclave monitor that runs enclaves in
// virtual machines of Linux's KVM: one machine per enclave, one virtual
// processor per thread control structure. There are two modes:
//
//   - GU: the enclave runs in ring 3. The page tables belong to the monitor; a
//     stub of one page in ring 0 (testdata/stub.s) hands every exception over.
//     ENCLU is one of them: an illegal instruction on a processor without SGX.
//   - P: the enclave runs in ring 0. It starts with the monitor's tables and stub
//     and may bring its own page tables and exception handlers; then exceptions
//     reach it without an exit. HLT with a leaf in RAX is a faster ENCLU.
//
// Call [New] for a platform (package epc tells how to use it) where [Probe] says
// that the mode works.
//
// How an enclave is kept in: the machine has no memory but the enclave's own
// pages, the buffer shared with the application, and the stub's pages, which
// hold no secret. What the monitor takes away it takes out of the machine, not
// only out of the page tables, so in ring 0 it is gone as well. A machine has no
// devices; port input and output, memory outside, forbidden machine registers,
// and a shutdown end the enclave (epc.ErrForbidden) and are counted.
//
// What a P enclave may rely on (its interface, for those who write one): page o
// of its range is at the physical address 0x40_0000_0000+o, the shared memory at
// its linear address; CR3's root table is also at the linear address
// 0xffffffff80002000, and its entry 511 leads to the stub, the exception table
// (SIDT tells where) and the stack on which its handlers run; the number of
// asynchronous exits of this thread so far, for a handler that suspects single
// stepping, is at TSS+0x180 as 64 bits (interrupts) and at TSS+0x188 (exceptions
// that reached the monitor). Each EENTER starts with the monitor's tables,
// ERESUME goes on with those that were interrupted.
//
// Limits: the host's kernel and its administrator are trusted; KVM and its
// instruction emulator are part of what keeps an enclave in. What this KVM does
// with instructions that SGX forbids is found out by Probe and not assumed.
package kvm
