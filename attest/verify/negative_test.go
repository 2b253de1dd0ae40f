// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"slices"
	"strings"
	"testing"

	"holdfast/attest/appraise/negative"
	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
	"holdfast/attest/verify/quotetest"
	"holdfast/enclave/sgx"
)

func parsePolicy(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func outcome(p *policy.Policy, res *verify.Result, err error, class string) negative.Outcome {
	if err != nil {
		return negative.Outcome{Result: res, Err: err}
	}
	return negative.Outcome{Result: res, Failures: negative.Evidence(p.Evaluate(res, policy.Session{Claims: policy.Claims{Class: class}}, now))}
}

// TestNegativeTPM runs the row of quotes of a TPM.
func TestNegativeTPM(t *testing.T) {
	m := machine(t, "ES256")
	v := verifier(t, m.Record("web-1"))
	p := parsePolicy(t, "environments: [web-1]\nsignatures: [ES256]\nclass: machine\nmeasurements: none\nfirmware: [0x20240125]\n")
	appraise := func(v *verify.Verifier, b *evidence.Bundle, data evidence.ReportData) negative.Outcome {
		res, err := v.Verify(b.Report, b.Endorsement, data, now)
		return outcome(p, res, err, verify.ClassMachine)
	}
	with := func(t *testing.T, change func([]byte) []byte) negative.Outcome {
		b := quote(t, m, sample)
		b.Report.Body = change(slices.Clone(b.Report.Body))
		return appraise(v, b, sample)
	}
	negative.Run(t, "tpm", func(t *testing.T) negative.Outcome { return appraise(v, quote(t, m, sample), sample) }, map[string]func(*testing.T) negative.Outcome{
		"malformed": func(t *testing.T) negative.Outcome { return with(t, func(b []byte) []byte { return append(b, 0) }) },
		"truncated": func(t *testing.T) negative.Outcome { return with(t, func(b []byte) []byte { return b[:len(b)-1] }) },
		"replayed":  func(t *testing.T) negative.Outcome { return appraise(v, quote(t, m, sample), evidence.ReportData{7}) },
		"forged": func(t *testing.T) negative.Outcome {
			b := quote(t, machine(t, "ES256"), sample)
			b.Report.Needs[0] = quote(t, m, sample).Report.Needs[0] // under the pinned key's name
			return appraise(v, b, sample)
		},
		"low TCB": func(t *testing.T) negative.Outcome {
			old := machine(t, "ES256")
			old.Attest.FirmwareVersion--
			return appraise(verifier(t, old.Record("web-1")), quote(t, old, sample), sample)
		},
		"foreign": func(t *testing.T) negative.Outcome { return appraise(v, quote(t, machine(t, "ES256"), sample), sample) },
	})
}

// TestNegativeEnclave runs the row of enclaves.
func TestNegativeEnclave(t *testing.T) {
	p := parsePolicy(t, "environments: [host-1]\nsignatures: [ES256]\nclass: enclave\nenclave:\n  levels: [hosted]\n  monitors: [\"40"+strings.Repeat("00", 31)+
		"\"]\n  mrenclave: [e1"+strings.Repeat("00", 31)+"]\n  isv-svn: {min: 2}\n")
	type checker = func(evidence.Bundle) (*verify.Result, error)
	launched := func(t *testing.T) (*quotetest.Monitor, checker) {
		x, check := enclaveMachine(t, evidence.LevelHosted, evidence.ES256)
		if err := x.Launch(); err != nil {
			t.Fatal(err)
		}
		return x, check
	}
	made := func(t *testing.T, x *quotetest.Monitor, r *sgx.Report) *evidence.Bundle {
		b, err := x.Quote(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	appraise := func(t *testing.T, report func(*sgx.Report), change func(*evidence.Bundle)) negative.Outcome {
		x, check := launched(t)
		r := enclaveReport()
		if report != nil {
			report(r)
		}
		b := made(t, x, r)
		if change != nil {
			change(b)
		}
		res, err := check(*b)
		return outcome(p, res, err, verify.ClassEnclave)
	}
	negative.Run(t, "enclave", func(t *testing.T) negative.Outcome { return appraise(t, nil, nil) }, map[string]func(*testing.T) negative.Outcome{
		"malformed": func(t *testing.T) negative.Outcome {
			return appraise(t, nil, func(b *evidence.Bundle) { b.Report.Body = append(b.Report.Body, 0) })
		},
		"truncated": func(t *testing.T) negative.Outcome {
			return appraise(t, nil, func(b *evidence.Bundle) { b.Report.Body = b.Report.Body[:len(b.Report.Body)-1] })
		},
		"replayed": func(t *testing.T) negative.Outcome {
			return appraise(t, func(r *sgx.Report) { r.ReportData[0]++ }, nil)
		},
		"forged": func(t *testing.T) negative.Outcome {
			x, check := launched(t)
			x.Change = func(q *evidence.EnclaveQuote) { q.Signature[len(q.Signature)-1] ^= 1 }
			res, err := check(*made(t, x, enclaveReport()))
			return outcome(p, res, err, verify.ClassEnclave)
		},
		"debug": func(t *testing.T) negative.Outcome {
			return appraise(t, func(r *sgx.Report) { r.Attributes.Flags |= sgx.FlagDebug }, nil)
		},
		"low TCB": func(t *testing.T) negative.Outcome { return appraise(t, func(r *sgx.Report) { r.ISVSVN = 1 }, nil) },
		"foreign": func(t *testing.T) negative.Outcome {
			_, check := launched(t)
			x, _ := launched(t)
			res, err := check(*made(t, x, enclaveReport()))
			return outcome(p, res, err, verify.ClassEnclave)
		},
	})
}
