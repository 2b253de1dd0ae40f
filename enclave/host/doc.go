// SPDX-License-Identifier: Apache-2.0

// Package host is the backend of the enclave monitor that needs no
// virtualization: an enclave thread is a locked-down process of this host. ENCLU
// is an illegal instruction for the processor, so it stops the process with
// SIGILL and the monitor carries it out. This is the HU mode of the design.
//
// Call [New] for a platform (package epc tells how to use it).
//
// How an enclave is kept in: its process has no memory but the enclave's pages
// and the buffer shared with the application; each system call that it attempts
// is suppressed by PTRACE_SYSEMU before the kernel acts on it; it has no
// privileges of its own; and it dies with the monitor (PTRACE_O_EXITKILL).
// The application is another process, or never maps the EPC.
//
// Limits: the host's kernel and its administrator are trusted. CPUID, RDTSC and
// SYSCALL-free instructions that SGX forbids run as on the host. XCR0 is the
// host's, so only XFRM 3 and 7 are offered. A switch costs two context switches
// of the host.
package host
