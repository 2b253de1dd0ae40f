// SPDX-License-Identifier: Apache-2.0

// Package packets is what holds have in common that see IP packets in a queue
// (hold/nfqueue, hold/windivert): a state machine that decides about each queued
// packet, and the part of hold.Hold around it. Make a [Queue] with [New], give it
// what the queue shows by Outbound and Inbound, and carry its verdicts out.
//
// What it promises: of a connection that is not open it lets the ClientHello out
// and drops every other outgoing payload; of the first 4 KiB of the server's
// stream one version of each byte is ever delivered, and after a release only
// what was verified. The connection opens when the client's own acknowledgement
// covers the verified bytes, for then nothing that arrives later can replace them.
//
// What it needs: the queue must show each outgoing SYN and payload, and each
// incoming payload, also parts of them (fragments), and must drop what no verdict
// passes. It makes no system call.
package packets
