// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/explain"
	"holdfast/tpm2"
)

func text(l []explain.Line) string {
	var b strings.Builder
	for _, x := range l {
		fmt.Fprintf(&b, "%s|%s|%s\n", x.Label, x.Value, x.Note)
	}
	return b.String()
}

func sample(t *testing.T) *evidence.Bundle {
	t.Helper()
	a := tpm2.Attest{Type: tpm2.STAttestQuote, ExtraData: []byte{0xab, 0xcd}, FirmwareVersion: 0x77,
		Quote: tpm2.QuoteInfo{PCRSelect: []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 7)}, PCRDigest: []byte{1}}}
	attest, err := tpm2.Encode(&a)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := tpm2.Encode(&tpm2.Signature{Alg: tpm2.AlgMLDSA, Sig: []byte{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	q := evidence.TPMQuote{Attest: attest, Signature: sig, PCRs: [][]byte{make([]byte, 32)}}
	return &evidence.Bundle{Report: evidence.Report{Type: evidence.TypeTPMQuote, Body: q.Encode()}}
}

func TestQuote(t *testing.T) {
	l, err := explain.Bundle(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not verified|", "qualifyingData|abcd|", "PCR sha256 7|" + strings.Repeat("00", 32) + "|secure boot", "signature|mldsa", "firmwareVersion|0x77"} {
		if !strings.Contains(text(l), want) {
			t.Errorf("lacks %q in\n%s", want, text(l))
		}
	}
}

func TestMalformedParts(t *testing.T) {
	for _, e := range []evidence.Endorsement{{Type: evidence.TypeTPMPublic, Body: []byte{1}}, {Type: evidence.TypeTCGEventLog, Body: []byte{1}}, {Type: evidence.TypeSimulatedKey, Body: []byte{1}}} {
		b := sample(t)
		b.Endorsements = []evidence.Endorsement{e}
		l, err := explain.Bundle(b)
		if err == nil || !strings.Contains(err.Error(), "endorsement 0") || len(l) < 5 {
			t.Errorf("%s: got %v after %d lines", e.Type, err, len(l))
		}
	}
	b := sample(t)
	b.Report.Body = b.Report.Body[:len(b.Report.Body)-1]
	if _, err := explain.Bundle(b); err == nil {
		t.Error("a cut quote is explained")
	}
}

func TestSimulatedSaysSo(t *testing.T) {
	s := evidence.Simulated{Algorithm: evidence.ES256, Signature: []byte{1}}
	l, err := explain.Bundle(&evidence.Bundle{Report: evidence.Report{Type: evidence.TypeSimulated, Body: s.Encode()}})
	if err != nil || !strings.Contains(text(l), "SIMULATED") {
		t.Errorf("got %v\n%s", err, text(l))
	}
}
