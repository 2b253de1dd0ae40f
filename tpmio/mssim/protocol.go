// SPDX-License-Identifier: Apache-2.0

// Package mssim speaks the TCP protocol of Microsoft's TPM simulator, which
// tpm2-tss (tcti-mssim), go-tpm and IBM's tools use. NewServer serves a
// platform.Machine, Dial is a client.
//
// The protocol (Simulator/include/TpmTcpProtocol.h of the TCG reference code)
// has two ports, one for commands and, one above it, one for the platform. A
// request is a u32 code with its arguments, an answer ends with a u32 status,
// all big-endian. It knows no access rights: whoever reaches the ports can use
// the TPM and turn it off. Bind it to loopback, in a namespace of its own, or
// not at all.
package mssim

// Codes of requests.
const (
	signalPowerOn     = 1
	signalPowerOff    = 2
	signalPresenceOn  = 3
	signalPresenceOff = 4
	signalHashStart   = 5
	signalHashData    = 6
	signalHashEnd     = 7
	sendCommand       = 8
	signalCancelOn    = 9
	signalCancelOff   = 10
	signalNVOn        = 11
	signalNVOff       = 12
	signalKeyCacheOn  = 13
	signalKeyCacheOff = 14
	remoteHandshake   = 15
	setAlternative    = 16
	signalReset       = 17
	signalRestart     = 18
	sessionEnd        = 20
	stop              = 21
	getSizes          = 25
	actGetSignaled    = 26
)

// Values of the handshake: our version, and flags for raw mode, a platform
// port, and physical presence.
const (
	serverVersion  = 1
	handshakeFlags = 1 | 2 | 4
)

// Status that ends an answer.
const (
	statusOK     = 0
	statusFailed = 1
)
