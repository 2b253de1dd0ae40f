// SPDX-License-Identifier: Apache-2.0

package tdx

import (
	"bytes"
	"crypto/x509"
	"errors"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-tdx-guest/abi"
	"github.com/google/go-tdx-guest/pcs"
	tdxverify "github.com/google/go-tdx-guest/verify"

	"holdfast/attest/appraise/negative"
	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
)

var ownData = evidence.ReportData{1, 2, 3}

// TestOwnGood: a whole chain of the test's own, with good collateral, is
// accepted, and each status of Intel's but Revoked gets to the policy by its name.
func TestOwnGood(t *testing.T) {
	m := newMaker(t)
	good := m.quote(t, ownData, nil)
	res, err := check(m.verifier(t, ownChip, m.store(t, nil, nil)), good, ownData, ownTime)
	if err != nil {
		t.Fatal(err)
	}
	p := res.Platform
	if !p.Collateral || p.TDX.TCBStatus != "UpToDate" || p.TDX.TCBEvaluation != 18 || len(p.TDX.Advisories) != 0 || p.Debug || p.TDX.FMSPC != ownFMSPC || !bytes.Equal(p.Chip, ownChip) ||
		!p.Until.Equal(ownTime.AddDate(0, 0, 20)) {
		t.Errorf("got %+v, %+v", p, p.TDX)
	}
	for _, c := range []struct {
		name, want, advisories string
		platform, module, qe   string
		td, enclave            func([]byte)
	}{
		{name: "SWHardeningNeeded", platform: "SWHardeningNeeded", want: "SWHardeningNeeded", advisories: "A"},
		{name: "ConfigurationNeeded", platform: "ConfigurationNeeded", want: "ConfigurationNeeded", advisories: "A"},
		{name: "both", platform: "ConfigurationAndSWHardeningNeeded", want: "ConfigurationAndSWHardeningNeeded", advisories: "A"},
		{name: "OutOfDate", platform: "OutOfDate", want: "OutOfDate", advisories: "A"},
		{name: "OutOfDateConfigurationNeeded", platform: "OutOfDateConfigurationNeeded", want: "OutOfDateConfigurationNeeded", advisories: "A"},
		{name: "a module out of date", platform: "UpToDate", want: "OutOfDate", advisories: "A INTEL-SA-01036", td: func(b []byte) { b[atSVN] = 2 }},
		{name: "a module out of date on hardware that needs configuration", platform: "ConfigurationNeeded", want: "OutOfDateConfigurationNeeded", advisories: "A INTEL-SA-01036", td: func(b []byte) { b[atSVN] = 4 }},
		{name: "a quoting enclave out of date", platform: "SWHardeningNeeded", want: "OutOfDate", advisories: "A INTEL-SA-00615", enclave: func(b []byte) { b[qeSVN] = 3 }},
	} {
		s := m.store(t, func(p *published) { p.tcb["tcbLevels"] = []object{level(c.platform, 7, 5, "A")} }, nil)
		q := m.quote(t, ownData, func(td, qe []byte) {
			if c.td != nil {
				c.td(td)
			}
			if c.enclave != nil {
				c.enclave(qe)
			}
		})
		res, err := check(m.verifier(t, ownChip, s), q, ownData, ownTime)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if x := res.Platform.TDX; x.TCBStatus != c.want || strings.Join(x.Advisories, " ") != c.advisories {
			t.Errorf("%s: expected %s with %s, got %+v", c.name, c.want, c.advisories, x)
		}
	}
}

