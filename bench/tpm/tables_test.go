// SPDX-License-Identifier: Apache-2.0

package tpm

import (
	"slices"
	"testing"
)

// TestTables: every algorithm has the operations that the seed's tables give it.
func TestTables(t *testing.T) {
	rows, err := Tables(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"RSA-2048": {"Create", "Sign", "Verify", "Encrypt", "Decrypt"}, "ECC P-256": {"Create", "Sign", "Verify"},
		"ML-KEM-768": {"Create", "Encrypt", "Decrypt", "Encapsulate", "Decapsulate"}, "ML-DSA-65": {"Create", "Sign", "Verify"},
		"ROT, q = 13313": {"ROT receiver", "ROT sender"},
	}
	if len(rows) != len(want) {
		t.Errorf("%d rows, expected %d", len(rows), len(want))
	}
	for _, r := range rows {
		for _, c := range TableColumns {
			if v, ok := r.Micros[c]; ok != slices.Contains(want[r.Algorithm], c) || ok && v <= 0 {
				t.Errorf("%s, %s: %v, there %v", r.Algorithm, c, v, ok)
			}
		}
	}
}

// TestMemory: sizes that the standards fix, and loaded objects that take more
// than their seed and less than a megabyte.
func TestMemory(t *testing.T) {
	rows, err := Memory()
	if err != nil {
		t.Fatal(err)
	}
	// TPMT_PUBLIC: type, nameAlg, attributes, an empty policy (10 bytes), the
	// parameters, and the unique field: a size and the key (FIPS 203, table 3; FIPS 204, table 2).
	public := map[string]int{"RSA-2048": 10 + 12 + 2 + 256, "ML-KEM-512": 10 + 4 + 2 + 800, "ML-KEM-768": 10 + 4 + 2 + 1184, "ML-KEM-1024": 10 + 4 + 2 + 1568,
		"ML-DSA-44": 10 + 3 + 2 + 1312, "ML-DSA-65": 10 + 3 + 2 + 1952, "ML-DSA-87": 10 + 3 + 2 + 2592, "ECC P-256": 10 + 10 + 2*(2+32)}
	for _, r := range rows {
		if r.Public != public[r.Key] {
			t.Errorf("%s: a public area of %d bytes, expected %d", r.Key, r.Public, public[r.Key])
		}
		if r.Private < 32 || r.Private > 1024 || r.Context < r.Private || r.State < r.Public || r.Loaded > 1<<20 || r.Loaded < 64 || r.Create < 1000 || r.Use < 100 {
			t.Errorf("%+v", r)
		}
	}
}
