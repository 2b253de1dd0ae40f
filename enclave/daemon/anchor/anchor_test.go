// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/provider/tpmquote"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/enclave/sgx"
	"holdfast/softtpm"
	"holdfast/tpm2"
	"holdfast/tpmio/inproc"
	"holdfast/tss"
)

// place is a machine: a folder with its TPM and the monitor's files.
type place struct {
	t   *testing.T
	dir string
	tpm *inproc.TPM
	log string
}

func newPlace(t *testing.T) *place {
	p := &place{t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		if p.tpm != nil {
			p.tpm.Close()
		}
	})
	p.reset()
	return p
}

// reset is a TPM Reset; the event log begins anew, as /run does.
func (p *place) reset() {
	p.t.Helper()
	if p.tpm != nil {
		if err := p.tpm.Close(); err != nil {
			p.t.Fatal(err)
		}
	}
	var err error
	if p.tpm, err = inproc.OpenReset(filepath.Join(p.dir, "tpm"), softtpm.Options{}); err != nil {
		p.t.Fatal(err)
	}
	p.log = filepath.Join(p.dir, "log")
	if err := os.RemoveAll(p.log); err != nil {
		p.t.Fatal(err)
	}
}

var goodMonitor = [32]byte{0x40}

func (p *place) start(image [32]byte, change func(*Options)) (*Anchor, error) {
	p.t.Helper()
	if err := Measure(tss.New(p.tpm), evidence.LevelHosted, p.log, "/usr/bin/holdfast", image); err != nil {
		p.t.Fatal(err)
	}
	o := Options{Level: evidence.LevelHosted, Dir: p.dir, Log: p.log}
	if change != nil {
		change(&o)
	}
	a, err := Open(p.tpm, o)
	if err == nil {
		p.t.Cleanup(func() { a.stop() })
	}
	return a, err
}

// stop closes an anchor that a test may have closed already.
func (a *Anchor) stop() {
	select {
	case <-a.done:
	default:
		a.Close()
	}
}

