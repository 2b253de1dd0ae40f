// SPDX-License-Identifier: Apache-2.0

// Package policy answers whether genuine evidence is acceptable for a
// session: the Relying Party's appraisal policy of RFC 9334, section 8.5.
//
// Start with Parse and call Evaluate. A policy denies by default: what it
// does not accept by name is refused, an empty policy refuses everything, and
// rules without which a policy means nothing (who, which key exchange, which
// signature, which process) must be there. Evaluate runs every rule and lists
// every failure. Unknown keys in the file are errors.
//
// A policy pins who may be the environment, not only what it measures: a
// genuine machine that runs the right software but belongs to somebody else is
// an attack too.
package policy

import (
	"fmt"
	"time"

	"holdfast/attest/verify"
)

// Session is what the Relying Party knows of the TLS session that the
// evidence is bound to.
type Session struct {
	ServerName  string // SNI of the ClientHello
	Group       uint16 // named group of the ServerHello's key share (RFC 8446, 4.2.7)
	Grade       string // GradeHello or GradeShare
	Resumed     bool   // the ServerHello selected a PSK, with a fresh share
	CipherSuite uint16 // of the ServerHello
	Claims      Claims // what the agent saw and the evidence signs
}

// Grades of a binder.
const (
	GradeHello = "hello" // binds both hellos
	GradeShare = "share" // binds the server's key share only
)

// Claims are the agent's observations about the process that holds the
// receiving key. They are as true as the agent, which the PCRs measure.
type Claims struct {
	Service      string
	Listener     string
	NetNS        string
	Executable   string // SHA-256, lower-case hexadecimal
	Unit         string // systemd unit or cgroup
	Config       string // SHA-256 of the service's configuration, hexadecimal
	AgentVersion string
	Class        string // verify.ClassMachine or verify.ClassEnclave
}

// Failure is one rule that refuses.
type Failure struct {
	Rule     string `json:"rule"` // the rule's key in the file, such as claims.executables
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

func (f Failure) String() string {
	return fmt.Sprintf("%s: expected %s, got %s", f.Rule, f.Expected, f.Got)
}

// Policy is a parsed policy. It is not changed after Parse and may be shared.
// The zero value refuses everything.
type Policy struct{ f file }

// Evaluate runs every rule on the result r of verification and the session s.
// It returns nil if and only if all accept.
func (p *Policy) Evaluate(r *verify.Result, s Session, now time.Time) []Failure {
	c := &check{p: &p.f, r: r, s: s, now: now}
	if r == nil {
		c.fail("evidence", "genuine evidence", "none")
		return c.failures
	}
	for _, rule := range rules {
		rule(c)
	}
	return c.failures
}

// rules run in this order; none depends on another.
var rules = []func(*check){
	(*check).simulated,
	(*check).environments,
	(*check).signatures,
	(*check).profile,
	(*check).measurements,
	(*check).platform,
	(*check).pcrs,
	(*check).events,
	(*check).counts,
	(*check).firmware,
	(*check).clock,
	(*check).enrolment,
	(*check).age,
	(*check).serverNames,
	(*check).groups,
	(*check).cipherSuites,
	(*check).grades,
	(*check).resumption,
	(*check).class,
	(*check).enclave,
	(*check).claims,
}

// check is one evaluation.
type check struct {
	p        *file
	r        *verify.Result
	s        Session
	now      time.Time
	failures []Failure
}

func (c *check) fail(rule, expected, got string) {
	c.failures = append(c.failures, Failure{rule, expected, got})
}

// missing is the failure of a rule that a policy must have.
func (c *check) missing(rule string) {
	c.fail(rule, "a rule that says what is accepted", "a policy without this rule, which accepts nothing")
}

// Empty reports whether p has no rule at all; such a policy refuses everything.
func (p *Policy) Empty() bool { return !p.f.hasRules }
