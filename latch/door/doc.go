// SPDX-License-Identifier: Apache-2.0

// Package door keeps what an unverified client sends away from a server: the
// other half of mutual sessions, where the agent verifies the client's evidence
// and the service's answer must not happen without it.
//
// [Open] attaches two eBPF programs (bpf/door.bpf.c) to a control group. Of an
// accepted connection to a listed port TCP gets only plaintext TLS records, as
// many as hellos need, until [Doors.Release] names the socket. Everything else
// is dropped before TCP sees it, so the service reads neither the client's
// Finished nor a request. A client whose gate waits for the server's evidence
// sends nothing that early, so that nothing of it is dropped: the agent
// releases before it sends evidence.
//
// The links and maps are pinned: when the agent ends or dies, doors stay shut
// for new connections and open ones stay open, until the next agent takes over
// or [Remove] is called.
//
// What it does not do: it does not hold back what the server sends by itself
// before it has read anything (its handshake, and data of protocols where the
// server writes before the client's Finished).
package door
