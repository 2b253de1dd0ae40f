// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"

	"holdfast/attest/evidence"
)

// enclave says which enclaves are accepted. It is needed for class enclave,
// and so are levels, monitors, and one of mrenclave and mrsigner.
type enclave struct {
	Levels     []string `yaml:"levels"`    // must: hosted, late-launch; inproc only for tests
	Modes      []string `yaml:"modes"`     // HU, GU, P; absent: any
	Monitors   []digest `yaml:"monitors"`  // must, except for level inproc: SHA-256 of the monitor's image
	MREnclave  []digest `yaml:"mrenclave"` // SHA-256; this or mrsigner must be there
	MRSigner   []digest `yaml:"mrsigner"`
	ISVProdIDs []uint16 `yaml:"isv-prod-ids"` // must with mrsigner and without mrenclave
	ISVSVN     *span    `yaml:"isv-svn"`
	Debug      string   `yaml:"debug"` // refuse (default) or allow
	CPUSVN     digest   `yaml:"cpu-svn-min"`
	ConfigIDs  []digest `yaml:"config-ids"` // 64 bytes
	ConfigSVN  *span    `yaml:"config-svn"`
	FamilyIDs  []digest `yaml:"isv-family-ids"`   // 16 bytes
	ExtProdIDs []digest `yaml:"isv-ext-prod-ids"` // 16 bytes
}

func (e *enclave) check() error {
	if e == nil {
		return nil
	}
	for _, x := range []struct {
		key           string
		got, accepted []string
	}{{"levels", e.Levels, evidence.EnclaveLevels}, {"modes", e.Modes, evidence.EnclaveModes}, {"debug", []string{e.Debug}, []string{"", "allow", "refuse"}}} {
		for _, s := range x.got {
			if !slices.Contains(x.accepted, s) {
				return fmt.Errorf("enclave.%s: expected one of %v, got %q", x.key, x.accepted, s)
			}
		}
	}
	for _, x := range []struct {
		key  string
		list []digest
		size int
	}{{"monitors", e.Monitors, 32}, {"mrenclave", e.MREnclave, 32}, {"mrsigner", e.MRSigner, 32}, {"config-ids", e.ConfigIDs, 64}, {"isv-family-ids", e.FamilyIDs, 16}, {"isv-ext-prod-ids", e.ExtProdIDs, 16}} {
		for _, d := range x.list {
			if len(d) != x.size {
				return fmt.Errorf("enclave.%s: expected %d bytes in hexadecimal, got %d", x.key, x.size, len(d))
			}
		}
	}
	if len(e.CPUSVN) != 0 && len(e.CPUSVN) != 16 {
		return fmt.Errorf("enclave.cpu-svn-min: expected 16 bytes in hexadecimal, got %d", len(e.CPUSVN))
	}
	return nil
}

// enclave runs the rules about an enclave. A policy for machines has none, and
// its rule class refuses enclaves.
func (c *check) enclave() {
	e, got := c.p.Enclave, c.r.Enclave
	switch {
	case got == nil && e == nil:
		return
	case got == nil:
		c.fail("enclave", "evidence of an enclave", "evidence of class "+quoted(c.r.Class))
		return
	case e == nil:
		c.missing("enclave")
		return
	}
	switch {
	case len(e.Levels) == 0:
		c.missing("enclave.levels")
	case !slices.Contains(e.Levels, got.Level):
		c.fail("enclave.levels", list(e.Levels), quoted(got.Level))
	}
	if e.Modes != nil && !slices.Contains(e.Modes, got.Mode) {
		c.fail("enclave.modes", list(e.Modes), quoted(got.Mode))
	}
	if got.Debug && e.Debug != "allow" {
		c.fail("enclave.debug", "an enclave whose memory nobody can look into", "a debug enclave")
	}
	switch {
	case got.Monitor == nil && got.Level == evidence.LevelInproc: // levels has accepted that nobody measured it
	case len(e.Monitors) == 0:
		c.missing("enclave.monitors")
	case got.Monitor == nil:
		c.fail("enclave.monitors", digests(e.Monitors), "a monitor that was not measured")
	default:
		c.among("enclave.monitors", e.Monitors, got.Monitor.SHA256[:])
	}
	if len(e.MREnclave) == 0 && len(e.MRSigner) == 0 {
		c.fail("enclave", "a rule enclave.mrenclave or enclave.mrsigner", "a policy without either, which accepts no enclave")
	}
	c.among("enclave.mrenclave", e.MREnclave, got.MREnclave[:])
	c.among("enclave.mrsigner", e.MRSigner, got.MRSigner[:])
	// One signer has many products; which of them is meant must be said.
	switch {
	case len(e.ISVProdIDs) == 0 && len(e.MREnclave) == 0 && len(e.MRSigner) > 0:
		c.missing("enclave.isv-prod-ids")
	case len(e.ISVProdIDs) > 0 && !slices.Contains(e.ISVProdIDs, got.ISVProdID):
		c.fail("enclave.isv-prod-ids", fmt.Sprintf("one of %v", e.ISVProdIDs), fmt.Sprint(got.ISVProdID))
	}
	e.ISVSVN.within(c, "enclave.isv-svn", uint32(got.ISVSVN))
	e.ConfigSVN.within(c, "enclave.config-svn", uint32(got.ConfigSVN))
	c.among("enclave.config-ids", e.ConfigIDs, got.ConfigID[:])
	c.among("enclave.isv-family-ids", e.FamilyIDs, got.ISVFamilyID[:])
	c.among("enclave.isv-ext-prod-ids", e.ExtProdIDs, got.ISVExtProdID[:])
	for i := range e.CPUSVN { // component by component, as SGX compares it
		if got.CPUSVN[i] < e.CPUSVN[i] {
			c.fail("enclave.cpu-svn-min", hex.EncodeToString(e.CPUSVN), hex.EncodeToString(got.CPUSVN[:]))
			break
		}
	}
}

// among demands that got is in the list; an absent list asks nothing.
func (c *check) among(rule string, accepted []digest, got []byte) {
	if len(accepted) > 0 && !slices.ContainsFunc(accepted, func(d digest) bool { return bytes.Equal(d, got) }) {
		c.fail(rule, digests(accepted), hex.EncodeToString(got))
	}
}

func digests(l []digest) string {
	names := make([]string, len(l))
	for i, d := range l {
		names[i] = hex.EncodeToString(d)
	}
	return list(names)
}

func (s *span) within(c *check, rule string, got uint32) {
	if s == nil {
		return
	}
	if s.Min != nil && got < *s.Min {
		c.fail(rule, fmt.Sprintf("at least %d", *s.Min), fmt.Sprint(got))
	}
	if s.Max != nil && got > *s.Max {
		c.fail(rule, fmt.Sprintf("at most %d", *s.Max), fmt.Sprint(got))
	}
}
