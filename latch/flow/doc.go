// SPDX-License-Identifier: Apache-2.0

// Package flow decides, for each gated connection, when the client's bytes may
// leave. It is a pure state machine: copies of packets, evidence and the clock
// go in; announcements, releases and refusals come out. It makes no system
// call, starts no goroutine and reads no clock.
//
// Make a [Table] with [New]. Give it every record that a hold adapter drains
// ([Table.Packet], [Table.Denied], [Table.Retry], [Table.Released]) and every
// event of the evidence channel ([Table.AgentUp], [Table.AgentLost],
// [Table.Session], [Table.AgentRefused]); then call [Table.Flush] once and act
// on the [Output]. One goroutine only.
//
// What it promises: a [Release] names a connection whose hellos are complete
// and consistent, of which every inbound segment that was counted was
// examined, of which no two copies differ in any byte, whose binder is a leaf
// of a tree whose root the [Judge] accepted, and whose service name has a
// policy. Everything else is refused or runs into the deadline; nothing is
// released by default. What it does not check: that the report is genuine and
// acceptable (the Judge does), and that TCP took the bytes that were examined
// (the adapter does, with Release.End and Release.Examined).
package flow
