// SPDX-License-Identifier: Apache-2.0

package snp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha512"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	sevtest "github.com/google/go-sev-guest/testing"
	"github.com/google/go-sev-guest/verify/testdata"
	sevtrust "github.com/google/go-sev-guest/verify/trust"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// real is go-sev-guest's public report of a Milan machine with its VCEK. The
// machine was started in debug mode.
var (
	realReport = testdata.AttestationBytes
	realTime   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	realData   = evidence.ReportData{1, 2, 3, 4, 5}
)

func realChip() []byte { return realReport[0x1a0:0x1e0] }

func roots(t testing.TB, chip []byte) *trust.Roots {
	t.Helper()
	r, err := trust.Build(trust.Records{Platforms: []trust.Platform{{Environment: "snp-1", Type: trust.TypeSNP, Chip: chip}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func store(t testing.TB, items map[string][]byte) *collateral.Store {
	t.Helper()
	s, err := collateral.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for url, body := range items {
		if err := s.Put(&collateral.Item{URL: url, Body: body, Fetched: realTime}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func check(v *Verifier, report, cert []byte, data evidence.ReportData, now time.Time) (*verify.Result, error) {
	r := evidence.Report{Type: evidence.TypeSNP, Body: report}
	e := evidence.Endorsement{Type: evidence.TypeCertificate, Body: cert}
	h := e.Hash()
	if cert != nil {
		r.Needs = [][32]byte{h}
	}
	return v.Check(r, func(x [32]byte) (evidence.Endorsement, bool) { return e, x == h }, data, now)
}

func wantFault(t *testing.T, name string, res *verify.Result, err error, want verify.Fault) {
	t.Helper()
	if res != nil || !errors.Is(err, &verify.Error{Fault: want}) {
		t.Errorf("%s: expected the fault %q, got %v, %v", name, want, res, err)
	}
}

func TestReal(t *testing.T) {
	r, err := check(New(roots(t, realChip()), nil), realReport, testdata.VcekBytes, realData, realTime)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Platform
	if r.Environment != "snp-1" || r.Signature != "ES384" || r.PQ || r.Class != verify.ClassMachine || !p.Debug || p.Collateral ||
		p.SNP.Product != "Milan" || p.SNP.Signer != "VCEK" || p.SNP.TCB != (verify.SNPTCB{Bootloader: 2, SNP: 5, Microcode: 68}) ||
		!bytes.Equal(p.Measurement, realReport[0x90:0xc0]) || p.SNP.Policy != 0xb0000 {
		t.Errorf("got %+v, %+v, %+v", r, p, p.SNP)
	}
}

func TestRealFromStore(t *testing.T) {
	rep, err := parse(realReport)
	if err != nil {
		t.Fatal(err)
	}
	res, err := check(New(roots(t, realChip()), store(t, nil)), realReport, nil, realData, realTime)
	wantFault(t, "empty store", res, err, verify.FaultNoEndorsement)
	s := store(t, map[string][]byte{kds.VCEKCertURL("Milan", realChip(), kds.TCBVersion(rep.ReportedTcb)): testdata.VcekBytes})
	if _, err := check(New(roots(t, realChip()), s), realReport, nil, realData, realTime); err != nil {
		t.Error(err)
	}
	urls, err := Wants(evidence.Report{Type: evidence.TypeSNP, Body: realReport}, nil)
	if err != nil || len(urls) != 4 {
		t.Errorf("expected a VCEK and a revocation list of two product lines, got %v, %v", urls, err)
	}
}

func TestRealRefused(t *testing.T) {
	v := New(roots(t, realChip()), nil)
	res, err := check(v, realReport, testdata.VcekBytes, evidence.ReportData{9}, realTime)
	wantFault(t, "replayed", res, err, verify.FaultReportData)
	res, err = check(New(roots(t, bytes.Repeat([]byte{7}, 64)), nil), realReport, testdata.VcekBytes, realData, realTime)
	wantFault(t, "foreign", res, err, verify.FaultForeign)
	res, err = check(v, realReport, testdata.VcekBytes, realData, time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC))
	wantFault(t, "expired", res, err, verify.FaultExpired)
	for _, n := range []int{0, 1, 0x2a0, len(realReport) - 1} {
		res, err = check(v, realReport[:n], testdata.VcekBytes, realData, realTime)
		wantFault(t, "truncated", res, err, verify.FaultMalformed)
	}
	res, err = check(v, append(slices.Clone(realReport), 0), testdata.VcekBytes, realData, realTime)
	wantFault(t, "too long", res, err, verify.FaultMalformed)
	res, err = check(v, realReport, []byte("no certificate"), realData, realTime)
	wantFault(t, "no certificate", res, err, verify.FaultEndorsement)
	s := store(t, map[string][]byte{crlURL("Milan", abi.VcekReportSigner): []byte("no list")})
	res, err = check(New(roots(t, realChip()), s), realReport, testdata.VcekBytes, realData, realTime)
	wantFault(t, "revocation list", res, err, verify.FaultCollateral)
}

// TestRealFlips: no single bit of the report can change. The bits of a
// signature's numbers, and reserved ones, are in it too.
func TestRealFlips(t *testing.T) {
	v := New(roots(t, realChip()), nil)
	for i := range realReport {
		b := slices.Clone(realReport)
		b[i] ^= 1 << (i % 8)
		if res, err := check(v, b, testdata.VcekBytes, realData, realTime); err == nil || res != nil {
			t.Errorf("a flipped bit in byte %#x was accepted", i)
		}
	}
}

// maker is a maker of chips of the test's own, from go-sev-guest's test code.
type maker struct {
	*sevtest.AmdSigner
	line string
}

var testTCB = kds.TCBParts{BlSpl: 3, TeeSpl: 0, SnpSpl: 8, UcodeSpl: 115}

func newMaker(t testing.TB, tcb kds.TCBParts, hwid []byte) *maker {
	t.Helper()
	v, err := kds.ComposeTCBParts(tcb)
	if err != nil {
		t.Fatal(err)
	}
	name := "Milan-B0"
	s, err := (&sevtest.AmdSignerBuilder{ProductName: name, ArkCreationTime: realTime.AddDate(-1, 0, 0), AskCreationTime: realTime.AddDate(-1, 0, 0),
		AsvkCreationTime: realTime.AddDate(-1, 0, 0), VcekCreationTime: realTime.AddDate(-1, 0, 0), VlekCreationTime: realTime.AddDate(-1, 0, 0),
		VcekCustom: sevtest.CertOverride{Extensions: sevtest.CustomExtensions(tcb, hwid, "", name)},
		ArkCustom:  sevtest.CertOverride{KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign},
		TCB:        v}).TestOnlyCertChain()
	if err != nil {
		t.Fatal(err)
	}
	return &maker{s, "Milan"}
}

func (m *maker) verifier(r *trust.Roots, s *collateral.Store) *Verifier {
	v := New(r, s)
	v.amd = func(line string) (*sevtrust.AMDRootCerts, error) {
		if line != m.line {
			return nil, fmt.Errorf("no line %q", line)
		}
		return &sevtrust.AMDRootCerts{ProductLine: line, ProductCerts: &sevtrust.ProductCerts{Ark: m.Ark, Ask: m.Ask, Asvk: m.Asvk}}, nil
	}
	return v
}

// report makes and signs a report; change sets fields before.
func (m *maker) report(t testing.TB, chip []byte, data evidence.ReportData, change func([]byte)) []byte {
	t.Helper()
	b := make([]byte, abi.ReportSize)
	binary.LittleEndian.PutUint32(b, 2)
	binary.LittleEndian.PutUint64(b[8:], 1<<17|1<<16)
	binary.LittleEndian.PutUint32(b[0x34:], abi.SignEcdsaP384Sha384)
	copy(b[0x50:], data[:])
	copy(b[0x90:], bytes.Repeat([]byte{0xaa}, 48))
	binary.LittleEndian.PutUint64(b[0x180:], uint64(m.TCB))
	copy(b[0x1a0:], chip)
	if change != nil {
		change(b)
	}
	h := sha512.Sum384(abi.SignedComponent(b))
	r, s, err := ecdsa.Sign(rand.Reader, m.Keys.Vcek, h[:])
	if err != nil {
		t.Fatal(err)
	}
	if err := abi.SetSignature(r, s, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func (m *maker) crl(t testing.TB, next time.Time, serials ...*big.Int) []byte {
	t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: realTime.AddDate(0, 0, -1), NextUpdate: next}
	for _, s := range serials {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: s, RevocationTime: realTime.AddDate(0, 0, -1)})
	}
	ark := *m.Ark
	ark.KeyUsage |= x509.KeyUsageCRLSign
	b, err := x509.CreateRevocationList(rand.Reader, l, &ark, m.Keys.Ark)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOwnMaker(t *testing.T) {
	chip := bytes.Repeat([]byte{0x42}, 64)
	m := newMaker(t, testTCB, chip)
	data := evidence.ReportData{5, 5}
	good := m.report(t, chip, data, nil)
	tomorrow := realTime.AddDate(0, 0, 1)
	list := crlURL("Milan", abi.VcekReportSigner)

	r, err := check(m.verifier(roots(t, chip), store(t, map[string][]byte{list: m.crl(t, tomorrow)})), good, m.Vcek.Raw, data, realTime)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Platform.Collateral || !r.Platform.Until.Equal(tomorrow) || r.Platform.Debug || r.Platform.SNP.TCB != (verify.SNPTCB{Bootloader: 3, SNP: 8, Microcode: 115}) {
		t.Errorf("got %+v, %+v", r.Platform, r.Platform.SNP)
	}
	res, err := check(New(roots(t, chip), nil), good, m.Vcek.Raw, data, realTime)
	wantFault(t, "another maker's chip", res, err, verify.FaultCertificate)

	for name, c := range map[string]struct {
		list []byte
		want verify.Fault
	}{
		"revoked chip":         {m.crl(t, tomorrow, m.Vcek.SerialNumber), verify.FaultRevoked},
		"revoked intermediate": {m.crl(t, tomorrow, m.Ask.SerialNumber), verify.FaultRevoked},
		"stale list":           {m.crl(t, realTime.Add(-time.Hour)), verify.FaultCollateralExpired},
	} {
		res, err := check(m.verifier(roots(t, chip), store(t, map[string][]byte{list: c.list})), good, m.Vcek.Raw, data, realTime)
		wantFault(t, name, res, err, c.want)
	}

	v := m.verifier(roots(t, chip), nil)
	other := bytes.Repeat([]byte{0x43}, 64)
	for name, c := range map[string]struct {
		change func([]byte)
		want   verify.Fault
	}{
		"a chip that the certificate does not name": {func(b []byte) { copy(b[0x1a0:], other) }, verify.FaultCertificate},
		"a chip that the host masks":                {func(b []byte) { clear(b[0x1a0:0x1e0]) }, verify.FaultForeign},
		"firmware newer than the certificate's":     {func(b []byte) { b[0x180]++ }, verify.FaultTCB},
		"firmware older than the certificate's":     {func(b []byte) { b[0x187]-- }, verify.FaultTCB},
		"signed by nobody":                          {func(b []byte) { b[0x48] = 7 << 2 }, verify.FaultSignature},
		"an unknown algorithm":                      {func(b []byte) { b[0x34] = 2 }, verify.FaultMalformed},
		"a version to come":                         {func(b []byte) { b[0] = 6 }, verify.FaultMalformed},
		"a policy with a reserved bit":              {func(b []byte) { b[0x0f] = 0x80 }, verify.FaultMalformed},
	} {
		res, err := check(v, m.report(t, chip, data, c.change), m.Vcek.Raw, data, realTime)
		wantFault(t, name, res, err, c.want)
	}
	res, err = check(v, m.report(t, chip, data, func(b []byte) { b[0x0a] |= 1 << 3 }), m.Vcek.Raw, data, realTime)
	if err != nil || !res.Platform.Debug {
		t.Errorf("a machine in debug mode must say so: %v, %v", res, err)
	}
	b := slices.Clone(good)
	b[0x90] ^= 1
	res, err = check(v, b, m.Vcek.Raw, data, realTime)
	wantFault(t, "a changed measurement", res, err, verify.FaultSignature)
}

// FuzzCheck: whatever comes, there is a result or an error with a fault, and
// never a result for bytes other than the genuine ones.
func FuzzCheck(f *testing.F) {
	v := New(roots(f, realChip()), nil)
	f.Add(realReport, testdata.VcekBytes)
	f.Add(realReport[:100], []byte{})
	f.Fuzz(func(t *testing.T, report, cert []byte) {
		res, err := check(v, report, cert, realData, realTime)
		var e *verify.Error
		switch {
		case err == nil && (res == nil || !bytes.Equal(report, realReport)):
			t.Fatalf("accepted %x", report)
		case err != nil && (res != nil || !errors.As(err, &e)):
			t.Fatalf("got %v, %v", res, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	v := New(roots(b, realChip()), nil)
	for b.Loop() {
		if _, err := check(v, realReport, testdata.VcekBytes, realData, realTime); err != nil {
			b.Fatal(err)
		}
	}
}
