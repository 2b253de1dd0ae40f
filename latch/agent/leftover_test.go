// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"testing"

	"holdfast/softtpmtest"
	"holdfast/tpm2"
	"holdfast/tss"
)

// A TPM that dead agents have filled takes a key again.
func TestLeftOver(t *testing.T) {
	tpm := softtpmtest.New(t)
	c := tss.New(tpm)
	load := func() error {
		_, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
		return err
	}
	loaded := 0
	var err error
	for ; loaded < 100; loaded++ {
		if err = load(); err != nil {
			break
		}
	}
	if loaded == 0 || loaded == 100 || !full(err) {
		t.Fatalf("after %d keys: %v; expected that the TPM is full", loaded, err)
	}
	n, err := dropLeft(tpm)
	if err != nil || n != loaded {
		t.Errorf("%d dropped of %d, %v", n, loaded, err)
	}
	if err := load(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if full(nil) || full(&tss.Error{Command: tpm2.CCLoad, Code: tpm2.RCAuthFail}) {
		t.Error("other errors count as a full TPM")
	}
}
