// SPDX-License-Identifier: Apache-2.0

// Package dial reaches a TPM by one string. Call Dial.
package dial

import (
	"context"
	"fmt"
	"strings"

	"holdfast/softtpm"
	"holdfast/tpmio/device"
	"holdfast/tpmio/inproc"
	"holdfast/tpmio/mssim"
	"holdfast/tpmio/swtpm"
)

// Conn is a connection to a TPM. Send makes it a tss.Transport.
type Conn interface {
	// Send sends a command and returns the response.
	Send(command []byte) (response []byte, err error)
	Close() error
}

// Forms is a one-line help about specifications.
const Forms = "inproc:DIR, mssim:HOST:PORT, swtpm:HOST:PORT, swtpm:unix:PATH or device:PATH"

// Dial connects to the TPM that spec names:
//
//	inproc:DIR        our own TPM in this process, state in the folder DIR
//	mssim:HOST:PORT   the simulator protocol, platform port at PORT+1
//	swtpm:HOST:PORT   a swtpm data channel over TCP
//	swtpm:unix:PATH   the same over a unix socket, as `holdfast tpm serve` offers it
//	device:PATH       a character device, such as /dev/tpmrm0
//
// TPM2_Startup is done only for inproc; the others have their own way.
func Dial(ctx context.Context, spec string) (Conn, error) {
	kind, rest, ok := strings.Cut(spec, ":")
	if !ok || rest == "" {
		return nil, fmt.Errorf("TPM %q: expected %s", spec, Forms)
	}
	// Each case returns a nil interface on an error, not a nil pointer in one.
	switch kind {
	case "inproc":
		c, err := inproc.Open(rest, softtpm.Options{})
		if err != nil {
			return nil, fmt.Errorf("TPM %s: %w", spec, err)
		}
		return c, nil
	case "mssim":
		c, err := mssim.Dial(ctx, rest)
		if err != nil {
			return nil, fmt.Errorf("TPM %s: %w", spec, err)
		}
		return c, nil
	case "swtpm":
		c, err := swtpm.Dial(ctx, rest)
		if err != nil {
			return nil, fmt.Errorf("TPM %s: %w", spec, err)
		}
		return c, nil
	case "device":
		c, err := device.Open(rest)
		if err != nil {
			return nil, fmt.Errorf("TPM %s: %w", spec, err)
		}
		return c, nil
	}
	return nil, fmt.Errorf("TPM %q: unknown kind %q, expected %s", spec, kind, Forms)
}
