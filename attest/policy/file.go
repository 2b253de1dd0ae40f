// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"holdfast/attest/evidence"
	"holdfast/attest/verify"
	"holdfast/tpm2"
)

// file is the shape of a policy file. Keys marked "must" make every
// evaluation fail when they are absent.
type file struct {
	Version      int      `yaml:"version"`      // 1; 0 (absent) means 1
	Profile      string   `yaml:"profile"`      // pq-only, or absent
	Simulated    string   `yaml:"simulated"`    // allow or refuse (default)
	Environments []string `yaml:"environments"` // must: names in the trust file
	Signatures   []string `yaml:"signatures"`   // must: algorithms of the evidence, such as ML-DSA-65
	Class        string   `yaml:"class"`        // must: machine or enclave

	Measurements string                        `yaml:"measurements"` // required (default) or none: must there be a pcrs or events rule?
	PCRs         map[string]map[uint8][]digest `yaml:"pcrs"`         // bank, index, accepted values
	pcrs         []pcrRule                     // the same, sorted
	Events       []eventRule                   `yaml:"events"`
	ResetCount   *span                         `yaml:"reset-count"`
	RestartCount *span                         `yaml:"restart-count"`
	Firmware     []firmware                    `yaml:"firmware"` // accepted versions
	Clock        *clock                        `yaml:"clock"`
	Enrolment    *enrolment                    `yaml:"enrolment"`
	Age          *duration                     `yaml:"age"` // of evidence that carries its own time

	SNP        *snpRules `yaml:"sev-snp"`    // must, for evidence of that type
	TDX        *tdxRules `yaml:"tdx"`        // likewise
	CSV        *csvRules `yaml:"csv"`        // likewise
	Collateral string    `yaml:"collateral"` // required (default) or optional: revocation lists and TCB information

	ServerNames  []string `yaml:"server-names"`
	Groups       []string `yaml:"groups"` // must: key exchanges, by IANA's names
	groups       map[uint16]bool
	CipherSuites []string `yaml:"cipher-suites"`
	suites       map[uint16]bool
	Grades       []string `yaml:"grades"`     // default hello
	Resumption   string   `yaml:"resumption"` // refuse (default) or dhe
	Claims       *claims  `yaml:"claims"`     // must name executables or units; not of enclaves
	Enclave      *enclave `yaml:"enclave"`    // must for class enclave

	hasRules bool // something besides a version
}

// pcrRule is one line of the pcrs rule.
type pcrRule struct {
	name     string // of the rule in a failure, such as pcrs.sha256.7
	bank     tpm2.Alg
	index    uint8
	accepted []digest
}

// eventRule constrains what was measured into one PCR. The log must lead to
// the quoted value; then each event is proved.
type eventRule struct {
	PCR     uint8   `yaml:"pcr"`
	Only    []match `yaml:"only"`    // every measurement in this PCR matches one of these
	Require []match `yaml:"require"` // each of these occurs
	name    string  // of the rule in a failure
}

// match describes one recorded file measurement. Empty fields match anything.
type match struct {
	Kind   string   `yaml:"kind"`
	Name   string   `yaml:"name"`
	SHA256 []digest `yaml:"sha256"`
}

type span struct {
	Min *uint32 `yaml:"min"`
	Max *uint32 `yaml:"max"`
}

type clock struct {
	Safe bool   `yaml:"safe"` // the TPM says that its clock never went back
	Min  uint64 `yaml:"min"`  // milliseconds
}

type enrolment struct {
	Methods []string  `yaml:"methods"`
	MaxAge  *duration `yaml:"max-age"`
	EKRoots []digest  `yaml:"ek-roots"` // SHA-256 of root certificates: enrolment followed the EK's chain to one of them
}

