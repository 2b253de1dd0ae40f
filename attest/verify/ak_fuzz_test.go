// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"bytes"
	"testing"

	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/tpm2"
)

// FuzzAK: what passes as an attestation key is one TPMT_PUBLIC to the last byte,
// restricted to signing and fixed to its TPM, with the Name that the TPM would
// give it; and trust.Build with such a record makes a verifier, with another none.
func FuzzAK(f *testing.F) {
	for _, alg := range []string{"ES256", "ES384", "ML-DSA-65", "RS256"} {
		f.Add(machine(f, alg).PublicBytes())
	}
	f.Add([]byte{})
	sample := machine(f, "ES256").Record("web-1")
	const must = tpm2.ObjectRestricted | tpm2.ObjectSignEncrypt | tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin
	f.Fuzz(func(t *testing.T, b []byte) {
		name, alg, err := verify.CheckAK(b)
		record := sample
		record.Public = b
		if roots, buildErr := trust.New([]trust.AK{record}, nil); buildErr == nil {
			if got := verify.CheckRoots(roots); (got == nil) != (err == nil) {
				t.Fatalf("as a record %v, alone %v", got, err)
			}
		}
		if err != nil {
			if name != nil || alg != "" {
				t.Fatalf("name %x, algorithm %q beside %v", name, alg, err)
			}
			return
		}
		var p tpm2.Public
		if err := tpm2.Decode(b, &p); err != nil {
			t.Fatal(err)
		}
		out, err := tpm2.Encode(&p)
		if err != nil || !bytes.Equal(out, b) || p.Attributes&must != must || p.Attributes.Has(tpm2.ObjectDecrypt) || alg == "" {
			t.Fatalf("accepted %x as %s (%v)", b, alg, err)
		}
		if want, err := p.Name(); err != nil || !bytes.Equal(want, name) {
			t.Fatalf("Name %x, expected %x (%v)", name, want, err)
		}
	})
}