// TestOwnRefused: each fault of quote, chain and collateral has its own name.
func TestOwnRefused(t *testing.T) {
	m, other := newMaker(t), newMaker(t)
	good := m.quote(t, ownData, nil)
	td := func(change func([]byte)) []byte { return m.quote(t, ownData, func(td, _ []byte) { change(td) }) }
	qe := func(change func([]byte)) []byte { return m.quote(t, ownData, func(_, qe []byte) { change(qe) }) }
	oldModule := td(func(b []byte) { b[atSVN], b[atSVN+1] = 5, 0 })
	for _, c := range []struct {
		name    string
		publish func(*published)
		spoil   func(string, *collateral.Item)
		quote   []byte
		now     time.Time
		want    verify.Fault
	}{
		{name: "revoked level", publish: func(p *published) { p.tcb["tcbLevels"] = []object{level("Revoked", 7, 5)} }, want: verify.FaultTCB},
		{name: "revoked module", publish: func(p *published) {
			p.tcb["tdxModuleIdentities"].([]object)[0]["tcbLevels"] = []object{isv("Revoked", 0)}
		}, want: verify.FaultTCB},
		{name: "revoked quoting enclave level", publish: func(p *published) { p.qe["tcbLevels"] = []object{isv("Revoked", 0)} }, want: verify.FaultTCB},
		{name: "below every level", publish: func(p *published) { p.tcb["tcbLevels"] = []object{level("OutOfDate", 8, 5)} }, want: verify.FaultTCB},
		{name: "PCE below every level", publish: func(p *published) {
			l := level("UpToDate", 7, 5)
			l["tcb"].(object)["pcesvn"] = 14
			p.tcb["tcbLevels"] = []object{l}
		}, want: verify.FaultTCB},
		{name: "module below every level", quote: td(func(b []byte) { b[atSVN] = 1 }), want: verify.FaultTCB},
		{name: "microcode of the module below every level", quote: td(func(b []byte) { b[atSVN+2] = 2 }), want: verify.FaultTCB},
		{name: "a module of an unknown version", quote: td(func(b []byte) { b[atSVN+1] = 9 }), want: verify.FaultTCB},
		{name: "a module by somebody else", quote: td(func(b []byte) { b[atSeamSigner] = 1 }), want: verify.FaultTCB},
		{name: "a debug module", quote: td(func(b []byte) { b[atSeamAttributes] = 1 }), want: verify.FaultTCB},
		{name: "an old module by somebody else", publish: func(p *published) { p.tcb["tdxModule"].(object)["mrsigner"] = strings.Repeat("01", 48) }, quote: oldModule, want: verify.FaultTCB},
		{name: "a mask of no size", publish: func(p *published) {
			mod := p.tcb["tdxModuleIdentities"].([]object)[0]
			mod["attributes"], mod["attributesMask"] = "", ""
		}, want: verify.FaultTCB},
		{name: "quoting enclave below every level", quote: qe(func(b []byte) { b[qeSVN] = 0 }), want: verify.FaultTCB},
		{name: "quoting enclave by somebody else", quote: qe(func(b []byte) { b[qeSigner]++ }), want: verify.FaultQuotingEnclave},
		{name: "another enclave of the same signer", quote: qe(func(b []byte) { b[qeProduct] = 1 }), want: verify.FaultQuotingEnclave},
		{name: "quoting enclave in debug mode", quote: qe(func(b []byte) { b[qeAttributes] |= 2 }), want: verify.FaultQuotingEnclave},
		{name: "quoting enclave with another MISCSELECT", quote: qe(func(b []byte) { b[qeMisc] = 1 }), want: verify.FaultQuotingEnclave},

		{name: "revoked PCK certificate", publish: func(p *published) { p.pckRevoked = []*big.Int{m.pck.SerialNumber} }, want: verify.FaultRevoked},
		{name: "revoked platform authority", publish: func(p *published) { p.rootRevoked = []*big.Int{m.middle.SerialNumber} }, want: verify.FaultRevoked},
		{name: "revoked TCB signer", publish: func(p *published) { p.rootRevoked = []*big.Int{m.signing.SerialNumber} }, want: verify.FaultRevoked},

		{name: "TCB information out of date", publish: func(p *published) { p.tcb["nextUpdate"] = ownTime.Format(time.RFC3339) }, want: verify.FaultCollateralExpired},
		{name: "QE identity out of date", publish: func(p *published) { p.qe["nextUpdate"] = ownTime.AddDate(0, 0, -1).Format(time.RFC3339) }, want: verify.FaultCollateralExpired},
		{name: "lists out of date", publish: func(p *published) { p.listUntil = ownTime.Add(-time.Hour) }, want: verify.FaultCollateralExpired},
		{name: "TCB signer out of date", publish: func(p *published) {
			p.signing = issue(t, tcbSigning, m.root, func(c *x509.Certificate) { c.NotAfter = ownTime.AddDate(0, 0, -1) })
		}, want: verify.FaultCollateralExpired},
		{name: "TCB information from the future", publish: func(p *published) { p.tcb["issueDate"] = ownTime.AddDate(0, 0, 1).Format(time.RFC3339) }, want: verify.FaultCollateral},
		{name: "certificates out of date", now: ownTime.AddDate(6, 0, 0), want: verify.FaultExpired},

		{name: "another platform's TCB information", publish: func(p *published) { p.tcb["fmspc"] = "50806f000000" }, want: verify.FaultCollateral},
		{name: "another PCE's TCB information", publish: func(p *published) { p.tcb["pceId"] = "0001" }, want: verify.FaultCollateral},
		{name: "TCB information of SGX", publish: func(p *published) { p.tcb["id"] = "SGX" }, want: verify.FaultCollateral},
		{name: "QE identity of SGX", publish: func(p *published) { p.qe["id"] = "QE" }, want: verify.FaultCollateral},
		{name: "TCB information of version 2", publish: func(p *published) { p.tcb["version"] = 2 }, want: verify.FaultCollateral},
		{name: "no levels", publish: func(p *published) { p.tcb["tcbLevels"] = []object{} }, want: verify.FaultCollateral},
		{name: "a status that nobody knows", publish: func(p *published) { p.tcb["tcbLevels"] = []object{level("Splendid", 7, 5)} }, want: verify.FaultCollateral},
		{name: "signed by the PCK certificate", publish: func(p *published) { p.signing = m.pck }, want: verify.FaultCollateral},
		{name: "signed by an authority", publish: func(p *published) { p.signing = m.middle }, want: verify.FaultCollateral},
		{name: "signed by another maker", publish: func(p *published) { p.signing = other.signing }, want: verify.FaultCollateral},
		{name: "list of another maker", publish: func(p *published) { p.listSigner = other.middle }, want: verify.FaultCollateral},
		{name: "list of the root for PCK certificates", publish: func(p *published) { p.listSigner = m.root }, want: verify.FaultCollateral},
		{name: "TCB information changed by one byte", spoil: func(_ string, i *collateral.Item) {
			i.Body = bytes.Replace(i.Body, []byte(`"tcbEvaluationDataNumber":18`), []byte(`"tcbEvaluationDataNumber":19`), 1)
		}, want: verify.FaultCollateral},
		{name: "a second object of the same name", spoil: func(_ string, i *collateral.Item) {
			i.Body = bytes.Replace(i.Body, []byte(`,"signature"`), []byte(`,"tcbInfo":{"id":"TDX"},"signature"`), 1)
		}, want: verify.FaultCollateral},
		{name: "no signature", spoil: func(_ string, i *collateral.Item) {
			if at := bytes.Index(i.Body, []byte(`,"signature"`)); at > 0 {
				i.Body = append(i.Body[:at:at], '}')
			}
		}, want: verify.FaultCollateral},
		{name: "bytes behind", spoil: func(_ string, i *collateral.Item) { i.Body = append(i.Body, "{}"...) }, want: verify.FaultCollateral},
		{name: "no issuers", spoil: func(_ string, i *collateral.Item) { i.Header = nil }, want: verify.FaultCollateral},

		{name: "another maker's chip", quote: other.quote(t, ownData, nil), want: verify.FaultUnknownRoot},
		{name: "a changed measurement", quote: flipped(good, atMRTD), want: verify.FaultSignature},
		{name: "a changed signature", quote: flipped(good, 48+584+4+7), want: verify.FaultSignature},
		{name: "another attestation key", quote: (&maker{root: m.root, middle: m.middle, pck: m.pck, attestation: other.attestation}).quote(t, ownData, func(_, qe []byte) { copy(qe[320:], good[48+584+4+128+6+320:][:32]) }), want: verify.FaultSignature},
		{name: "a report of the enclave by another chip", quote: (&maker{root: m.root, middle: m.middle, pck: &pair{m.pck.Certificate, other.pck.key}, attestation: m.attestation}).quote(t, ownData, nil), want: verify.FaultSignature},
		{name: "a PCK certificate by another maker", quote: (&maker{root: m.root, middle: m.middle, pck: other.pck, attestation: m.attestation}).quote(t, ownData, nil), want: verify.FaultCertificate},
		{name: "no TDX", quote: td(func(b []byte) { b[4] = 0 }), want: verify.FaultMalformed},
	} {
		if c.quote == nil {
			c.quote = good
		}
		if c.now.IsZero() {
			c.now = ownTime
		}
		res, err := check(m.verifier(t, ownChip, m.store(t, c.publish, c.spoil)), c.quote, ownData, c.now)
		wantFault(t, c.name, res, err, c.want)
	}

	// The root is in the program. Neither a quote's own root nor a trust file brings another.
	res, err := check(New(roots(t, ownChip), m.store(t, nil, nil)), good, ownData, ownTime)
	wantFault(t, "the test's own root", res, err, verify.FaultUnknownRoot)
	// An old module has no levels of its own: those of the platform count its version.
	if res, err := check(m.verifier(t, ownChip, m.store(t, nil, nil)), oldModule, ownData, ownTime); err != nil || res.Platform.TDX.TCBStatus != "UpToDate" {
		t.Errorf("old module: %v, %v", res, err)
	}
	// One piece that is missing is not looked at, and neither are the others.
	for _, u := range []string{RootCRLURL, pcs.QeIdentityURL(), pcs.PckCrlURL("platform"), pcs.TcbInfoURL(ownFMSPC)} {
		s := m.store(t, func(p *published) { p.without, p.pckRevoked = u, []*big.Int{m.pck.SerialNumber} }, nil)
		res, err := check(m.verifier(t, ownChip, s), good, ownData, ownTime)
		if err == nil && (res.Platform.Collateral || res.Platform.TDX.TCBStatus != "") {
			t.Errorf("without %s: %+v", u, res.Platform)
		}
	}
}

