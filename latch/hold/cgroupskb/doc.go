// SPDX-License-Identifier: Apache-2.0

// Package cgroupskb holds the TCP connections of local processes by a pair of
// eBPF programs on their cgroup (version 2). Call Attach with the folder of the
// cgroup; the result is a hold.Hold.
//
// How it works. The egress program lets out of a connection only control
// segments and the ClientHello. What it refuses stays at the head of the
// socket's own write queue: TCP does not count it as sent, so nothing is
// retransmitted, and nothing is queued in this process. The ingress program
// copies the beginning of the peer's stream. Release is one TCP segment per
// connection (a kick), a whole group in one sendmmsg: it carries a secret mark,
// the socket cookie, the connection's nonce, the end of the verified bytes and
// the number of segments examined; when all is right the program opens the
// door and TCP pushes its write queue. From then on the program costs one
// look-up per packet, and no packet comes to user space.
//
// The links are pinned in a bpffs of our own, so that the door stays shut when
// this process dies. Detach removes them; Reclaim is for what a dead process left.
//
// What it does not cover: sockets that a process in the cgroup gets from one
// outside, packet sockets (CAP_NET_RAW), sockets that are bound to an interface
// (the kick comes through the loopback interface: they are never released), and
// processes that may move themselves to another cgroup (root).
package cgroupskb
