// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"errors"
	"math/big"

	"filippo.io/mldsa"

	"holdfast/attest/evidence"
)

// rawKey verifies the signatures of simulated evidence.
type rawKey struct {
	alg string
	ec  *ecdsa.PublicKey
	pq  *mldsa.PublicKey
}

func parseRawKey(alg string, public []byte) (*rawKey, error) {
	switch alg {
	case evidence.ES256:
		k, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), public)
		if err != nil {
			return nil, err
		}
		return &rawKey{alg: alg, ec: k}, nil
	case evidence.MLDSA65:
		k, err := mldsa.NewPublicKey(mldsa.MLDSA65(), public)
		if err != nil {
			return nil, err
		}
		return &rawKey{alg: alg, pq: k}, nil
	}
	return nil, errors.New("algorithm: expected " + evidence.ES256 + " or " + evidence.MLDSA65)
}

func (k *rawKey) verify(message, sig []byte) bool {
	if k.pq != nil {
		return mldsa.Verify(k.pq, message, sig, nil) == nil
	}
	if len(sig) != 64 {
		return false
	}
	h := sha256.Sum256(message)
	return ecdsa.Verify(k.ec, h[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
}