func flipped(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 1
	return b
}

// peer asks the library, with the same root and collateral.
func peer(m *maker, s *collateral.Store, quote []byte) error {
	q, err := abi.QuoteToProto(quote)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AddCert(m.root.Certificate)
	return tdxverify.TdxQuote(q, &tdxverify.Options{Now: ownTime, TrustedRoots: pool, GetCollateral: true, CheckRevocations: true, Getter: stored{s}})
}

// stored gives the library what is in the store, and nothing else.
type stored struct{ store *collateral.Store }

func (g stored) Get(url string) (map[string][]string, []byte, error) {
	i, err := g.store.Get(url)
	if err != nil {
		return nil, nil, err
	}
	h := map[string][]string{}
	for name, value := range i.Header {
		h[name] = []string{value}
	}
	return h, i.Body, nil
}

// TestAgreesWithLibrary: for collateral changed in many places, one after the
// other, the library accepts exactly what we call UpToDate.
func TestAgreesWithLibrary(t *testing.T) {
	m := newMaker(t)
	quotes := map[string][]byte{"good": m.quote(t, ownData, nil)}
	for name, change := range map[string]func(td, qe []byte){
		"old module":          func(td, _ []byte) { td[atSVN], td[atSVN+1] = 5, 0 },
		"module of version 2": func(td, _ []byte) { td[atSVN] = 2 },
		"low microcode":       func(td, _ []byte) { td[atSVN+2] = 1 },
		"enclave of SVN 3":    func(_, qe []byte) { qe[qeSVN] = 3 },
		"another signer":      func(_, qe []byte) { qe[qeSigner]++ },
		"debug enclave":       func(_, qe []byte) { qe[qeAttributes] |= 2 },
	} {
		quotes[name] = m.quote(t, ownData, change)
	}
	changes := map[string]func(*published){"none": func(*published) {}}
	for _, s := range append(slices.Clone(statuses), "Revoked") {
		changes["platform "+s] = func(p *published) { p.tcb["tcbLevels"] = []object{level(s, 7, 5), level("UpToDate", 1, 1)} }
		changes["QE "+s] = func(p *published) { p.qe["tcbLevels"] = []object{isv(s, 4), isv("UpToDate", 1)} }
		changes["module "+s] = func(p *published) {
			p.tcb["tdxModuleIdentities"].([]object)[0]["tcbLevels"] = []object{isv(s, 2), isv("UpToDate", 0)}
		}
	}
	changes["higher"] = func(p *published) { p.tcb["tcbLevels"] = []object{level("UpToDate", 8, 5)} }
	changes["fmspc"] = func(p *published) { p.tcb["fmspc"] = "00806f000000" }
	changes["revoked"] = func(p *published) { p.pckRevoked = []*big.Int{m.pck.SerialNumber} }
	accepted := 0
	for change, publish := range changes {
		s := m.store(t, publish, nil)
		v := m.verifier(t, ownChip, s)
		for name, q := range quotes {
			res, err := check(v, q, ownData, ownTime)
			ours := err == nil && res.Platform.TDX.TCBStatus == "UpToDate"
			if theirs := peer(m, s, q); ours != (theirs == nil) {
				t.Errorf("quote %s, change %s: ours %v, %v; theirs %v", name, change, res, err, theirs)
			}
			if ours {
				accepted++
			}
		}
	}
	if accepted < 3 {
		t.Errorf("only %d accepted: this test proves nothing", accepted)
	}
}

