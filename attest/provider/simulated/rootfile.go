// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"fmt"
	"io"

	"filippo.io/mldsa"
	"go.yaml.in/yaml/v3"

	"holdfast/attest/evidence"
	"holdfast/attest/trust"
)

// rootFile is the shape of a root's file. The key is the private scalar
// (ES256) or the seed (ML-DSA-65), 32 bytes in hexadecimal.
type rootFile struct {
	Simulated string    `yaml:"what"` // evidence.SimulatedMark
	Name      string    `yaml:"name"`
	Algorithm string    `yaml:"algorithm"`
	Key       trust.Hex `yaml:"key"`
}

// Encode writes the root with its private key, for a file of mode 0600.
func (r *Root) Encode() ([]byte, error) {
	f := rootFile{Simulated: evidence.SimulatedMark, Name: r.name, Algorithm: r.key.alg}
	if r.key.pq != nil {
		f.Key = r.key.pq.Bytes()
	} else {
		b, err := r.key.ec.Bytes()
		if err != nil {
			return nil, err
		}
		f.Key = b
	}
	defer clear(f.Key)
	var b bytes.Buffer
	err := yaml.NewEncoder(&b).Encode(f)
	return b.Bytes(), err
}

// ParseRoot reads such a file. Its errors do not contain the key.
func ParseRoot(b []byte) (*Root, error) {
	var f rootFile
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if d.Decode(&f) != nil || !errors.Is(d.Decode(new(any)), io.EOF) {
		return nil, errors.New("simulated root: expected one YAML document with what, name, algorithm and key")
	}
	defer clear(f.Key)
	if f.Simulated != evidence.SimulatedMark {
		return nil, fmt.Errorf("simulated root: expected what: %s", evidence.SimulatedMark)
	}
	if err := trust.CheckName(f.Name); err != nil {
		return nil, fmt.Errorf("simulated root: %w", err)
	}
	s := &signer{alg: f.Algorithm}
	var err error
	switch f.Algorithm {
	case evidence.ES256:
		s.ec, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), f.Key)
	case evidence.MLDSA65:
		s.pq, err = mldsa.NewPrivateKey(mldsa.MLDSA65(), f.Key)
	default:
		return nil, fmt.Errorf("simulated root: algorithm: expected %s or %s, got %q", evidence.ES256, evidence.MLDSA65, f.Algorithm)
	}
	if err != nil {
		return nil, errors.New("simulated root: key: expected a private key of 32 bytes")
	}
	return &Root{f.Name, s}, nil
}
