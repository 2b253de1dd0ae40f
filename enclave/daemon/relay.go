// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"holdfast/tpm2"
	"holdfast/tss"
)

// allowed are the commands that a monitor needs; the launcher passes no others
// on, so that a monitor that was taken over cannot, for example, clear the TPM
// or change its hierarchies.
var allowed = map[tpm2.CC]bool{
	tpm2.CCCreatePrimary: true, tpm2.CCCreate: true, tpm2.CCLoad: true, tpm2.CCReadPublic: true, tpm2.CCFlushContext: true,
	tpm2.CCStartAuthSession: true, tpm2.CCPolicyPCR: true, tpm2.CCPolicySecret: true, tpm2.CCPolicyRestart: true, tpm2.CCPolicyAuthValue: true,
	tpm2.CCUnseal: true, tpm2.CCGetRandom: true, tpm2.CCPCRRead: true, tpm2.CCPCRExtend: true, tpm2.CCQuote: true,
	tpm2.CCGetCapability: true, tpm2.CCActivateCredential: true, tpm2.CCNVReadPublic: true, tpm2.CCNVRead: true,
}

// maxCommand is the largest command or response, in bytes.
const maxCommand = 8192

// relay passes the commands of c on to t until c ends.
func relay(c net.Conn, t tss.Transport) error {
	b := make([]byte, maxCommand)
	defer func() { clear(b) }()
	for {
		if _, err := io.ReadFull(c, b[:tpm2.HeaderSize]); err != nil {
			return err
		}
		n, cc := binary.BigEndian.Uint32(b[2:]), tpm2.CC(binary.BigEndian.Uint32(b[6:]))
		if n < tpm2.HeaderSize || n > maxCommand {
			return fmt.Errorf("a TPM command of %d bytes", n)
		}
		if _, err := io.ReadFull(c, b[tpm2.HeaderSize:n]); err != nil {
			return err
		}
		response := refusal
		if allowed[cc] {
			var err error
			if response, err = t.Send(b[:n]); err != nil {
				return err
			}
		}
		if _, err := c.Write(response); err != nil {
			return err
		}
	}
}

// refusal is TPM_RC_COMMAND_CODE.
var refusal = []byte{0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x01, 0x43}
