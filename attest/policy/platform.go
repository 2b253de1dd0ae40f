// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"

	"holdfast/attest/evidence/csv"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// hostRules are what the three kinds of confidential virtual machines share.
type hostRules struct {
	Measurements []digest `yaml:"measurements"` // must, unless measurements: none: of the first memory (SNP MEASUREMENT, MRTD, CSV measure)
	Chips        []digest `yaml:"chips"`        // beside environments: accepted chip identities, as in the trust file
	Debug        string   `yaml:"debug"`        // refuse (default) or allow
}

// snpRules constrain SEV-SNP reports (AMD 56860, table 23).
type snpRules struct {
	hostRules        `yaml:",inline"`
	HostData         []digest `yaml:"host-data"`
	IDKeyDigests     []digest `yaml:"id-key-digests"`
	AuthorKeyDigests []digest `yaml:"author-key-digests"`
	MaxVMPL          *uint32  `yaml:"max-vmpl"` // default 0
	MinGuestSVN      *uint32  `yaml:"min-guest-svn"`
	MinTCB           *snpTCB  `yaml:"min-tcb"`         // must: of the firmware, component by component
	MigrationAgent   string   `yaml:"migration-agent"` // refuse (default) or allow
	SMT              string   `yaml:"smt"`             // allow (default) or refuse
}

type snpTCB struct {
	Bootloader uint8 `yaml:"bootloader"`
	TEE        uint8 `yaml:"tee"`
	SNP        uint8 `yaml:"snp"`
	Microcode  uint8 `yaml:"microcode"`
}

// tdxRules constrain TDX quotes. tcb-status and min-tcb-evaluation are about the
// vendor's view of the firmware, which comes with the collateral;
// min-tee-tcb-svn is a floor of one's own.
type tdxRules struct {
	hostRules    `yaml:",inline"`
	RTMR         map[uint8][]digest `yaml:"rtmr"` // 0 to 3, accepted values
	MRConfigIDs  []digest           `yaml:"mr-config-ids"`
	MROwners     []digest           `yaml:"mr-owners"`
	MRSeams      []digest           `yaml:"mr-seams"`
	MinTEETCBSVN digest             `yaml:"min-tee-tcb-svn"` // 16 bytes, component by component

	TCBStatus        []string `yaml:"tcb-status"`         // accepted; default UpToDate alone
	Advisories       []string `yaml:"advisories"`         // accepted beside a status that is not UpToDate; absent: any
	MinTCBEvaluation *int     `yaml:"min-tcb-evaluation"` // of the collateral (tcbEvaluationDataNumber): an older one is not taken
}

// csvRules constrain Hygon CSV reports.
type csvRules struct {
	hostRules   `yaml:",inline"`
	Versions    []int    `yaml:"versions"` // of the report: 1 (masked) or 2; default both
	VMIDs       []digest `yaml:"vm-ids"`
	UserPubkeys []digest `yaml:"user-pubkey-digests"`
	Require     []string `yaml:"require"`    // policy bits: no-key-sharing, es, no-send, csv, csv3
	ASIDReuse   string   `yaml:"asid-reuse"` // refuse (default) or allow
	MinBuild    *uint32  `yaml:"min-build"`  // of the firmware; only reports of version 2 have one
	MinAPI      *csvAPI  `yaml:"min-api"`    // of the firmware interface that the guest's owner demanded
	DenyPEKs    []digest `yaml:"deny-peks"`  // SHA-256 of the key's point; Hygon publishes no revocation list
}

type csvAPI struct {
	Major uint8 `yaml:"major"`
	Minor uint8 `yaml:"minor"`
}

// tcbStatuses are those of Intel's that a policy may accept: all but Revoked.
var tcbStatuses = []string{"UpToDate", "SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded", "OutOfDate", "OutOfDateConfigurationNeeded"}

var csvBits = map[string]uint32{"no-key-sharing": csv.PolicyNoKS, "es": csv.PolicyES, "no-send": csv.PolicyNoSend, "csv": csv.PolicyCSV, "csv3": csv.PolicyCSV3}

// sizes demands values of n bytes each.
func sizes(key string, n int, lists ...[]digest) error {
	for _, l := range lists {
		for _, d := range l {
			if len(d) != n {
				return fmt.Errorf("%s: expected values of %d bytes, got %d", key, n, len(d))
			}
		}
	}
	return nil
}

