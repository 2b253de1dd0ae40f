// SPDX-License-Identifier: Apache-2.0

// Package hot lets one loop sleep on many descriptors in a way that the Go
// runtime does not see (Linux only).
//
// A goroutine that blocks in Go's network poller costs several futex calls and
// context switches per wake-up, and keeps the runtime's monitor at ticks of
// 20 µs while threads come and go. A loop that is woken a few hundred times a
// second pays more for that than for its work. Poll is an epoll set of the
// loop's own; Conn is a connection that has left the network poller.
//
// The price: while a Poll sleeps in the hot way it occupies one of GOMAXPROCS
// processors, and goroutines that wait in the network poller may be seen up to
// 10 ms late. So sleep hot only while there is work, at most some hundred
// milliseconds after it.
package hot
