// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/attest/appraise"
	"holdfast/attest/ear"
	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
)

func init() { attestVerbs = append(attestVerbs, newAttestVerify) }

// appraisal is the output of `attest verify`.
type appraisal struct {
	Genuine     bool              `json:"genuine"`
	Fault       string            `json:"fault,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Simulated   bool              `json:"simulated"`
	Environment string            `json:"environment,omitempty"`
	Signature   string            `json:"signature,omitempty"`
	PQ          bool              `json:"pq"`
	ResetCount  uint32            `json:"reset_count"`
	Restart     uint32            `json:"restart_count"`
	Clock       uint64            `json:"clock_ms"`
	Safe        bool              `json:"clock_safe"`
	Firmware    string            `json:"firmware,omitempty"`
	PCRs        []appraisedPCR    `json:"pcrs,omitempty"`
	Events      []appraisedEvent  `json:"measured,omitempty"`
	Enclave     *appraisedEnclave `json:"enclave,omitempty"`
	Platform    *appraisedHost    `json:"platform,omitempty"`
	Acceptable  bool              `json:"acceptable"`
	Failures    []policy.Failure  `json:"failures,omitempty"`
	Skipped     []string          `json:"session_rules_not_checked,omitempty"`
}

type appraisedPCR struct {
	Bank   string `json:"bank"`
	Index  uint8  `json:"index"`
	Value  string `json:"value"`
	Logged bool   `json:"explained_by_log"`
}

type appraisedEvent struct {
	PCR    uint32 `json:"pcr"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

type appraisedEnclave struct {
	Level     string `json:"level"`
	Mode      string `json:"mode"`
	Debug     bool   `json:"debug"`
	MREnclave string `json:"mrenclave"`
	MRSigner  string `json:"mrsigner"`
	ISVProdID uint16 `json:"isv_prod_id"`
	ISVSVN    uint16 `json:"isv_svn"`
	CPUSVN    string `json:"cpu_svn"`
	Key       string `json:"monitor_key"`
	Monitor   string `json:"monitor_sha256,omitempty"`
	Made      string `json:"made"`
}

func newAttestVerify(g *globals) *cobra.Command {
	var in appraiseInput
	var data string
	var out earOutput
	c := &cobra.Command{
		Use:   "verify FILE --policy FILE --trust FILE [--report-data HEX]",
		Short: "Say whether evidence is genuine and whether a policy accepts it",
		Long: `Say whether evidence is genuine and whether a policy accepts it.

A file holds no TLS session, so the rules about one (server-names, groups,
cipher-suites, grades, resumption and claims) are not checked here and are
listed as such; the latch checks them. Exit status 0
means: genuine, and every other rule accepts.

Without --report-data the evidence is checked against 64 zero bytes, which is
what 'attest quote' signs when it is told nothing.

A policy is YAML. What it does not accept by name is refused; unknown keys are
errors. (*) must be there for a session to be accepted:

  environments: [web-1]              # * names in the trust file
  signatures: [ML-DSA-65, ES256]     # * of the evidence
  class: machine                     # * or enclave
  groups: [X25519MLKEM768, x25519]   # * key exchanges, by IANA's names
  claims:                            # * executables or units
    executables: [SHA-256, ...]      #   that the agent saw at the listener
    executable-measured-in: 14       #   and that the launcher measured
    units: [nginx.service]           #   likewise services, listeners, configs,
                                     #   network-namespaces, agent-versions
  profile: pq-only                   # nothing a quantum computer breaks
  pcrs: {sha256: {7: [HEX, ...]}}    # accepted values
  events:                            # what an event log proves
    - pcr: 14
      only: [{kind: file, name: /usr/sbin/nginx, sha256: [HEX]}]
      require: [{sha256: [HEX]}]
  measurements: none                 # do without pcrs and events
  reset-count: {min: 1, max: 9}      # likewise restart-count
  firmware: [0x20240125]
  clock: {safe: true, min: 1000}     # milliseconds
  enrolment: {methods: [credential-activation], max-age: 2160h}
  age: 10s                           # of evidence with a time of its own
  grades: [hello]                    # the default; or share
  resumption: refuse                 # the default; or dhe
  cipher-suites: [TLS_AES_128_GCM_SHA256]
  server-names: [shop.example]
  simulated: allow                   # tests only
  enclave:                           # * for class enclave, in place of claims
    levels: [hosted, late-launch]    # * inproc proves nothing: for tests
    monitors: [SHA-256]              # * of the monitor's program
    mrenclave: [HEX]                 # * or mrsigner with isv-prod-ids
    mrsigner: [HEX]
    isv-prod-ids: [1]
    isv-svn: {min: 2}                # likewise config-svn
    modes: [GU, P]                   # HU is a locked-down process
    debug: refuse                    # the default; or allow
    cpu-svn-min: HEX                 # version of the monitor; and config-ids,
                                     # isv-family-ids, isv-ext-prod-ids`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.policy == "" || in.trust == "" {
				return usageError(errors.New("attest verify: --policy and --trust are needed: nothing is accepted without them"))
			}
			d, err := parseReportData(data)
			if err != nil {
				return err
			}
			in.file = args[0]
			a, result, err := appraiseFile(in, d)
			if err != nil {
				return err
			}
			if err := out.write(result); err != nil {
				return err
			}
			if g.json {
				if err := printJSON(a); err != nil {
					return err
				}
			} else {
				a.print(cmd.OutOrStdout())
			}
			switch {
			case !a.Genuine:
				return refusedError(fmt.Errorf("not genuine (%s): %s", a.Fault, a.Reason))
			case !a.Acceptable:
				return refusedError(fmt.Errorf("genuine, but refused by %d rule(s) of %s", len(a.Failures), in.policy))
			}
			return nil
		},
	}
	out.flags(c)
	c.Flags().StringVar(&in.collateral, "collateral", "", "folder of `attest collateral fetch`, for evidence of confidential virtual machines")
	c.Flags().StringVar(&in.at, "at", "", "appraise as of this time (RFC 3339), for evidence that was kept; default now")
	c.Flags().StringVar(&in.policy, "policy", "", "policy file (YAML); an empty one refuses everything")
	c.Flags().StringVar(&in.trust, "trust", "", "trust file with the pinned attestation keys")
	c.Flags().StringVar(&data, "report-data", "", "the 64 bytes that the evidence must be made for, in hexadecimal; fewer are filled with zeros")
	return c
}

