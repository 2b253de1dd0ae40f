// SPDX-License-Identifier: Apache-2.0

package appraisal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-sev-guest/kds"
	"github.com/google/go-sev-guest/verify/testdata"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// TestLoad: the folder of collateral is the one that the verifier looks into; a
// folder that is not there is an error, not an empty one.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	chip := testdata.AttestationBytes[0x1a0:0x1e0]
	roots, err := trust.Build(trust.Records{Platforms: []trust.Platform{{Environment: "snp-1", Type: trust.TypeSNP, Chip: chip}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := roots.Encode()
	if err != nil {
		t.Fatal(err)
	}
	trustFile, policyFile, folder := filepath.Join(dir, "trust"), filepath.Join(dir, "policy"), filepath.Join(dir, "collateral")
	if err := errors.Join(os.WriteFile(trustFile, text, 0o644), os.WriteFile(policyFile, []byte("environments: [snp-1]\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if r, err := Load(trustFile, policyFile, folder); err == nil || r != nil {
		t.Error("a folder that is not there was taken")
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := collateral.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	// Version 2 of a report does not name the product line: 0x180 is the firmware.
	tcb := kds.TCBVersion(0)
	for i := 7; i >= 0; i-- {
		tcb = tcb<<8 | kds.TCBVersion(testdata.AttestationBytes[0x180+i])
	}
	if err := s.Put(&collateral.Item{URL: kds.VCEKCertURL("Milan", chip, tcb), Body: testdata.VcekBytes, Fetched: time.Now()}); err != nil {
		t.Fatal(err)
	}
	var data evidence.ReportData
	copy(data[:], testdata.AttestationBytes[0x50:])
	for name, c := range map[string]struct {
		folder string
		want   verify.Fault
	}{"with the folder": {folder, ""}, "without": {"", verify.FaultNoEndorsement}} {
		r, err := Load(trustFile, policyFile, c.folder)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.verifier.Verify(evidence.Report{Type: evidence.TypeSNP, Body: testdata.AttestationBytes}, nil, data, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC))
		if c.want == "" && err != nil || c.want != "" && !errors.Is(err, &verify.Error{Fault: c.want}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
