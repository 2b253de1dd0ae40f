// SPDX-License-Identifier: Apache-2.0

// Package latch holds the tests of the latch as a whole: real clients and
// servers in network namespaces, an agent, a gate, and what goes wrong. It has
// no code of its own; run `go test ./test/latch` as root.
package latch
