// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"holdfast/attest/trust"
	"holdfast/tpm2"
)

// KeyFile is what the Attester keeps of its attestation key. The private part
// is encrypted by the TPM; without the secret, and the PCRs of the policy if
// there is one, the file is of no use to anybody.
type KeyFile struct {
	Version    int         `yaml:"version"` // 1
	Kind       Kind        `yaml:"kind"`
	Public     trust.Bytes `yaml:"public"`                // TPMT_PUBLIC
	Private    trust.Bytes `yaml:"private"`               // content of the TPM2B_PRIVATE
	PolicyPCRs []string    `yaml:"policy-pcrs,omitempty"` // selection, such as sha256:11,14, whose values at enrolment the key demands
	Persistent tpm2.Handle `yaml:"persistent,omitempty"`  // handle in the TPM, if the key was made persistent
}

// ParseKeyFile reads a key file. Unknown keys are errors.
func ParseKeyFile(b []byte) (*KeyFile, error) {
	k := &KeyFile{}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(k); err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("key file: expected one YAML document")
	}
	if k.Version != 1 {
		return nil, fmt.Errorf("key file: version: expected 1, got %d", k.Version)
	}
	if _, err := ParseKind(string(k.Kind)); err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if _, err := k.public(); err != nil {
		return nil, err
	}
	if _, err := ParseSelection(k.PolicyPCRs); err != nil {
		return nil, fmt.Errorf("key file: policy-pcrs: %w", err)
	}
	if k.Persistent == 0 && len(k.Private) == 0 {
		return nil, errors.New("key file: expected private or persistent")
	}
	if k.Persistent != 0 && k.Persistent.Type() != tpm2.HTPersistent {
		return nil, fmt.Errorf("key file: persistent: expected a handle from 0x81000000, got %v", k.Persistent)
	}
	return k, nil
}

// Encode writes a file that ParseKeyFile reads again.
func (k *KeyFile) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(k)
	return b.Bytes(), err
}

func (k *KeyFile) public() (*tpm2.Public, error) {
	p := &tpm2.Public{}
	if err := tpm2.Decode(k.Public, p); err != nil {
		return nil, fmt.Errorf("key file: public: expected a TPMT_PUBLIC: %w", err)
	}
	return p, nil
}

// SecretSize is the size of an attestation key's secret in bytes.
const SecretSize = 32

// NewSecret draws a secret.
func NewSecret() ([]byte, error) {
	s := make([]byte, SecretSize)
	_, err := rand.Read(s)
	return s, err
}

// FormatSecret is how a secret stands in its file. Erase the result after use.
func FormatSecret(s []byte) []byte { return append(hex.AppendEncode(nil, s), '\n') }

// ParseSecret reads a secret from its file's content. Its errors do not
// contain any of it.
func ParseSecret(b []byte) ([]byte, error) {
	s := make([]byte, SecretSize)
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) != 2*SecretSize {
		return nil, fmt.Errorf("secret: expected %d hexadecimal digits, got %d characters", 2*SecretSize, len(b))
	}
	if _, err := hex.Decode(s, b); err != nil {
		clear(s)
		return nil, errors.New("secret: expected hexadecimal digits only")
	}
	return s, nil
}
