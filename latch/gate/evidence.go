// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
)

// What is kept of one agent's evidence. Reports are kept a while, since
// evidence may come before the ServerHello; endorsements as long as they fit.
const (
	keepReports      = 64
	keepReportBytes  = 1 << 20
	keepEndorsements = 32
	keepEndorseBytes = 8 << 20
)

// report is a report of one agent and what verification found. Every session
// of a group has the same root, so that a group costs one verification.
type report struct {
	id   uint64
	body evidence.Report
	size uint64
	done []verdict
}

// verdict is the outcome of one verification.
type verdict struct {
	verifier *verify.Verifier
	root     [32]byte
	result   *verify.Result
	err      error
}

// store holds the evidence of one agent.
type store struct {
	reports      []*report // oldest first
	reportBytes  int
	endorsements map[[32]byte]evidence.Endorsement
	order        [][32]byte
	endorseBytes int
}

func (s *store) addReport(r *channel.Report) {
	s.reports = append(s.reports, &report{id: r.ID, body: evidence.Report{Type: r.Type, Body: r.Body, Needs: r.Needs}, size: r.Size})
	s.reportBytes += len(r.Body)
	for len(s.reports) > 1 && (len(s.reports) > keepReports || s.reportBytes > keepReportBytes) {
		s.reportBytes -= len(s.reports[0].body.Body)
		s.reports[0] = nil
		s.reports = s.reports[1:]
	}
}

// clear forgets the reports: their numbers end with the connection.
func (s *store) clearReports() { s.reports, s.reportBytes = nil, 0 }

func (s *store) find(id uint64) *report {
	for i := len(s.reports) - 1; i >= 0; i-- {
		if s.reports[i].id == id {
			return s.reports[i]
		}
	}
	return nil
}

func (s *store) addEndorsement(e *channel.Endorsement) {
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

func (s *store) endorsement(h [32]byte) (evidence.Endorsement, bool) {
	e, ok := s.endorsements[h]
	return e, ok
}

// verify returns the outcome for a root, verifying at most once per verifier
// and root. Wrong roots of a report are kept too, but only the last few: an
// agent that makes up paths pays for them with its own sessions only.
func (s *store) verify(r *report, v *verify.Verifier, root [32]byte, now time.Time) (*verify.Result, error, bool) {
	for i := range r.done {
		if d := &r.done[i]; d.verifier == v && d.root == root {
			return d.result, d.err, false
		}
	}
	res, err := v.Verify(r.body, s.endorsement, binder.ReportData(root), now)
	if len(r.done) >= 8 {
		r.done = append(r.done[:0], r.done[1:]...)
	}
	r.done = append(r.done, verdict{v, root, res, err})
	return res, err, true
}

// Service implements flow.Rules.
func (g *Gate) Service(name []byte) *flow.Service {
	if s := g.services.byName[string(name)]; s != nil {
		return &s.flow
	}
	return nil
}

// Judge implements flow.Rules: is the report genuine, does it sign this
// session's root, and does the policy accept what it shows?
func (g *Gate) Judge(j *flow.Judgment) (flow.Reason, string) {
	// What is configured now, not when the session was announced: see Reload.
	s := g.services.byName[j.Service.Name]
	switch {
	case s == nil:
		return flow.NoPolicyForName, "the name left the configuration"
	case s.flow.Agents&(1<<j.Agent) == 0:
		return flow.NoAgent, "the agent left the configuration of this name"
	case s.flow.Grade != j.Grade:
		return flow.Grade, "the grade was changed in the configuration"
	}
	l := g.links[j.Agent]
	r := l.store.find(j.Report)
	if r == nil {
		return flow.EvidenceInvalid, "the report is not among the last ones of this agent"
	}
	now := time.Now()
	res, err, fresh := l.store.verify(r, s.verifier, j.Root, now)
	if fresh {
		g.stats.Verified++
	}
	if err != nil {
		return reasonOf(err), err.Error()
	}
	c, err := l.parseClaims(j.Claims)
	if err != nil {
		return flow.ClaimsInvalid, err.Error()
	}
	failures := s.policy.Evaluate(res, policy.Session{
		ServerName: j.Service.Name, Group: j.Group, Grade: gradeName(j.Grade), Resumed: j.Resumed, CipherSuite: j.CipherSuite,
		Claims: policy.Claims{Service: c.Service, Listener: c.Listener, NetNS: c.NetNS, Executable: c.Executable, Unit: c.Unit,
			Config: c.Config, AgentVersion: c.AgentVersion, Class: c.Class},
	}, now)
	if len(failures) > 0 {
		return policyReason(failures)
	}
	g.proved[j.ID] = proof{service: j.Service.Name, environment: res.Environment, simulated: res.Simulated, pq: res.PQ, claimed: c.Service}
	return "", ""
}

// gradeName is the grade that a policy asks for: a mutual binder covers all
// that the grade hello does.
func gradeName(g binder.Grade) string {
	if g == binder.Mutual {
		g = binder.Hello
	}
	return g.String()
}

func reasonOf(err error) flow.Reason {
	var e *verify.Error
	if errors.As(err, &e) {
		switch e.Fault {
		case verify.FaultReportData:
			return flow.BinderMismatch
		case verify.FaultNoEndorsement:
			return flow.EndorsementMissing
		case verify.FaultUnknownKey, verify.FaultUnknownRoot, verify.FaultForeign:
			return flow.Untrusted
		}
	}
	return flow.EvidenceInvalid
}

// policyReason names the rule that a client can do something about, if that is
// the only one that fails; the detail lists all.
func policyReason(failures []policy.Failure) (flow.Reason, string) {
	detail := ""
	for i, f := range failures {
		if i > 0 {
			detail += "; "
		}
		detail += f.String()
	}
	if len(failures) == 1 {
		switch failures[0].Rule {
		case "resumption":
			return flow.Resumption, detail
		case "grades":
			return flow.Grade, detail
		}
	}
	return flow.Policy, detail
}
