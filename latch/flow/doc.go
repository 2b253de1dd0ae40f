// SPDX-License-Identifier: Apache-2.0

// Package flow decides, for each gated connection, when the client's bytes may
// leave. It is a pure state machine: copies of packets, evidence and the clock
// go in; announcements, releases and refusals come out. It makes no system
// call, starts no goroutine and reads no clock.
package flow
