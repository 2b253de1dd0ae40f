// SPDX-License-Identifier: Apache-2.0

package tpmquote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/tpmquote"
	"holdfast/tpm2"
)

// pad fills a coordinate that a TPM gave without its leading zeros.
func pad(b []byte) []byte { return append(make([]byte, 32-len(b)), b...) }

// TestCheckquote: tpm2_checkquote, an independent verifier, accepts what the
// evidence carries, and refuses it for other report data.
func TestCheckquote(t *testing.T) {
	tool, err := exec.LookPath("tpm2_checkquote")
	if err != nil {
		t.Skip("SKIP[tpm2-tools]: tpm2_checkquote is not installed (package tpm2-tools)")
	}
	for _, c := range tpms {
		if c.kind != tpmquote.ES256 {
			continue // tpm2-tools has no ML-DSA
		}
		t.Run(c.name, func(t *testing.T) {
			tr, sec := c.start(t), secret(t)
			k, _ := enroll(t, tr, c.kind, sec)
			p, err := tpmquote.Open(tr, k, sec, tpmquote.Options{PCRs: []string{"sha256:0,7"}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			data := evidence.ReportData{1, 2, 3}
			q, err := evidence.ParseTPMQuote(bundle(t, p, data).Report.Body)
			if err != nil {
				t.Fatal(err)
			}
			var pub tpm2.Public
			if err := tpm2.Decode(k.Public, &pub); err != nil {
				t.Fatal(err)
			}
			key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, pad(pub.Point.X), pad(pub.Point.Y)))
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.MarshalPKIXPublicKey(key)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for name, b := range map[string][]byte{"ak.pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "attest": q.Attest, "sig": q.Signature} {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			check := func(qualifying [32]byte) ([]byte, error) {
				cmd := exec.Command(tool, "-u", "ak.pem", "-m", "attest", "-s", "sig", "-q", hex.EncodeToString(qualifying[:]))
				cmd.Dir = dir
				return cmd.CombinedOutput()
			}
			if out, err := check(data.QualifyingData()); err != nil {
				t.Errorf("tpm2_checkquote: %v\n%s", err, out)
			}
			if out, err := check(evidence.ReportData{9}.QualifyingData()); err == nil {
				t.Errorf("tpm2_checkquote accepts other report data\n%s", out)
			}
		})
	}
}
