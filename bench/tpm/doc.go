// SPDX-License-Identifier: Apache-2.0

// Package tpm measures our TPM beside Debian's swtpm: the same commands from
// the same client over the same kind of socket, in alternating blocks; and the
// post-quantum commands, which swtpm lacks, beside the bare primitive. Start
// with [Run]; bench/METHOD.md says how the figures are made.
package tpm