func (p *place) mustStart() *Anchor {
	p.t.Helper()
	a, err := p.start(goodMonitor, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

// enroll makes the record of the anchor's AK.
func enroll(t *testing.T, a *Anchor, name string) trust.AK {
	t.Helper()
	at, err := a.Attester()
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	v, c, err := tpmquote.NewChallenge(at.Identity)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := at.Answer(c)
	if err != nil {
		t.Fatal(err)
	}
	ak, err := v.Complete(answer, name, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ak.EnclaveLevel = a.Level()
	return ak
}

func reportFor(data evidence.ReportData) *sgx.Report {
	return &sgx.Report{MREnclave: [32]byte{0xe1}, MRSigner: [32]byte{0x51}, ISVProdID: 3, ISVSVN: 2, ReportData: data, Attributes: sgx.Attributes{Flags: sgx.FlagInit | sgx.FlagMode64, XFRM: 7}}
}

const acceptAll = `
environments: [host-1]
signatures: [ML-DSA-65]
class: enclave
profile: pq-only
age: 1m
reset-count: {min: MIN}
enclave:
  levels: [LEVEL]
  monitors: ["4000000000000000000000000000000000000000000000000000000000000000"]
  mrenclave: ["e100000000000000000000000000000000000000000000000000000000000000"]
`

// appraise returns the fault, or the rules that failed.
func appraise(t *testing.T, b *evidence.Bundle, data evidence.ReportData, minReset, level string, aks ...trust.AK) (verify.Fault, []string, *verify.Result) {
	t.Helper()
	roots, err := trust.New(aks, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = evidence.ParseFile(b.CBOR()); err != nil { // as a file would bring it
		t.Fatal(err)
	}
	r, err := verify.New(roots).Verify(b.Report, b.Endorsement, data, time.Now())
	if err != nil {
		var e *verify.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		return e.Fault, nil, nil
	}
	p, err := policy.Parse([]byte(strings.NewReplacer("MIN", minReset, "LEVEL", level).Replace(acceptAll)))
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range p.Evaluate(r, policy.Session{Grade: policy.GradeHello, Group: 0x11ec, CipherSuite: 0x1301, Claims: policy.Claims{Class: r.Class}}, time.Now()) {
		if f.Rule != "groups" {
			failed = append(failed, f.Rule)
		}
	}
	return "", failed, r
}

func quote(t *testing.T, a *Anchor, data evidence.ReportData) *evidence.Bundle {
	t.Helper()
	b, err := a.Quote(context.Background(), evidence.ModeHU, reportFor(data))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestChain: a first start, evidence that attest alone accepts, and a second
// start with the same root, another key, and the same record.
func TestChain(t *testing.T) {
	p := newPlace(t)
	a := p.mustStart()
	if !a.Fresh() || a.KeyRoot() == [32]byte{} {
		t.Error("the first start drew no root")
	}
	record := enroll(t, a, "host-1")
	data := evidence.ReportData{1, 2}
	first := quote(t, a, data)
	fault, failed, r := appraise(t, first, data, "1", "hosted", record)
	if fault != "" || failed != nil {
		t.Fatalf("refused: %s %v", fault, failed)
	}
	if !r.PQ || r.Enclave.Level != "hosted" || r.Enclave.Mode != "HU" || r.Enclave.Monitor.Name != "/usr/bin/holdfast" {
		t.Errorf("%+v %+v", r, r.Enclave)
	}
	resets := r.ResetCount
	root, key := a.KeyRoot(), a.keyHash
	a.Close()
	if _, err := a.Quote(context.Background(), evidence.ModeHU, reportFor(data)); !errors.Is(err, ErrClosed) {
		t.Errorf("a quote after Close: %v", err)
	}

	p.reset()
	b := p.mustStart()
	if b.Fresh() || b.KeyRoot() != root {
		t.Error("the root did not survive a restart")
	}
	if b.keyHash == key {
		t.Error("the monitor's key is that of the start before")
	}
	fault, failed, r = appraise(t, quote(t, b, data), data, "1", "hosted", record)
	if fault != "" || failed != nil || r.ResetCount <= resets {
		t.Errorf("after a restart: %s %v, resetCount %d after %d", fault, failed, r.ResetCount, resets)
	}
	// Old evidence is refused by the number of resets, and for new data by its
	// report data; a higher level by its name.
	if fault, failed, _ := appraise(t, first, data, "99", "hosted", record); fault != "" || !slices.Equal(failed, []string{"reset-count"}) {
		t.Errorf("old evidence: %s %v", fault, failed)
	}
	if fault, _, _ := appraise(t, first, evidence.ReportData{9}, "1", "hosted", record); fault != verify.FaultReportData {
		t.Errorf("replayed evidence: %s", fault)
	}
	if fault, failed, _ := appraise(t, first, data, "1", "late-launch", record); fault != "" || !slices.Equal(failed, []string{"enclave.levels"}) {
		t.Errorf("a lower level: %s %v", fault, failed)
	}
	record.EnclaveLevel = evidence.LevelLateLaunch // a record cannot lift it either
	if fault, _, _ := appraise(t, first, data, "1", "late-launch", record); fault != verify.FaultLevel {
		t.Errorf("a record of another level: %s", fault)
	}
}

// TestOldQuoteInNewEvidence: the TPM's quote of an earlier start does not carry
// a new statement, so that a replayed PCR proves nothing.
func TestOldQuoteInNewEvidence(t *testing.T) {
	p := newPlace(t)
	a := p.mustStart()
	record := enroll(t, a, "host-1")
	data := evidence.ReportData{7}
	old, err := evidence.ParseEnclaveQuote(quote(t, a, data).Report.Body)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	p.reset()
	b := quote(t, p.mustStart(), data)
	q, err := evidence.ParseEnclaveQuote(b.Report.Body)
	if err != nil {
		t.Fatal(err)
	}
	q.TPM = old.TPM
	b.Report.Body = q.Encode()
	if fault, _, _ := appraise(t, b, data, "1", "hosted", record); fault != verify.FaultReportData {
		t.Errorf("%s", fault)
	}
}

// TestChangedMonitor: another image cannot open the root; with a root of its
// own it is refused by the verifier, whatever is enrolled.
func TestChangedMonitor(t *testing.T) {
	p := newPlace(t)
	a := p.mustStart()
	record, root := enroll(t, a, "host-1"), a.KeyRoot()
	a.Close()
	p.reset()
	changed := [32]byte{0x41}
	if a, err := p.start(changed, nil); !errors.Is(err, ErrOtherMonitor) {
		t.Fatalf("%v, %v", a, err)
	}
	p.reset()
	b, err := p.start(changed, func(o *Options) { o.NewRoot = true })
	if err != nil {
		t.Fatal(err)
	}
	if b.KeyRoot() == root || !b.Fresh() {
		t.Error("the changed monitor has the old root")
	}
	data := evidence.ReportData{3}
	e := quote(t, b, data)
	if fault, _, _ := appraise(t, e, data, "1", "hosted", record); fault != verify.FaultUnknownKey {
		t.Errorf("with the old record: %s", fault)
	}
	if fault, failed, _ := appraise(t, e, data, "1", "hosted", enroll(t, b, "host-1")); fault != "" || !slices.Equal(failed, []string{"enclave.monitors"}) {
		t.Errorf("enrolled: %s %v", fault, failed)
	}
	b.Close()
	p.reset()
	if _, err := p.start(goodMonitor, nil); !errors.Is(err, ErrOtherMonitor) {
		t.Errorf("the first monitor opens the root of the changed one: %v", err)
	}
}

func TestOtherTPM(t *testing.T) {
	p := newPlace(t)
	p.mustStart().Close()
	q := newPlace(t)
	for _, f := range []string{rootFile, akFile} {
		b, err := os.ReadFile(filepath.Join(p.dir, f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(q.dir, f), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := q.start(goodMonitor, nil); !errors.Is(err, ErrOtherTPM) {
		t.Errorf("%v, %v", a, err)
	}
}

// TestCap: after the start nobody can unseal the root or quote with the AK,
// although all files and the TPM are at hand.
func TestCap(t *testing.T) {
	p := newPlace(t)
	a := p.mustStart()
	b, err := os.ReadFile(filepath.Join(p.dir, rootFile))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSealedRoot(b)
	if err != nil {
		t.Fatal(err)
	}
	if root, err := s.Unseal(tss.New(p.tpm)); !errors.Is(err, ErrOtherMonitor) {
		t.Errorf("unsealed %d bytes, %v", len(root), err)
	}
	q, err := tpmquote.Open(p.tpm, a.key, make([]byte, 32), tpmquote.Options{PCRs: []string{"sha256:14,15"}})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Report(context.Background(), evidence.ReportData{}); !errors.Is(err, tpm2.RCAuthFail) && !errors.Is(err, tpm2.RCBadAuth) {
		t.Errorf("a quote without the root: %v", err)
	}
	// A second monitor without a reset.
	if _, err := Open(p.tpm, Options{Level: evidence.LevelHosted, Dir: p.dir, Log: p.log}); !errors.Is(err, ErrNotReset) {
		t.Errorf("a second monitor: %v", err)
	}
}

func TestRefusedStarts(t *testing.T) {
	p := newPlace(t)
	if _, err := Open(p.tpm, Options{Level: evidence.LevelHosted, Dir: p.dir, Log: p.log}); err == nil || !strings.Contains(err.Error(), "no launcher") {
		t.Errorf("without a launcher: %v", err)
	}
	if _, err := Open(p.tpm, Options{Level: evidence.LevelInproc}); err == nil {
		t.Error("inproc has PCRs")
	}
	if _, err := p.start(goodMonitor, func(o *Options) { o.Algorithm = "RS256" }); err == nil {
		t.Error("an unknown algorithm was accepted")
	}
	p.reset()
	if err := os.WriteFile(filepath.Join(p.dir, rootFile), []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.start(goodMonitor, func(o *Options) { o.NewRoot = true }); err == nil {
		t.Error("a damaged file of the root was replaced")
	}
}

// TestTampered: each byte of the sealed blob counts.
func TestTampered(t *testing.T) {
	p := newPlace(t)
	p.mustStart().Close()
	path := filepath.Join(p.dir, rootFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSealedRoot(good)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Encode()
	if err != nil || !bytes.Equal(again, good) {
		t.Errorf("does not encode to the same file: %v", err)
	}
	for _, at := range []int{0, 40, len(s.Private) - 1} {
		x := *s
		x.Private = bytes.Clone(s.Private)
		x.Private[at] ^= 1
		if root, err := x.Unseal(tss.New(p.tpm)); err == nil {
			t.Errorf("byte %d changed: unsealed %d bytes", at, len(root))
		}
	}
}

// TestBatch: reports that wait together share a TPM quote, and each verifies
// alone.
func TestBatch(t *testing.T) {
	p := newPlace(t)
	a := p.mustStart()
	record := enroll(t, a, "host-1")
	const n = 40
	bundles := make([]*evidence.Bundle, n)
	var wg sync.WaitGroup
	for i := range bundles {
		wg.Go(func() {
			b, err := a.Quote(context.Background(), evidence.ModeHU, reportFor(evidence.ReportData{byte(i)}))
			if err != nil {
				t.Error(err)
			}
			bundles[i] = b
		})
	}
	wg.Wait()
	roots := map[[32]byte]bool{}
	for i, b := range bundles {
		q, err := evidence.ParseEnclaveQuote(b.Report.Body)
		if err != nil {
			t.Fatal(err)
		}
		roots[q.Statement.Root] = true
		if i%8 == 0 {
			if fault, failed, _ := appraise(t, b, evidence.ReportData{byte(i)}, "1", "hosted", record); fault != "" || failed != nil {
				t.Errorf("report %d: %s %v", i, fault, failed)
			}
		}
	}
	if len(roots) == n {
		t.Errorf("%d reports made %d quotes of the TPM", n, len(roots))
	}
}

func TestInproc(t *testing.T) {
	a, err := Inproc("")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	data := evidence.ReportData{5}
	if _, failed, r := appraise(t, quote(t, a, data), data, "1", "hosted"); r == nil || !r.Simulated || !slices.Contains(failed, "enclave.levels") || !slices.Contains(failed, "simulated") || !slices.Contains(failed, "environments") {
		t.Errorf("%v %+v", failed, r)
	}
	if _, err := a.Attester(); err == nil {
		t.Error("a monitor without a TPM was enrolled")
	}
}

func FuzzSealedRoot(f *testing.F) {
	f.Add([]byte("version: 1\nstorage-key: ecc256\nstorage-name: 000b\npcrs:\n  - sha256:14,15\npublic: AAgACwAAABAAAAAQAAA=\nprivate: AQ==\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSealedRoot(b)
		if (s == nil) == (err == nil) {
			t.Fatalf("%v with error %v", s, err)
		}
		if err != nil {
			return
		}
		enc, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseSealedRoot(enc)
		if err != nil {
			t.Fatalf("%q does not read again: %v", enc, err)
		}
		if e2, err := again.Encode(); err != nil || !bytes.Equal(e2, enc) {
			t.Fatalf("%q, then %q", enc, e2)
		}
	})
}
