// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"holdfast/attest/provider/tpmquote"
)

// Identity is what the monitor says of its attestation key before it is
// believed.
type Identity struct {
	tpmquote.Identity
	Level string
}

var errEnrol = errors.New("only root and the monitor's own user may enrol the attestation key")

func (c *conn) mayEnrol() bool { return c.cred.Uid == 0 || int(c.cred.Uid) == os.Geteuid() }

func (c *conn) identity() error {
	if !c.mayEnrol() {
		return errEnrol
	}
	a, err := c.s.a.Attester()
	if err != nil {
		return err
	}
	defer a.Close()
	return c.reply(Identity{a.Identity, c.s.a.Level()})
}

func (c *conn) answer(f *frame) error {
	if !c.mayEnrol() {
		return errEnrol
	}
	var ch tpmquote.Challenge
	if err := json.Unmarshal(f.payload, &ch); err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	a, err := c.s.a.Attester()
	if err != nil {
		return err
	}
	defer a.Close()
	out, err := a.Answer(&ch)
	if err != nil {
		return err
	}
	return c.reply(out)
}