func (f *file) checkPlatforms() error {
	choice := func(key string, values ...string) error {
		for _, v := range values {
			if err := oneOf(key, v, []string{"allow", "refuse"}); err != nil {
				return err
			}
		}
		return nil
	}
	var errs []error
	if r := f.SNP; r != nil {
		errs = append(errs, choice("sev-snp", r.Debug, r.MigrationAgent, r.SMT), sizes("sev-snp.measurements", 48, r.Measurements, r.IDKeyDigests, r.AuthorKeyDigests),
			sizes("sev-snp.host-data", 32, r.HostData), sizes("sev-snp.chips", 64, r.Chips))
	}
	if r := f.TDX; r != nil {
		errs = append(errs, choice("tdx", r.Debug), sizes("tdx.measurements", 48, r.Measurements, r.MRConfigIDs, r.MROwners, r.MRSeams), sizes("tdx.chips", 16, r.Chips))
		for i, values := range r.RTMR {
			if i > 3 || len(values) == 0 {
				errs = append(errs, fmt.Errorf("tdx.rtmr.%d: expected 0 to 3, and at least one value", i))
			}
			errs = append(errs, sizes("tdx.rtmr", 48, values))
		}
		for _, s := range r.TCBStatus {
			if !slices.Contains(tcbStatuses, s) {
				errs = append(errs, fmt.Errorf("tdx.tcb-status: expected one of %v, got %q", tcbStatuses, s))
			}
		}
		if r.MinTEETCBSVN != nil {
			errs = append(errs, sizes("tdx.min-tee-tcb-svn", 16, []digest{r.MinTEETCBSVN}))
		}
	}
	if r := f.CSV; r != nil {
		errs = append(errs, choice("csv", r.Debug, r.ASIDReuse), sizes("csv.measurements", 32, r.Measurements, r.UserPubkeys, r.Chips, r.DenyPEKs), sizes("csv.vm-ids", 16, r.VMIDs))
		for _, v := range r.Versions {
			if v != 1 && v != 2 {
				errs = append(errs, fmt.Errorf("csv.versions: expected 1 or 2, got %d", v))
			}
		}
		for _, b := range r.Require {
			if csvBits[b] == 0 {
				errs = append(errs, fmt.Errorf("csv.require: expected no-key-sharing, es, no-send, csv or csv3, got %q", b))
			}
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *check) platform() {
	p := c.r.Platform
	if p == nil {
		return
	}
	if !p.Collateral && p.CSV == nil && c.p.Collateral != "optional" {
		c.fail("collateral", "the vendor's revocation list, and for TDX its TCB information, in date (or collateral: optional)", "none in the store; `holdfast attest collateral fetch` gets it")
	}
	switch {
	case p.SNP != nil:
		if r := c.p.SNP; r == nil {
			c.missing(trust.TypeSNP)
		} else {
			c.host(trust.TypeSNP, &r.hostRules, p)
			c.snp(r, p.SNP)
		}
	case p.TDX != nil:
		if r := c.p.TDX; r == nil {
			c.missing(trust.TypeTDX)
		} else {
			c.host(trust.TypeTDX, &r.hostRules, p)
			c.tdx(r, p.TDX)
			c.tcbStatus(r, p)
		}
	case p.CSV != nil:
		if r := c.p.CSV; r == nil {
			c.missing(trust.TypeCSV)
		} else {
			c.host(trust.TypeCSV, &r.hostRules, p)
			c.csv(r, p.CSV)
		}
	default:
		c.fail("platform", "a report of a known type", quoted(p.Type))
	}
}

func (c *check) host(name string, r *hostRules, p *verify.Platform) {
	if len(r.Measurements) == 0 {
		// Under version 1's mask a measurement of known value is half of what pins the other fields.
		if c.p.Measurements != "none" || (p.CSV != nil && p.CSV.Version == 1) {
			c.missing(name + ".measurements")
		}
	} else {
		c.oneOf(name+".measurements", r.Measurements, p.Measurement)
	}
	c.oneOf(name+".chips", r.Chips, p.Chip)
	if p.Debug && r.Debug != "allow" {
		c.fail(name+".debug", "a machine that its host cannot debug", "a machine in debug mode")
	}
}

// oneOf demands one of the listed values; an absent list asks nothing.
func (c *check) oneOf(rule string, accepted []digest, got []byte) {
	if accepted == nil || slices.ContainsFunc(accepted, func(d digest) bool { return bytes.Equal(d, got) }) {
		return
	}
	names := make([]string, len(accepted))
	for i, a := range accepted {
		names[i] = hex.EncodeToString(a)
	}
	c.fail(rule, list(names), quoted(hex.EncodeToString(got)))
}

func (c *check) atLeast(rule string, want, got uint64) {
	if got < want {
		c.fail(rule, fmt.Sprintf("at least %d", want), fmt.Sprint(got))
	}
}

func (c *check) snp(r *snpRules, x *verify.SNP) {
	c.oneOf("sev-snp.host-data", r.HostData, x.HostData)
	c.oneOf("sev-snp.id-key-digests", r.IDKeyDigests, x.IDKeyDigest)
	c.oneOf("sev-snp.author-key-digests", r.AuthorKeyDigests, x.AuthorKeyDigest)
	vmpl := uint32(0)
	if r.MaxVMPL != nil {
		vmpl = *r.MaxVMPL
	}
	if x.VMPL > vmpl {
		c.fail("sev-snp.max-vmpl", fmt.Sprintf("at most %d", vmpl), fmt.Sprint(x.VMPL))
	}
	if r.MinGuestSVN != nil {
		c.atLeast("sev-snp.min-guest-svn", uint64(*r.MinGuestSVN), uint64(x.GuestSVN))
	}
	if t := r.MinTCB; t == nil {
		c.missing("sev-snp.min-tcb")
	} else {
		// What was measured at launch was measured by the firmware of then.
		for _, f := range []struct {
			name string
			tcb  verify.SNPTCB
		}{{"sev-snp.min-tcb", x.TCB}, {"sev-snp.min-tcb.launch", x.LaunchTCB}} {
			c.atLeast(f.name+".bootloader", uint64(t.Bootloader), uint64(f.tcb.Bootloader))
			c.atLeast(f.name+".tee", uint64(t.TEE), uint64(f.tcb.TEE))
			c.atLeast(f.name+".snp", uint64(t.SNP), uint64(f.tcb.SNP))
			c.atLeast(f.name+".microcode", uint64(t.Microcode), uint64(f.tcb.Microcode))
		}
	}
	if x.MigrationAgent && r.MigrationAgent != "allow" {
		c.fail("sev-snp.migration-agent", "a machine that no migration agent can move", "one that may be moved")
	}
	if x.SMT && r.SMT == "refuse" {
		c.fail("sev-snp.smt", "a host with one thread a core", "one with two")
	}
}

func (c *check) tdx(r *tdxRules, x *verify.TDX) {
	for i := uint8(0); i < 4; i++ {
		if accepted, ok := r.RTMR[i]; ok {
			var got []byte
			if int(i) < len(x.RTMR) {
				got = x.RTMR[i]
			}
			c.oneOf(fmt.Sprintf("tdx.rtmr.%d", i), accepted, got)
		}
	}
	c.oneOf("tdx.mr-config-ids", r.MRConfigIDs, x.MRConfigID)
	c.oneOf("tdx.mr-owners", r.MROwners, x.MROwner)
	c.oneOf("tdx.mr-seams", r.MRSeams, x.MRSeam)
	for i, min := range r.MinTEETCBSVN {
		if i >= len(x.TEETCBSVN) || x.TEETCBSVN[i] < min {
			c.fail("tdx.min-tee-tcb-svn", "each byte at least that of "+hex.EncodeToString(r.MinTEETCBSVN), quoted(hex.EncodeToString(x.TEETCBSVN)))
			break
		}
	}
}

// tcbStatus asks what Intel says of the firmware. Without collateral there is
// nothing to ask, which the rule collateral is about, unless the policy has rules
// of its own here.
func (c *check) tcbStatus(r *tdxRules, p *verify.Platform) {
	x, accepted := p.TDX, r.TCBStatus
	if accepted == nil {
		accepted = []string{"UpToDate"}
	}
	if (p.Collateral || r.TCBStatus != nil) && !slices.Contains(accepted, x.TCBStatus) {
		c.fail("tdx.tcb-status", list(accepted), quoted(x.TCBStatus))
	}
	if r.Advisories != nil {
		for _, a := range x.Advisories {
			if !slices.Contains(r.Advisories, a) {
				c.fail("tdx.advisories", list(r.Advisories), quoted(a))
				break
			}
		}
	}
	if n := r.MinTCBEvaluation; n != nil && (!p.Collateral || x.TCBEvaluation < *n) {
		c.fail("tdx.min-tcb-evaluation", fmt.Sprintf("at least %d", *n), fmt.Sprint(x.TCBEvaluation))
	}
}

func (c *check) csv(r *csvRules, x *verify.CSV) {
	if r.Versions != nil && !slices.Contains(r.Versions, x.Version) {
		c.fail("csv.versions", fmt.Sprintf("one of %v", r.Versions), fmt.Sprint(x.Version))
	}
	c.oneOf("csv.vm-ids", r.VMIDs, x.VMID)
	c.oneOf("csv.user-pubkey-digests", r.UserPubkeys, x.UserPubkeyDigest)
	for _, b := range r.Require {
		if x.Policy&csvBits[b] == 0 {
			c.fail("csv.require", "a machine with the policy "+b, fmt.Sprintf("policy %#x", x.Policy))
		}
	}
	if x.Policy&csv.PolicyASIDReuse != 0 && r.ASIDReuse != "allow" {
		c.fail("csv.asid-reuse", "a machine whose address space identifier is its own", "one that others may use after it")
	}
	if r.MinBuild != nil {
		c.atLeast("csv.min-build", uint64(*r.MinBuild), uint64(x.Build))
	}
	if a := r.MinAPI; a != nil {
		major, minor := uint8(x.Policy>>16), uint8(x.Policy>>24)
		if major < a.Major || (major == a.Major && minor < a.Minor) {
			c.fail("csv.min-api", fmt.Sprintf("at least %d.%d", a.Major, a.Minor), fmt.Sprintf("%d.%d", major, minor))
		}
	}
	if slices.ContainsFunc(r.DenyPEKs, func(d digest) bool { return bytes.Equal(d, x.PEK[:]) }) {
		c.fail("csv.deny-peks", "a platform endorsement key that is not denied", hex.EncodeToString(x.PEK[:]))
	}
}
