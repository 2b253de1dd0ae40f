// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/attest/verify/quotetest"
	"holdfast/enclave/sgx"
	"holdfast/tpm2"
)

var enclaveData = evidence.ReportData{1, 2, 3}

func enclaveReport() *sgx.Report {
	return &sgx.Report{MREnclave: [32]byte{0xe1}, MRSigner: [32]byte{0x51}, ISVProdID: 3, ISVSVN: 2, ReportData: enclaveData,
		Attributes: sgx.Attributes{Flags: sgx.FlagInit | sgx.FlagMode64, XFRM: 7}}
}

// enclaveMachine is a machine whose AK is enrolled for level, with a monitor.
func enclaveMachine(t testing.TB, level, alg string) (*quotetest.Monitor, func(evidence.Bundle) (*verify.Result, error)) {
	t.Helper()
	m, err := quotetest.New("ES256")
	if err != nil {
		t.Fatal(err)
	}
	m.Log.Events = m.Log.Events[:0] // nothing was measured yet
	for _, pcr := range []int{14} {
		m.PCRs[tpm2.AlgSHA256][pcr] = make([]byte, 32)
	}
	m.Selection = []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 12, 13, 14, 15)}
	x, err := m.NewMonitor(level, alg)
	if err != nil {
		t.Fatal(err)
	}
	record := m.Record("host-1")
	record.EnclaveLevel = level
	if level == evidence.LevelInproc {
		record.EnclaveLevel = ""
	}
	roots, err := trust.New([]trust.AK{record}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := verify.New(roots)
	return x, func(b evidence.Bundle) (*verify.Result, error) {
		return v.Verify(b.Report, b.Endorsement, enclaveData, time.Now())
	}
}

func TestEnclave(t *testing.T) {
	for _, level := range []string{evidence.LevelHosted, evidence.LevelLateLaunch} {
		for _, alg := range []string{evidence.ES256, evidence.MLDSA65} {
			x, check := enclaveMachine(t, level, alg)
			if err := x.Launch(); err != nil {
				t.Fatal(err)
			}
			b, err := x.Quote(enclaveReport())
			if err != nil {
				t.Fatal(err)
			}
			r, err := check(*b)
			if err != nil {
				t.Fatalf("%s, %s: %v", level, alg, err)
			}
			e := r.Enclave
			if r.Class != verify.ClassEnclave || r.Simulated || r.Environment != "host-1" || e.Level != level || e.Mode != "HU" || e.MREnclave != [32]byte{0xe1} || e.MRSigner != [32]byte{0x51} ||
				e.ISVProdID != 3 || e.ISVSVN != 2 || e.Debug || e.Monitor == nil || e.Monitor.SHA256 != quotetest.MonitorImage.SHA256 || e.KeyAlgorithm != alg || r.PQ || r.Made.Unix() != 1764504000 {
				t.Errorf("%s, %s: %+v %+v", level, alg, r, e)
			}
			debug := enclaveReport()
			debug.Attributes.Flags |= sgx.FlagDebug
			if b, err = x.Quote(debug); err != nil {
				t.Fatal(err)
			}
			if r, err := check(*b); err != nil || !r.Enclave.Debug {
				t.Errorf("%s: debug: %v", level, err)
			}
		}
	}
}

