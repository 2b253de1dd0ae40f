// SPDX-License-Identifier: Apache-2.0

// Package gate joins the client's side of the latch: the hold that keeps a
// connection's bytes in, the state machine that reads its hellos, the channels
// to the agents, and verification with policy. Call LoadConfig and New, then
// Gate.Run; RunCommand does all of it for one command.
//
// What is promised: of a connection within the scope no byte but the
// ClientHello leaves before evidence for exactly this session was verified and
// the policy accepted it, whatever happens to this process. Refused
// connections are reset, with the reason in the log. What is not covered
// stands in LIMITATIONS.md and in package latch/hold/cgroupskb.
package gate
