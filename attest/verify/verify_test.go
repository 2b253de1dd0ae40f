// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/attest/verify/quotetest"
	"holdfast/tpm2"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func machine(t testing.TB, alg string) *quotetest.Machine {
	t.Helper()
	m, err := quotetest.New(alg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func verifier(t testing.TB, aks ...trust.AK) *verify.Verifier {
	t.Helper()
	roots, err := trust.New(aks, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verify.New(roots)
}

func quote(t testing.TB, m *quotetest.Machine, data evidence.ReportData) *evidence.Bundle {
	t.Helper()
	b, err := m.Quote(data)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refused demands that verification fails with one fault and no result.
func refused(t *testing.T, v *verify.Verifier, b *evidence.Bundle, data evidence.ReportData, want verify.Fault) {
	t.Helper()
	r, err := v.Verify(b.Report, b.Endorsement, data, now)
	if r != nil || !errors.Is(err, &verify.Error{Fault: want}) {
		t.Errorf("expected refusal %q and no result, got %v, %v", want, r, err)
	}
}

var sample = evidence.ReportData{1, 2, 3, 63: 9}

func TestGenuineQuotes(t *testing.T) {
	for _, alg := range quotetest.Algorithms {
		t.Run(alg, func(t *testing.T) {
			m := machine(t, alg)
			v := verifier(t, m.Record("web-1"))
			b := quote(t, m, sample)
			r, err := v.Verify(b.Report, b.Endorsement, sample, now)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := m.Public.Name()
			if r.Environment != "web-1" || r.Signature != alg || r.PQ != (alg[0] == 'M') || r.Simulated || r.Class != verify.ClassMachine || !bytes.Equal(r.AKName, name) {
				t.Errorf("identity: got %+v", r)
			}
			if r.ResetCount != 3 || r.RestartCount != 1 || r.Clock != 5000 || !r.Safe || r.Firmware != 0x20240125 {
				t.Errorf("counters: got %+v", r)
			}
			if len(r.PCRs) != 3 || r.PCRs[2].Index != 14 || r.PCRs[2].Hash != tpm2.AlgSHA256 || !r.PCRs[2].Logged || !bytes.Equal(r.PCRs[2].Value, m.PCRs[tpm2.AlgSHA256][14]) {
				t.Errorf("PCRs: got %+v", r.PCRs)
			}
			if len(r.Events) != 2 || r.Events[1].Measured == nil || r.Events[1].Measured.Name != "/usr/sbin/nginx" || !r.Events[1].Bound {
				t.Errorf("events: got %+v", r.Events)
			}
			if !verify.KnownSignature(r.Signature) {
				t.Errorf("policies cannot name %q", r.Signature)
			}
		})
	}
}

func TestWrongReportData(t *testing.T) {
	m := machine(t, "ES256")
	v := verifier(t, m.Record("web-1"))
	b := quote(t, m, sample)
	for i := range sample { // any other byte: a replay, another session, another tail
		other := sample
		other[i] ^= 0x10
		refused(t, v, b, other, verify.FaultReportData)
	}
}

func TestKeys(t *testing.T) {
	m, foreign := machine(t, "ES256"), machine(t, "ES256")
	v := verifier(t, m.Record("web-1"))
	refused(t, v, quote(t, foreign, sample), sample, verify.FaultUnknownKey)

	// A foreign quote that names the pinned key.
	b := quote(t, foreign, sample)
	b.Report.Needs[0] = trust.PublicHash(m.PublicBytes())
	refused(t, v, b, sample, verify.FaultSignature)

	b = quote(t, m, sample)
	b.Report.Needs = nil
	refused(t, v, b, sample, verify.FaultMalformed)

	record := m.Record("web-1")
	record.QualifiedName = m.Attest.QualifiedSigner
	if _, err := verifier(t, record).Verify(quote(t, m, sample).Report, quote(t, m, sample).Endorsement, sample, now); err != nil {
		t.Errorf("the qualified Name of enrolment: %v", err)
	}
	record.QualifiedName = []byte{0, 0x0b, 7}
	refused(t, verifier(t, record), quote(t, m, sample), sample, verify.FaultQualifiedName)
}

func TestWeakKeys(t *testing.T) {
	for name, change := range map[string]func(*tpm2.Public){
		"unrestricted":      func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectRestricted },
		"duplicable":        func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectFixedTPM },
		"movable":           func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectFixedParent },
		"imported":          func(p *tpm2.Public) { p.Attributes &^= tpm2.ObjectSensitiveDataOrigin },
		"decrypts too":      func(p *tpm2.Public) { p.Attributes |= tpm2.ObjectDecrypt },
		"signs X.509":       func(p *tpm2.Public) { p.Attributes |= tpm2.ObjectX509Sign },
		"SHA-1 name":        func(p *tpm2.Public) { p.NameAlg = tpm2.AlgSHA1 },
		"SHA-1 scheme":      func(p *tpm2.Public) { p.Parms.Scheme.Hash = tpm2.AlgSHA1 },
		"no scheme":         func(p *tpm2.Public) { p.Parms.Scheme = tpm2.NoScheme },
		"hash of other":     func(p *tpm2.Public) { p.Parms.Scheme.Hash = tpm2.AlgSHA512 },
		"point off curve":   func(p *tpm2.Public) { p.Point.X = slices.Concat(p.Point.X[:31], []byte{p.Point.X[31] ^ 1}) },
		"point at infinity": func(p *tpm2.Public) { p.Point = tpm2.Point{} },
	} {
		m := machine(t, "ES256")
		b := quote(t, m, sample)
		change(&m.Public)
		rec := m.Record("web-1")
		b.Report.Needs[0] = trust.PublicHash(rec.Public)
		refused(t, verifier(t, rec), b, sample, verify.FaultWeakKey)
		roots, _ := trust.New([]trust.AK{rec}, nil)
		if err := verify.CheckRoots(roots); err == nil {
			t.Errorf("%s: CheckRoots accepts the key", name)
		}
	}
	m := machine(t, "ML-DSA-65")
	m.Public.Parms.AllowExternalMu = true
	refused(t, verifier(t, m.Record("web-1")), quote(t, m, sample), sample, verify.FaultWeakKey)
	m = machine(t, "RS256")
	m.Public.Parms.KeyBits, m.Public.Unique = 1024, m.Public.Unique[:128]
	refused(t, verifier(t, m.Record("web-1")), quote(t, m, sample), sample, verify.FaultWeakKey)
	m = machine(t, "RS256")
	m.Public.Parms.Exponent = 3
	refused(t, verifier(t, m.Record("web-1")), quote(t, m, sample), sample, verify.FaultWeakKey)
}

func TestSignedButNotAQuote(t *testing.T) {
	m := machine(t, "ML-DSA-44")
	v := verifier(t, m.Record("web-1"))
	m.Mangle = func(a *tpm2.Attest, _ *evidence.TPMQuote) {
		a.Type, a.Certify = tpm2.STAttestCertify, tpm2.CertifyInfo{Name: []byte{0, 0x0b}, QualifiedName: []byte{0, 0x0b}}
	}
	refused(t, v, quote(t, m, sample), sample, verify.FaultAttestType)

	m.Mangle = nil
	b := quote(t, m, sample)
	q, err := evidence.ParseTPMQuote(b.Report.Body)
	if err != nil {
		t.Fatal(err)
	}
	q.Attest = slices.Clone(q.Attest)
	q.Attest[0] = 0
	b.Report.Body = q.Encode()
	refused(t, v, b, sample, verify.FaultMagic)

	b = quote(t, m, sample)
	b.Report.Type = "application/vnd.holdfast.other"
	refused(t, v, b, sample, verify.FaultUnknownType)
}

func TestPCRs(t *testing.T) {
	m := machine(t, "ES256")
	v := verifier(t, m.Record("web-1"))
	for name, mangle := range map[string]func(*tpm2.Attest, *evidence.TPMQuote){
		"other value": func(_ *tpm2.Attest, q *evidence.TPMQuote) { q.PCRs[1] = bytes.Repeat([]byte{1}, 32) },
		"swapped":     func(_ *tpm2.Attest, q *evidence.TPMQuote) { q.PCRs[0], q.PCRs[2] = q.PCRs[2], q.PCRs[0] },
		"one less":    func(_ *tpm2.Attest, q *evidence.TPMQuote) { q.PCRs = q.PCRs[:2] },
		"one more":    func(_ *tpm2.Attest, q *evidence.TPMQuote) { q.PCRs = append(q.PCRs, q.PCRs[0]) },
		"none":        func(_ *tpm2.Attest, q *evidence.TPMQuote) { q.PCRs = nil },
		"split differently": func(_ *tpm2.Attest, q *evidence.TPMQuote) { // same digest input, other boundaries
			all := bytes.Join(q.PCRs, nil)
			q.PCRs = [][]byte{all[:24], all[24:60], all[60:]}
		},
		"bank twice": func(a *tpm2.Attest, q *evidence.TPMQuote) {
			s := tpm2.SelectPCRs(tpm2.AlgSHA256, 0)
			a.Quote.PCRSelect, q.PCRs = []tpm2.PCRSelection{s, s}, [][]byte{q.PCRs[0], q.PCRs[0]}
			a.Quote.PCRDigest = tpm2.AlgSHA256.Sum(q.PCRs...)
		},
		"PCR 24": func(a *tpm2.Attest, q *evidence.TPMQuote) {
			a.Quote.PCRSelect = []tpm2.PCRSelection{{Hash: tpm2.AlgSHA256, Select: []byte{0, 0, 0, 1}}}
			q.PCRs = q.PCRs[:1]
			a.Quote.PCRDigest = tpm2.AlgSHA256.Sum(q.PCRs...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m.Mangle = mangle
			refused(t, v, quote(t, m, sample), sample, verify.FaultPCRDigest)
		})
	}
}

func TestEventLog(t *testing.T) {
	fresh := func() (*quotetest.Machine, *verify.Verifier) {
		m := machine(t, "ES256")
		return m, verifier(t, m.Record("web-1"))
	}
	m, v := fresh()
	m.Extend(14, make([]byte, 32)) // something ran that the log does not tell
	refused(t, v, quote(t, m, sample), sample, verify.FaultEventLog)

	m, v = fresh()
	m.Log.Events = m.Log.Events[:1] // an event left out
	refused(t, v, quote(t, m, sample), sample, verify.FaultEventLog)

	m, v = fresh()
	m.Log.Events[0], m.Log.Events[1] = m.Log.Events[1], m.Log.Events[0]
	refused(t, v, quote(t, m, sample), sample, verify.FaultEventLog)

	m, v = fresh() // the record says another file than the digest
	other, err := eventlog.MeasuredEvent(14, &evidence.Measured{Kind: "file", Name: "/usr/bin/other"}, []tpm2.Alg{tpm2.AlgSHA256})
	if err != nil {
		t.Fatal(err)
	}
	m.Log.Events[0].Data = other.Data
	refused(t, v, quote(t, m, sample), sample, verify.FaultEventLogDigest)

	m, v = fresh()
	b := quote(t, m, sample)
	b.Endorsements = b.Endorsements[:1]
	refused(t, v, b, sample, verify.FaultNoEndorsement)

	b = quote(t, m, sample)
	hash := b.Report.Needs[1]
	if _, err := v.Verify(b.Report, func([32]byte) (evidence.Endorsement, bool) { return b.Endorsements[0], true }, sample, now); !errors.Is(err, &verify.Error{Fault: verify.FaultEndorsement}) {
		t.Errorf("an endorsement with another hash than %x: got %v", hash, err)
	}
	b.Endorsements[1] = evidence.Endorsement{Type: "text/plain", Body: []byte("log")}
	b.Report.Needs[1] = b.Endorsements[1].Hash()
	refused(t, v, b, sample, verify.FaultEndorsement)
	b.Endorsements[1] = evidence.Endorsement{Type: evidence.TypeTCGEventLog, Body: []byte("log")}
	b.Report.Needs[1] = b.Endorsements[1].Hash()
	refused(t, v, b, sample, verify.FaultEndorsement)
}

func TestOnlyProvedEvents(t *testing.T) {
	m := machine(t, "ES256")
	if err := m.Measure(11, &evidence.Measured{Kind: "file", Name: "/not/quoted"}); err != nil {
		t.Fatal(err)
	}
	m.Extend(7, make([]byte, 32)) // quoted, extended, in no log
	v := verifier(t, m.Record("web-1"))
	b := quote(t, m, sample)
	r, err := v.Verify(b.Report, b.Endorsement, sample, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Events {
		if e.PCR != 14 {
			t.Errorf("an event of PCR %d, which is not quoted", e.PCR)
		}
	}
	if len(r.Events) != 2 || !r.PCRs[0].Logged || r.PCRs[1].Logged || !r.PCRs[2].Logged {
		t.Errorf("expected PCR 0 (untouched) and 14 explained and 7 not, got %+v with %d events", r.PCRs, len(r.Events))
	}

	// SHA-1 alone proves no events.
	m.Log = eventlog.New(tpm2.AlgSHA1)
	e, err := eventlog.MeasuredEvent(14, &evidence.Measured{Kind: "file", Name: "/usr/bin/holdfast"}, []tpm2.Alg{tpm2.AlgSHA1})
	if err != nil {
		t.Fatal(err)
	}
	m.Log.Events = []eventlog.Event{{PCR: 14, Type: 5, Digests: e.Digests, Data: []byte("x")}}
	values, err := eventlog.Replay(tpm2.AlgSHA1, m.Log)
	if err != nil {
		t.Fatal(err)
	}
	m.PCRs[tpm2.AlgSHA1] = &values.Value
	m.Selection = []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA1, 14)}
	b = quote(t, m, sample)
	r, err = v.Verify(b.Report, b.Endorsement, sample, now)
	if err != nil || len(r.Events) != 0 || !r.PCRs[0].Logged {
		t.Errorf("SHA-1 log: got %+v, %v", r, err)
	}
}

