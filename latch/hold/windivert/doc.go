// SPDX-License-Identifier: Apache-2.0

// Package windivert holds the TCP connections of a Windows machine with
// WinDivert, a packet filter driver with a library (WinDivert.dll, version 2.2,
// LGPL or GPL, not part of this program and not linked with it: it is loaded by
// system calls when it is asked for). Call [Open]; the result is a hold.Hold.
//
// How it works. One handle at the network layer diverts what leaves the machine
// and the TCP packets that come, except segments without payload, SYN, FIN and
// RST. hold/packets decides about each diverted packet; what passes is injected
// again, what is dropped is forgotten. The handle has the lowest priority: other
// programs with WinDivert come first, so that what is judged here is what leaves
// and what TCP gets.
//
// Shut while the gate is dead. The driver lets what it has queued go on, and
// everything after it, once the last handle to the filter is closed. A process
// that dies would so open the machine. Therefore a small process, the guard
// ([Keep]), opens the handle, gives a duplicate to the gate, and starts the gate
// again when it dies: meanwhile packets wait for nobody and are dropped. If both
// processes end, the machine is open.
//
// Differences to the holds on Linux: an open connection's packets go through
// user space for its whole life, as there is no mark by which the driver could
// tell them; loopback is not gated (the whole machine is the scope, so that who
// takes it is gated); what this machine forwards for others (Hyper-V, WSL 2,
// containers) is not seen. None of it has run on Windows: the tests play the
// driver, after its documentation and source.
package windivert
