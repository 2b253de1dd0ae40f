// SPDX-License-Identifier: Apache-2.0

// Package appraisal judges evidence that came over a channel: is the report
// genuine, does it sign this root, and does the policy accept what it shows?
// The agent uses it for the evidence of clients, the watcher for manifests.
//
// [Load] reads a trust file and a policy; a [Store] keeps what one peer sent.
package appraisal

import (
	"errors"
	"fmt"
	"os"
	"time"

	"holdfast/attest/appraise"
	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
)

// Bounds of what is kept of one peer.
const (
	keepReports      = 16
	keepVerdicts     = 8 // per report: a peer that makes up paths pays with its own sessions only
	keepEndorsements = 16
	keepEndorseBytes = 4 << 20
)

// Rules are a trust file and a policy. They are safe for concurrent use.
type Rules struct {
	verifier *verify.Verifier
	policy   *policy.Policy
}

// Load reads a trust file and a policy file. collateralDir is the folder of
// `holdfast attest collateral fetch`, or empty.
func Load(trustFile, policyFile, collateralDir string) (*Rules, error) {
	r := new(Rules)
	var err error
	if r.verifier, err = appraise.Open(trustFile, collateralDir); err != nil {
		return nil, fmt.Errorf("trust %s: %w", trustFile, err)
	}
	b, err := os.ReadFile(policyFile)
	if err == nil {
		r.policy, err = policy.Parse(b)
	}
	if err == nil && r.policy.Empty() {
		err = errors.New("it has no rule, so it would refuse everything")
	}
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", policyFile, err)
	}
	return r, nil
}

// Report is a kept report and what verification found.
type Report struct {
	ID   uint64
	Size uint64
	body evidence.Report
	done []verdict
}

type verdict struct {
	rules  *Rules
	root   [32]byte
	result *verify.Result
	err    error
}

// Store keeps the evidence of one peer. It is not safe for concurrent use.
type Store struct {
	reports      []*Report // oldest first
	endorsements map[[32]byte]evidence.Endorsement
	order        [][32]byte
	endorseBytes int
}

// AddReport keeps a report; the oldest is forgotten. A number that was used
// before refers to the new report from now on.
func (s *Store) AddReport(r *channel.Report) *Report {
	kept := &Report{ID: r.ID, Size: r.Size, body: evidence.Report{Type: r.Type, Body: r.Body, Needs: r.Needs}}
	if s.reports = append(s.reports, kept); len(s.reports) > keepReports {
		s.reports[0] = nil
		s.reports = s.reports[1:]
	}
	return kept
}

// AddEndorsement keeps an endorsement, within bounds.
func (s *Store) AddEndorsement(e *channel.Endorsement) {
	h := e.Hash()
	if _, ok := s.endorsements[h]; ok {
		return
	}
	if s.endorsements == nil {
		s.endorsements = map[[32]byte]evidence.Endorsement{}
	}
	s.endorsements[h] = evidence.Endorsement{Type: e.Type, Body: e.Body}
	s.order = append(s.order, h)
	s.endorseBytes += len(e.Body)
	for len(s.order) > 1 && (len(s.order) > keepEndorsements || s.endorseBytes > keepEndorseBytes) {
		s.endorseBytes -= len(s.endorsements[s.order[0]].Body)
		delete(s.endorsements, s.order[0])
		s.order = s.order[1:]
	}
}

// Have are the hashes of the endorsements that are kept.
func (s *Store) Have() [][32]byte { return append([][32]byte(nil), s.order...) }

// Find returns the latest report with this number, or nil.
func (s *Store) Find(id uint64) *Report {
	for i := len(s.reports) - 1; i >= 0; i-- {
		if s.reports[i].ID == id {
			return s.reports[i]
		}
	}
	return nil
}

// Verify says whether a report is genuine and was made for the report data of
// root; it asks the verifier once per root.
func (s *Store) Verify(r *Report, rules *Rules, root [32]byte, now time.Time) (*verify.Result, error) {
	for i := range r.done {
		if d := &r.done[i]; d.rules == rules && d.root == root {
			return d.result, d.err
		}
	}
	find := func(h [32]byte) (evidence.Endorsement, bool) {
		e, ok := s.endorsements[h]
		return e, ok
	}
	res, err := rules.verifier.Verify(r.body, find, binder.ReportData(root), now)
	if len(r.done) >= keepVerdicts {
		r.done = append(r.done[:0], r.done[1:]...)
	}
	r.done = append(r.done, verdict{rules, root, res, err})
	return res, err
}

// Session is what is known of a session besides its claims.
type Session struct {
	ServerName  string
	Group       uint16
	CipherSuite uint16 // 0: not known
	Resumed     bool
}

// Evaluate asks the policy. The result is empty when it accepts.
func (r *Rules) Evaluate(res *verify.Result, s Session, c *binder.Claims, now time.Time) []policy.Failure {
	return r.policy.Evaluate(res, policy.Session{
		ServerName: s.ServerName, Group: s.Group, Grade: binder.Hello.String(), Resumed: s.Resumed, CipherSuite: s.CipherSuite,
		Claims: policy.Claims{Service: c.Service, Listener: c.Listener, NetNS: c.NetNS, Executable: c.Executable, Unit: c.Unit,
			Config: c.Config, AgentVersion: c.AgentVersion, Class: c.Class},
	}, now)
}

// Untrusted says whether a verification failed since the key or the root is
// not enrolled.
func Untrusted(err error) bool {
	var e *verify.Error
	return errors.As(err, &e) && (e.Fault == verify.FaultUnknownKey || e.Fault == verify.FaultUnknownRoot)
}

// Explain lists failures in one line.
func Explain(failures []policy.Failure) string {
	detail := ""
	for i, f := range failures {
		if i > 0 {
			detail += "; "
		}
		detail += f.String()
	}
	return detail
}
