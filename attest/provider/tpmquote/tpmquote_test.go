// SPDX-License-Identifier: Apache-2.0

package tpmquote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/attest/provider/measure"
	"holdfast/attest/provider/tpmquote"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/softtpm"
	"holdfast/tpm2"
	"holdfast/tpmio/inproc"
	"holdfast/tss"
)

var _ provider.Provider = (*tpmquote.Provider)(nil)

func secret(t *testing.T) []byte {
	t.Helper()
	s, err := tpmquote.NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// enroll makes a key and its record.
func enroll(t *testing.T, tr tss.Transport, kind tpmquote.Kind, sec []byte, policy ...string) (*tpmquote.KeyFile, trust.AK) {
	t.Helper()
	tpm := tss.New(tr)
	k, err := tpmquote.CreateKey(tpm, tpmquote.NewKeyOptions{Kind: kind, Secret: sec, PolicyPCRs: policy})
	if err != nil {
		t.Fatal(err)
	}
	a, err := tpmquote.NewAttester(tpm, k, sec, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, c, err := tpmquote.NewChallenge(a.Identity)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := a.Answer(c)
	if err != nil {
		t.Fatal(err)
	}
	record, err := v.Complete(answer, "web-1", "machine-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := v.Complete(answer, "web-2", "", time.Now()); !errors.Is(err, tpmquote.ErrNotProved) {
		t.Errorf("a second answer: got %v", err)
	}
	return k, record
}

func verifier(t *testing.T, ak trust.AK) *verify.Verifier {
	t.Helper()
	roots, err := trust.New([]trust.AK{ak}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.CheckRoots(roots); err != nil {
		t.Fatal(err)
	}
	return verify.New(roots)
}

func bundle(t *testing.T, p *tpmquote.Provider, data evidence.ReportData) *evidence.Bundle {
	t.Helper()
	r, err := p.Report(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	es, err := p.Endorsements(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := evidence.NewBundle(r, es)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func program(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestChain: measure, create, enrol, quote, verify; then measure more while
// the provider runs.
func TestChain(t *testing.T) {
	for _, c := range tpms {
		t.Run(c.name, func(t *testing.T) {
			tr, sec := c.start(t), secret(t)
			log := filepath.Join(t.TempDir(), "log")
			if _, err := measure.Files(tss.New(tr), 14, log, "file", []string{program(t, "agent"), program(t, "service")}); err != nil {
				t.Fatal(err)
			}
			k, record := enroll(t, tr, c.kind, sec)
			v := verifier(t, record)
			p, err := tpmquote.Open(tr, k, sec, tpmquote.Options{PCRs: []string{"sha256:0,7,14"}, EventLogs: []string{log}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if i == 2 { // the log grows
					if _, err := measure.Files(tss.New(tr), 14, log, "config", []string{program(t, "config")}); err != nil {
						t.Fatal(err)
					}
				}
				data := evidence.ReportData{byte(i), 63: 7}
				b := bundle(t, p, data)
				r, err := v.Verify(b.Report, b.Endorsement, data, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				want := 2 + i/2
				if len(r.Events) != want || r.Events[0].Measured.SHA256 != sha256.Sum256([]byte("agent")) || r.Environment != "web-1" || r.Signature != string(c.kind) || r.PQ != (c.kind == tpmquote.MLDSA65) {
					t.Errorf("report %d: got %+v", i, r)
				}
				if r.Method != trust.MethodActivation || len(r.EKName) == 0 || r.Machine != "machine-1" {
					t.Errorf("record: got %+v", r)
				}
				other := data
				other[5] ^= 1
				if _, err := v.Verify(b.Report, b.Endorsement, other, time.Now()); !errors.Is(err, &verify.Error{Fault: verify.FaultReportData}) {
					t.Errorf("replay: got %v", err)
				}
			}
			if err := p.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if _, err := p.Report(t.Context(), evidence.ReportData{}); !errors.Is(err, tpmquote.ErrClosed) {
				t.Errorf("after Close: got %v", err)
			}
			left, err := tss.New(tr).Handles(tpm2.HandleTransientFirst)
			if err != nil || len(left) != 0 {
				t.Errorf("objects left in the TPM: %v, %v", left, err)
			}
		})
	}
}

// TestSecret: whoever reaches the TPM and has the key file, but not the
// secret, gets no quote.
func TestSecret(t *testing.T) {
	for _, c := range tpms {
		t.Run(c.name, func(t *testing.T) {
			tr, sec := c.start(t), secret(t)
			k, _ := enroll(t, tr, c.kind, sec)
			for _, wrong := range [][]byte{nil, secret(t)} {
				p, err := tpmquote.Open(tr, k, wrong, tpmquote.Options{PCRs: []string{"sha256:0"}})
				if err != nil {
					t.Fatal(err)
				}
				if r, err := p.Report(t.Context(), evidence.ReportData{}); err == nil || r.Body != nil {
					t.Errorf("a quote without the secret: %v", err)
				} else if bytes.Contains([]byte(err.Error()), wrong) && len(wrong) > 0 {
					t.Error("the error contains the secret")
				}
				p.Close()
			}
		})
	}
}

// TestPolicyPCR: a key with a policy quotes only while its PCRs stay.
func TestPolicyPCR(t *testing.T) {
	for _, c := range tpms {
		t.Run(c.name, func(t *testing.T) {
			tr, sec := c.start(t), secret(t)
			log := filepath.Join(t.TempDir(), "log")
			if _, err := measure.Files(tss.New(tr), 11, log, "file", []string{program(t, "agent")}); err != nil {
				t.Fatal(err)
			}
			k, record := enroll(t, tr, c.kind, sec, "sha256:11")
			v := verifier(t, record)
			p, err := tpmquote.Open(tr, k, sec, tpmquote.Options{PCRs: []string{"sha256:11"}, EventLogs: []string{log}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for range 2 { // the session serves more than one quote
				b := bundle(t, p, evidence.ReportData{1})
				if _, err := v.Verify(b.Report, b.Endorsement, evidence.ReportData{1}, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			// The right secret without the policy.
			q, err := tpmquote.Open(tr, &tpmquote.KeyFile{Version: 1, Kind: k.Kind, Public: k.Public, Private: k.Private}, sec, tpmquote.Options{PCRs: []string{"sha256:11"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := q.Report(t.Context(), evidence.ReportData{}); err == nil {
				t.Error("a quote without the policy")
			}
			q.Close()
			if _, err := measure.Files(tss.New(tr), 11, log, "file", []string{program(t, "other")}); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Report(t.Context(), evidence.ReportData{2}); err == nil {
				t.Error("the key still quotes after its PCR changed")
			}
		})
	}
}

// TestPersistent: the key stays in the TPM; another key at the handle is
// noticed.
func TestPersistent(t *testing.T) {
	for _, c := range tpms {
		t.Run(c.name, func(t *testing.T) {
			tr, sec := c.start(t), secret(t)
			k, record := enroll(t, tr, c.kind, sec)
			if err := tpmquote.MakePersistent(tss.New(tr), k, 0x81010042, nil, nil); err != nil {
				t.Fatal(err)
			}
			p, err := tpmquote.Open(tr, k, sec, tpmquote.Options{PCRs: []string{"sha256:0"}})
			if err != nil {
				t.Fatal(err)
			}
			b := bundle(t, p, evidence.ReportData{3})
			if _, err := verifier(t, record).Verify(b.Report, b.Endorsement, evidence.ReportData{3}, time.Now()); err != nil {
				t.Error(err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			other, _ := enroll(t, tr, c.kind, sec)
			other.Persistent = 0x81010042
			if _, err := tpmquote.Open(tr, other, sec, tpmquote.Options{PCRs: []string{"sha256:0"}}); err == nil || !strings.Contains(err.Error(), "Name") {
				t.Errorf("another key at the handle: got %v", err)
			}
			if err := tpmquote.MakePersistent(tss.New(tr), k, 0x80000001, nil, nil); err == nil {
				t.Error("a transient handle is accepted")
			}
		})
	}
}

// TestEnrolmentRefuses: an AK of another TPM, an answer to another challenge,
// an EK that is none.
func TestEnrolmentRefuses(t *testing.T) {
	for _, c := range tpms {
		t.Run(c.name, func(t *testing.T) {
			one, two, sec := c.start(t), c.start(t), secret(t)
			keys := func(tr tss.Transport) *tpmquote.Attester {
				k, err := tpmquote.CreateKey(tss.New(tr), tpmquote.NewKeyOptions{Kind: c.kind, Secret: sec})
				if err != nil {
					t.Fatal(err)
				}
				a, err := tpmquote.NewAttester(tss.New(tr), k, sec, nil)
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			a, b := keys(one), keys(two)
			mixed := a.Identity // AK of the first TPM, EK of the second
			mixed.EK = b.Identity.EK
			_, ch, err := tpmquote.NewChallenge(mixed)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []*tpmquote.Attester{a, b} {
				if _, err := x.Answer(ch); err == nil {
					t.Error("a TPM answers for keys that are in two TPMs")
				}
			}
			v, _, err := tpmquote.NewChallenge(a.Identity)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.Complete(make([]byte, 32), "x", "", time.Now()); !errors.Is(err, tpmquote.ErrNotProved) {
				t.Errorf("zeros for an answer: got %v", err)
			}
			signing := a.Identity
			signing.EK = a.Identity.AK
			if _, _, err := tpmquote.NewChallenge(signing); err == nil {
				t.Error("a signing key is accepted as EK")
			}
			weak := a.Identity
			weak.AK = a.Identity.EK
			if _, _, err := tpmquote.NewChallenge(weak); err == nil {
				t.Error("a decryption key is accepted as AK")
			}
			if _, err := tpmquote.CreateKey(tss.New(one), tpmquote.NewKeyOptions{Kind: c.kind}); err == nil {
				t.Error("a key without a secret")
			}
			a.Close()
			b.Close()
		})
	}
}

// flaky loses every object and session once, as a reset TPM does.
type flaky struct {
	tss.Transport
	code uint32 // to answer the next command with
	at   tpm2.CC
}

func (f *flaky) Send(c []byte) ([]byte, error) {
	if f.code != 0 && tpm2.CC(binary.BigEndian.Uint32(c[6:])) == f.at {
		code := f.code
		f.code = 0
		return slices.Concat([]byte{0x80, 0x01, 0, 0, 0, 10}, binary.BigEndian.AppendUint32(nil, code)), nil
	}
	return f.Transport.Send(c)
}

func TestLoadsAgain(t *testing.T) {
	for _, c := range tpms {
		t.Run(c.name, func(t *testing.T) {
			f := &flaky{Transport: c.start(t)}
			sec := secret(t)
			k, record := enroll(t, f, c.kind, sec)
			p, err := tpmquote.Open(f, k, sec, tpmquote.Options{PCRs: []string{"sha256:0"}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			f.code, f.at = uint32(tpm2.RCReferenceH0), tpm2.CCQuote
			b := bundle(t, p, evidence.ReportData{4})
			if _, err := verifier(t, record).Verify(b.Report, b.Endorsement, evidence.ReportData{4}, time.Now()); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := p.Report(ctx, evidence.ReportData{}); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: got %v", err)
			}
		})
	}
}

func TestWrongLog(t *testing.T) {
	for _, c := range tpms {
		t.Run(c.name, func(t *testing.T) {
			tr, sec := c.start(t), secret(t)
			log := filepath.Join(t.TempDir(), "log")
			tpm := tss.New(tr)
			if _, err := measure.Files(tpm, 14, log, "file", []string{program(t, "agent")}); err != nil {
				t.Fatal(err)
			}
			k, _ := enroll(t, tr, c.kind, sec)
			has := []tpm2.HA{{Alg: tpm2.AlgSHA256, Digest: make([]byte, 32)}}
			if err := tpm.PCRExtend(tss.PCR(14), has); err != nil {
				t.Fatal(err)
			}
			p, err := tpmquote.Open(tr, k, sec, tpmquote.Options{PCRs: []string{"sha256:14"}, EventLogs: []string{log}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if _, err := p.Report(t.Context(), evidence.ReportData{}); err == nil || !strings.Contains(err.Error(), "PCR 14") {
				t.Errorf("a log that lacks an extension: got %v", err)
			}
			if _, err := measure.Files(tpm, 14, log, "file", []string{program(t, "more")}); err == nil || !strings.Contains(err.Error(), "extended by something else") {
				t.Errorf("measuring on: got %v", err)
			}
		})
	}
}

// BenchmarkReport is the price of one report on our TPM in this process,
// without and with a policy.
func BenchmarkReport(b *testing.B) {
	for _, c := range []struct {
		name   string
		kind   tpmquote.Kind
		policy []string
	}{{"ES256", tpmquote.ES256, nil}, {"ML-DSA-65", tpmquote.MLDSA65, nil}, {"ML-DSA-65 with policy", tpmquote.MLDSA65, []string{"sha256:14"}}} {
		b.Run(c.name, func(b *testing.B) {
			tr, err := inproc.Memory(softtpm.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer tr.Close()
			sec, err := tpmquote.NewSecret()
			if err != nil {
				b.Fatal(err)
			}
			k, err := tpmquote.CreateKey(tss.New(tr), tpmquote.NewKeyOptions{Kind: c.kind, Secret: sec, PolicyPCRs: c.policy})
			if err != nil {
				b.Fatal(err)
			}
			p, err := tpmquote.Open(tr, k, sec, tpmquote.Options{PCRs: []string{"sha256:0,7,14"}})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Report(b.Context(), evidence.ReportData{1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