// TestEnclaveRefused: each way in which the chain can be broken has its name.
func TestEnclaveRefused(t *testing.T) {
	const level = evidence.LevelHosted
	for _, c := range []struct {
		what   string
		launch func(*testing.T, *quotetest.Monitor) // nil: as it should be
		quote  func(*quotetest.Monitor)
		change func(*evidence.Bundle)
		want   verify.Fault
	}{
		{what: "no monitor was measured", want: verify.FaultMonitor, launch: func(t *testing.T, x *quotetest.Monitor) {
			x.Machine.Separator(14)
			measure(t, x, 15, x.Record())
			x.Machine.Separator(15)
		}},
		{what: "two monitors", want: verify.FaultMonitor, launch: func(t *testing.T, x *quotetest.Monitor) {
			measure(t, x, 14, &quotetest.MonitorImage)
			launch(t, x)
		}},
		{what: "monitor PCR not closed", want: verify.FaultNotCapped, launch: func(t *testing.T, x *quotetest.Monitor) {
			measure(t, x, 14, &quotetest.MonitorImage)
			measure(t, x, 15, x.Record())
			x.Machine.Separator(15)
		}},
		{what: "key PCR not closed", want: verify.FaultNotCapped, launch: func(t *testing.T, x *quotetest.Monitor) {
			measure(t, x, 14, &quotetest.MonitorImage)
			x.Machine.Separator(14)
			measure(t, x, 15, x.Record())
		}},
		{what: "another key was added after the end", want: verify.FaultNotCapped, launch: func(t *testing.T, x *quotetest.Monitor) {
			launch(t, x)
			measure(t, x, 15, &evidence.Measured{Kind: evidence.KindEnclaveKey, Name: level, SHA256: [32]byte{9}})
		}},
		{what: "two keys", want: verify.FaultEnclaveKey, launch: func(t *testing.T, x *quotetest.Monitor) {
			measure(t, x, 15, &evidence.Measured{Kind: evidence.KindEnclaveKey, Name: level, SHA256: [32]byte{9}})
			launch(t, x)
		}},
		{what: "another key than the recorded one", want: verify.FaultEnclaveKey, quote: func(x *quotetest.Monitor) {
			y, err := x.Machine.NewMonitor(level, evidence.ES256)
			if err == nil {
				*x = *y
			}
		}},
		{what: "key recorded for another level", want: verify.FaultEnclaveKey, launch: func(t *testing.T, x *quotetest.Monitor) {
			measure(t, x, 14, &quotetest.MonitorImage)
			x.Machine.Separator(14)
			r := x.Record()
			r.Name = evidence.LevelLateLaunch
			measure(t, x, 15, r)
			x.Machine.Separator(15)
		}},
		{what: "log that hides an event", want: verify.FaultEventLog, quote: func(x *quotetest.Monitor) {
			x.Machine.Extend(14, make([]byte, 32))
		}},
		{what: "claims another level", want: verify.FaultLevel, quote: func(x *quotetest.Monitor) {
			x.Statement = func(s *evidence.EnclaveStatement) { s.Level = evidence.LevelLateLaunch }
		}},
		{what: "TPM quote of another statement (replayed)", want: verify.FaultReportData, quote: func(x *quotetest.Monitor) {
			old, err := x.Quote(enclaveReport())
			if err != nil {
				panic(err)
			}
			q, err := evidence.ParseEnclaveQuote(old.Report.Body)
			if err != nil {
				panic(err)
			}
			x.Statement = func(s *evidence.EnclaveStatement) { s.Made++ }
			x.Change = func(n *evidence.EnclaveQuote) { n.TPM = q.TPM }
		}},
		{what: "statement not signed by the key", want: verify.FaultSignature, quote: func(x *quotetest.Monitor) {
			x.Change = func(q *evidence.EnclaveQuote) { q.Signature[5] ^= 1 }
		}},
		{what: "another mode", want: verify.FaultEnclaveReport, quote: func(x *quotetest.Monitor) {
			x.Change = func(q *evidence.EnclaveQuote) { q.Mode = evidence.ModeP }
		}},
		{what: "another MRENCLAVE", want: verify.FaultEnclaveReport, quote: func(x *quotetest.Monitor) {
			x.Change = func(q *evidence.EnclaveQuote) { q.Report[64] ^= 1 }
		}},
		{what: "path of another leaf", want: verify.FaultEnclaveReport, quote: func(x *quotetest.Monitor) {
			x.Change = func(q *evidence.EnclaveQuote) { q.Index = 0 }
		}},
		{what: "other report data", want: verify.FaultReportData, quote: func(x *quotetest.Monitor) {
			x.Change = func(q *evidence.EnclaveQuote) { q.Report[320] ^= 1 }
		}},
		{what: "no event log", want: verify.FaultMalformed, change: func(b *evidence.Bundle) {
			b.Report.Needs, b.Endorsements = b.Report.Needs[:2], b.Endorsements[:2]
		}},
		{what: "key endorsement missing", want: verify.FaultNoEndorsement, change: func(b *evidence.Bundle) { b.Endorsements = b.Endorsements[:1] }},
		{what: "AK in place of the monitor's key", want: verify.FaultEndorsement, change: func(b *evidence.Bundle) {
			b.Report.Needs[1], b.Endorsements[1] = b.Report.Needs[0], b.Endorsements[0]
		}},
		{what: "garbage", want: verify.FaultMalformed, change: func(b *evidence.Bundle) { b.Report.Body = []byte{1} }},
	} {
		x, check := enclaveMachine(t, level, evidence.ES256)
		if c.launch == nil {
			launch(t, x)
		} else {
			c.launch(t, x)
		}
		if c.quote != nil {
			c.quote(x)
		}
		b, err := x.Quote(enclaveReport())
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if c.change != nil {
			c.change(b)
		}
		if r, err := check(*b); r != nil || !errors.Is(err, &verify.Error{Fault: c.want}) {
			t.Errorf("%s: %v, %v; want %s", c.what, r, err, c.want)
		}
	}
}

