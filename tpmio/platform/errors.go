// SPDX-License-Identifier: Apache-2.0

package platform

import "encoding/binary"

// Response codes that a server gives itself, without asking the engine
// (TPM 2.0 Library, Part 2, TPM_RC constants).
const (
	RCFailure     = 0x101 // TPM_RC_FAILURE
	RCCommandSize = 0x142 // TPM_RC_COMMAND_SIZE
	RCLocality    = 0x907 // TPM_RC_LOCALITY
)

// HeaderSize is the size of a command or response header: tag u16, size u32,
// code u32, big-endian.
const HeaderSize = 10

// MaxFrame is the largest command, in bytes, that a server reads. Engines
// have their own, lower limit and answer for it.
const MaxFrame = 64 << 10

// ErrorResponse is a response that holds only a code.
func ErrorResponse(code uint32) []byte {
	r := make([]byte, HeaderSize)
	binary.BigEndian.PutUint16(r, 0x8001) // TPM_ST_NO_SESSIONS
	binary.BigEndian.PutUint32(r[2:], HeaderSize)
	binary.BigEndian.PutUint32(r[6:], code)
	return r
}
