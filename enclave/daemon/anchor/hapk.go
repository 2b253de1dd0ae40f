// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"filippo.io/mldsa"

	"holdfast/attest/evidence"
)

// hapk is the monitor's attestation key. It is new at each start and never
// leaves the process.
type hapk struct {
	pub  evidence.EnclaveKey
	sign func(message []byte) ([]byte, error)
}

func newHAPK(algorithm, level string) (*hapk, error) {
	h := &hapk{pub: evidence.EnclaveKey{Algorithm: algorithm, Level: level}}
	switch algorithm {
	case evidence.MLDSA65:
		k, err := mldsa.GenerateKey(mldsa.MLDSA65())
		if err != nil {
			return nil, err
		}
		h.pub.Public = k.PublicKey().Bytes()
		h.sign = func(m []byte) ([]byte, error) { return k.Sign(nil, m, nil) }
	case evidence.ES256:
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		if h.pub.Public, err = k.PublicKey.Bytes(); err != nil {
			return nil, err
		}
		h.sign = func(m []byte) ([]byte, error) {
			d := sha256.Sum256(m)
			r, s, err := ecdsa.Sign(rand.Reader, k, d[:])
			if err != nil {
				return nil, err
			}
			return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), nil
		}
	default:
		return nil, fmt.Errorf("monitor key: expected %s or %s, got %q", evidence.MLDSA65, evidence.ES256, algorithm)
	}
	return h, nil
}