func launch(t *testing.T, x *quotetest.Monitor) {
	t.Helper()
	if err := x.Launch(); err != nil {
		t.Fatal(err)
	}
}

func measure(t *testing.T, x *quotetest.Monitor, pcr uint32, m *evidence.Measured) {
	t.Helper()
	if err := x.Machine.Measure(pcr, m); err != nil {
		t.Fatal(err)
	}
}

// TestEnclaveKeysAreApart: a monitor's attestation key vouches for no machine,
// a machine's for no enclave.
func TestEnclaveKeysAreApart(t *testing.T) {
	x, check := enclaveMachine(t, evidence.LevelHosted, evidence.ES256)
	launch(t, x)
	b, err := x.Machine.Quote(enclaveData)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := check(*b); r != nil || !errors.Is(err, &verify.Error{Fault: verify.FaultLevel}) {
		t.Errorf("a monitor's key as a machine's: %v, %v", r, err)
	}
	roots, err := trust.New([]trust.AK{x.Machine.Record("host-1")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = x.Quote(enclaveReport()); err != nil {
		t.Fatal(err)
	}
	if r, err := verify.New(roots).Verify(b.Report, b.Endorsement, enclaveData, time.Now()); r != nil || !errors.Is(err, &verify.Error{Fault: verify.FaultLevel}) {
		t.Errorf("a machine's key as a monitor's: %v, %v", r, err)
	}
}

// TestEnclaveInproc: a monitor without a TPM proves nothing, and the result
// says so.
func TestEnclaveInproc(t *testing.T) {
	x, check := enclaveMachine(t, evidence.LevelInproc, evidence.MLDSA65)
	b, err := x.Quote(enclaveReport())
	if err != nil {
		t.Fatal(err)
	}
	r, err := check(*b)
	if err != nil || !r.Simulated || r.Environment != "SIMULATED/inproc" || r.Enclave.Level != evidence.LevelInproc || r.Enclave.Monitor != nil {
		t.Errorf("%+v, %v", r, err)
	}
	x.Change = func(q *evidence.EnclaveQuote) { q.Signature[9] ^= 1 }
	if b, err = x.Quote(enclaveReport()); err != nil {
		t.Fatal(err)
	}
	if r, err := check(*b); r != nil || !errors.Is(err, &verify.Error{Fault: verify.FaultSignature}) {
		t.Errorf("forged: %v, %v", r, err)
	}
}