// claims lists accepted values; an absent list asks nothing, except that
// executables or units must be there.
type claims struct {
	Executables  []string `yaml:"executables"` // SHA-256
	MeasuredIn   *uint8   `yaml:"executable-measured-in"`
	Units        []string `yaml:"units"`
	Services     []string `yaml:"services"`
	Listeners    []string `yaml:"listeners"`
	NetNS        []string `yaml:"network-namespaces"`
	Configs      []string `yaml:"configs"` // SHA-256
	AgentVersion []string `yaml:"agent-versions"`
}

// Parse reads a policy. An empty file is a policy that refuses everything.
func Parse(b []byte) (*Policy, error) {
	p := &Policy{}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&p.f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("policy: %w", err)
	} else if err == nil {
		if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
			return nil, errors.New("policy: expected one YAML document")
		}
	}
	p.f.hasRules = !reflect.DeepEqual(p.f, file{Version: p.f.Version})
	if err := p.f.check(); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return p, nil
}

func (f *file) check() error {
	if f.Version != 0 && f.Version != 1 {
		return fmt.Errorf("version: expected 1, got %d", f.Version)
	}
	for _, e := range []struct {
		key, value string
		accepted   []string
	}{
		{"profile", f.Profile, []string{profilePQ}},
		{"simulated", f.Simulated, []string{"allow", "refuse"}},
		{"measurements", f.Measurements, []string{"required", "none"}},
		{"collateral", f.Collateral, []string{"required", "optional"}},
		{"resumption", f.Resumption, []string{"refuse", "dhe"}},
		{"class", f.Class, []string{verify.ClassMachine, verify.ClassEnclave}},
	} {
		if err := oneOf(e.key, e.value, e.accepted); err != nil {
			return err
		}
	}
	for _, g := range f.Grades {
		if g != GradeHello && g != GradeShare {
			return fmt.Errorf("grades: expected %s or %s, got %q", GradeHello, GradeShare, g)
		}
	}
	for _, s := range f.Signatures {
		if !verify.KnownSignature(s) {
			return fmt.Errorf("signatures: %q is no algorithm that evidence can have; for example ML-DSA-65 or ES256", s)
		}
	}
	var err error
	if f.groups, err = byName("groups", f.Groups, groupNames); err != nil {
		return err
	}
	if f.suites, err = byName("cipher-suites", f.CipherSuites, suiteNames); err != nil {
		return err
	}
	if err := f.checkPCRs(); err != nil {
		return err
	}
	for i, e := range f.Events {
		if !usable(e.PCR) || len(e.Only)+len(e.Require) == 0 {
			return fmt.Errorf("events[%d]: expected %s, and a list only or require", i, usablePCRs)
		}
		f.Events[i].name = fmt.Sprintf("events.%d", e.PCR)
	}
	if err := f.checkPlatforms(); err != nil {
		return err
	}
	return f.checkLists()
}

const maxPCR = 23

// usable says whether a rule can rest on a PCR: programs can reset 16 and 23
// and extend them anew (PC Client Platform TPM Profile, section 4.6).
func usable(pcr uint8) bool { return pcr <= maxPCR && pcr != 16 && pcr != 23 }

const usablePCRs = "a PCR of 0 to 22 except 16, since programs reset 16 and 23"

func (f *file) checkPCRs() error {
	for bank, values := range f.PCRs {
		h, err := evidence.ParseHashAlg(bank)
		if err != nil {
			return fmt.Errorf("pcrs: %w", err)
		}
		if len(values) == 0 {
			return fmt.Errorf("pcrs.%s: no values", bank)
		}
		for i, accepted := range values {
			if !usable(i) || len(accepted) == 0 {
				return fmt.Errorf("pcrs.%s.%d: expected %s, and at least one value", bank, i, usablePCRs)
			}
			for _, d := range accepted {
				if len(d) != h.DigestSize() {
					return fmt.Errorf("pcrs.%s.%d: expected values of %d bytes, got %d", bank, i, h.DigestSize(), len(d))
				}
			}
			f.pcrs = append(f.pcrs, pcrRule{fmt.Sprintf("pcrs.%s.%d", bank, i), h, i, accepted})
		}
	}
	slices.SortFunc(f.pcrs, func(a, b pcrRule) int {
		return cmp.Or(cmp.Compare(a.bank, b.bank), cmp.Compare(a.index, b.index))
	})
	return nil
}

