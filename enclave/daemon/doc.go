// SPDX-License-Identifier: Apache-2.0

// Package daemon is the enclave platform at level hosted: a launcher, the
// monitor that it measures and starts, and the protocol by which applications
// use it.
//
// [Launch] is the whole daemon: it opens the TPM (by default one of its own,
// in process, that nobody else can reach), resets and measures, starts the
// monitor as another user from the very bytes that it measured, and passes TPM
// commands on for it. The monitor process calls [Run]. Applications call
// [Dial], then [Client.Load], [Enclave.ECall] and [Client.Quote].
//
// Who is kept out of what: an application reaches its enclave only by the
// protocol and the shared memory; it never maps the EPC, and neither do other
// users or other enclaves. The monitor has no privilege, no file but its state
// folder, and no TPM command but those on a list. Root of the host is trusted.
package daemon
