// SPDX-License-Identifier: Apache-2.0

package ear_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"holdfast/attest/ear"
	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
)

var now = time.Unix(1666529184, 0)

func genuine() *verify.Result {
	return &verify.Result{Environment: "snp-1", Platform: &verify.Platform{SNP: &verify.SNP{}}}
}

func TestAffirming(t *testing.T) {
	r := ear.New(genuine(), nil, nil, "sha256:00", "v1", evidence.ReportData{1}, now)
	b, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"eat_profile":"tag:github.com,2023:veraison/ear","iat":1666529184,"ear.verifier-id":{"developer":"holdfast","build":"v1"},"eat_nonce":"` +
		base64.RawURLEncoding.EncodeToString(append([]byte{1}, make([]byte, 63)...)) +
		`","submods":{"snp-1":{"ear.status":"affirming","ear.trustworthiness-vector":{"instance-identity":2,"configuration":2,"executables":2,"hardware":2,"runtime-opaque":2},"ear.appraisal-policy-id":"sha256:00"}}}`
	if string(b) != want {
		t.Errorf("expected %s\ngot      %s", want, b)
	}
}

// TestCBOR: golden bytes, typed from the draft's labels.
func TestCBOR(t *testing.T) {
	r := ear.New(genuine(), nil, nil, "", "v1", evidence.ReportData{}, now)
	b, err := r.CBOR()
	if err != nil {
		t.Fatal(err)
	}
	want := "a5" + "061a635537a0" + "0a5840" + strings.Repeat("00", 64) + // iat, nonce
		"190109" + "7820" + hex.EncodeToString([]byte(ear.Profile)) + // eat_profile
		"19010a" + "a1" + "65" + hex.EncodeToString([]byte("snp-1")) + // submods
		"a2" + "1903e8" + "02" + "1903e9" + "a5" + "0002" + "0102" + "0202" + "0402" + "0502" + // status, vector
		"1903ec" + "a2" + "0068" + hex.EncodeToString([]byte("holdfast")) + "0162" + hex.EncodeToString([]byte("v1")) // verifier-id
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("expected %s\ngot      %s", want, got)
	}
}

func TestTiers(t *testing.T) {
	fail := func(rules ...string) (out []policy.Failure) {
		for _, r := range rules {
			out = append(out, policy.Failure{Rule: r, Expected: "a", Got: "b"})
		}
		return out
	}
	refuse := func(f verify.Fault) error { return &verify.Error{Fault: f, Err: errors.New("x")} }
	sim := &verify.Result{Environment: "SIMULATED/lab/x", Simulated: true}
	for _, c := range []struct {
		name     string
		r        *verify.Result
		err      error
		failures []policy.Failure
		status   ear.Tier
		vector   ear.Vector
	}{
		{"debug", genuine(), nil, fail("sev-snp.debug"), ear.Contraindicated, ear.Vector{2, 96, 2, 2, 2}},
		{"chip", genuine(), nil, fail("sev-snp.chips"), ear.Contraindicated, ear.Vector{96, 2, 2, 2, 2}},
		{"firmware", genuine(), nil, fail("sev-snp.min-tcb.snp"), ear.Contraindicated, ear.Vector{2, 2, 2, 96, 2}},
		{"no collateral", genuine(), nil, fail("collateral"), ear.Contraindicated, ear.Vector{2, 2, 2, 96, 2}},
		{"measurement", genuine(), nil, fail("tdx.measurements", "tdx.rtmr.2"), ear.Contraindicated, ear.Vector{2, 2, 96, 2, 2}},
		{"simulated", sim, nil, nil, ear.Warning, ear.Vector{2, 2, 2, 32, 0}},
		{"forged", nil, refuse(verify.FaultSignature), nil, ear.Contraindicated, ear.Vector{Hardware: 97}},
		{"foreign", nil, refuse(verify.FaultForeign), nil, ear.Contraindicated, ear.Vector{InstanceIdentity: 97}},
		{"low TCB", nil, refuse(verify.FaultTCB), nil, ear.Contraindicated, ear.Vector{Hardware: 96}},
		{"unknown type", nil, refuse(verify.FaultUnknownType), nil, ear.None, ear.Vector{}},
		{"nothing", nil, nil, nil, ear.None, ear.Vector{}},
	} {
		r := ear.New(c.r, c.err, c.failures, "", "", evidence.ReportData{}, now)
		if r.Appraisal.Status != c.status || r.Appraisal.Vector != c.vector {
			t.Errorf("%s: got %v, %+v", c.name, r.Appraisal.Status, r.Appraisal.Vector)
		}
	}
	b, err := ear.New(sim, nil, nil, "", "", evidence.ReportData{}, now).JSON()
	if err != nil || !bytes.Contains(b, []byte(`"ear.holdfast.simulated":true`)) {
		t.Errorf("a simulated result must say so: %s, %v", b, err)
	}
}

func TestJWT(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := ear.New(genuine(), nil, nil, "", "v1", evidence.ReportData{}, now)
	b, err := r.JWT(key)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(b), ".")
	if len(parts) != 3 {
		t.Fatalf("got %d parts", len(parts))
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sig) != 64 {
		t.Fatalf("signature of %d bytes, %v", len(sig), err)
	}
	h := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(&key.PublicKey, h[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		t.Error("the signature does not verify")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	want, _ := r.JSON()
	if err != nil || !bytes.Equal(claims, want) {
		t.Errorf("claims %s, %v", claims, err)
	}
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := r.JWT(wide); err == nil || b != nil {
		t.Error("ES256 with a key on P-384")
	}
	rec := ear.Wrap(ear.TypeJWT, b)
	got, err := evidence.ParseRecordJSON(rec.JSON())
	if err != nil || got.Type != ear.TypeJWT || got.Ind != evidence.AttestationResults || !bytes.Equal(got.Value, b) {
		t.Errorf("wrapped: %+v, %v", got, err)
	}
}
