// SPDX-License-Identifier: Apache-2.0

// Package swtpm speaks the two protocols of swtpm: raw TPM commands on the
// data channel, and the control channel with which QEMU, libvirt and tpm2-tss
// steer it. NewServer serves a platform.Machine; Dial and DialControl are
// clients.
//
// Who reaches the control channel owns the TPM: it can stop it and take its
// state, keys included. Over the channels' own listeners a client has at most
// Options.MaxLocality (0 to 2). Localities 3 and 4 and the hash sequence are
// for a client that passes the other end of its data channel over the control
// channel, as QEMU does: such a pair is a virtual machine's own TPM interface.
package swtpm

// Codes of the control channel (swtpm: include/swtpm/tpm_ioctl.h), all
// integers big-endian.
const (
	cmdGetCapability    = 0x01
	cmdInit             = 0x02
	cmdShutdown         = 0x03
	cmdGetEstablished   = 0x04
	cmdSetLocality      = 0x05
	cmdHashStart        = 0x06
	cmdHashData         = 0x07
	cmdHashEnd          = 0x08
	cmdCancel           = 0x09
	cmdStoreVolatile    = 0x0a
	cmdResetEstablished = 0x0b
	cmdGetStateBlob     = 0x0c
	cmdSetStateBlob     = 0x0d
	cmdStop             = 0x0e
	cmdGetConfig        = 0x0f
	cmdSetDataFD        = 0x10
	cmdSetBufferSize    = 0x11
	cmdGetInfo          = 0x12
	cmdLockStorage      = 0x13
)

// Capability bits, in the order of the specification's list.
const (
	capInit             = 1 << 0
	capShutdown         = 1 << 1
	capGetEstablished   = 1 << 2
	capSetLocality      = 1 << 3
	capHashing          = 1 << 4
	capCancel           = 1 << 5
	capStoreVolatile    = 1 << 6
	capResetEstablished = 1 << 7
	capGetStateBlob     = 1 << 8
	capSetStateBlob     = 1 << 9
	capStop             = 1 << 10
	capGetConfig        = 1 << 11
	capSetDataFD        = 1 << 12
	capSetBufferSize    = 1 << 13
	capGetInfo          = 1 << 14
	capLockStorage      = 1 << 16
)

// Results. They are TPM 1.2's, which the control channel kept.
const (
	resultOK           = 0
	resultBadParameter = 0x03
	resultFail         = 0x09
	resultBadOrdinal   = 0x0a
	resultBadLocality  = 0x3d
)

// maxBlob bounds a state blob that a client sends, in bytes.
const maxBlob = 4 << 20

// setLocalityCommand is the vendor command with which the kernel's vtpm_proxy
// driver sets the locality in the data stream (drivers/char/tpm: TPM2_CC_SET_LOCALITY).
const setLocalityCommand = 0x20001000