var statuses = []string{"UpToDate", "SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded", "OutOfDate", "OutOfDateConfigurationNeeded"}

// TestNegative runs the row of the table of refusals.
func TestNegative(t *testing.T) {
	m := newMaker(t)
	good := m.quote(t, ownData, nil)
	p, err := policy.Parse([]byte("environments: [tdx-1]\nsignatures: [ES256]\nclass: machine\ntdx:\n  measurements: [" + strings.Repeat("aa", 48) + "]\n"))
	if err != nil {
		t.Fatal(err)
	}
	appraise := func(t *testing.T, chip, quote []byte, data evidence.ReportData, publish func(*published)) negative.Outcome {
		t.Helper()
		res, err := check(m.verifier(t, chip, m.store(t, publish, nil)), quote, data, ownTime)
		if err != nil {
			return negative.Outcome{Result: res, Err: err}
		}
		return negative.Outcome{Result: res, Failures: negative.Evidence(p.Evaluate(res, policy.Session{Claims: policy.Claims{Class: verify.ClassMachine}}, ownTime))}
	}
	negative.Run(t, "tdx", func(t *testing.T) negative.Outcome { return appraise(t, ownChip, good, ownData, nil) }, map[string]func(*testing.T) negative.Outcome{
		"malformed": func(t *testing.T) negative.Outcome {
			return appraise(t, ownChip, append(slices.Clone(good), 0), ownData, nil)
		},
		"truncated": func(t *testing.T) negative.Outcome { return appraise(t, ownChip, good[:len(good)-1], ownData, nil) },
		"replayed":  func(t *testing.T) negative.Outcome { return appraise(t, ownChip, good, evidence.ReportData{9}, nil) },
		"forged":    func(t *testing.T) negative.Outcome { return appraise(t, ownChip, flipped(good, atMRTD), ownData, nil) },
		"debug": func(t *testing.T) negative.Outcome {
			return appraise(t, ownChip, m.quote(t, ownData, func(td, _ []byte) { td[atAttributes] |= 1 }), ownData, nil)
		},
		"low TCB": func(t *testing.T) negative.Outcome {
			return appraise(t, ownChip, good, ownData, func(p *published) { p.tcb["tcbLevels"] = []object{level("OutOfDate", 7, 5)} })
		},
		"foreign": func(t *testing.T) negative.Outcome {
			return appraise(t, slices.Repeat([]byte{9}, 16), good, ownData, nil)
		},
	})
}

