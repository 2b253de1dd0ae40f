// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/verify"
)

const enclavePolicy = `
environments: [host-1]
signatures: [ML-DSA-65]
class: enclave
age: 1m
groups: [X25519MLKEM768]
enclave:
  levels: [hosted, late-launch]
  modes: [HU, GU]
  monitors: ["4000000000000000000000000000000000000000000000000000000000000000"]
  mrenclave: ["e100000000000000000000000000000000000000000000000000000000000000"]
  mrsigner: ["5100000000000000000000000000000000000000000000000000000000000000"]
  isv-prod-ids: [3]
  isv-svn: {min: 2, max: 7}
  cpu-svn-min: "01000000000000000000000000000000"
  isv-family-ids: ["00000000000000000000000000000000"]
`

func acceptedEnclave() (*verify.Result, Session) {
	r := &verify.Result{Type: evidence.TypeEnclaveQuote, Class: verify.ClassEnclave, Environment: "host-1", Signature: "ML-DSA-65", PQ: true, Made: now.Add(-5 * time.Second),
		Enclave: &verify.Enclave{Level: evidence.LevelHosted, Mode: evidence.ModeHU, KeyAlgorithm: "ML-DSA-65", MREnclave: [32]byte{0xe1}, MRSigner: [32]byte{0x51}, ISVProdID: 3, ISVSVN: 2,
			CPUSVN: [16]byte{1}, Monitor: &evidence.Measured{Kind: evidence.KindEnclaveMonitor, Name: "/usr/bin/holdfast", SHA256: [32]byte{0x40}}}}
	return r, Session{Group: 0x11ec, Grade: GradeHello, CipherSuite: 0x1301, Claims: Claims{Class: verify.ClassEnclave}}
}

func failedRules(f []Failure) (out []string) {
	for _, x := range f {
		out = append(out, x.Rule)
	}
	return out
}

func TestEnclaveRules(t *testing.T) {
	p, err := Parse([]byte(enclavePolicy))
	if err != nil {
		t.Fatal(err)
	}
	r, s := acceptedEnclave()
	if f := p.Evaluate(r, s, now); f != nil {
		t.Fatalf("refused: %v", f)
	}
	for rule, change := range map[string]func(*verify.Result){
		"enclave.levels":         func(r *verify.Result) { r.Enclave.Level = evidence.LevelInproc },
		"enclave.modes":          func(r *verify.Result) { r.Enclave.Mode = evidence.ModeP },
		"enclave.monitors":       func(r *verify.Result) { r.Enclave.Monitor = &evidence.Measured{SHA256: [32]byte{0x41}} },
		"enclave.mrenclave":      func(r *verify.Result) { r.Enclave.MREnclave[0]++ },
		"enclave.mrsigner":       func(r *verify.Result) { r.Enclave.MRSigner[0]++ },
		"enclave.isv-prod-ids":   func(r *verify.Result) { r.Enclave.ISVProdID++ },
		"enclave.isv-svn":        func(r *verify.Result) { r.Enclave.ISVSVN = 1 },
		"enclave.debug":          func(r *verify.Result) { r.Enclave.Debug = true },
		"enclave.cpu-svn-min":    func(r *verify.Result) { r.Enclave.CPUSVN = [16]byte{0, 9} },
		"enclave.isv-family-ids": func(r *verify.Result) { r.Enclave.ISVFamilyID[0] = 1 },
		"signatures":             func(r *verify.Result) { r.Enclave.KeyAlgorithm = "ES256" },
		"age":                    func(r *verify.Result) { r.Made = now.Add(-2 * time.Minute) },
		"environments":           func(r *verify.Result) { r.Environment = "host-2" },
		"simulated":              func(r *verify.Result) { r.Simulated = true },
	} {
		r, s := acceptedEnclave()
		change(r)
		if f := failedRules(p.Evaluate(r, s, now)); !slices.Equal(f, []string{rule}) {
			t.Errorf("%s: failed %v", rule, f)
		}
	}
	r, s = acceptedEnclave()
	r.Enclave.Monitor = nil // not measured, yet not inproc: cannot be, but refused
	if f := failedRules(p.Evaluate(r, s, now)); !slices.Equal(f, []string{"enclave.monitors"}) {
		t.Errorf("no monitor: %v", f)
	}
	// A policy for enclaves refuses machines, one for machines refuses enclaves.
	r, s = acceptedEnclave()
	r.Enclave, r.Class, s.Claims.Class = nil, verify.ClassMachine, verify.ClassMachine
	if f := failedRules(p.Evaluate(r, s, now)); !slices.Contains(f, "class") || !slices.Contains(f, "enclave") {
		t.Errorf("a machine: %v", f)
	}
	m, err := Parse([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	r, s = acceptedEnclave()
	if f := failedRules(m.Evaluate(r, s, now)); !slices.Contains(f, "class") || !slices.Contains(f, "enclave") {
		t.Errorf("an enclave under a policy for machines: %v", f)
	}
}

// TestEnclaveDenyByDefault: what a policy leaves out accepts nothing.
func TestEnclaveDenyByDefault(t *testing.T) {
	for rule, text := range map[string]string{
		"enclave":              "enclave: {levels: [hosted], monitors: [MON]}",
		"enclave.levels":       "enclave: {monitors: [MON], mrenclave: [ENC]}",
		"enclave.monitors":     "enclave: {levels: [hosted], mrenclave: [ENC]}",
		"enclave.isv-prod-ids": "enclave: {levels: [hosted], monitors: [MON], mrsigner: [SIG]}",
		"":                     "enclave: {levels: [hosted], monitors: [MON], mrsigner: [SIG], isv-prod-ids: [3]}",
	} {
		text = strings.NewReplacer("MON", `"40`+strings.Repeat("00", 31)+`"`, "ENC", `"e1`+strings.Repeat("00", 31)+`"`, "SIG", `"51`+strings.Repeat("00", 31)+`"`).Replace(text)
		p, err := Parse([]byte("environments: [host-1]\nsignatures: [ML-DSA-65]\nclass: enclave\ngroups: [X25519MLKEM768]\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		r, s := acceptedEnclave()
		f := failedRules(p.Evaluate(r, s, now))
		if rule == "" && f != nil || rule != "" && !slices.Equal(f, []string{rule}) {
			t.Errorf("%s: failed %v", rule, f)
		}
	}
	for _, bad := range []string{"levels: [root]", "modes: [VM]", "debug: yes-please", `mrenclave: ["00"]`, `cpu-svn-min: "00"`, `config-ids: ["00"]`, "unknown: 1"} {
		if p, err := Parse([]byte("enclave: {" + bad + "}")); p != nil || err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}