// parseReportData reads up to 64 bytes of hexadecimal, filled with zeros.
func parseReportData(s string) (d evidence.ReportData, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) > len(d) {
		return d, usageError(fmt.Errorf("--report-data: expected up to %d bytes in hexadecimal, got %q", len(d), s))
	}
	copy(d[:], b)
	return d, nil
}

// sessionRules are prefixes of rules that need a TLS session.
var sessionRules = []string{"server-names", "groups", "cipher-suites", "grades", "resumption", "claims"}

// appraiseInput names the files of an appraisal.
type appraiseInput struct{ file, policy, trust, collateral, at string }

func appraiseFile(in appraiseInput, data evidence.ReportData) (*appraisal, *ear.Result, error) {
	b, err := readBundle(in.file)
	if err != nil {
		return nil, nil, err
	}
	rawPolicy, err := readLimited(in.policy, 1<<20)
	if err != nil {
		return nil, nil, err
	}
	p, err := policy.Parse(rawPolicy)
	if err != nil {
		return nil, nil, usageError(fmt.Errorf("%s: %w", in.policy, err))
	}
	v, err := appraise.Open(in.trust, in.collateral)
	if err != nil {
		return nil, nil, usageError(err)
	}
	now := time.Now()
	if in.at != "" {
		if now, err = time.Parse(time.RFC3339, in.at); err != nil {
			return nil, nil, usageError(fmt.Errorf("--at: %w", err))
		}
	}
	a := &appraisal{}
	r, err := v.Verify(b.Report, b.Endorsement, data, now)
	policyID := fmt.Sprintf("sha256:%x", sha256.Sum256(rawPolicy))
	if err != nil {
		var e *verify.Error
		if !errors.As(err, &e) {
			return nil, nil, err
		}
		a.Fault, a.Reason = string(e.Fault), e.Err.Error()
		return a, ear.New(nil, err, nil, policyID, version, data, now), nil
	}
	a.appraise(r, p, now)
	return a, ear.New(r, nil, a.Failures, policyID, version, data, now), nil
}

// appraise lets the policy decide about all that does not need a TLS session.
func (a *appraisal) appraise(r *verify.Result, p *policy.Policy, now time.Time) {
	a.fill(r)
	skipped := map[string]bool{}
failures:
	for _, f := range p.Evaluate(r, policy.Session{Claims: policy.Claims{Class: r.Class}}, now) {
		for _, s := range sessionRules {
			if rule, _, _ := strings.Cut(f.Rule, "."); rule == s {
				if !skipped[f.Rule] {
					a.Skipped = append(a.Skipped, f.Rule)
				}
				skipped[f.Rule] = true
				continue failures
			}
		}
		// The session's half of the profile; the evidence's half stays.
		if f.Rule == "profile" && r.PQ {
			a.Skipped = append(a.Skipped, f.Rule)
			continue
		}
		a.Failures = append(a.Failures, f)
	}
	a.Acceptable = len(a.Failures) == 0 && !p.Empty()
	if p.Empty() {
		a.Failures = append(a.Failures, policy.Failure{Rule: "policy", Expected: "rules", Got: "an empty policy, which accepts nothing"})
	}
}

