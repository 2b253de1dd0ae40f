// SPDX-License-Identifier: Apache-2.0

// Package channel is the evidence channel between a gate (client side) and an
// agent (server side): one kept connection, TCP or unix, that carries
// announcements one way and evidence the other.
//
// Nothing on it is secret and nothing on it is trusted: evidence authenticates
// itself, so that any rendezvous may carry it. What the package guarantees is
// strictness (one encoding per message, every size bounded) and that no peer
// can make the other side hold more memory or time than its limits say.
//
// # Wire format
//
// A frame is a 32-bit big-endian length and that many bytes: one CBOR item
// (RFC 8949) in core deterministic encoding (section 4.2.1: shortest heads,
// definite lengths), an array whose first element is the message type.
// Integers are unsigned; hash is a byte string of 32.
//
//	gate to agent
//	 1 Hello       [1, lowest version, highest version, software text, [capability text], [hash of endorsement that the gate has]]
//	 2 Announce    [2, [[CH hash, client random (32 bytes), grade], ...]]     CH = SHA-256 of the first ClientHello message with its header
//	 3 Want        [3, [hash of endorsement]]
//	 4 Endorsement, 5 Report, 6 Session     from version 2 on: the client's own evidence for mutual
//	                                        sessions, in the form of the agent's messages 17, 18 and 19
//	agent to gate
//	16 Hello       [16, version, software text, [service name text]]
//	17 Endorsement [17, type text, body bytes]
//	18 Report      [18, id, type text, body bytes, [hash of endorsement that it needs], tree size]
//	19 Session     [19, CH, report id, leaf index, [path hash], claims bytes]
//	20 Refused     [20, CH, code text, sentence text]
//	22 Manifest    see [Manifest]; only to gates whose Hello has the capability "batch"
//	21 Goodbye     [21, code text, sentence text]      last message before the agent closes
//
// The gate speaks first and names the versions it knows; the agent answers
// with the highest common one or with Goodbye. Each Endorsement that a report
// needs goes before it, once per connection, unless the gate said that it has
// it. A Session refers to the latest Report on the connection.
package channel
