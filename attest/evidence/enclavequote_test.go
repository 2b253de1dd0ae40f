// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"holdfast/enclave/sgx"
	"holdfast/latch/binder"
)

func sampleEnclaveQuote() *EnclaveQuote {
	r := sgx.Report{MREnclave: [32]byte{1}, MRSigner: [32]byte{2}, ISVProdID: 3, ISVSVN: 4, Attributes: sgx.Attributes{Flags: sgx.FlagInit | sgx.FlagMode64, XFRM: 3}, ReportData: [64]byte{5}}
	body := r.AppendBody(nil)
	t := binder.NewTree([][32]byte{{9}, EnclaveLeaf(ModeHU, body), {8}})
	return &EnclaveQuote{Mode: ModeHU, Report: body, Index: 1, Size: 3, Path: t.Path(1), Signature: []byte{7},
		Statement: EnclaveStatement{Level: LevelHosted, Made: 1000, Root: t.Root()}, TPM: []byte{6}}
}

func TestEnclaveQuote(t *testing.T) {
	q := sampleEnclaveQuote()
	enc := q.Encode()
	got, err := ParseEnclaveQuote(enc)
	if err != nil || !bytes.Equal(got.Encode(), enc) {
		t.Fatalf("%v", err)
	}
	if root, err := got.Root(); err != nil || root != q.Statement.Root {
		t.Errorf("root %x, %v", root, err)
	}
	got.Mode = ModeGU // a mode that the monitor did not state
	if root, _ := got.Root(); root == q.Statement.Root {
		t.Error("the leaf does not cover the mode")
	}
	for what, change := range map[string]func(*EnclaveQuote){
		"unknown mode":             func(q *EnclaveQuote) { q.Mode = "VM" },
		"unknown level":            func(q *EnclaveQuote) { q.Statement.Level = "trusted" },
		"short report":             func(q *EnclaveQuote) { q.Report = q.Report[:383] },
		"reserved bytes":           func(q *EnclaveQuote) { q.Report = bytes.Clone(q.Report); q.Report[20] = 1 },
		"no signature":             func(q *EnclaveQuote) { q.Signature = nil },
		"no TPM quote":             func(q *EnclaveQuote) { q.TPM = nil },
		"inproc with a TPM quote":  func(q *EnclaveQuote) { q.Statement.Level = LevelInproc },
		"path longer than a tree":  func(q *EnclaveQuote) { q.Path = make([][32]byte, 22) },
		"index above every tree":   func(q *EnclaveQuote) { q.Index = binder.MaxLeaves + 1 },
		"TPM quote above the size": func(q *EnclaveQuote) { q.TPM = make([]byte, 33<<10) },
	} {
		q := sampleEnclaveQuote()
		change(q)
		if got, err := ParseEnclaveQuote(q.Encode()); got != nil || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
}

// TestEnclaveBytes pins what is hashed and signed: a verifier of somebody else
// must form the same bytes. The values were computed with Python's hashlib from
// the descriptions in the documentation comments.
func TestEnclaveBytes(t *testing.T) {
	leaf := EnclaveLeaf("HU", bytes.Repeat([]byte{0xab}, 384))
	if got, want := hex.EncodeToString(leaf[:]), "2a831962371bfe5f6d106452245349756e6a2b87671a5f127acd7b47db11a80d"; got != want {
		t.Errorf("leaf %s, want %s", got, want)
	}
	s := EnclaveStatement{Level: "hosted", Made: 1000, Root: [32]byte{0xcd}}
	if got, want := hex.EncodeToString(s.SignedBytes()), "686f6c64666173742f656e636c6176652f73746174656d656e742f763100a30166686f73746564021903e8035820cd00000000000000000000000000000000000000000000000000000000000000"; got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
	d := s.TPMData([32]byte{0xef})
	if got, want := hex.EncodeToString(d[:]), "89912f90a39e6f796e27ef4add70d098ca5404cbdb867dbc6867770a0e7a1c670000000000000000000000000000000000000000000000000000000000000000"; got != want {
		t.Errorf("TPM data %s, want %s", got, want)
	}
}

func TestEnclaveKey(t *testing.T) {
	k := &EnclaveKey{Algorithm: MLDSA65, Public: []byte{1, 2}, Level: LevelHosted}
	got, err := ParseEnclaveKey(k.Encode())
	if err != nil || got.Algorithm != k.Algorithm || got.Level != k.Level || !bytes.Equal(got.Public, k.Public) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, bad := range []EnclaveKey{{"RS256", []byte{1}, LevelHosted}, {ES256, nil, LevelHosted}, {ES256, []byte{1}, "root"}} {
		if got, err := ParseEnclaveKey(bad.Encode()); got != nil || !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v, %v", bad, got, err)
		}
	}
}

func FuzzEnclaveQuote(f *testing.F) {
	f.Add(sampleEnclaveQuote().Encode())
	f.Add((&EnclaveKey{Algorithm: ES256, Public: []byte{1}, Level: LevelInproc}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		roundTrip(t, b, ParseEnclaveQuote, (*EnclaveQuote).Encode)
		roundTrip(t, b, ParseEnclaveKey, (*EnclaveKey).Encode)
	})
}