// TestEveryByte flips bits in each byte of the report and cuts it at each
// length: nothing but the original is accepted.
func TestEveryByte(t *testing.T) {
	for _, alg := range []string{"ES256", "ML-DSA-44"} {
		m := machine(t, alg)
		v := verifier(t, m.Record("web-1"))
		b := quote(t, m, sample)
		body := b.Report.Body
		for i := range body {
			for _, bit := range []byte{0x01, 0x80} {
				b.Report.Body = slices.Clone(body)
				b.Report.Body[i] ^= bit
				if r, err := v.Verify(b.Report, b.Endorsement, sample, now); err == nil || r != nil {
					t.Fatalf("%s: byte %d with bit %#x flipped is accepted", alg, i, bit)
				}
			}
			b.Report.Body = body[:i]
			if r, err := v.Verify(b.Report, b.Endorsement, sample, now); err == nil || r != nil {
				t.Fatalf("%s: cut at byte %d it is accepted", alg, i)
			}
		}
		b.Report.Body = append(slices.Clone(body), 0)
		refused(t, v, b, sample, verify.FaultMalformed)
		b.Report.Body = body
		log := b.Endorsements[1].Body
		for i := range log { // a log whose hash the report names, one bit different
			b.Endorsements[1].Body = slices.Clone(log)
			b.Endorsements[1].Body[i] ^= 1
			b.Report.Needs[1] = b.Endorsements[1].Hash()
			r, err := v.Verify(b.Report, b.Endorsement, sample, now)
			if err == nil && len(r.Events) == 2 && r.Events[0].Measured != nil && r.Events[1].Measured != nil && i >= len(eventlog.New(tpm2.AlgSHA256).Encode()) { // the header is not proved
				t.Fatalf("%s: log byte %d flipped, and both measurements are still told", alg, i)
			}
		}
	}
}

