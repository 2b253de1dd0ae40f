// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/verify"
	"holdfast/tpm2"
)

func list(s []string) string { return "one of [" + strings.Join(s, ", ") + "]" }

func quoted(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

func (c *check) simulated() {
	if c.r.Simulated && c.p.Simulated != "allow" {
		c.fail("simulated", "evidence of a real root of trust", evidence.SimulatedMark+" evidence; a policy for tests says simulated: allow")
	}
}

func (c *check) environments() {
	switch {
	case len(c.p.Environments) == 0:
		c.missing("environments")
	case !slices.Contains(c.p.Environments, c.r.Environment):
		c.fail("environments", list(c.p.Environments), quoted(c.r.Environment))
	}
}

func (c *check) signatures() {
	switch {
	case len(c.p.Signatures) == 0:
		c.missing("signatures")
	case !slices.Contains(c.p.Signatures, c.r.Signature):
		c.fail("signatures", list(c.p.Signatures), quoted(c.r.Signature))
	case c.r.Enclave != nil && !slices.Contains(c.p.Signatures, c.r.Enclave.KeyAlgorithm):
		c.fail("signatures", list(c.p.Signatures), "a monitor that signs with "+quoted(c.r.Enclave.KeyAlgorithm))
	}
}

func (c *check) profile() {
	if c.p.Profile != profilePQ {
		return
	}
	if !c.r.PQ {
		c.fail("profile", "pq-only: evidence signed with ML-DSA throughout", quoted(c.r.Signature))
	}
	if !groupNames[c.s.Group].pq {
		c.fail("profile", "pq-only: a key exchange with ML-KEM", codeName(groupNames, c.s.Group))
	}
}

// measurements: an AK that is pinned but whose machine is not measured lets
// any software on that machine quote, so a policy must say so to get that.
// Simulated evidence measures nothing, and simulated: allow has said so.
func (c *check) measurements() {
	if c.r.Enclave != nil { // what is measured is the monitor: rule enclave.monitors
		return
	}
	if c.p.Measurements != "none" && !c.r.Simulated && c.r.Platform == nil && len(c.p.pcrs) == 0 && len(c.p.Events) == 0 {
		c.fail("measurements", "a pcrs or events rule (or measurements: none)", "a policy without either")
	}
}

func (c *check) pcrs() {
	for i := range c.p.pcrs {
		rule := &c.p.pcrs[i]
		p := slices.IndexFunc(c.r.PCRs, func(p verify.PCR) bool { return p.Hash == rule.bank && p.Index == rule.index })
		if p < 0 {
			c.fail(rule.name, "a quoted value", "a quote without this PCR")
			continue
		}
		got := c.r.PCRs[p].Value
		if !slices.ContainsFunc(rule.accepted, func(d digest) bool { return bytes.Equal(d, got) }) {
			names := make([]string, len(rule.accepted))
			for i, a := range rule.accepted {
				names[i] = hex.EncodeToString(a)
			}
			c.fail(rule.name, list(names), hex.EncodeToString(got))
		}
	}
}

func (m *match) matches(x *evidence.Measured) bool {
	if x == nil || (m.Kind != "" && m.Kind != x.Kind) || (m.Name != "" && m.Name != x.Name) {
		return false
	}
	if len(m.SHA256) == 0 {
		return true
	}
	for _, d := range m.SHA256 {
		if bytes.Equal(d, x.SHA256[:]) {
			return true
		}
	}
	return false
}

func (m *match) String() string {
	var out []string
	if m.Kind != "" {
		out = append(out, m.Kind)
	}
	if m.Name != "" {
		out = append(out, m.Name)
	}
	for _, d := range m.SHA256 {
		out = append(out, "sha256:"+hex.EncodeToString(d))
	}
	return strings.Join(out, " ")
}

// proved reports whether the event log explains this PCR wholly, in a bank
// whose hash is not broken: nobody can find another log for the same value.
func (c *check) proved(index uint8) bool {
	for i := range c.r.PCRs {
		if p := &c.r.PCRs[i]; p.Index == index && p.Logged && p.Hash != tpm2.AlgSHA1 {
			return true
		}
	}
	return false
}

func (c *check) events() {
	for i := range c.p.Events {
		e := &c.p.Events[i]
		rule := e.name
		if !c.proved(e.PCR) {
			c.fail(rule, "an event log that leads to the quoted value", "a quote without this PCR or evidence without such a log")
			continue
		}
		for j := range e.Require {
			if !slices.ContainsFunc(c.r.Events, func(ev verify.Event) bool {
				return ev.PCR == uint32(e.PCR) && e.Require[j].matches(ev.Measured)
			}) {
				c.fail(rule+".require", e.Require[j].String(), "a log without it")
			}
		}
		if len(e.Only) == 0 {
			continue
		}
		seen := false
		for _, ev := range c.r.Events {
			seen = seen || ev.PCR == uint32(e.PCR)
			if ev.PCR == uint32(e.PCR) && !slices.ContainsFunc(e.Only, func(m match) bool { return m.matches(ev.Measured) }) {
				names := make([]string, len(e.Only))
				for j := range e.Only {
					names[j] = e.Only[j].String()
				}
				c.fail(rule+".only", list(names), describe(ev))
			}
		}
		if !seen { // a machine that measures nothing has not shown what it runs
			c.fail(rule+".only", "at least one measurement", "a PCR in which nothing was measured")
		}
	}
}

func describe(e verify.Event) string {
	if m := e.Measured; m != nil {
		return fmt.Sprintf("%s %s sha256:%x", m.Kind, m.Name, m.SHA256)
	}
	if len(e.Digests) > 0 {
		return fmt.Sprintf("an event of type %#x with %v:%x", e.Type, e.Digests[0].Hash, e.Digests[0].Value)
	}
	return fmt.Sprintf("an event of type %#x", e.Type)
}

func (c *check) span(rule string, s *span, got uint32) {
	if s == nil {
		return
	}
	if c.r.Simulated || c.r.Platform != nil {
		c.fail(rule, "a count by a TPM", "evidence without one")
		return
	}
	s.within(c, rule, got)
}

func (c *check) counts() {
	c.span("reset-count", c.p.ResetCount, c.r.ResetCount)
	c.span("restart-count", c.p.RestartCount, c.r.RestartCount)
}

func (c *check) firmware() {
	if len(c.p.Firmware) == 0 {
		return
	}
	if c.r.Simulated || c.r.Platform != nil || !slices.Contains(c.p.Firmware, firmware(c.r.Firmware)) {
		names := make([]string, len(c.p.Firmware))
		for i, f := range c.p.Firmware {
			names[i] = fmt.Sprintf("%#x", uint64(f))
		}
		c.fail("firmware", list(names), fmt.Sprintf("%#x", c.r.Firmware))
	}
}

func (c *check) clock() {
	k := c.p.Clock
	if k == nil {
		return
	}
	if k.Safe && !c.r.Safe {
		c.fail("clock.safe", "a clock that the TPM calls safe", "one that may have gone back")
	}
	if c.r.Clock < k.Min {
		c.fail("clock.min", fmt.Sprintf("at least %d ms", k.Min), fmt.Sprintf("%d ms", c.r.Clock))
	}
}

func (c *check) enrolment() {
	e := c.p.Enrolment
	if e == nil {
		return
	}
	if len(e.Methods) > 0 && !slices.Contains(e.Methods, c.r.Method) {
		c.fail("enrolment.methods", list(e.Methods), quoted(c.r.Method))
	}
	c.oneOf("enrolment.ek-roots", e.EKRoots, c.r.EKRoot)
	if e.MaxAge == nil {
		return
	}
	age := c.now.Sub(c.r.Enrolled)
	switch {
	case c.r.Enrolled.IsZero():
		c.fail("enrolment.max-age", fmt.Sprintf("at most %v", time.Duration(*e.MaxAge)), "evidence of a key that was never enrolled")
	case age < 0 || age > time.Duration(*e.MaxAge):
		c.fail("enrolment.max-age", fmt.Sprintf("at most %v", time.Duration(*e.MaxAge)), age.Round(time.Second).String())
	}
}

// maxAhead is how far an attester's clock may be ahead of ours.
const maxAhead = 5 * time.Second

// age speaks of evidence with a time of its own. A TPM quote has none; it is
// fresh because it is bound to the session.
func (c *check) age() {
	if c.p.Age == nil || c.r.Made.IsZero() {
		return
	}
	if age := c.now.Sub(c.r.Made); age < -maxAhead || age > time.Duration(*c.p.Age) {
		c.fail("age", fmt.Sprintf("at most %v", time.Duration(*c.p.Age)), age.Round(time.Millisecond).String())
	}
}

func (c *check) serverNames() {
	if c.p.ServerNames != nil && !slices.Contains(c.p.ServerNames, c.s.ServerName) {
		c.fail("server-names", list(c.p.ServerNames), quoted(c.s.ServerName))
	}
}

func (c *check) groups() {
	switch {
	case len(c.p.groups) == 0:
		c.missing("groups")
	case !c.p.groups[c.s.Group]:
		c.fail("groups", list(c.p.Groups), codeName(groupNames, c.s.Group))
	}
}

// cipherSuites: without a rule every suite of TLS 1.3 that IANA recommends.
func (c *check) cipherSuites() {
	switch {
	case c.p.suites == nil:
		if c.s.CipherSuite < 0x1301 || c.s.CipherSuite > 0x1303 {
			c.fail("cipher-suites", "a recommended suite of TLS 1.3", codeName(suiteNames, c.s.CipherSuite))
		}
	case !c.p.suites[c.s.CipherSuite]:
		c.fail("cipher-suites", list(c.p.CipherSuites), codeName(suiteNames, c.s.CipherSuite))
	}
}

var defaultGrades = []string{GradeHello}

func (c *check) grades() {
	accepted := c.p.Grades
	if len(accepted) == 0 {
		accepted = defaultGrades
	}
	if !slices.Contains(accepted, c.s.Grade) {
		c.fail("grades", list(accepted), quoted(c.s.Grade))
	}
}

func (c *check) resumption() {
	if c.s.Resumed && c.p.Resumption != "dhe" {
		c.fail("resumption", "a full handshake", "a resumed session")
	}
}

// class: the claim must fit both the policy and what the evidence can vouch
// for. An agent's word never makes an enclave.
func (c *check) class() {
	switch {
	case c.p.Class == "":
		c.missing("class")
	case c.s.Claims.Class != c.p.Class:
		c.fail("class", c.p.Class, "a claim of "+quoted(c.s.Claims.Class))
	}
	if c.s.Claims.Class != c.r.Class {
		c.fail("class", "a claim of "+quoted(c.r.Class)+", which is what the evidence vouches for", "a claim of "+quoted(c.s.Claims.Class))
	}
}

func (c *check) claims() {
	k := c.p.Claims
	// Who an enclave is, is not a claim but its measurement: rule enclave.
	if c.r.Enclave == nil && (k == nil || (len(k.Executables) == 0 && len(k.Units) == 0)) {
		c.fail("claims", "a rule claims.executables or claims.units", "a policy without either, which accepts no process")
	}
	if k == nil {
		return
	}
	got := &c.s.Claims
	c.claim("claims.executables", k.Executables, got.Executable)
	c.claim("claims.units", k.Units, got.Unit)
	c.claim("claims.services", k.Services, got.Service)
	c.claim("claims.listeners", k.Listeners, got.Listener)
	c.claim("claims.network-namespaces", k.NetNS, got.NetNS)
	c.claim("claims.configs", k.Configs, got.Config)
	c.claim("claims.agent-versions", k.AgentVersion, got.AgentVersion)
	c.measuredIn(k.MeasuredIn)
}

func (c *check) claim(rule string, accepted []string, got string) {
	if accepted != nil && !slices.Contains(accepted, got) {
		c.fail(rule, list(accepted), quoted(got))
	}
}

// measuredIn demands that the executable which the agent saw is one that the
// launcher measured before start.
func (c *check) measuredIn(pcr *uint8) {
	if pcr == nil {
		return
	}
	var want [32]byte
	if x := c.s.Claims.Executable; len(x) == 2*len(want) && c.proved(*pcr) {
		if _, err := hex.Decode(want[:], []byte(x)); err == nil {
			for i := range c.r.Events {
				if e := &c.r.Events[i]; e.PCR == uint32(*pcr) && e.Measured != nil && e.Measured.SHA256 == want {
					return
				}
			}
		}
	}
	c.fail("claims.executable-measured-in", fmt.Sprintf("the executable among the measurements in PCR %d", *pcr), quoted(c.s.Claims.Executable))
}
