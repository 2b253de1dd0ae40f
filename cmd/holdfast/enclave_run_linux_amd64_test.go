// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/enclave/urts/probe"
)

// TestRunEnds: an enclave that loops for ever ends when the command is told to
// (SIGTERM ends its context).
func TestRunEnds(t *testing.T) {
	dir := t.TempDir()
	img, err := probe.Image(1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := probe.Files(dir, "probe", img); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	where := running{sig: filepath.Join(dir, "probe.sig"), sdk: true}
	where.launch.epc, where.launch.algorithm, where.launch.mode = 1, evidence.ES256, "hu"
	done := make(chan error, 1)
	var r *ran
	go func() {
		var err error
		r, err = runEnclave(ctx, filepath.Join(dir, "probe.sgxs"), &where, []string{"0:0100000000000000", "6:00000000000000000000000000000000"}, nil)
		done <- err
	}()
	select { // it loops; the second is for it to come so far, and the result is the same if it did not
	case err := <-done:
		t.Fatalf("the enclave came back: %v", err)
	case <-time.After(time.Second):
	}
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Errorf("no error: %+v", r)
		}
	case <-time.After(time.Minute):
		t.Fatal("the enclave runs on")
	}
}
