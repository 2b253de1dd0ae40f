// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"testing"

	"holdfast/tpm2"
)

// TestProfile: the classic profile leaves SHA-3 and the post-quantum algorithms
// out of TPM_CAP_ALGS, and they work all the same.
func TestProfile(t *testing.T) {
	named := func(p Profile) map[tpm2.Alg]bool {
		tpm, err := New(NewMemoryStore(), Options{Profile: p})
		if err != nil {
			t.Fatal(err)
		}
		defer tpm.Close()
		tpm.Execute(0, unhex(t, "8001 0000000C 00000144 0000"))
		rsp := tpm.Execute(0, unhex(t, "8001 00000016 0000017A 00000000 00000000 000000FF"))
		if rc := rcOf(t, rsp); rc != 0 {
			t.Fatal(rc)
		}
		r := tpm2.NewReader(rsp[11:])
		var d tpm2.CapabilityData
		d.Unmarshal(r)
		m := map[tpm2.Alg]bool{}
		for _, a := range d.Algs {
			m[a.Alg] = true
		}
		hash := tpm.Execute(0, unhex(t, "8001 00000014 0000017D 0002 4142 0027 40000007"))
		if rc := rcOf(t, hash); rc != 0 {
			t.Fatalf("SHA3-256: %v", rc)
		}
		return m
	}
	full, classic := named(ProfileFull), named(ProfileClassic)
	for _, a := range []tpm2.Alg{tpm2.AlgSHA3_256, tpm2.AlgMLKEM, tpm2.AlgMLDSA} {
		if !full[a] || classic[a] {
			t.Errorf("%v: full %v, classic %v", a, full[a], classic[a])
		}
	}
	for _, a := range []tpm2.Alg{tpm2.AlgRSA, tpm2.AlgSHA256, tpm2.AlgECC, tpm2.AlgCFB} {
		if !full[a] || !classic[a] {
			t.Errorf("%v: full %v, classic %v", a, full[a], classic[a])
		}
	}
	if _, err := New(NewMemoryStore(), Options{Profile: "none"}); err == nil {
		t.Error("an unknown profile was accepted")
	}
}
