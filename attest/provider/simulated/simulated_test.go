// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

var _ provider.Provider = (*simulated.Provider)(nil)

func setup(t *testing.T, rootAlg, alg string) (*simulated.Provider, *verify.Verifier, verify.Lookup) {
	t.Helper()
	root, err := simulated.NewRoot("lab", rootAlg)
	if err != nil {
		t.Fatal(err)
	}
	record, err := root.Record()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := trust.New(nil, []trust.SimulatedRoot{record})
	if err != nil {
		t.Fatal(err)
	}
	p, err := simulated.New(root, simulated.Options{Name: "psp-1", Algorithm: alg, Latency: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	es, err := p.Endorsements(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p, verify.New(roots), func(h [32]byte) (evidence.Endorsement, bool) {
		for _, e := range es {
			if e.Hash() == h {
				return e, true
			}
		}
		return evidence.Endorsement{}, false
	}
}

func TestReportVerifies(t *testing.T) {
	for _, c := range []struct {
		root, leaf string
		pq         bool
	}{
		{evidence.ES256, evidence.ES256, false},
		{evidence.MLDSA65, evidence.MLDSA65, true},
		{evidence.ES256, evidence.MLDSA65, false}, // the chain is as strong as its weakest link
	} {
		p, v, look := setup(t, c.root, c.leaf)
		data := evidence.ReportData{1, 2, 3}
		start := time.Now()
		r, err := p.Report(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < time.Millisecond {
			t.Errorf("report after %v, expected the latency of 1ms at least", d)
		}
		res, err := v.Verify(r, look, data, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if !res.Simulated || !strings.Contains(res.Environment, "SIMULATED") || !strings.Contains(r.Type, "simulated") {
			t.Errorf("result does not say that it is simulated: %+v", res)
		}
		if res.Environment != "SIMULATED/lab/psp-1" || res.Signature != c.leaf || res.PQ != c.pq || res.Class != verify.ClassMachine {
			t.Errorf("%v: got %+v", c, res)
		}
	}
}

func TestClosedAndCancelled(t *testing.T) {
	p, _, _ := setup(t, evidence.ES256, evidence.ES256)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // not by chance
		if _, err := p.Report(ctx, evidence.ReportData{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: got %v", err)
		}
	}
	if _, err := p.Report(t.Context(), evidence.ReportData{}); err != nil {
		t.Errorf("after a cancelled call: %v", err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Report(t.Context(), evidence.ReportData{}); !errors.Is(err, simulated.ErrClosed) {
		t.Errorf("closed: got %v", err)
	}
}

func TestRootFile(t *testing.T) {
	for _, alg := range []string{evidence.ES256, evidence.MLDSA65} {
		r, err := simulated.NewRoot("lab", alg)
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := simulated.ParseRoot(b)
		if err != nil {
			t.Fatal(err)
		}
		one, err1 := r.Record()
		two, err2 := back.Record()
		if err1 != nil || err2 != nil || !reflect.DeepEqual(one, two) || !strings.Contains(string(b), "SIMULATED") {
			t.Errorf("got %+v, want %+v", two, one)
		}
		for _, c := range [][2]string{{"SIMULATED", "REAL"}, {"name: lab", "name: a/b"}, {alg, "RS256"}, {"key: ", "key: 00"}, {"key: ", "more: 1\nkey: "}} {
			bad := strings.Replace(string(b), c[0], c[1], 1)
			if r, err := simulated.ParseRoot([]byte(bad)); err == nil || r != nil || strings.Contains(err.Error(), string(b[len(b)-30:len(b)-2])) {
				t.Errorf("%q: got %v", c[1], err)
			}
		}
	}
}

// TestRefused: bits flipped anywhere, other data, another root, a report
// without its key.
func TestRefused(t *testing.T) {
	p, v, look := setup(t, evidence.ES256, evidence.ES256)
	data := evidence.ReportData{9}
	r, err := p.Report(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(v *verify.Verifier, r evidence.Report, look verify.Lookup, data evidence.ReportData, want verify.Fault) {
		t.Helper()
		res, err := v.Verify(r, look, data, time.Now())
		if res != nil || err == nil || (want != "" && !errors.Is(err, &verify.Error{Fault: want})) {
			t.Errorf("expected refusal %q, got %v, %v", want, res, err)
		}
	}
	refused(v, r, look, evidence.ReportData{8}, verify.FaultReportData)
	nothing := func([32]byte) (evidence.Endorsement, bool) { return evidence.Endorsement{}, false }
	refused(v, r, nothing, data, verify.FaultNoEndorsement)
	_, other, _ := setup(t, evidence.ES256, evidence.ES256)
	refused(other, r, look, data, verify.FaultUnknownRoot)
	bare := r
	bare.Needs = nil
	refused(v, bare, look, data, verify.FaultMalformed)
	key, _ := look(r.Needs[0])
	for _, e := range []struct {
		e    evidence.Endorsement
		want verify.Fault
	}{
		{evidence.Endorsement{Type: "text/plain", Body: key.Body}, verify.FaultEndorsement},
		{evidence.Endorsement{Type: key.Type, Body: key.Body[1:]}, verify.FaultEndorsement},
		{evidence.Endorsement{Type: key.Type}, verify.FaultEndorsement},
	} {
		x := r
		x.Needs = [][32]byte{e.e.Hash()}
		refused(v, x, func([32]byte) (evidence.Endorsement, bool) { return e.e, true }, data, e.want)
	}
	for i := range r.Body {
		x := r
		x.Body = slices.Clone(r.Body)
		x.Body[i] ^= 4
		refused(v, x, look, data, "")
		x.Body = r.Body[:i]
		refused(v, x, look, data, verify.FaultMalformed)
	}
	for i := range key.Body {
		e := evidence.Endorsement{Type: key.Type, Body: slices.Clone(key.Body)}
		e.Body[i] ^= 4
		x := r
		x.Needs = [][32]byte{e.Hash()}
		refused(v, x, func([32]byte) (evidence.Endorsement, bool) { return e, true }, data, "")
	}
}
