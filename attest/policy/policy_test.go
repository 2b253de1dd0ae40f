// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/verify"
	"holdfast/tpm2"
)

const full = `
version: 1
profile: pq-only
environments: [web-1, web-2]
signatures: [ML-DSA-65]
class: machine
pcrs:
  sha256:
    0: ["0000000000000000000000000000000000000000000000000000000000000000"]
    7: ["0707070707070707070707070707070707070707070707070707070707070707", "1111111111111111111111111111111111111111111111111111111111111111"]
events:
  - pcr: 14
    only:
      - {kind: file, name: /usr/bin/holdfast, sha256: ["0100000000000000000000000000000000000000000000000000000000000000"]}
      - {kind: file, name: /usr/sbin/nginx}
    require:
      - {sha256: ["0100000000000000000000000000000000000000000000000000000000000000"]}
reset-count: {min: 2, max: 9}
restart-count: {max: 1}
firmware: [0x20240125, 7]
clock: {safe: true, min: 1000}
enrolment: {methods: [credential-activation], max-age: 2400h}
age: 10s
server-names: [shop.example]
groups: [X25519MLKEM768, SecP256r1MLKEM768]
cipher-suites: [TLS_AES_128_GCM_SHA256]
grades: [hello]
resumption: refuse
claims:
  executables: ["0200000000000000000000000000000000000000000000000000000000000000"]
  executable-measured-in: 14
  units: [nginx.service]
  services: [shop]
  listeners: ["0.0.0.0:443"]
  network-namespaces: [host]
  configs: ["0300000000000000000000000000000000000000000000000000000000000000"]
  agent-versions: ["1.0"]
`

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func digestOf(first byte) []byte { d := make([]byte, 32); d[0] = first; return d }

func accepted() (*verify.Result, Session) {
	seven := make([]byte, 32)
	for i := range seven {
		seven[i] = 7
	}
	measured := func(name string, first byte) verify.Event {
		return verify.Event{PCR: 14, Type: 6, Bound: true, Measured: &evidence.Measured{Kind: "file", Name: name, SHA256: [32]byte{first}}}
	}
	r := &verify.Result{
		Type: evidence.TypeTPMQuote, Class: verify.ClassMachine, Environment: "web-1", Signature: "ML-DSA-65", PQ: true,
		Method: "credential-activation", Enrolled: now.Add(-24 * time.Hour), ResetCount: 2, RestartCount: 1, Safe: true, Clock: 1000, Firmware: 7,
		PCRs: []verify.PCR{
			{Hash: tpm2.AlgSHA256, Index: 0, Value: make([]byte, 32), Logged: true},
			{Hash: tpm2.AlgSHA256, Index: 7, Value: seven},
			{Hash: tpm2.AlgSHA256, Index: 14, Value: digestOf(9), Logged: true},
		},
		Events: []verify.Event{measured("/usr/bin/holdfast", 1), measured("/usr/sbin/nginx", 2)},
	}
	return r, Session{
		ServerName: "shop.example", Group: 0x11ec, Grade: GradeHello, CipherSuite: 0x1301,
		Claims: Claims{Service: "shop", Listener: "0.0.0.0:443", NetNS: "host", Executable: "02" + strings.Repeat("00", 31), Unit: "nginx.service",
			Config: "03" + strings.Repeat("00", 31), AgentVersion: "1.0", Class: verify.ClassMachine},
	}
}

