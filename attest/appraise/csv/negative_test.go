// SPDX-License-Identifier: Apache-2.0

package csv

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"holdfast/attest/appraise/negative"
	"holdfast/attest/evidence"
	"holdfast/attest/evidence/csv"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
)

// TestNegative runs the row of Hygon CSV, with a chip of the test's own.
func TestNegative(t *testing.T) {
	h := newHierarchy(t)
	var x, y [32]byte
	id := keyDigest(csv.Point{X: [32]byte(h.cek.X.FillBytes(x[:])), Y: [32]byte(h.cek.Y.FillBytes(y[:]))})
	data := evidence.ReportData(sha256Twice("for this session"))
	good := h.report(t, 2, csv.PolicyNoDebug, data)
	appraise := func(t *testing.T, chip, report []byte, data evidence.ReportData, build string) negative.Outcome {
		t.Helper()
		p, err := policy.Parse([]byte("environments: [csv-1]\nsignatures: [SM2-SM3]\nclass: machine\ncsv:\n  measurements: [" + hex.EncodeToString(h.measured[:]) + "]\n  min-build: " + build + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := newVerifier(roots(t, chip), nil, h.root)
		if err != nil {
			t.Fatal(err)
		}
		res, err := check(v, report, h.chain(), data)
		if err != nil {
			return negative.Outcome{Result: res, Err: err}
		}
		return negative.Outcome{Result: res, Failures: negative.Evidence(p.Evaluate(res, policy.Session{Claims: policy.Claims{Class: verify.ClassMachine}}, time.Now()))}
	}
	negative.Run(t, "csv", func(t *testing.T) negative.Outcome { return appraise(t, id[:], good, data, "2337") }, map[string]func(*testing.T) negative.Outcome{
		"malformed": func(t *testing.T) negative.Outcome {
			return appraise(t, id[:], append(slices.Clone(good), 0), data, "2337")
		},
		"truncated": func(t *testing.T) negative.Outcome { return appraise(t, id[:], good[:len(good)-1], data, "2337") },
		"replayed":  func(t *testing.T) negative.Outcome { return appraise(t, id[:], good, evidence.ReportData{1}, "2337") },
		"forged": func(t *testing.T) negative.Outcome {
			b := slices.Clone(good)
			b[0x90] ^= 1 // the measurement
			return appraise(t, id[:], b, data, "2337")
		},
		"debug":   func(t *testing.T) negative.Outcome { return appraise(t, id[:], h.report(t, 2, 0, data), data, "2337") },
		"low TCB": func(t *testing.T) negative.Outcome { return appraise(t, id[:], good, data, "2338") },
		"foreign": func(t *testing.T) negative.Outcome {
			return appraise(t, bytes.Repeat([]byte{9}, 32), good, data, "2337")
		},
	})
}
