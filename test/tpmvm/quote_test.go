// SPDX-License-Identifier: Apache-2.0

package tpmvm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/attest/appraise/negative"
	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// quotes: inside the machine a key is enrolled and evidence made through
// /dev/tpmrm0, the kernel's resource manager; outside of it the evidence is
// verified, with the firmware's event log and the PCRs of this start, and is
// refused when it was changed, is replayed, or comes from another enrolment.
func (m *machine) quotes(first boot) {
	m.t.Helper()
	began := time.Now()
	defer func() { m.t.Logf("evidence through /dev/tpmrm0: %v", time.Since(began).Round(time.Second)) }()
	m.ok("hf attest enroll --tpm device:/dev/tpmrm0 --name vm-1 --key /tmp/ak --secret /tmp/ak.secret --trust /tmp/trust")
	m.ok("hf attest quote --tpm device:/dev/tpmrm0 --key /tmp/ak --secret /tmp/ak.secret --pcrs sha256:0,1,2,3,4,5,6,7 --event-log $log --report-data 0102 --out /tmp/evidence")
	roots, err := trust.Parse([]byte(m.ok("cat /tmp/trust")))
	if err != nil {
		m.t.Fatal(err)
	}
	b, err := evidence.ParseFile([]byte(m.ok("cat /tmp/evidence")))
	if err != nil {
		m.t.Fatal(err)
	}
	zero := ""
	for _, p := range first.PCRs {
		if p.Bank == "sha256" && p.Index == 0 {
			zero = p.TPM
		}
	}
	p, err := policy.Parse(fmt.Appendf(nil, "environments: [vm-1]\nsignatures: [ML-DSA-65]\nprofile: pq-only\nclass: machine\npcrs: {sha256: {0: [\"%s\"]}}\n", zero))
	if err != nil {
		m.t.Fatal(err)
	}
	v, data := verify.New(roots), evidence.ReportData{1, 2}
	res, err := v.Verify(b.Report, b.Endorsement, data, time.Now())
	if err != nil {
		m.t.Fatal(err)
	}
	logged := 0
	for _, x := range res.PCRs {
		if x.Logged {
			logged++
		}
	}
	if res.Environment != "vm-1" || !res.PQ || logged != 8 || len(res.Events) < 10 {
		m.t.Errorf("evidence of %q, PQ %t, %d of %d PCRs explained by %d events", res.Environment, res.PQ, logged, len(res.PCRs), len(res.Events))
	}
	for _, f := range negative.Evidence(p.Evaluate(res, policy.Session{Group: 0x11ec, Claims: policy.Claims{Class: verify.ClassMachine}}, time.Now())) {
		m.t.Errorf("the policy refuses: %+v", f)
	}
	refused := func(what string, report evidence.Report, data evidence.ReportData, want verify.Fault) {
		if res, err := v.Verify(report, b.Endorsement, data, time.Now()); res != nil || !errors.Is(err, &verify.Error{Fault: want}) {
			m.t.Errorf("%s: expected the fault %q, got %v, %v", what, want, res, err)
		}
	}
	q, err := evidence.ParseTPMQuote(b.Report.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	changed := *q
	changed.PCRs = slices.Clone(q.PCRs)
	if len(changed.PCRs) == 0 {
		m.t.Fatal("no PCR values in the quote")
	}
	changed.PCRs[0] = slices.Clone(q.PCRs[0])
	changed.PCRs[0][0] ^= 1
	report := b.Report
	report.Body = changed.Encode()
	refused("another PCR value", report, data, verify.FaultPCRDigest)
	changed = *q
	changed.Signature = slices.Clone(q.Signature)
	changed.Signature[len(changed.Signature)-1] ^= 1
	report.Body = changed.Encode()
	refused("another signature", report, data, verify.FaultSignature)
	refused("replayed", b.Report, evidence.ReportData{1, 3}, verify.FaultReportData)
	report = b.Report
	report.Body = report.Body[:len(report.Body)-1]
	refused("truncated", report, data, verify.FaultMalformed)
}
