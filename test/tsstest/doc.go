// SPDX-License-Identifier: Apache-2.0

// Package tsstest holds tests of our TPM client (tss) against two engines: our
// own (softtpm) and, as an oracle, Debian's swtpm.
package tsstest
