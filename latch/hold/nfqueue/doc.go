// SPDX-License-Identifier: Apache-2.0

// Package nfqueue holds TCP connections that this machine routes for others
// (containers, virtual machines) with netfilter: for those no local socket
// exists on which hold/cgroupskb could act. Call [Open] with the network
// devices behind which the clients are; the result is a hold.Hold.
//
// How it works. A table of our own queues, for connections that are not open,
// each outgoing SYN and payload, and each incoming payload. This package lets
// the ClientHello out, drops every other outgoing payload, and keeps incoming
// packets in the queue. Of the first 4 KiB of the server's stream one version
// of each byte is ever delivered: a segment that differs from an earlier one is
// dropped. A release delivers what is queued; the connection opens when the
// client's own acknowledgement covers the verified bytes, for then nothing that
// arrives later can replace them. Opening is one connection mark, which the
// kernel's rules honour; from then on no packet comes to user space.
//
// Rules first, daemon second: a queue without a listener drops. A second table,
// the guard, drops what this process has not passed. On Linux 5.12 and later the guard
// belongs to this process's socket: no other program can change or flush it, so
// that whoever flushes the ruleset shuts the scope and opens nothing; the first
// table is put back as soon as the flush is seen. When this process dies the
// guard goes and the first table stays: shut.
//
// What it does not cover: packets that a bridge carries from one of its ports to
// another without routing, clients that share a connection mark with another
// program's rules (the mark is overwritten on open connections), and whoever may
// change netfilter rules on this machine (CAP_NET_ADMIN).
package nfqueue
