// SPDX-License-Identifier: Apache-2.0

// Package netns makes small networks out of network namespaces, for tests,
// the demo and the benchmarks. In a test call [Pair] (two hosts on one wire)
// or [Routed] (a router between them); elsewhere [New], [Net.Namespace],
// [Net.Join] and [Net.Close].
//
// Nothing outlives its owner: namespaces have no name and live only as long as
// the process and its children; children are killed when the process dies, are
// placed in a control group of the run, and what a crash left in such a group
// is killed by the next run. Every program runs with a time limit.
package netns
