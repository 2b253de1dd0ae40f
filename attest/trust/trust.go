// SPDX-License-Identifier: Apache-2.0

// Package trust holds what a Verifier believes before it has seen anything:
// pinned attestation keys, pinned chips of confidential virtual machines and,
// for tests and benchmarks, roots of simulated evidence (the trust anchors of RFC 9334, section 7.4).
//
// Start with Parse, which reads a trust file, or Load. A Roots value is not
// changed after it was made, so that it may be shared. `holdfast attest enroll`
// writes the records; a person or a deployment system reviews and carries
// them to the relying parties, since a record is exactly as good as the
// channel that it came through.
package trust

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"holdfast/attest/evidence"
)

// Version of the file format.
const Version = 1

// maxFile bounds a trust file, in bytes: room for ten thousand ML-DSA keys.
const maxFile = 64 << 20

// MethodActivation is the only way of enrolment that proves something of
// itself: TPM2_MakeCredential and TPM2_ActivateCredential show that AK and EK
// are in one TPM (TPM Library Part 1, section 24).
const MethodActivation = "credential-activation"

// MethodImported marks a record whose key was copied in by hand; only the
// person who did it knows that the key is in a TPM.
const MethodImported = "imported"

// AK is the pinned record of one attestation key.
type AK struct {
	Environment   string    `yaml:"environment"`              // name by which policies accept it: 1 to 64 of a-z A-Z 0-9 . _ -
	Public        Bytes     `yaml:"public"`                   // TPMT_PUBLIC, base64
	QualifiedName Hex       `yaml:"qualified-name,omitempty"` // as TPM2_ReadPublic gave it; then every quote must carry it
	Method        string    `yaml:"method"`                   // MethodActivation or MethodImported
	Enrolled      time.Time `yaml:"enrolled"`
	Machine       string    `yaml:"machine,omitempty"` // identifier of the machine, as told at enrolment
	EK            EK        `yaml:"ek,omitempty"`
	// EnclaveLevel says that the key is held by an enclave monitor and for which
	// level of trust (evidence.LevelHosted or LevelLateLaunch). Such a key
	// vouches for enclaves of this level and for nothing else; a key without it
	// never vouches for an enclave.
	EnclaveLevel string `yaml:"enclave-level,omitempty"`
}

// EK names the endorsement key that the AK was activated with.
type EK struct {
	Name              Hex    `yaml:"name,omitempty"`               // TPM Name
	Type              string `yaml:"type,omitempty"`               // such as ML-KEM-768 or ECC-P256
	CertificateSHA256 Hex    `yaml:"certificate-sha256,omitempty"` // digest of the DER certificate, if one was seen
	RootSHA256        Hex    `yaml:"root-sha256,omitempty"`        // digest of the maker's root certificate to which enrolment followed the chain; absent: not checked
}

// SimulatedRoot may sign report keys of simulated environments.
type SimulatedRoot struct {
	Name      string `yaml:"name"`
	Algorithm string `yaml:"algorithm"` // ES256 or ML-DSA-65
	Public    Bytes  `yaml:"public"`
}

// file is the shape of a trust file.
type file struct {
	Version int `yaml:"version"`
	Records `yaml:",inline"`
}

// Records are all that a trust file can hold.
type Records struct {
	AKs       []AK            `yaml:"attestation-keys,omitempty"`
	Platforms []Platform      `yaml:"platforms,omitempty"`
	Simulated []SimulatedRoot `yaml:"simulated-roots,omitempty"`
}

// Roots is a parsed trust file.
type Roots struct {
	aks       []AK
	byHash    map[[32]byte]*AK
	simulated []SimulatedRoot
	platforms []Platform
}

// New builds Roots from keys and simulated roots alone; see Build.
func New(aks []AK, simulated []SimulatedRoot) (*Roots, error) {
	return Build(Records{AKs: aks, Simulated: simulated})
}

// Build makes Roots from records; the same rules as for a file apply.
func Build(x Records) (*Roots, error) {
	r := &Roots{aks: slices.Clone(x.AKs), simulated: slices.Clone(x.Simulated), platforms: slices.Clone(x.Platforms), byHash: map[[32]byte]*AK{}}
	names := map[string]bool{}
	for i := range r.aks {
		ak := &r.aks[i]
		if err := ak.check(); err != nil {
			return nil, fmt.Errorf("attestation-keys[%d]: %w", i, err)
		}
		if names[ak.Environment] {
			return nil, fmt.Errorf("attestation-keys[%d]: the environment %q has a record already; one name means one key", i, ak.Environment)
		}
		names[ak.Environment] = true
		h := PublicHash(ak.Public)
		if r.byHash[h] != nil {
			return nil, fmt.Errorf("attestation-keys[%d]: the key of %q is pinned already as %q", i, ak.Environment, r.byHash[h].Environment)
		}
		r.byHash[h] = ak
	}
	if err := checkPlatforms(r.platforms, names); err != nil {
		return nil, err
	}
	names = map[string]bool{}
	for i, s := range r.simulated {
		if err := CheckName(s.Name); err != nil {
			return nil, fmt.Errorf("simulated-roots[%d]: %w", i, err)
		}
		if s.Algorithm != evidence.ES256 && s.Algorithm != evidence.MLDSA65 {
			return nil, fmt.Errorf("simulated-roots[%d]: algorithm: expected %s or %s, got %q", i, evidence.ES256, evidence.MLDSA65, s.Algorithm)
		}
		if len(s.Public) == 0 || names[s.Name] {
			return nil, fmt.Errorf("simulated-roots[%d]: %q has no key or is there twice", i, s.Name)
		}
		names[s.Name] = true
	}
	return r, nil
}