func parse(t testing.TB, yaml string) *Policy {
	t.Helper()
	p, err := Parse([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAccepts(t *testing.T) {
	r, s := accepted()
	p := parse(t, full)
	if f := p.Evaluate(r, s, now); f != nil {
		t.Fatalf("expected no failure, got %v", f)
	}
	if n := testing.AllocsPerRun(100, func() { p.Evaluate(r, s, now) }); n > 1 {
		t.Errorf("an accepted session costs %v allocations", n)
	}
}

// TestEachRule breaks one thing at a time: exactly the named rules refuse.
func TestEachRule(t *testing.T) {
	p := parse(t, full)
	for _, c := range []struct {
		what  string
		rules string // names, space-separated
		with  func(*verify.Result, *Session)
	}{
		{"other machine", "environments", func(r *verify.Result, _ *Session) { r.Environment = "web-3" }},
		{"other signature", "signatures", func(r *verify.Result, _ *Session) { r.Signature = "ML-DSA-87" }},
		{"classic signature", "signatures profile", func(r *verify.Result, _ *Session) { r.Signature, r.PQ = "ES256", false }},
		{"classic group", "profile groups", func(_ *verify.Result, s *Session) { s.Group = 0x001d }},
		{"other group", "groups", func(_ *verify.Result, s *Session) { s.Group = 0x11ed }},
		{"unknown group", "profile groups", func(_ *verify.Result, s *Session) { s.Group = 0xfefe }},
		{"PCR 7", "pcrs.sha256.7", func(r *verify.Result, _ *Session) { r.PCRs[1].Value = digestOf(1) }},
		{"PCR in another bank", "pcrs.sha256.0", func(r *verify.Result, _ *Session) { r.PCRs[0].Hash = tpm2.AlgSHA3_256 }},
		{"PCR not quoted", "pcrs.sha256.7", func(r *verify.Result, _ *Session) { r.PCRs = append(r.PCRs[:1:1], r.PCRs[2]) }},
		{"other agent", "events.14.require events.14.only", func(r *verify.Result, _ *Session) { r.Events[0].Measured.SHA256 = [32]byte{8} }},
		{"more measured", "events.14.only", func(r *verify.Result, _ *Session) { r.Events = append(r.Events, verify.Event{PCR: 14, Type: 5}) }},
		{"nothing measured", "events.14.require events.14.only claims.executable-measured-in", func(r *verify.Result, _ *Session) { r.Events = nil }},
		{"log not proved", "events.14 claims.executable-measured-in", func(r *verify.Result, _ *Session) { r.PCRs[2].Logged = false }},
		{"log proved by SHA-1 only", "events.14 claims.executable-measured-in", func(r *verify.Result, _ *Session) { r.PCRs[2].Hash = tpm2.AlgSHA1 }},
		{"older boot", "reset-count", func(r *verify.Result, _ *Session) { r.ResetCount = 1 }},
		{"later boot", "reset-count", func(r *verify.Result, _ *Session) { r.ResetCount = 10 }},
		{"resumed machine", "restart-count", func(r *verify.Result, _ *Session) { r.RestartCount = 2 }},
		{"firmware", "firmware", func(r *verify.Result, _ *Session) { r.Firmware = 8 }},
		{"unsafe clock", "clock.safe", func(r *verify.Result, _ *Session) { r.Safe = false }},
		{"clock back", "clock.min", func(r *verify.Result, _ *Session) { r.Clock = 999 }},
		{"imported key", "enrolment.methods", func(r *verify.Result, _ *Session) { r.Method = "imported" }},
		{"enrolled long ago", "enrolment.max-age", func(r *verify.Result, _ *Session) { r.Enrolled = now.Add(-2401 * time.Hour) }},
		{"enrolled in the future", "enrolment.max-age", func(r *verify.Result, _ *Session) { r.Enrolled = now.Add(time.Hour) }},
		{"old evidence", "age", func(r *verify.Result, _ *Session) { r.Made = now.Add(-11 * time.Second) }},
		{"evidence of tomorrow", "age", func(r *verify.Result, _ *Session) { r.Made = now.Add(time.Minute) }},
		{"other name", "server-names", func(_ *verify.Result, s *Session) { s.ServerName = "" }},
		{"other suite", "cipher-suites", func(_ *verify.Result, s *Session) { s.CipherSuite = 0x1302 }},
		{"share grade", "grades", func(_ *verify.Result, s *Session) { s.Grade = GradeShare }},
		{"no grade", "grades", func(_ *verify.Result, s *Session) { s.Grade = "" }},
		{"resumption", "resumption", func(_ *verify.Result, s *Session) { s.Resumed = true }},
		{"enclave claimed by a machine", "class class", func(_ *verify.Result, s *Session) { s.Claims.Class = verify.ClassEnclave }},
		{"no class", "class class", func(_ *verify.Result, s *Session) { s.Claims.Class = "" }},
		{"executable", "claims.executables claims.executable-measured-in", func(_ *verify.Result, s *Session) { s.Claims.Executable = strings.Repeat("ab", 32) }},
		{"no executable", "claims.executables claims.executable-measured-in", func(_ *verify.Result, s *Session) { s.Claims.Executable = "" }},
		{"unit", "claims.units", func(_ *verify.Result, s *Session) { s.Claims.Unit = "evil.service" }},
		{"service", "claims.services", func(_ *verify.Result, s *Session) { s.Claims.Service = "bank" }},
		{"listener", "claims.listeners", func(_ *verify.Result, s *Session) { s.Claims.Listener = "127.0.0.1:4443" }},
		{"network namespace", "claims.network-namespaces", func(_ *verify.Result, s *Session) { s.Claims.NetNS = "other" }},
		{"configuration", "claims.configs", func(_ *verify.Result, s *Session) { s.Claims.Config = "" }},
		{"agent", "claims.agent-versions", func(_ *verify.Result, s *Session) { s.Claims.AgentVersion = "0.9" }},
	} {
		t.Run(c.what, func(t *testing.T) {
			r, s := accepted()
			c.with(r, &s)
			var got []string
			for _, f := range p.Evaluate(r, s, now) {
				if f.Expected == "" || f.Got == "" {
					t.Errorf("%v does not say what it expected and got", f)
				}
				got = append(got, f.Rule)
			}
			if strings.Join(got, " ") != c.rules {
				t.Errorf("expected rules %q, got %q", c.rules, strings.Join(got, " "))
			}
		})
	}
}

// TestDeniesByDefault: what a policy leaves out is refused.
func TestDeniesByDefault(t *testing.T) {
	r, s := accepted()
	for _, p := range []*Policy{{}, parse(t, ""), parse(t, "# nothing\n"), parse(t, "version: 1")} {
		var got []string
		for _, f := range p.Evaluate(r, s, now) {
			got = append(got, f.Rule)
		}
		if want := "environments signatures measurements groups class claims"; strings.Join(got, " ") != want {
			t.Errorf("empty policy: expected %q, got %q", want, got)
		}
	}
	if !parse(t, "version: 1").Empty() || parse(t, full).Empty() {
		t.Error("Empty does not tell an empty policy")
	}
	if f := (parse(t, full)).Evaluate(nil, s, now); len(f) != 1 || f[0].Rule != "evidence" {
		t.Errorf("no result: got %v", f)
	}
	for _, key := range []string{"environments", "signatures", "groups", "class", "claims"} {
		var out []string
		skip := false
		for _, l := range strings.Split(full, "\n") {
			if !strings.HasPrefix(l, " ") {
				skip = strings.HasPrefix(l, key+":")
			}
			if !skip {
				out = append(out, l)
			}
		}
		f := parse(t, strings.Join(out, "\n")).Evaluate(r, s, now)
		if len(f) != 1 || f[0].Rule != key {
			t.Errorf("policy without %s: got %v", key, f)
		}
	}
	// An empty list accepts nothing; it does not mean "any".
	f := parse(t, strings.Replace(full, "units: [nginx.service]", "units: []", 1)).Evaluate(r, s, now)
	if len(f) != 1 || f[0].Rule != "claims.units" {
		t.Errorf("empty list: got %v", f)
	}
}

const simulatedPolicy = `
environments: [SIMULATED/lab/psp-1]
signatures: [ES256]
class: machine
groups: [x25519]
age: 10s
claims: {units: [nginx.service]}
`

func TestSimulated(t *testing.T) {
	r := &verify.Result{Type: evidence.TypeSimulated, Simulated: true, Class: verify.ClassMachine, Environment: "SIMULATED/lab/psp-1", Signature: "ES256", Made: now}
	_, s := accepted()
	s.Group = 0x1d
	if f := parse(t, simulatedPolicy+"simulated: allow").Evaluate(r, s, now); f != nil {
		t.Errorf("allowed by name: got %v", f)
	}
	for _, more := range []string{"", "simulated: refuse"} {
		if f := parse(t, simulatedPolicy+more).Evaluate(r, s, now); len(f) != 1 || f[0].Rule != "simulated" || !strings.Contains(f[0].Got, "SIMULATED") {
			t.Errorf("%q: got %v", more, f)
		}
	}
	// Rules about a TPM do not pass because there is none.
	f := parse(t, simulatedPolicy+"simulated: allow\nreset-count: {max: 9}\nfirmware: [0]\nclock: {safe: true}\npcrs: {sha256: {0: ['"+strings.Repeat("00", 32)+"']}}\nenrolment: {max-age: 1h}").Evaluate(r, s, now)
	var got []string
	for _, x := range f {
		got = append(got, x.Rule)
	}
	if want := "pcrs.sha256.0 reset-count firmware clock.safe enrolment.max-age"; strings.Join(got, " ") != want {
		t.Errorf("expected %q, got %q", want, got)
	}
}

// TestNothingMeasured: a PCR that nobody extended is explained by every log,
// and shows nothing.
func TestNothingMeasured(t *testing.T) {
	only := strings.Replace(strings.Replace(full, "    require:\n      - {sha256: [\"0100000000000000000000000000000000000000000000000000000000000000\"]}\n", "", 1),
		"  executable-measured-in: 14\n", "", 1)
	r, s := accepted()
	if f := parse(t, only).Evaluate(r, s, now); f != nil {
		t.Fatalf("with measurements: %v", f)
	}
	r.Events = slices.DeleteFunc(slices.Clone(r.Events), func(e verify.Event) bool { return e.PCR == 14 })
	if f := parse(t, only).Evaluate(r, s, now); len(f) != 1 || f[0].Rule != "events.14.only" {
		t.Errorf("without: got %v", f)
	}
}

// TestMachineIsNoEnclave: no claim makes evidence of a machine satisfy a
// policy that asks for an enclave.
func TestMachineIsNoEnclave(t *testing.T) {
	p := parse(t, strings.Replace(full, "class: machine", "class: enclave", 1))
	for _, claim := range []string{verify.ClassMachine, verify.ClassEnclave, ""} {
		r, s := accepted()
		s.Claims.Class = claim
		if f := p.Evaluate(r, s, now); len(f) == 0 || f[0].Rule != "class" {
			t.Errorf("claim %q: got %v", claim, f)
		}
	}
	r, s := accepted()
	r.Class, s.Claims.Class = verify.ClassEnclave, verify.ClassEnclave
	if f := p.Evaluate(r, s, now); f != nil {
		t.Errorf("an enclave's evidence: got %v", f)
	}
}

func TestResumptionByDHE(t *testing.T) {
	r, s := accepted()
	s.Resumed = true
	if f := parse(t, strings.Replace(full, "resumption: refuse", "resumption: dhe", 1)).Evaluate(r, s, now); f != nil {
		t.Errorf("got %v", f)
	}
	s.CipherSuite = 0x1303
	if f := parse(t, strings.Replace(strings.Replace(full, "resumption: refuse", "resumption: dhe", 1), "cipher-suites: [TLS_AES_128_GCM_SHA256]", "", 1)).Evaluate(r, s, now); f != nil {
		t.Errorf("default suites: got %v", f)
	}
	s.CipherSuite = 0xc02f
	if f := parse(t, strings.Replace(strings.Replace(full, "resumption: refuse", "resumption: dhe", 1), "cipher-suites: [TLS_AES_128_GCM_SHA256]", "", 1)).Evaluate(r, s, now); len(f) != 1 || f[0].Rule != "cipher-suites" {
		t.Errorf("a suite of TLS 1.2: got %v", f)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ yaml, says string }{
		{"enviroments: [a]", "enviroments"},
		{"version: 2", "version"},
		{"profile: pq", "profile"},
		{"simulated: yes", "simulated"},
		{"simulated: [allow]", "cannot unmarshal"},
		{"class: any", "class"},
		{"grades: [none]", "grades"},
		{"groups: [X25519Kyber768Draft00]", "X25519MLKEM768"},
		{"groups: ['*']", "groups"},
		{"signatures: [none]", "signatures"},
		{"cipher-suites: [TLS_NULL]", "cipher-suites"},
		{"resumption: allow", "resumption"},
		{"measurements: optional", "measurements"},
		{"pcrs: {md5: {0: [00]}}", "hash"},
		{"pcrs: {sha256: {}}", "no values"},
		{"pcrs: {sha256: {0: []}}", "at least one value"},
		{"pcrs: {sha256: {24: ['" + strings.Repeat("00", 32) + "']}}", "23"},
		{"pcrs: {sha256: {0: ['00']}}", "32 bytes"},
		{"pcrs: {sha256: {0: [zz]}}", "hexadecimal"},
		{"events: [{pcr: 14}]", "only or require"},
		{"events: [{pcr: 99, only: [{name: a}]}]", "23"},
		{"events: [{pcr: 14, only: [{}]}]", "match anything"},
		{"events: [{pcr: 14, only: [{sha256: ['00']}]}]", "32 bytes"},
		{"events: [{pcr: 16, only: [{name: a}]}]", "programs reset"},
		{"pcrs: {sha256: {23: ['" + strings.Repeat("00", 32) + "']}}", "programs reset"},
		{"claims: {executable-measured-in: 16}", "programs reset"},
		{"firmware: [new]", "firmware"},
		{"age: 10", "duration"},
		{"age: -10s", "duration"},
		{"enrolment: {methods: [hope]}", "enrolment.methods"},
		{"claims: {executables: [AB]}", "lower-case"},
		{"claims: {units: ['']}", "empty value"},
		{"claims: {executable-measured-in: 24}", "23"},
		{"claims: {exe: [a]}", "exe"},
		{"environments: ['']", "empty name"},
		{"class: machine\nclass: enclave", "already defined"},
		{"version: 1\n---\nversion: 1", "one YAML document"},
		{"[]", "cannot unmarshal"},
	} {
		p, err := Parse([]byte(c.yaml))
		if err == nil || p != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: expected an error with %q and no policy, got %v", c.yaml, c.says, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(simulatedPolicy))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if (err == nil) == (p == nil) {
			t.Fatalf("policy %v with error %v", p, err)
		}
		if err != nil {
			return
		}
		r, s := accepted()
		if p.Evaluate(r, s, now) == nil && (len(p.f.Environments) == 0 || len(p.f.groups) == 0 || len(p.f.Signatures) == 0 || p.f.Class == "" || p.f.Claims == nil) {
			t.Fatalf("accepts without a rule that a policy must have: %q", b)
		}
	})
}

func BenchmarkEvaluate(b *testing.B) {
	r, s := accepted()
	p := parse(b, full)
	b.ReportAllocs()
	for b.Loop() {
		if p.Evaluate(r, s, now) != nil {
			b.Fatal("refused")
		}
	}
}