func (f *file) checkLists() error {
	if err := f.Enclave.check(); err != nil {
		return err
	}
	if e := f.Enrolment; e != nil {
		for _, m := range e.Methods {
			if err := oneOf("enrolment.methods", m, enrolmentMethods); err != nil || m == "" {
				return fmt.Errorf("enrolment.methods: expected one of %v, got %q", enrolmentMethods, m)
			}
		}
		if err := sizes("enrolment.ek-roots", 32, e.EKRoots); err != nil {
			return err
		}
	}
	for _, e := range f.Events {
		for _, m := range append(append([]match(nil), e.Only...), e.Require...) {
			if m.Kind == "" && m.Name == "" && len(m.SHA256) == 0 {
				return errors.New("events: an entry without kind, name and sha256 would match anything")
			}
			for _, d := range m.SHA256 {
				if len(d) != 32 {
					return fmt.Errorf("events: sha256: expected 32 bytes, got %d", len(d))
				}
			}
		}
	}
	if c := f.Claims; c != nil {
		for key, list := range map[string][]string{"executables": c.Executables, "configs": c.Configs} {
			for _, s := range list {
				if !isSHA256(s) {
					return fmt.Errorf("claims.%s: expected SHA-256 digests of 64 lower-case hexadecimal digits, got %q", key, s)
				}
			}
		}
		if c.MeasuredIn != nil && !usable(*c.MeasuredIn) {
			return fmt.Errorf("claims.executable-measured-in: expected %s; got %d", usablePCRs, *c.MeasuredIn)
		}
		for key, list := range map[string][]string{"units": c.Units, "services": c.Services, "listeners": c.Listeners, "network-namespaces": c.NetNS, "agent-versions": c.AgentVersion} {
			for _, s := range list {
				if s == "" {
					return fmt.Errorf("claims.%s: an empty value would accept a claim that was not made", key)
				}
			}
		}
	}
	for key, list := range map[string][]string{"environments": f.Environments, "server-names": f.ServerNames} {
		for _, s := range list {
			if s == "" {
				return fmt.Errorf("%s: an empty name", key)
			}
		}
	}
	return nil
}

func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && hex.EncodeToString(b) == s
}

func oneOf(key, value string, accepted []string) error {
	if value == "" {
		return nil
	}
	for _, a := range accepted {
		if a == value {
			return nil
		}
	}
	return fmt.Errorf("%s: expected one of %v, got %q", key, accepted, value)
}

// digest is hexadecimal in YAML.
type digest []byte

// UnmarshalYAML reads lower- or upper-case hexadecimal digits.
func (d *digest) UnmarshalYAML(n *yaml.Node) error {
	b, err := hex.DecodeString(n.Value)
	if err != nil || len(b) == 0 || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected hexadecimal digits, got %q", n.Line, n.Value)
	}
	*d = b
	return nil
}

// duration is written as Go does: 90s, 10m, 2160h.
type duration time.Duration

// UnmarshalYAML reads a positive duration.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v <= 0 {
		return fmt.Errorf("line %d: expected a positive duration such as 90s or 2160h, got %q", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// firmware is a TPM's firmwareVersion: decimal, or hexadecimal after 0x.
type firmware uint64

// UnmarshalYAML reads the number.
func (f *firmware) UnmarshalYAML(n *yaml.Node) error {
	v, err := strconv.ParseUint(n.Value, 0, 64)
	if err != nil {
		return fmt.Errorf("line %d: expected a firmware version such as 0x20240125, got %q", n.Line, n.Value)
	}
	*f = firmware(v)
	return nil
}
