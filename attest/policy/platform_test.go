// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"holdfast/attest/evidence"
	"holdfast/attest/verify"
)

func hexOf(b byte, n int) string {
	return strings.Repeat(string("0123456789abcdef"[b])+string("0123456789abcdef"[b]), n)
}

const platformHead = `
environments: [host-1]
signatures: [ES384, ES256, SM2-SM3]
class: machine
groups: [X25519MLKEM768]
claims: {units: [nginx.service]}
`

var platformPolicy = platformHead + `
sev-snp:
  measurements: ["` + hexOf(10, 48) + `"]
  chips: ["` + hexOf(1, 64) + `"]
  host-data: ["` + hexOf(2, 32) + `"]
  id-key-digests: ["` + hexOf(3, 48) + `"]
  author-key-digests: ["` + hexOf(4, 48) + `"]
  min-guest-svn: 2
  min-tcb: {bootloader: 3, tee: 1, snp: 8, microcode: 115}
  smt: refuse
tdx:
  measurements: ["` + hexOf(10, 48) + `"]
  chips: ["` + hexOf(1, 16) + `"]
  rtmr: {0: ["` + hexOf(5, 48) + `"], 3: ["` + hexOf(6, 48) + `"]}
  mr-config-ids: ["` + hexOf(7, 48) + `"]
  mr-owners: ["` + hexOf(8, 48) + `"]
  mr-seams: ["` + hexOf(9, 48) + `"]
  min-tee-tcb-svn: "05000200000000000000000000000000"
  min-tcb-evaluation: 17
csv:
  measurements: ["` + hexOf(10, 32) + `"]
  chips: ["` + hexOf(1, 32) + `"]
  versions: [2]
  vm-ids: ["` + hexOf(2, 16) + `"]
  user-pubkey-digests: ["` + hexOf(3, 32) + `"]
  require: [es, csv3]
  min-build: 2337
  min-api: {major: 1, minor: 5}
  deny-peks: ["` + hexOf(4, 32) + `"]
`

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b * 0x11}, n) }

func platformSession() Session {
	return Session{ServerName: "shop.example", Group: 0x11ec, Grade: GradeHello, CipherSuite: 0x1301, Claims: Claims{Unit: "nginx.service", Class: verify.ClassMachine}}
}

func snpResult() *verify.Result {
	tcb := verify.SNPTCB{Bootloader: 3, TEE: 1, SNP: 8, Microcode: 115}
	return &verify.Result{Type: evidence.TypeSNP, Class: verify.ClassMachine, Environment: "host-1", Signature: "ES384",
		Platform: &verify.Platform{Type: "sev-snp", Chip: fill(1, 64), Measurement: fill(10, 48), Collateral: true,
			SNP: &verify.SNP{GuestSVN: 2, HostData: fill(2, 32), IDKeyDigest: fill(3, 48), AuthorKeyDigest: fill(4, 48), TCB: tcb, LaunchTCB: tcb}}}
}

func tdxResult() *verify.Result {
	svn := make([]byte, 16)
	svn[0], svn[2] = 5, 2
	return &verify.Result{Type: evidence.TypeTDX, Class: verify.ClassMachine, Environment: "host-1", Signature: "ES256",
		Platform: &verify.Platform{Type: "tdx", Chip: fill(1, 16), Measurement: fill(10, 48), Collateral: true,
			TDX: &verify.TDX{TCBStatus: "UpToDate", TCBEvaluation: 17, TEETCBSVN: svn, MRConfigID: fill(7, 48), MROwner: fill(8, 48), MRSeam: fill(9, 48),
				RTMR: [][]byte{fill(5, 48), make([]byte, 48), make([]byte, 48), fill(6, 48)}}}}
}

func csvResult() *verify.Result {
	return &verify.Result{Type: evidence.TypeCSV, Class: verify.ClassMachine, Environment: "host-1", Signature: "SM2-SM3",
		Platform: &verify.Platform{Type: "csv", Chip: fill(1, 32), Measurement: fill(10, 32),
			CSV: &verify.CSV{Version: 2, Policy: 1 | 1<<2 | 1<<6 | 1<<16 | 5<<24, VMID: fill(2, 16), UserPubkeyDigest: fill(3, 32), Build: 2337}}}
}