func (a *appraisal) fill(r *verify.Result) {
	a.Genuine, a.Simulated, a.Environment, a.Signature, a.PQ = true, r.Simulated, r.Environment, r.Signature, r.PQ
	if e := r.Enclave; e != nil {
		a.Enclave = &appraisedEnclave{Level: e.Level, Mode: e.Mode, Debug: e.Debug, MREnclave: hex.EncodeToString(e.MREnclave[:]), MRSigner: hex.EncodeToString(e.MRSigner[:]),
			ISVProdID: e.ISVProdID, ISVSVN: e.ISVSVN, CPUSVN: hex.EncodeToString(e.CPUSVN[:]), Key: e.KeyAlgorithm, Made: r.Made.UTC().Format(time.RFC3339Nano)}
		if m := e.Monitor; m != nil {
			a.Enclave.Monitor = hex.EncodeToString(m.SHA256[:])
		}
	}
	if h := r.Platform; h != nil {
		a.Platform = hostFacts(h)
		return
	}
	if r.Simulated {
		return
	}
	a.ResetCount, a.Restart, a.Clock, a.Safe, a.Firmware = r.ResetCount, r.RestartCount, r.Clock, r.Safe, fmt.Sprintf("%#x", r.Firmware)
	for _, p := range r.PCRs {
		a.PCRs = append(a.PCRs, appraisedPCR{p.Hash.String(), p.Index, hex.EncodeToString(p.Value), p.Logged})
	}
	for _, e := range r.Events {
		if m := e.Measured; m != nil {
			a.Events = append(a.Events, appraisedEvent{e.PCR, m.Kind, m.Name, hex.EncodeToString(m.SHA256[:])})
		}
	}
}

func (a *appraisal) print(w io.Writer) {
	if !a.Genuine {
		fmt.Fprintf(w, "NOT GENUINE (%s)\n", a.Fault)
		return
	}
	mark := ""
	if a.Simulated {
		mark = " - " + evidence.SimulatedMark + ": nothing in it comes from hardware"
	}
	fmt.Fprintf(w, "genuine: %s, signed with %s%s\n", a.Environment, a.Signature, mark)
	if a.Platform != nil {
		a.Platform.print(w)
	} else if !a.Simulated {
		fmt.Fprintf(w, "  resetCount %d, restartCount %d, clock %d ms (safe: %t), firmware %s\n", a.ResetCount, a.Restart, a.Clock, a.Safe, a.Firmware)
	}
	if e := a.Enclave; e != nil {
		debug := ""
		if e.Debug {
			debug = ", DEBUG: its memory can be read from outside"
		}
		fmt.Fprintf(w, "  enclave at level %s, mode %s%s\n  MRENCLAVE %s\n  MRSIGNER  %s, product %d, SVN %d\n", e.Level, e.Mode, debug, e.MREnclave, e.MRSigner, e.ISVProdID, e.ISVSVN)
		if e.Monitor != "" {
			fmt.Fprintf(w, "  monitor   sha256:%s, signs with %s\n", e.Monitor, e.Key)
		}
	}
	for _, p := range a.PCRs {
		note := ""
		if p.Logged {
			note = "  explained by the event log"
		}
		fmt.Fprintf(w, "  PCR %s %2d  %s%s\n", p.Bank, p.Index, p.Value, note)
	}
	for _, e := range a.Events {
		fmt.Fprintf(w, "  measured in PCR %d: %s %q sha256:%s\n", e.PCR, e.Kind, e.Name, e.SHA256)
	}
	if a.Acceptable {
		fmt.Fprintln(w, "acceptable: every rule about evidence accepts")
	} else {
		fmt.Fprintln(w, "REFUSED by the policy:")
		for _, f := range a.Failures {
			fmt.Fprintf(w, "  %v\n", f)
		}
	}
	if len(a.Skipped) > 0 {
		fmt.Fprintf(w, "not checked, since a file has no TLS session: %s\n", strings.Join(a.Skipped, ", "))
	}
}
