// SPDX-License-Identifier: Apache-2.0

package snp

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-sev-guest/abi"

	"holdfast/attest/appraise/negative"
	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
)

// TestNegative runs the row of SEV-SNP, with a chip of the test's own.
func TestNegative(t *testing.T) {
	chip, data := bytes.Repeat([]byte{0x42}, 64), evidence.ReportData{5, 5}
	m := newMaker(t, testTCB, chip)
	good := m.report(t, chip, data, nil)
	s := store(t, map[string][]byte{crlURL("Milan", abi.VcekReportSigner): m.crl(t, realTime.AddDate(0, 0, 1))})
	appraise := func(t *testing.T, pinned, report []byte, data evidence.ReportData, floor string) negative.Outcome {
		t.Helper()
		p, err := policy.Parse([]byte("environments: [snp-1]\nsignatures: [ES384]\nclass: machine\nsev-snp:\n  measurements: [" + strings.Repeat("aa", 48) + "]\n  min-tcb: {bootloader: 3, snp: " + floor + ", microcode: 115}\n"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := check(m.verifier(roots(t, pinned), s), report, m.Vcek.Raw, data, realTime)
		if err != nil {
			return negative.Outcome{Result: res, Err: err}
		}
		res.Platform.SNP.LaunchTCB = res.Platform.SNP.TCB // the maker's reports have none
		return negative.Outcome{Result: res, Failures: negative.Evidence(p.Evaluate(res, policy.Session{Claims: policy.Claims{Class: verify.ClassMachine}}, realTime))}
	}
	low := func(o negative.Outcome) negative.Outcome { // what holds for the firmware of now holds for that at launch
		o.Failures = slices.DeleteFunc(o.Failures, func(f policy.Failure) bool { return f.Rule == "sev-snp.min-tcb.launch.snp" })
		return o
	}
	negative.Run(t, "sev-snp", func(t *testing.T) negative.Outcome { return appraise(t, chip, good, data, "8") }, map[string]func(*testing.T) negative.Outcome{
		"malformed": func(t *testing.T) negative.Outcome {
			return appraise(t, chip, append(slices.Clone(good), 0), data, "8")
		},
		"truncated": func(t *testing.T) negative.Outcome { return appraise(t, chip, good[:len(good)-1], data, "8") },
		"replayed":  func(t *testing.T) negative.Outcome { return appraise(t, chip, good, evidence.ReportData{9}, "8") },
		"forged": func(t *testing.T) negative.Outcome {
			b := slices.Clone(good)
			b[0x90] ^= 1
			return appraise(t, chip, b, data, "8")
		},
		"debug": func(t *testing.T) negative.Outcome {
			return appraise(t, chip, m.report(t, chip, data, func(b []byte) { b[0x0a] |= 1 << 3 }), data, "8")
		},
		"low TCB": func(t *testing.T) negative.Outcome { return low(appraise(t, chip, good, data, "9")) },
		"foreign": func(t *testing.T) negative.Outcome {
			return appraise(t, bytes.Repeat([]byte{0x43}, 64), good, data, "8")
		},
	})
}