func ruleNames(f []Failure) string {
	var out []string
	for _, x := range f {
		out = append(out, x.Rule)
	}
	return strings.Join(out, " ")
}

// TestPlatformRules breaks one thing at a time: exactly the named rules refuse.
func TestPlatformRules(t *testing.T) {
	p := parse(t, platformPolicy)
	for name, r := range map[string]*verify.Result{"snp": snpResult(), "tdx": tdxResult(), "csv": csvResult()} {
		if f := p.Evaluate(r, platformSession(), now); f != nil {
			t.Errorf("%s: expected no failure, got %v", name, f)
		}
	}
	type change = func(*verify.Platform)
	for _, c := range []struct {
		rules string
		r     *verify.Result
		with  change
	}{
		{"collateral", snpResult(), func(p *verify.Platform) { p.Collateral = false }},
		{"sev-snp.debug", snpResult(), func(p *verify.Platform) { p.Debug = true }},
		{"sev-snp.measurements", snpResult(), func(p *verify.Platform) { p.Measurement = fill(11, 48) }},
		{"sev-snp.chips", snpResult(), func(p *verify.Platform) { p.Chip = fill(2, 64) }},
		{"sev-snp.host-data", snpResult(), func(p *verify.Platform) { p.SNP.HostData = fill(0, 32) }},
		{"sev-snp.id-key-digests", snpResult(), func(p *verify.Platform) { p.SNP.IDKeyDigest = nil }},
		{"sev-snp.author-key-digests", snpResult(), func(p *verify.Platform) { p.SNP.AuthorKeyDigest = fill(3, 48) }},
		{"sev-snp.max-vmpl", snpResult(), func(p *verify.Platform) { p.SNP.VMPL = 1 }},
		{"sev-snp.min-guest-svn", snpResult(), func(p *verify.Platform) { p.SNP.GuestSVN = 1 }},
		{"sev-snp.min-tcb.bootloader", snpResult(), func(p *verify.Platform) { p.SNP.TCB.Bootloader = 2 }},
		{"sev-snp.min-tcb.tee", snpResult(), func(p *verify.Platform) { p.SNP.TCB.TEE = 0 }},
		{"sev-snp.min-tcb.snp", snpResult(), func(p *verify.Platform) { p.SNP.TCB.SNP = 7 }},
		{"sev-snp.min-tcb.microcode", snpResult(), func(p *verify.Platform) { p.SNP.TCB.Microcode = 114 }},
		{"sev-snp.min-tcb.launch.snp", snpResult(), func(p *verify.Platform) { p.SNP.LaunchTCB.SNP = 7 }},
		{"sev-snp.migration-agent", snpResult(), func(p *verify.Platform) { p.SNP.MigrationAgent = true }},
		{"sev-snp.smt", snpResult(), func(p *verify.Platform) { p.SNP.SMT = true }},
		{"collateral tdx.min-tcb-evaluation", tdxResult(), func(p *verify.Platform) { p.Collateral = false }},
		{"tdx.tcb-status", tdxResult(), func(p *verify.Platform) { p.TDX.TCBStatus = "OutOfDate" }},
		{"tdx.tcb-status", tdxResult(), func(p *verify.Platform) { p.TDX.TCBStatus = "" }},
		{"tdx.tcb-status", tdxResult(), func(p *verify.Platform) { p.TDX.TCBStatus = "Revoked" }},
		{"tdx.min-tcb-evaluation", tdxResult(), func(p *verify.Platform) { p.TDX.TCBEvaluation = 16 }},
		{"tdx.debug", tdxResult(), func(p *verify.Platform) { p.Debug = true }},
		{"tdx.measurements", tdxResult(), func(p *verify.Platform) { p.Measurement = fill(9, 48) }},
		{"tdx.chips", tdxResult(), func(p *verify.Platform) { p.Chip = fill(9, 16) }},
		{"tdx.rtmr.0", tdxResult(), func(p *verify.Platform) { p.TDX.RTMR[0] = fill(9, 48) }},
		{"tdx.rtmr.3", tdxResult(), func(p *verify.Platform) { p.TDX.RTMR = p.TDX.RTMR[:3] }},
		{"tdx.mr-config-ids", tdxResult(), func(p *verify.Platform) { p.TDX.MRConfigID = fill(9, 48) }},
		{"tdx.mr-owners", tdxResult(), func(p *verify.Platform) { p.TDX.MROwner = fill(9, 48) }},
		{"tdx.mr-seams", tdxResult(), func(p *verify.Platform) { p.TDX.MRSeam = fill(1, 48) }},
		{"tdx.min-tee-tcb-svn", tdxResult(), func(p *verify.Platform) { p.TDX.TEETCBSVN[2] = 1 }},
		{"csv.debug", csvResult(), func(p *verify.Platform) { p.Debug = true }},
		{"csv.measurements", csvResult(), func(p *verify.Platform) { p.Measurement = fill(9, 32) }},
		{"csv.chips", csvResult(), func(p *verify.Platform) { p.Chip = fill(9, 32) }},
		{"csv.versions", csvResult(), func(p *verify.Platform) { p.CSV.Version = 1 }},
		{"csv.vm-ids", csvResult(), func(p *verify.Platform) { p.CSV.VMID = fill(9, 16) }},
		{"csv.user-pubkey-digests", csvResult(), func(p *verify.Platform) { p.CSV.UserPubkeyDigest = fill(9, 32) }},
		{"csv.require", csvResult(), func(p *verify.Platform) { p.CSV.Policy &^= 1 << 6 }},
		{"csv.asid-reuse", csvResult(), func(p *verify.Platform) { p.CSV.Policy |= 1 << 7 }},
		{"csv.min-build", csvResult(), func(p *verify.Platform) { p.CSV.Build = 2336 }},
		{"csv.min-api", csvResult(), func(p *verify.Platform) { p.CSV.Policy &^= 1 << 24 }},
		{"csv.min-api", csvResult(), func(p *verify.Platform) { p.CSV.Policy &^= 1 << 16 }},
		{"csv.deny-peks", csvResult(), func(p *verify.Platform) { copy(p.CSV.PEK[:], fill(4, 32)) }},
		{"platform", csvResult(), func(p *verify.Platform) { p.CSV = nil; p.Collateral = true }},
	} {
		c.with(c.r.Platform)
		if got := ruleNames(p.Evaluate(c.r, platformSession(), now)); got != c.rules {
			t.Errorf("expected %q, got %q", c.rules, got)
		}
	}
}

