// SPDX-License-Identifier: Apache-2.0

package csv

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/evidence/csv"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

//go:embed testdata/report.cert
var realReport []byte

//go:embed testdata/hsk_cek.cert
var realChain []byte

// realData is the report data of the real report.
func realData() (d evidence.ReportData) { copy(d[:], "user data"); return d }

// realChip is the real chip's identity.
func realChip(t testing.TB) []byte {
	t.Helper()
	c, err := csv.ParseChain(realChain)
	if err != nil {
		t.Fatal(err)
	}
	d := keyDigest(c.CEK.Key)
	return d[:]
}

func roots(t testing.TB, chip []byte) *trust.Roots {
	t.Helper()
	r, err := trust.Build(trust.Records{Platforms: []trust.Platform{{Environment: "csv-1", Type: trust.TypeCSV, Chip: chip}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// verifier is one with Hygon's root that pins a chip.
func verifier(t testing.TB, chip []byte) *Verifier {
	t.Helper()
	v, err := New(roots(t, chip), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func check(v *Verifier, report, chain []byte, data evidence.ReportData) (*verify.Result, error) {
	e := evidence.Endorsement{Type: evidence.TypeCSVChain, Body: chain}
	h := e.Hash()
	return v.Check(evidence.Report{Type: evidence.TypeCSV, Body: report, Needs: [][32]byte{h}},
		func(x [32]byte) (evidence.Endorsement, bool) { return e, x == h }, data, time.Now())
}

func wantFault(t *testing.T, name string, res *verify.Result, err error, want verify.Fault) {
	t.Helper()
	if res != nil || !errors.Is(err, &verify.Error{Fault: want}) {
		t.Errorf("%s: expected the fault %q, got %v, %v", name, want, res, err)
	}
}

// TestRealChain: the public report and chain of a real chip verify.
func TestRealChain(t *testing.T) {
	r, err := check(verifier(t, realChip(t)), realReport, realChain, realData())
	if err != nil {
		t.Fatal(err)
	}
	c := r.Platform.CSV
	if r.Environment != "csv-1" || r.Signature != verify.SM2SM3 || r.PQ || r.Class != verify.ClassMachine || r.Platform.Debug {
		t.Errorf("got %+v, %+v", r, r.Platform)
	}
	if c.Version != 1 || c.Serial != "NZA9T14052605" || c.Policy != 0x40000001 {
		t.Errorf("got %+v", c)
	}
	if got := hex.EncodeToString(r.Platform.Measurement); got != "1178dadbf826ec7a07444ba358376d81c312cb53d703f9da83b26c1eee2ea052" {
		t.Errorf("measurement %s", got)
	}
}

// TestRealChainFromStore: without an endorsement the chain comes from disk.
func TestRealChainFromStore(t *testing.T) {
	s, err := collateral.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	v, err := New(roots(t, realChip(t)), s)
	if err != nil {
		t.Fatal(err)
	}
	r := evidence.Report{Type: evidence.TypeCSV, Body: realReport}
	res, err := v.Check(r, nil, realData(), time.Now())
	wantFault(t, "empty store", res, err, verify.FaultNoEndorsement)
	if !errors.Is(err, collateral.ErrMissing) {
		t.Errorf("got %v", err)
	}
	if err := s.Put(&collateral.Item{URL: ChainURL("NZA9T14052605"), Body: realChain, Fetched: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Check(r, nil, realData(), time.Now()); err != nil {
		t.Error(err)
	}
}

// TestRealRefused: every way in which the real report must not pass.
func TestRealRefused(t *testing.T) {
	v := verifier(t, realChip(t))
	var other evidence.ReportData
	copy(other[:], "other data")
	res, err := check(v, realReport, realChain, other)
	wantFault(t, "replayed for other report data", res, err, verify.FaultReportData)
	foreign := bytes.Repeat([]byte{1}, 32)
	res, err = check(verifier(t, foreign), realReport, realChain, realData())
	wantFault(t, "foreign", res, err, verify.FaultForeign)
	for _, n := range []int{0, 1, 0xc0, len(realReport) - 1} {
		res, err = check(v, realReport[:n], realChain, realData())
		wantFault(t, "truncated", res, err, verify.FaultMalformed)
	}
	res, err = check(v, append(slices.Clone(realReport), 0), realChain, realData())
	wantFault(t, "too long", res, err, verify.FaultMalformed)
	res, err = check(v, realReport, realChain[:len(realChain)-1], realData())
	wantFault(t, "chain truncated", res, err, verify.FaultEndorsement)
	h := newHierarchy(t)
	res, err = check(v, realReport, h.chain(), realData())
	wantFault(t, "another maker's chain", res, err, verify.FaultUnknownRoot)
	_, err = v.Check(evidence.Report{Type: evidence.TypeCSV, Body: realReport, Needs: make([][32]byte, 2)}, nil, realData(), time.Now())
	wantFault(t, "two endorsements", nil, err, verify.FaultMalformed)
}

// TestRealAnonce: whoever changes the unsigned mask changes the policy that is
// read, and the signature stays good; the report data gives it away.
func TestRealAnonce(t *testing.T) {
	b := slices.Clone(realReport)
	b[0xbc] ^= 4 // the policy bit ES
	before, err := csv.ParseReport(realReport)
	if err != nil {
		t.Fatal(err)
	}
	rep := unmaskedPolicy(b)
	if rep == before.Policy {
		t.Fatal("anonce changes nothing: this test would prove nothing")
	}
	res, err := check(verifier(t, realChip(t)), b, realChain, realData())
	if err == nil || res != nil {
		t.Error("a report with another anonce was accepted")
	}
}

func unmaskedPolicy(b []byte) uint32 {
	return binary.LittleEndian.Uint32(b[0xb0:]) ^ binary.LittleEndian.Uint32(b[0xbc:])
}

// TestRealFlips: no single bit of report or chain can change.
func TestRealFlips(t *testing.T) {
	v := verifier(t, realChip(t))
	flip := func(b []byte, i int) []byte {
		out := slices.Clone(b)
		out[i] ^= 1 << (i % 8)
		return out
	}
	for i := range realReport {
		if res, err := check(v, flip(realReport, i), realChain, realData()); err == nil || res != nil {
			t.Errorf("report: a flipped bit in byte %#x was accepted", i)
		}
	}
	for i := range realChain {
		if res, err := check(v, realReport, flip(realChain, i), realData()); err == nil || res != nil {
			t.Errorf("chain: a flipped bit in byte %#x was accepted", i)
		}
	}
}

// TestOwnHierarchy: with chips of the test's own, both versions verify, and a
// fault at every place of the chain has its name.
func TestOwnHierarchy(t *testing.T) {
	h := newHierarchy(t)
	var x, y [32]byte
	id := keyDigest(csv.Point{X: [32]byte(h.cek.X.FillBytes(x[:])), Y: [32]byte(h.cek.Y.FillBytes(y[:]))})
	fresh := func() *Verifier {
		v, err := newVerifier(roots(t, id[:]), nil, h.root)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	data := evidence.ReportData(sha256Twice("for this session"))
	for _, version := range []int{1, 2} {
		res, err := check(fresh(), h.report(t, version, csv.PolicyNoDebug|csv.PolicyES, data), h.chain(), data)
		if err != nil {
			t.Errorf("version %d: %v", version, err)
			continue
		}
		if res.Platform.CSV.Version != version || res.Platform.Debug || !bytes.Equal(res.Platform.Measurement, h.measured[:]) || (version == 2) != (len(res.Platform.CSV.RTMR) == 5) {
			t.Errorf("version %d: got %+v", version, res.Platform)
		}
	}
	res, err := check(fresh(), h.report(t, 2, csv.PolicyES, data), h.chain(), data)
	if err != nil || !res.Platform.Debug {
		t.Errorf("a machine that can be debugged must say so: %v, %v", res, err)
	}
	if res, err := check(verifier(t, id[:]), h.report(t, 1, csv.PolicyNoDebug, data), h.chain(), data); err == nil || res != nil {
		t.Error("a chip of another maker passed Hygon's root")
	}

	evil := newKey(t, "EVIL")
	with := func(change func(h *hierarchy)) *hierarchy {
		c := *h
		change(&c)
		return &c
	}
	for name, c := range map[string]struct {
		h    *hierarchy
		want verify.Fault
	}{
		"HSK by somebody else":      {with(func(c *hierarchy) { c.hskCert = rootCert(t, h.hsk, evil, 2, 1, csv.UsageHSK) }), verify.FaultCertificate},
		"HSK with usage of a root":  {with(func(c *hierarchy) { c.hskCert = rootCert(t, h.hsk, h.hrk, 2, 1, csv.UsageHRK) }), verify.FaultCertificate},
		"CEK by somebody else":      {with(func(c *hierarchy) { c.cekCert = chipCert(t, h.cek, evil, csv.UsageCEK, csv.UsageHSK) }), verify.FaultCertificate},
		"CEK that is a PEK":         {with(func(c *hierarchy) { c.cekCert = chipCert(t, h.cek, h.hsk, csv.UsagePEK, csv.UsageHSK) }), verify.FaultCertificate},
		"CEK in the wrong slot":     {with(func(c *hierarchy) { c.cekCert = chipCert(t, h.cek, h.hsk, csv.UsageCEK, csv.UsageCEK) }), verify.FaultCertificate},
		"PEK by somebody else":      {with(func(c *hierarchy) { c.pekCert = chipCert(t, h.pek, evil, csv.UsagePEK, csv.UsageCEK) }), verify.FaultCertificate},
		"PEK that is a PDH":         {with(func(c *hierarchy) { c.pekCert = chipCert(t, h.pek, h.cek, csv.UsagePDH, csv.UsageCEK) }), verify.FaultCertificate},
		"PEK off the curve":         {with(func(c *hierarchy) { c.pekCert = slices.Clone(h.pekCert); c.pekCert[20] ^= 1 }), verify.FaultCertificate},
		"report by somebody else":   {with(func(c *hierarchy) { c.pek = key{evil.PrivateKey, h.pek.uid} }), verify.FaultSignature},
		"report with another uid":   {with(func(c *hierarchy) { c.pek = key{h.pek.PrivateKey, "OTHER"} }), verify.FaultSignature},
		"a user id that is too big": {with(func(c *hierarchy) { c.pekCert = slices.Clone(h.pekCert); c.pekCert[164] = 255 }), verify.FaultMalformed},
	} {
		for _, version := range []int{1, 2} {
			res, err := check(fresh(), c.h.report(t, version, csv.PolicyNoDebug, data), c.h.chain(), data)
			wantFault(t, name, res, err, c.want)
		}
	}
	// The numbers of a signature.
	for name, n := range map[string][]byte{"zero": make([]byte, 32), "the group's order": h.pek.Curve.Params().N.Bytes()} {
		for _, half := range []int{0, 72} {
			b := h.report(t, 2, csv.PolicyNoDebug, data)
			clear(b[0x400+half : 0x400+half+72])
			put(b[0x400+half:], n)
			res, err := check(fresh(), b, h.chain(), data)
			wantFault(t, name, res, err, verify.FaultSignature)
		}
	}
	b := h.report(t, 1, csv.PolicyNoDebug, data)
	res, err = check(fresh(), append(b, make([]byte, csv.ReportSizeV2-len(b))...), h.chain(), data)
	wantFault(t, "version 1 dressed as version 2", res, err, verify.FaultMalformed)
}

// TestManySignatures: numbers with leading zeros verify too.
func TestManySignatures(t *testing.T) {
	k := newKey(t, "TEST")
	short := 0
	for i := range 400 {
		m := []byte{byte(i), byte(i >> 8)}
		at := make([]byte, 144)
		k.sign(t, at, m)
		var s csv.Sig
		copy(s.R[:], at[:32])
		slices.Reverse(s.R[:])
		copy(s.S[:], at[72:104])
		slices.Reverse(s.S[:])
		if s.R[0] == 0 || s.S[0] == 0 {
			short++
		}
		if err := signed(&k.PublicKey, []byte(k.uid), m, s); err != nil {
			t.Fatalf("signature %d (%x): %v", i, s, err)
		}
	}
	t.Logf("%d of 400 signatures have a leading zero byte", short)
}

func sha256Twice(s string) [64]byte {
	a := sha256.Sum256([]byte(s))
	b := sha256.Sum256([]byte("holdfast/latch/v1/tail"))
	return [64]byte(append(a[:], b[:]...))
}

func BenchmarkVerify(b *testing.B) {
	v := verifier(b, realChip(b))
	for b.Loop() {
		if _, err := check(v, realReport, realChain, realData()); err != nil {
			b.Fatal(err)
		}
	}
}
