// SPDX-License-Identifier: Apache-2.0

// Package delay is a wire with a round-trip time (Linux only): two TUN devices
// in two network namespaces, and a thread that carries each IP packet from one
// to the other after half of that time. It stands for netem, which kernels may
// lack. TCP runs end to end between the namespaces: nothing here ends a
// connection, answers, reorders or changes a packet.
//
// Call [Pair], then [Link.SetRTT], which measures the round-trip time as ping
// does and returns what came out.
package delay
