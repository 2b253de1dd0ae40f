// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"slices"
	"testing"
	"time"

	"holdfast/attest/appraise/negative"
	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
)

// TestNegative runs the row of simulated evidence: that nothing of it is
// hardware is what "debug" means here, and a policy must say that it takes that.
func TestNegative(t *testing.T) {
	prov, v, look := setup(t, evidence.ES256, evidence.ES256)
	data := evidence.ReportData{4, 5}
	r, err := prov.Report(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	const head = "environments: [SIMULATED/lab/psp-1]\nsignatures: [ES256]\nclass: machine\n"
	appraise := func(text string, v *verify.Verifier, r evidence.Report, look verify.Lookup, data evidence.ReportData) negative.Outcome {
		p, err := policy.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		res, err := v.Verify(r, look, data, time.Now())
		if err != nil {
			return negative.Outcome{Result: res, Err: err}
		}
		return negative.Outcome{Result: res, Failures: negative.Evidence(p.Evaluate(res, policy.Session{Claims: policy.Claims{Class: verify.ClassMachine}}, time.Now()))}
	}
	with := func(body []byte) negative.Outcome {
		c := r
		c.Body = body
		return appraise(head+"simulated: allow\n", v, c, look, data)
	}
	negative.Run(t, "simulated", func(*testing.T) negative.Outcome { return with(r.Body) }, map[string]func(*testing.T) negative.Outcome{
		"malformed": func(*testing.T) negative.Outcome { return with(append(slices.Clone(r.Body), 0)) },
		"truncated": func(*testing.T) negative.Outcome { return with(r.Body[:len(r.Body)-1]) },
		"replayed": func(*testing.T) negative.Outcome {
			return appraise(head+"simulated: allow\n", v, r, look, evidence.ReportData{9})
		},
		"forged": func(t *testing.T) negative.Outcome {
			b := slices.Clone(r.Body)
			b[len(b)-1] ^= 1 // the end of the signature
			return with(b)
		},
		"debug": func(*testing.T) negative.Outcome { return appraise(head, v, r, look, data) },
		"foreign": func(t *testing.T) negative.Outcome {
			other, _, otherLook := setup(t, evidence.ES256, evidence.ES256)
			x, err := other.Report(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			return appraise(head+"simulated: allow\n", v, x, otherLook, data)
		},
	})
}
