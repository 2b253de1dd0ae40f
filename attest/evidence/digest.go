// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"

	"holdfast/tpm2"
)

// hashAlgs are the hashes that PCR banks and event logs use and that can be
// computed here.
var hashAlgs = []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA384, tpm2.AlgSHA512, tpm2.AlgSHA1, tpm2.AlgSHA3_256, tpm2.AlgSHA3_384, tpm2.AlgSHA3_512, tpm2.AlgSM3_256}

// ParseHashAlg reads a bank's name as policies and tpm2-tools write it.
func ParseHashAlg(s string) (tpm2.Alg, error) {
	for _, a := range hashAlgs {
		if a.String() == s {
			return a, nil
		}
	}
	return 0, fmt.Errorf("hash: expected one of %v, got %q", hashAlgs, s)
}

// Digest is a digest with its algorithm.
type Digest struct {
	Hash  tpm2.Alg
	Value []byte
}
