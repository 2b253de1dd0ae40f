// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	sevdata "github.com/google/go-sev-guest/verify/testdata"
	"github.com/google/go-tdx-guest/pcs"
	tdxdata "github.com/google/go-tdx-guest/testing/testdata"

	"holdfast/attest/appraise"
	csvdata "holdfast/attest/appraise/csv/testdata"
	"holdfast/attest/evidence"
	csvevidence "holdfast/attest/evidence/csv"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
	"holdfast/attest/verify/quotetest"
	"holdfast/bench/stat"
)

// Cost is what verifying one report of a kind takes: once a group, not once a
// session.
type Cost struct {
	What  string     `json:"what"`
	Micro stat.Ratio `json:"us"`
}

// subject is a report with what its verification needs.
type subject struct {
	what   string
	roots  trust.Records
	report evidence.Report
	chain  []evidence.Endorsement
	data   evidence.ReportData
	now    time.Time
}

// VerifyCosts measures each kind for about the given time. The Verifier is the
// gate's, with endorsements parsed before and without collateral.
func VerifyCosts(each time.Duration) ([]Cost, error) {
	var out []Cost
	for _, make := range []func() (*subject, error){tpmSubject("ES256"), tpmSubject("ML-DSA-65"), snpSubject, tdxSubject, csvSubject, simulatedSubject} {
		s, err := make()
		if err != nil {
			return nil, err
		}
		c, err := s.measure(each)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.what, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// measure verifies in 20 blocks and returns the median over them.
func (s *subject) measure(each time.Duration) (Cost, error) {
	roots, err := trust.Build(s.roots)
	if err != nil {
		return Cost{}, err
	}
	v, err := appraise.New(roots)
	if err != nil {
		return Cost{}, err
	}
	find := func(h [32]byte) (evidence.Endorsement, bool) {
		for _, e := range s.chain {
			if e.Hash() == h {
				return e, true
			}
		}
		return evidence.Endorsement{}, false
	}
	one := func(data evidence.ReportData) error {
		_, err := v.Verify(s.report, find, data, s.now)
		return err
	}
	if err := one(s.data); err != nil { // fills caches
		return Cost{}, err
	}
	if other := s.data; true {
		if other[3] ^= 1; one(other) == nil {
			return Cost{}, errors.New("evidence for other data was accepted")
		}
	}
	var blocks []float64
	for range 20 {
		n, start := 0, time.Now()
		for time.Since(start) < each/20 {
			if err := one(s.data); err != nil {
				return Cost{}, err
			}
			n++
		}
		blocks = append(blocks, float64(time.Since(start).Nanoseconds())/1e3/float64(n))
	}
	return Cost{s.what, stat.Spread(blocks)}, nil
}

func tpmSubject(algorithm string) func() (*subject, error) {
	return func() (*subject, error) {
		m, err := quotetest.New(algorithm)
		if err != nil {
			return nil, err
		}
		s := &subject{what: "TPM quote, " + algorithm, roots: trust.Records{AKs: []trust.AK{m.Record("tpm-1")}}, data: evidence.ReportData{1}, now: time.Now()}
		b, err := m.Quote(s.data)
		if err == nil {
			s.report, s.chain = b.Report, b.Endorsements
		}
		return s, err
	}
}

// platform is a report of a confidential virtual machine.
func platform(what, kind, mediaType string, chip, report []byte, chain ...evidence.Endorsement) *subject {
	s := &subject{what: what, report: evidence.Report{Type: mediaType, Body: report}, chain: chain, now: time.Now(),
		roots: trust.Records{Platforms: []trust.Platform{{Environment: "cvm-1", Type: kind, Chip: chip}}}}
	for _, e := range chain {
		s.report.Needs = append(s.report.Needs, e.Hash())
	}
	return s
}

// snpSubject is go-sev-guest's public report of a Milan machine.
func snpSubject() (*subject, error) {
	b := sevdata.AttestationBytes
	if len(b) < 0x1e0 {
		return nil, fmt.Errorf("an SNP report of %d bytes", len(b))
	}
	s := platform("SEV-SNP report, ES384", trust.TypeSNP, evidence.TypeSNP, b[0x1a0:0x1e0], b, evidence.Endorsement{Type: evidence.TypeCertificate, Body: sevdata.VcekBytes})
	copy(s.data[:], b[0x50:0x90])
	return s, nil
}

// tdxSubject is go-tdx-guest's public quote of a production machine; its
// certificates were good in 2023.
func tdxSubject() (*subject, error) {
	raw := tdxdata.RawQuote[:len(tdxdata.RawQuote)-39] // a text follows
	var leaf *pem.Block                                // the PCK certificate is the first in the quote
	if at := bytes.Index(raw, []byte("-----BEGIN")); at >= 0 {
		leaf, _ = pem.Decode(raw[at:])
	}
	if leaf == nil {
		return nil, errors.New("a TDX quote without certificates")
	}
	cert, err := x509.ParseCertificate(leaf.Bytes)
	if err != nil {
		return nil, err
	}
	ext, err := pcs.PckCertificateExtensions(cert)
	if err != nil {
		return nil, err
	}
	chip, err := hex.DecodeString(ext.PPID)
	s := platform("TDX quote, ES256", trust.TypeTDX, evidence.TypeTDX, chip, raw)
	copy(s.data[:], raw[48+520:]) // header, then REPORTDATA in the TD report (Intel TDX DCAP quote format, version 4)
	s.now = time.Date(2023, time.July, 1, 1, 0, 0, 0, time.UTC)
	return s, err
}

// csvSubject is the public report of a real Hygon chip.
func csvSubject() (*subject, error) {
	c, err := csvevidence.ParseChain(csvdata.Chain)
	if err != nil {
		return nil, err
	}
	chip := sha256.Sum256(append(c.CEK.Key.X[:], c.CEK.Key.Y[:]...)) // as `attest pin` has it
	s := platform("Hygon CSV report, SM2", trust.TypeCSV, evidence.TypeCSV, chip[:], csvdata.Report, evidence.Endorsement{Type: evidence.TypeCSVChain, Body: csvdata.Chain})
	copy(s.data[:], "user data")
	return s, nil
}

func simulatedSubject() (*subject, error) {
	root, err := simulated.NewRoot("bench", evidence.ES256)
	if err != nil {
		return nil, err
	}
	record, err := root.Record()
	if err != nil {
		return nil, err
	}
	p, err := simulated.New(root, simulated.Options{Name: "bench", Algorithm: evidence.ES256})
	if err != nil {
		return nil, err
	}
	s := &subject{what: "SIMULATED report, ES256", roots: trust.Records{Simulated: []trust.SimulatedRoot{record}}, data: evidence.ReportData{1}, now: time.Now()}
	if s.report, err = p.Report(context.Background(), s.data); err != nil {
		return nil, err
	}
	s.chain, err = p.Endorsements(context.Background())
	return s, err
}
