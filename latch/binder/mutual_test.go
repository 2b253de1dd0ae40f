// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"encoding/json"
	"os"
	"testing"
)

// TestMutualVectors compares with vectors that another implementation made
// (Python's hashlib, from the format's text).
func TestMutualVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/mutual.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Mutual []struct {
			Group        uint16
			ClientShare  string `json:"client_share"`
			ServerShare  string `json:"server_share"`
			Transcript   string
			ClaimsDigest string `json:"claims_digest"`
			Core         string
			ClientBinder string `json:"client_binder"`
			ClientLeaf   string `json:"client_leaf"`
			ServerBinder string `json:"server_binder"`
		}
	}
	if err := json.Unmarshal(raw, &v); err != nil || len(v.Mutual) < 4 {
		t.Fatalf("%v, %d vectors", err, len(v.Mutual))
	}
	for _, m := range v.Mutual {
		core := MutualCore(m.Group, unhex(t, m.ClientShare), unhex(t, m.ServerShare), hash(t, m.Transcript))
		client := MutualClient(core)
		leaf := Leaf(client, hash(t, m.ClaimsDigest))
		if core != hash(t, m.Core) || client != hash(t, m.ClientBinder) || leaf != hash(t, m.ClientLeaf) || MutualServer(core, leaf) != hash(t, m.ServerBinder) {
			t.Errorf("group %d: core %x client %x leaf %x server %x", m.Group, core, client, leaf, MutualServer(core, leaf))
		}
	}
}

// TestMutualDiffers: whatever an attacker may exchange, the binder changes:
// the sides' shares (reflection), the roles, the client's evidence, the session,
// and one-sided for mutual.
func TestMutualDiffers(t *testing.T) {
	a, b := []byte("share of one side, 32 bytes long"), []byte("the other one's, 32 bytes long..")
	var tr, claims [32]byte
	tr[0], claims[0] = 1, 2
	core := MutualCore(29, a, b, tr)
	leaf := Leaf(MutualClient(core), claims)
	seen := map[[32]byte]string{}
	add := func(what string, v [32]byte) {
		if old, ok := seen[v]; ok {
			t.Errorf("%s and %s are the same", what, old)
		}
		seen[v] = what
	}
	add("server", MutualServer(core, leaf))
	add("client", MutualClient(core))
	add("reflected server", MutualServer(MutualCore(29, b, a, tr), leaf))
	add("reflected client", MutualClient(MutualCore(29, b, a, tr)))
	add("another client's evidence", MutualServer(core, Leaf(MutualClient(core), tr)))
	add("no client evidence", MutualServer(core, [32]byte{}))
	add("another session", MutualClient(MutualCore(29, a, b, claims)))
	add("another group", MutualClient(MutualCore(23, a, b, tr)))
	add("bytes moved between the shares", MutualClient(MutualCore(29, a[:31], append(append([]byte{}, a[31:]...), b...), tr)))
	for _, r := range []Role{Server, Client} {
		for _, s := range [][]byte{a, b} {
			add("one-sided", Compute(r, Hello, 29, s, tr))
			add("one-sided share", Compute(r, Share, 29, s, tr))
		}
	}
	add("core", core)
}