// FuzzIntel: whatever lies in the store, a statement or a list is the one that
// the maker signed or a fault of collateral, and nothing of it is kept then.
func FuzzIntel(f *testing.F) {
	m := newMaker(f)
	s := m.store(f, nil, nil)
	var items []*collateral.Item
	for i, u := range []string{pcs.TcbInfoURL(ownFMSPC), RootCRLURL} {
		item, err := s.Get(u)
		if err != nil {
			f.Fatal(err)
		}
		items = append(items, item)
		f.Add(i == 1, item.Body, item.Header[tcbInfoIssuers])
		f.Add(i == 1, bytes.Replace(item.Body, []byte("svn"), []byte("Svn"), 1), "")
		f.Add(i == 1, bytes.Replace(item.Body, []byte(`,"signature"`), []byte(`,"tcbInfo":{},"signature"`), 1), item.Header[tcbInfoIssuers])
	}
	var c intel
	rootList, err := c.list("", items[1], m.root.Certificate, ownTime)
	if err != nil {
		f.Fatal(err)
	}
	if err := c.statement("", items[0], tcbInfoIssuers, "tcbInfo", &c.tcb, m.root.Certificate, rootList, ownTime); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, list bool, body []byte, issuers string) {
		var got intel
		item := &collateral.Item{Body: body, Header: map[string]string{tcbInfoIssuers: issuers}}
		if list {
			l, err := got.list("", item, m.root.Certificate, ownTime)
			if err == nil && !bytes.Equal(l.RawTBSRevocationList, rootList.RawTBSRevocationList) {
				t.Fatalf("accepted %x", body)
			}
			wantCollateral(t, err)
			return
		}
		err := got.statement("", item, tcbInfoIssuers, "tcbInfo", &got.tcb, m.root.Certificate, rootList, ownTime)
		want := pcs.TcbInfo{}
		if err == nil {
			want = c.tcb
		}
		if !reflect.DeepEqual(got.tcb, want) {
			t.Fatalf("%q gives %+v, %v", body, got.tcb, err)
		}
		wantCollateral(t, err)
	})
}

func wantCollateral(t *testing.T, err error) {
	t.Helper()
	var e *verify.Error
	if err != nil && (!errors.As(err, &e) || e.Fault != verify.FaultCollateral && e.Fault != verify.FaultCollateralExpired) {
		t.Fatalf("refused by %v", err)
	}
}