// TestTCBStatus: a policy that names statuses accepts these and no others, with
// the advisories that it knows; and nothing of that kind without collateral.
func TestTCBStatus(t *testing.T) {
	head := platformHead + "collateral: optional\ntdx:\n  measurements: [\"" + hexOf(10, 48) + "\"]\n"
	named := head + "  tcb-status: [UpToDate, SWHardeningNeeded]\n"
	result := func(status string, advisories ...string) *verify.Result {
		r := tdxResult()
		r.Platform.Collateral = status != ""
		r.Platform.TDX.TCBStatus, r.Platform.TDX.Advisories = status, advisories
		return r
	}
	for _, c := range []struct {
		policy, want string
		r            *verify.Result
	}{
		{head, "", result("UpToDate")},
		{head, "tdx.tcb-status", result("SWHardeningNeeded")},
		{head, "tdx.tcb-status", result("ConfigurationNeeded")},
		{head, "tdx.tcb-status", result("ConfigurationAndSWHardeningNeeded")},
		{head, "tdx.tcb-status", result("OutOfDate")},
		{head, "tdx.tcb-status", result("OutOfDateConfigurationNeeded")},
		{head, "", result("")}, // collateral: optional
		{named, "", result("UpToDate")},
		{named, "", result("SWHardeningNeeded", "INTEL-SA-00615")},
		{named, "tdx.tcb-status", result("ConfigurationNeeded")},
		{named, "tdx.tcb-status", result("")},
		{named + "  advisories: [INTEL-SA-00615]\n", "", result("SWHardeningNeeded", "INTEL-SA-00615")},
		{named + "  advisories: [INTEL-SA-00615]\n", "tdx.advisories", result("SWHardeningNeeded", "INTEL-SA-00615", "INTEL-SA-00828")},
		{named + "  advisories: []\n", "tdx.advisories", result("SWHardeningNeeded", "INTEL-SA-00828")},
	} {
		if got := ruleNames(parse(t, c.policy).Evaluate(c.r, platformSession(), now)); got != c.want {
			t.Errorf("%s with %+v: expected %q, got %q", c.policy[len(head):], c.r.Platform.TDX, c.want, got)
		}
	}
	for _, bad := range []string{"  tcb-status: [Revoked]\n", "  tcb-status: [uptodate]\n"} {
		if p, err := Parse([]byte(head + bad)); err == nil || p != nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestPlatformMust: a policy that says nothing about a platform accepts none.
func TestPlatformMust(t *testing.T) {
	bare := parse(t, platformHead)
	for want, r := range map[string]*verify.Result{"sev-snp": snpResult(), "tdx": tdxResult(), "csv": csvResult()} {
		if got := ruleNames(bare.Evaluate(r, platformSession(), now)); got != want {
			t.Errorf("expected %q, got %q", want, got)
		}
	}
	empty := parse(t, platformHead+"sev-snp: {}\ntdx: {}\ncsv: {}\n")
	for want, r := range map[string]*verify.Result{"sev-snp.measurements sev-snp.min-tcb": snpResult(), "tdx.measurements": tdxResult(), "csv.measurements": csvResult()} {
		if got := ruleNames(empty.Evaluate(r, platformSession(), now)); got != want {
			t.Errorf("expected %q, got %q", want, got)
		}
	}
	// A masked report needs the measurement even where a policy asks for none.
	none := parse(t, platformHead+"measurements: none\ncsv: {}\n")
	v2, v1 := csvResult(), csvResult()
	v1.Platform.CSV.Version = 1
	if got := ruleNames(none.Evaluate(v2, platformSession(), now)); got != "" {
		t.Errorf("version 2: got %q", got)
	}
	if got := ruleNames(none.Evaluate(v1, platformSession(), now)); got != "csv.measurements" {
		t.Errorf("version 1: got %q", got)
	}
}

// TestPlatformClassical: no such report is post-quantum, and pq-only says so.
func TestPlatformClassical(t *testing.T) {
	p := parse(t, platformPolicy+"profile: pq-only\n")
	for name, r := range map[string]*verify.Result{"snp": snpResult(), "tdx": tdxResult(), "csv": csvResult()} {
		if got := ruleNames(p.Evaluate(r, platformSession(), now)); got != "profile" {
			t.Errorf("%s: expected the rule profile, got %q", name, got)
		}
	}
	r := csvResult()
	if got := ruleNames(parse(t, strings.Replace(platformPolicy, ", SM2-SM3", "", 1)).Evaluate(r, platformSession(), now)); got != "signatures" {
		t.Errorf("got %q", got)
	}
}

// TestPlatformTPMRules: rules about a TPM are not met by what has none.
func TestPlatformTPMRules(t *testing.T) {
	p := parse(t, platformPolicy+"reset-count: {max: 5}\nfirmware: [0]\nclock: {safe: true}\nenrolment: {methods: [imported]}\n")
	got := strings.Fields(ruleNames(p.Evaluate(snpResult(), platformSession(), now)))
	if !slices.Equal(got, []string{"reset-count", "firmware", "clock.safe", "enrolment.methods"}) {
		t.Errorf("got %v", got)
	}
}

func TestPlatformParse(t *testing.T) {
	for name, text := range map[string]string{
		"measurement too short": "sev-snp: {measurements: [aa]}", "chip too short": "tdx: {chips: [aa]}", "an RTMR too many": `tdx: {rtmr: {4: ["` + hexOf(1, 48) + `"]}}`,
		"an RTMR without values": "tdx: {rtmr: {0: []}}", "version 3": "csv: {versions: [3]}", "an unknown bit": "csv: {require: [nodbg]}",
		"neither allow nor refuse": "csv: {debug: maybe}", "unknown key": "sev-snp: {tcb: 3}", "collateral": "collateral: none",
	} {
		if p, err := Parse([]byte(text)); err == nil || p != nil {
			t.Errorf("%s: expected an error", name)
		}
	}
}
