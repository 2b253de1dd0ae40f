// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"errors"
	"fmt"

	"holdfast/tpm2"
	"holdfast/tss"
)

// full says whether the TPM has no room for another object or session.
func full(err error) bool {
	return errors.Is(err, tpm2.RCObjectMemory) || errors.Is(err, tpm2.RCSessionMemory)
}

// First handles of what is loaded (Part 2, 6.6 and 7.4): transient objects, and
// sessions of either kind.
const (
	firstTransient tpm2.Handle = 0x80000000
	firstSession   tpm2.Handle = 0x02000000
)

// dropLeft flushes the transient objects and sessions that are loaded in the
// TPM and returns how many. An agent that is killed leaves its key and session
// loaded where no resource manager stands between; after a few times the TPM
// is full, and the next agent could not start. Only right where nobody else
// uses the TPM.
func dropLeft(transport tss.Transport) (n int, err error) {
	t := tss.New(transport)
	for _, first := range []tpm2.Handle{firstTransient, firstSession} {
		list, err := t.Handles(first)
		if err != nil {
			return n, fmt.Errorf("loaded objects and sessions: %w", err)
		}
		for _, h := range list {
			if err := t.FlushContext(h); err != nil {
				return n, fmt.Errorf("flush %#x: %w", uint32(h), err)
			}
			n++
		}
	}
	return n, nil
}
