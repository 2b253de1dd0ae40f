// SPDX-License-Identifier: Apache-2.0

package tpm

import (
	"context"
	"testing"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestOperations runs every operation a few times on both TPMs.
func TestOperations(t *testing.T) {
	host.Need(t, "swtpm")
	ctx := context.Background()
	peer, err := StartSwtpm(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	ours, err := StartOurs(ctx, netns.Binary(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	short := make([]operation, len(operations))
	copy(short, operations)
	full := operations
	defer func() { operations = full }()
	for i := range short {
		short[i].calls = 12
	}
	operations = short
	rows, err := Run(ctx, Options{Ours: ours, Peer: peer, Quick: true, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(full) {
		t.Errorf("%d rows, want %d", len(rows), len(full))
	}
	for _, r := range rows {
		if r.Ours.P50 <= 0 || r.Peer.P50 <= 0 || r.Ratio <= 0 || r.PeerIs == "" {
			t.Errorf("row %+v", r)
		}
	}
}
