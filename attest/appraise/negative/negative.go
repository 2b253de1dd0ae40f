// SPDX-License-Identifier: Apache-2.0

// Package negative is the table of refusals: for each kind of evidence and each
// attack the name by which the attack is refused. The tests of each verifier
// call Run, which fails if a cell is missing, is accepted, or has another name;
// a test of this package fails if a kind of evidence is not run at all, and
// keeps the table in docs/threat-model-attest.md.
package negative

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"holdfast/attest/policy"
	"holdfast/attest/verify"
)

// Attacks are the columns.
var Attacks = []string{"malformed", "truncated", "replayed", "forged", "debug", "low TCB", "foreign"}

// Table has the refusal of each attack by kind of evidence: a verify.Fault, or
// "policy " and the rule that refuses what is genuine. Where a kind of evidence
// knows no such thing the cell begins with a hyphen and says why.
var Table = map[string]map[string]string{
	"tpm": {
		"malformed": "malformed", "truncated": "malformed", "replayed": "report-data", "forged": "signature",
		"debug": "- a TPM has no debug mode", "low TCB": "policy firmware", "foreign": "unknown-key",
	},
	"sev-snp": {
		"malformed": "malformed", "truncated": "malformed", "replayed": "report-data", "forged": "signature",
		"debug": "policy sev-snp.debug", "low TCB": "policy sev-snp.min-tcb.snp", "foreign": "foreign",
	},
	"tdx": {
		"malformed": "malformed", "truncated": "malformed", "replayed": "report-data", "forged": "signature",
		"debug": "policy tdx.debug", "low TCB": "policy tdx.tcb-status", "foreign": "foreign",
	},
	"csv": {
		"malformed": "malformed", "truncated": "malformed", "replayed": "report-data", "forged": "signature",
		"debug": "policy csv.debug", "low TCB": "policy csv.min-build", "foreign": "foreign",
	},
	"simulated": {
		"malformed": "malformed", "truncated": "malformed", "replayed": "report-data", "forged": "signature",
		"debug": "policy simulated", "low TCB": "- nothing of it is hardware", "foreign": "unknown-root",
	},
	"enclave": {
		"malformed": "malformed", "truncated": "malformed", "replayed": "report-data", "forged": "signature",
		"debug": "policy enclave.debug", "low TCB": "policy enclave.isv-svn", "foreign": "unknown-key",
	},
}

// Outcome is what came of one attack: an error of verification, or the failures
// of the policy.
type Outcome struct {
	Result   *verify.Result
	Err      error
	Failures []policy.Failure
}

// Name is the name of the refusal, as in Table; empty if the evidence was accepted.
func (o Outcome) Name() string {
	var e *verify.Error
	switch {
	case errors.As(o.Err, &e):
		return string(e.Fault)
	case o.Err != nil:
		return "an error without a fault: " + o.Err.Error()
	case len(o.Failures) > 0:
		rules := make([]string, len(o.Failures))
		for i, f := range o.Failures {
			rules[i] = f.Rule
		}
		return "policy " + strings.Join(rules, ", ")
	}
	return ""
}

// ofSessions are rules about a TLS session, which evidence alone has none of.
var ofSessions = []string{"server-names", "groups", "cipher-suites", "grades", "resumption", "claims"}

// Evidence keeps the failures that are about the evidence.
func Evidence(all []policy.Failure) (out []policy.Failure) {
	for _, f := range all {
		if first, _, _ := strings.Cut(f.Rule, "."); !slices.Contains(ofSessions, first) {
			out = append(out, f)
		}
	}
	return out
}

// Run runs every attack of a kind of evidence. good must be accepted, since
// the attacks prove nothing otherwise.
func Run(t *testing.T, kind string, good func(*testing.T) Outcome, attacks map[string]func(*testing.T) Outcome) {
	t.Helper()
	row, ok := Table[kind]
	if !ok {
		t.Fatalf("there is no row for %q", kind)
	}
	t.Run("good", func(t *testing.T) {
		if o := good(t); o.Name() != "" || o.Result == nil {
			t.Errorf("good evidence was refused: %s (%v)", o.Name(), o.Err)
		}
	})
	for name := range attacks {
		if !slices.Contains(Attacks, name) || strings.HasPrefix(row[name], "-") {
			t.Errorf("%s: the table has no such attack", name)
		}
	}
	for _, name := range Attacks {
		want := row[name]
		attack := attacks[name]
		switch {
		case want == "":
			t.Errorf("%s, %s: the table has no refusal", kind, name)
		case strings.HasPrefix(want, "-"):
		case attack == nil:
			t.Errorf("%s, %s: nobody attacks; expected the refusal %q", kind, name, want)
		default:
			t.Run(name, func(t *testing.T) {
				o := attack(t)
				if got := o.Name(); got != want {
					t.Errorf("expected the refusal %q, got %q (%v)", want, got, o.Err)
				}
				if o.Err != nil && o.Result != nil {
					t.Error("a result beside an error")
				}
			})
		}
	}
}

// Markdown is the table for people.
func Markdown() string {
	kinds := make([]string, 0, len(Table))
	for k := range Table {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	var b strings.Builder
	b.WriteString("| evidence | " + strings.Join(Attacks, " | ") + " |\n|" + strings.Repeat("---|", len(Attacks)+1) + "\n")
	for _, k := range kinds {
		b.WriteString("| " + k)
		for _, a := range Attacks {
			cell := Table[k][a]
			if why, none := strings.CutPrefix(cell, "- "); none {
				cell = why
			} else {
				cell = "`" + cell + "`"
			}
			b.WriteString(" | " + cell)
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
