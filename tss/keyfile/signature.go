// SPDX-License-Identifier: Apache-2.0

package keyfile

import (
	"fmt"
	"math/big"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
)

// PlainSignature returns a signature as software without a TPM has it: ECDSA
// as Ecdsa-Sig-Value (RFC 3279, 2.2.3), RSA, EdDSA and ML-DSA as the octets alone.
func PlainSignature(s *tpm2.Signature) ([]byte, error) {
	switch s.Alg {
	case tpm2.AlgRSASSA, tpm2.AlgRSAPSS, tpm2.AlgMLDSA, tpm2.AlgHashMLDSA, tpm2.AlgEdDSA, tpm2.AlgHashEdDSA:
		return s.Sig, nil
	case tpm2.AlgECDSA:
		var b cryptobyte.Builder
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1BigInt(new(big.Int).SetBytes(s.R))
			b.AddASN1BigInt(new(big.Int).SetBytes(s.S))
		})
		return b.Bytes()
	}
	return nil, fmt.Errorf("keyfile: a signature of %v has no plain form; keep it as tss", s.Alg)
}
