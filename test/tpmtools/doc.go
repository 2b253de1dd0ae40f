// SPDX-License-Identifier: Apache-2.0

// Package tpmtools drives Debian's tpm2-tools, by scripts of our own, against
// `holdfast tpm serve` over both protocols, and in the same run against swtpm
// as an oracle: what the oracle does not do either says nothing about us.
package tpmtools
