// SPDX-License-Identifier: Apache-2.0

// Package latch measures what the latch costs: the same load through plain TLS
// and through gate and agent, sample by sample in turn, in two network
// namespaces on one machine. Start with [Run]; bench/METHOD.md says how the
// figures are made and how far to trust them.
package latch
