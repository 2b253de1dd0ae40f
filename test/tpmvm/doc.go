// SPDX-License-Identifier: Apache-2.0

// Package tpmvm tests our TPM as the TPM of virtual machines: QEMU with
// SeaBIOS and OVMF, as tpm-tis and tpm-crb, under a distribution's kernel. It
// has no code outside its tests.
package tpmvm