func (a *AK) check() error {
	if err := CheckName(a.Environment); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	if len(a.Public) == 0 || len(a.Public) > 8192 {
		return fmt.Errorf("%s: public: expected 1 to 8192 bytes, got %d", a.Environment, len(a.Public))
	}
	if a.Method != MethodActivation && a.Method != MethodImported {
		return fmt.Errorf("%s: method: expected %s or %s, got %q", a.Environment, MethodActivation, MethodImported, a.Method)
	}
	if a.Method == MethodActivation && len(a.EK.Name) == 0 {
		return fmt.Errorf("%s: ek: a key enrolled by %s has an EK name", a.Environment, MethodActivation)
	}
	if _, _, ok := evidence.EnclavePCRs(a.EnclaveLevel); a.EnclaveLevel != "" && !ok {
		return fmt.Errorf("%s: enclave-level: expected %s or %s, got %q", a.Environment, evidence.LevelHosted, evidence.LevelLateLaunch, a.EnclaveLevel)
	}
	if a.Enrolled.IsZero() {
		return fmt.Errorf("%s: enrolled: expected a time", a.Environment)
	}
	return nil
}

// CheckName says whether s can name an environment: 1 to 64 letters, digits,
// dots, underscores and hyphens. In particular no slash, which simulated
// environments have in their names.
func CheckName(s string) error {
	if s == "" || len(s) > 64 {
		return fmt.Errorf("name: expected 1 to 64 characters, got %d", len(s))
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("name %q: expected letters, digits, '.', '_' and '-' only", s)
		}
	}
	return nil
}

// PublicHash is the hash of the endorsement that carries the TPMT_PUBLIC
// public: a report names its AK by it.
func PublicHash(public []byte) [32]byte {
	return evidence.Endorsement{Type: evidence.TypeTPMPublic, Body: public}.Hash()
}

// AK finds a pinned key by the hash of its endorsement.
func (r *Roots) AK(hash [32]byte) (*AK, bool) {
	a, ok := r.byHash[hash]
	return a, ok
}

// AKs lists the pinned keys in the file's order. Do not change them.
func (r *Roots) AKs() []AK { return r.aks }

// Simulated lists the roots of simulated evidence.
func (r *Roots) Simulated() []SimulatedRoot { return r.simulated }

// Records lists everything, in the file's order. The slices may be appended to.
func (r *Roots) Records() Records {
	return Records{slices.Clone(r.aks), slices.Clone(r.platforms), slices.Clone(r.simulated)}
}

// Parse reads a trust file. Unknown keys are errors.
func Parse(b []byte) (*Roots, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("trust file: expected at most %d bytes, got %d", maxFile, len(b))
	}
	var f file
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("trust file: empty; `holdfast attest enroll` writes records")
		}
		return nil, fmt.Errorf("trust file: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("trust file: expected one YAML document")
	}
	if f.Version != Version {
		return nil, fmt.Errorf("trust file: version: expected %d, got %d", Version, f.Version)
	}
	r, err := Build(f.Records)
	if err != nil {
		return nil, fmt.Errorf("trust file: %w", err)
	}
	return r, nil
}

// Load reads the trust file at path.
func Load(path string) (*Roots, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Encode writes a trust file that Parse reads again.
func (r *Roots) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(file{Version, r.Records()}); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Bytes is a byte string that is base64 in YAML.
type Bytes []byte

// MarshalYAML writes standard base64.
func (b Bytes) MarshalYAML() (any, error) { return base64.StdEncoding.EncodeToString(b), nil }

// UnmarshalYAML reads standard base64, strictly.
func (b *Bytes) UnmarshalYAML(n *yaml.Node) error {
	v, err := base64.StdEncoding.Strict().DecodeString(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected base64", n.Line)
	}
	*b = v
	return nil
}

// Hex is a byte string that is lower-case hexadecimal in YAML.
type Hex []byte

// MarshalYAML writes hexadecimal.
func (h Hex) MarshalYAML() (any, error) { return hex.EncodeToString(h), nil }

// UnmarshalYAML reads hexadecimal.
func (h *Hex) UnmarshalYAML(n *yaml.Node) error {
	v, err := hex.DecodeString(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected hexadecimal digits", n.Line)
	}
	*h = v
	return nil
}
