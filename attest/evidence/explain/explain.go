// SPDX-License-Identifier: Apache-2.0

// Package explain says line by line what a file of evidence contains, for
// people. It verifies nothing: what it prints is what the file claims.
//
// Call Bundle.
package explain

import (
	"fmt"
	"strings"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/tpm2"
)

// Line is one fact, what it is called, and what it means.
type Line struct {
	Label string `json:"label"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
}

type lines []Line

func (l *lines) add(label, value, note string) { *l = append(*l, Line{label, value, note}) }

// Bundle explains a report and its endorsements. An error names the part that
// does not parse; the lines before it are returned too.
func Bundle(b *evidence.Bundle) ([]Line, error) {
	l := &lines{}
	l.add("not verified", "this is what the file says", "`holdfast attest verify` tells whether it is true and acceptable")
	l.add("evidence", fmt.Sprintf("%s, %d bytes", b.Report.Type, len(b.Report.Body)), fmt.Sprintf("needs %d endorsements", len(b.Report.Needs)))
	var err error
	switch b.Report.Type {
	case evidence.TypeTPMQuote:
		err = l.quote(b)
	case evidence.TypeSimulated:
		err = l.simulated(b)
	case evidence.TypeEnclaveQuote:
		err = l.enclave(b)
	case evidence.TypeCSV:
		err = l.csv(b)
	case evidence.TypeSNP:
		err = l.snp(b)
	case evidence.TypeTDX:
		err = l.tdx(b)
	default:
		l.add("body", fmt.Sprintf("%x", b.Report.Body), "a type that this program does not know")
	}
	if err != nil {
		return *l, err
	}
	for i, e := range b.Endorsements {
		h := e.Hash()
		l.add(fmt.Sprintf("endorsement %d", i), fmt.Sprintf("%s, %d bytes", e.Type, len(e.Body)), fmt.Sprintf("hash %x", h))
		switch e.Type {
		case evidence.TypeTPMPublic:
			err = l.public(e.Body)
		case evidence.TypeTCGEventLog:
			err = l.log(e.Body)
		case evidence.TypeSimulatedKey:
			err = l.simulatedKey(e.Body)
		case evidence.TypeCSVChain:
			err = l.csvChain(e.Body)
		case evidence.TypeCertificate:
			err = l.certificate(e.Body)
		case evidence.TypeEnclaveKey:
			err = l.enclaveKey(e.Body)
		}
		if err != nil {
			return *l, fmt.Errorf("endorsement %d: %w", i, err)
		}
	}
	return *l, nil
}

func (l *lines) quote(b *evidence.Bundle) error {
	return l.tpmQuote(b.Report.Body, "SHA-256 of the 64 bytes of report data")
}

// tpmQuote explains a quote; made says what its qualifyingData is.
func (l *lines) tpmQuote(body []byte, made string) error {
	q, err := evidence.ParseTPMQuote(body)
	if err != nil {
		return err
	}
	var a tpm2.Attest
	if err := tpm2.Decode(q.Attest, &a); err != nil {
		return fmt.Errorf("TPMS_ATTEST: %w", err)
	}
	if a.Type != tpm2.STAttestQuote {
		return fmt.Errorf("TPMS_ATTEST: expected a quote, got type %#x", uint16(a.Type))
	}
	l.add("qualifyingData", fmt.Sprintf("%x", a.ExtraData), "what the quote was made for: "+made)
	l.add("qualifiedSigner", fmt.Sprintf("%x", a.QualifiedSigner), "the attestation key and its place in the TPM")
	c := a.ClockInfo
	l.add("clock", (time.Duration(c.Clock%(1<<53)) * time.Millisecond).String(), "time that the TPM was powered; it does not know the time of day")
	l.add("resetCount", fmt.Sprint(c.ResetCount), "starts of the machine since the TPM was cleared")
	l.add("restartCount", fmt.Sprint(c.RestartCount), "suspends and restarts since the last reset")
	safe := "no"
	if c.Safe {
		safe = "yes"
	}
	l.add("safe", safe, "whether the TPM vouches that clock never went back")
	l.add("firmwareVersion", fmt.Sprintf("%#x", a.FirmwareVersion), "of the TPM")
	l.add("pcrDigest", fmt.Sprintf("%x", a.Quote.PCRDigest), "what the TPM signed for the PCR values below")
	i := 0
	for _, s := range a.Quote.PCRSelect {
		for _, p := range s.PCRs() {
			if i == len(q.PCRs) {
				return fmt.Errorf("the quote selects more PCRs than the %d whose values came", len(q.PCRs))
			}
			l.add(fmt.Sprintf("PCR %s %d", s.Hash, p), fmt.Sprintf("%x", q.PCRs[i]), meaning(p))
			i++
		}
	}
	if i != len(q.PCRs) {
		return fmt.Errorf("the quote selects %d PCRs, but %d values came", i, len(q.PCRs))
	}
	var sig tpm2.Signature
	if err := tpm2.Decode(q.Signature, &sig); err != nil {
		return fmt.Errorf("TPMT_SIGNATURE: %w", err)
	}
	l.add("signature", fmt.Sprintf("%v, %d bytes", sig.Alg, len(q.Signature)), "over the whole TPMS_ATTEST")
	return nil
}

// meaning says what the PC Client Platform Firmware Profile (3.3.4) uses a PCR for.
func meaning(pcr int) string {
	switch {
	case pcr == 0:
		return "firmware code"
	case pcr < 7:
		return "firmware settings and boot code"
	case pcr == 7:
		return "secure boot policy"
	case pcr < 16:
		return "operating system and programs"
	case pcr == 16 || pcr == 23:
		return "resettable by programs: proves nothing that lasts"
	case pcr < 23:
		return "late launch"
	}
	return ""
}

func (l *lines) public(b []byte) error {
	var p tpm2.Public
	if err := tpm2.Decode(b, &p); err != nil {
		return fmt.Errorf("TPMT_PUBLIC: %w", err)
	}
	name, err := p.Name()
	if err != nil {
		return err
	}
	l.add("  attestation key", keyType(&p), fmt.Sprintf("Name %x", name))
	var have, lack []string
	for _, a := range []struct {
		bit  tpm2.ObjectAttributes
		name string
	}{{tpm2.ObjectFixedTPM, "fixedTPM"}, {tpm2.ObjectFixedParent, "fixedParent"}, {tpm2.ObjectSensitiveDataOrigin, "sensitiveDataOrigin"}, {tpm2.ObjectRestricted, "restricted"}} {
		if p.Attributes.Has(a.bit) {
			have = append(have, a.name)
		} else {
			lack = append(lack, a.name)
		}
	}
	note := "made in its TPM, cannot leave it, signs only what the TPM made"
	if len(lack) > 0 {
		note = "NOT an acceptable attestation key: lacks " + strings.Join(lack, ", ")
	}
	l.add("  attributes", strings.Join(have, " "), note)
	auth := "whoever knows its authorization value"
	if !p.Attributes.Has(tpm2.ObjectUserWithAuth) {
		auth = "only who satisfies its policy"
	}
	l.add("  usable by", auth, fmt.Sprintf("authPolicy %x", p.AuthPolicy))
	return nil
}

func keyType(p *tpm2.Public) string {
	switch p.Type {
	case tpm2.AlgMLDSA:
		return map[tpm2.MLDSASet]string{tpm2.MLDSA44: "ML-DSA-44", tpm2.MLDSA65: "ML-DSA-65", tpm2.MLDSA87: "ML-DSA-87"}[p.Parms.MLDSA]
	case tpm2.AlgECC:
		return fmt.Sprintf("ECC %v, %v with %v", p.Parms.Curve, p.Parms.Scheme.Alg, p.Parms.Scheme.Hash)
	case tpm2.AlgRSA:
		return fmt.Sprintf("RSA-%d, %v with %v", p.Parms.KeyBits, p.Parms.Scheme.Alg, p.Parms.Scheme.Hash)
	}
	return p.Type.String()
}

func (l *lines) log(b []byte) error {
	log, err := eventlog.Parse(b)
	if err != nil {
		return err
	}
	for i := range log.Events {
		e := &log.Events[i]
		m, err := e.Measured()
		switch {
		case err != nil:
			return fmt.Errorf("event %d: %w", i, err)
		case m != nil:
			l.add(fmt.Sprintf("  event %d PCR %d", i, e.PCR), fmt.Sprintf("%s %q", m.Kind, m.Name), fmt.Sprintf("sha256:%x", m.SHA256))
		case e.Type == eventlog.EvNoAction:
			l.add(fmt.Sprintf("  event %d", i), "EV_NO_ACTION", "not extended")
		default:
			note := "the digest is not over its data, so the quote proves only the digest"
			if e.Bound() {
				note = "the digest is over its data"
			}
			var d string
			if len(e.Digests) > 0 {
				d = fmt.Sprintf(", %v:%x", e.Digests[len(e.Digests)-1].Hash, e.Digests[len(e.Digests)-1].Value)
			}
			l.add(fmt.Sprintf("  event %d PCR %d", i, e.PCR), fmt.Sprintf("type %#x, %d bytes%s", e.Type, len(e.Data), d), note)
		}
	}
	return nil
}

func (l *lines) simulated(b *evidence.Bundle) error {
	s, err := evidence.ParseSimulated(b.Report.Body)
	if err != nil {
		return err
	}
	l.add("SIMULATED", "nothing here comes from hardware", "for tests and benchmarks only")
	l.add("report data", fmt.Sprintf("%x", s.Data), "what the report was made for")
	l.add("made", time.UnixMilli(int64(s.Made)).UTC().Format(time.RFC3339Nano), "by the simulator's clock")
	l.add("counter", fmt.Sprint(s.Counter), "reports before this one")
	l.add("signature", fmt.Sprintf("%s, %d bytes", s.Algorithm, len(s.Signature)), "")
	return nil
}

func (l *lines) simulatedKey(b []byte) error {
	k, err := evidence.ParseSimulatedKey(b)
	if err != nil {
		return err
	}
	l.add("  SIMULATED key", fmt.Sprintf("%s of environment %q", k.Algorithm, k.Name), "signed by a simulated root with "+k.RootAlgorithm)
	return nil
}
