// SPDX-License-Identifier: Apache-2.0

// Package observe is the server's observer: it tells, for each connection to a
// protected listener, which ServerHello the local process sent, in answer to
// which ClientHello, and who made the listener. It is passive: the service's
// packets are neither delayed nor touched.
//
// Open loads eBPF programs (bpf/observe.bpf.c) and attaches them to the cgroup
// v2 root; Wait sleeps until a ServerHello left, Poll returns what happened.
//
// # What is refused
//
// An Event of kind Hello carries a Refusal instead of binders when:
//   - the same share or random entered the machine before as a ServerHello, on
//     any TCP socket (foreign-hello). Window: one to two minutes, 262,144 entries
//     of 8 bytes a minute; when it overflows or a copy is lost, everything is
//     refused until the window has passed (agent-lost-copy). Only the first
//     8 KiB of a stream that begins with a TLS handshake record are looked at,
//     in any segmentation: a hello that enters inside another protocol, over
//     UDP or a unix socket is not seen;
//   - the share was used before (share-reused). Window: the latest 131,072 to
//     262,144 shares, 8 bytes each;
//   - the hello messages break TLS 1.3 or a copy of them was lost;
//   - the listener's creator is not known (unknown-identity).
//
// Routed packets have no local socket and are never seen, so that nothing
// vouches for them.
//
// # Identity
//
// Who binds a protected port is recorded in process context and inherited by
// accepted sockets: thread group, user, cgroup and time. The executable is then
// read through /proc/PID/exe of that process, if its start time shows that the
// number was not reused. When the creator is gone (a server that becomes a
// daemon) or has changed its executable, the processes that hold the listening
// socket are looked for: they must all run one executable, in the cgroup of the
// creator. A process that binds and then executes another program before it is
// looked at (some milliseconds) is taken for that program; only its user and
// cgroup are certain from the first moment, therefore policies should name the
// unit too.
//
// Listeners that exist before Open are found through /proc and marked as
// Found; connections accepted before are not observed. Listening sockets with
// Multipath TCP (the default of Go servers) cannot be marked afterwards: start
// the observer first.
//
// A process that passes a listening or an accepted socket to another program
// is answerable for what that does: the identity stays the creator's.
package observe