func TestConcurrent(t *testing.T) {
	m := machine(t, "ES256")
	v := verifier(t, m.Record("web-1"))
	var wg sync.WaitGroup
	for g := range 4 {
		data := evidence.ReportData{byte(g)}
		b := quote(t, m, data)
		wg.Go(func() {
			for range 20 {
				if r, err := v.Verify(b.Report, b.Endorsement, data, now); err != nil || len(r.Events) != 2 {
					t.Errorf("got %v, %v", r, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzVerify(f *testing.F) {
	m := machine(f, "ES256")
	v := verifier(f, m.Record("web-1"))
	b := quote(f, m, sample)
	f.Add(b.Report.Body, b.Endorsements[1].Body)
	genuine := b.Report.Body
	f.Fuzz(func(t *testing.T, body, log []byte) {
		e := evidence.Endorsement{Type: evidence.TypeTCGEventLog, Body: log}
		r := evidence.Report{Type: evidence.TypeTPMQuote, Body: body, Needs: [][32]byte{b.Report.Needs[0], e.Hash()}}
		res, err := v.Verify(r, func([32]byte) (evidence.Endorsement, bool) { return e, true }, sample, now)
		if (err == nil) == (res == nil) {
			t.Fatalf("result %v with error %v", res, err)
		}
		if err == nil && !bytes.Equal(body, genuine) {
			t.Fatal("accepted a report that the key did not sign")
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	for _, alg := range []string{"ES256", "ML-DSA-65", "RS256"} {
		b.Run(alg, func(b *testing.B) {
			m := machine(b, alg)
			v := verifier(b, m.Record("web-1"))
			q := quote(b, m, sample)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(q.Report, q.Endorsement, sample, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAdd: a further media type is verified by what was added for it, once,
// and its errors always have a fault.
func TestAdd(t *testing.T) {
	roots, err := trust.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := verify.New(roots)
	const mt = "application/vnd.holdfast.test"
	r := evidence.Report{Type: mt, Body: []byte("x")}
	if _, err := v.Verify(r, nil, evidence.ReportData{}, time.Now()); !errors.Is(err, &verify.Error{Fault: verify.FaultUnknownType}) {
		t.Errorf("before Add: %v", err)
	}
	answer, answerErr := &verify.Result{Environment: "e"}, error(nil)
	check := func(evidence.Report, verify.Lookup, evidence.ReportData, time.Time) (*verify.Result, error) {
		return answer, answerErr
	}
	if err := v.Add(mt, check); err != nil {
		t.Fatal(err)
	}
	if err := v.Add(mt, check); err == nil {
		t.Error("two verifiers of one media type")
	}
	if err := v.Add(evidence.TypeTPMQuote, check); err == nil {
		t.Error("the TPM's verifier was replaced")
	}
	if err := v.Add("not a type", check); err == nil {
		t.Error("a media type with spaces")
	}
	if res, err := v.Verify(r, nil, evidence.ReportData{}, time.Now()); err != nil || res.Environment != "e" {
		t.Errorf("got %v, %v", res, err)
	}
	answerErr = errors.New("plain")
	res, err := v.Verify(r, nil, evidence.ReportData{}, time.Now())
	var e *verify.Error
	if res != nil || !errors.As(err, &e) {
		t.Errorf("a plain error: got %v, %v", res, err)
	}
	answer, answerErr = nil, nil
	if res, err := v.Verify(r, nil, evidence.ReportData{}, time.Now()); res != nil || err == nil {
		t.Error("neither result nor error was taken for genuine")
	}
}
