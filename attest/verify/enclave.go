// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"slices"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/enclave/sgx"
)

// enclaveQuote checks the evidence of an enclave. The chain, from the root
// down:
//
//	pinned AK, enrolled for a level
//	  └ TPM quote over the level's two PCRs, made for this very statement
//	      ├ monitor PCR: one measured monitor image, then the separator
//	      └ key PCR: one monitor key (hapk) of this level, then the separator
//	          └ statement: the monitor's signature over a Merkle root
//	              └ path: this REPORT, with the report data asked for
//
// Needs are the AK, the monitor's key, and the event logs.
func (v *Verifier) enclaveQuote(r evidence.Report, endorsement Lookup, data evidence.ReportData) (*Result, error) {
	q, err := evidence.ParseEnclaveQuote(r.Body)
	if err != nil {
		return nil, &Error{FaultMalformed, err}
	}
	report, err := q.Body()
	if err != nil {
		return nil, &Error{FaultMalformed, err}
	}
	if report.ReportData != [64]byte(data) {
		return nil, fault(FaultReportData, "expected a REPORT with report data %x, got %x", data, report.ReportData)
	}
	if q.Statement.Level == evidence.LevelInproc {
		return v.inproc(r, q, report, endorsement)
	}
	if len(r.Needs) < 3 {
		return nil, fault(FaultMalformed, "an enclave's evidence names attestation key, monitor key and event logs as endorsements; it names %d", len(r.Needs))
	}
	ak, ok := v.aks[r.Needs[0]]
	if !ok {
		return nil, v.unknownAK(r.Needs[0])
	}
	level := q.Statement.Level
	if ak.record.EnclaveLevel != level {
		return nil, fault(FaultLevel, "the evidence claims level %s, the attestation key %s is enrolled for %s", level, ak.record.Environment, orNone(ak.record.EnclaveLevel))
	}
	key, hash, err := v.enclaveKey(r.Needs[1], endorsement)
	if err != nil {
		return nil, err
	}
	tpm, err := evidence.ParseTPMQuote(q.TPM)
	if err != nil {
		return nil, &Error{FaultMalformed, err}
	}
	out, err := v.quoteBy(ak, tpm, r.Needs[2:], endorsement, q.Statement.TPMData(hash))
	if err != nil {
		return nil, err
	}
	monitor, err := launched(out, level, hash)
	if err != nil {
		return nil, err
	}
	if err := checkStatement(q, key); err != nil {
		return nil, err
	}
	out.Type, out.Class, out.Enclave = r.Type, ClassEnclave, enclaveOf(q, report)
	out.Enclave.Monitor, out.Enclave.KeyAlgorithm = monitor, key.alg
	out.PQ = out.PQ && key.pq != nil
	out.Made = time.UnixMilli(int64(q.Statement.Made))
	return out, nil
}

func orNone(s string) string {
	if s == "" {
		return "no enclaves"
	}
	return s
}

// enclaveKey takes the monitor's key among the endorsements.
func (v *Verifier) enclaveKey(hash [32]byte, endorsement Lookup) (*rawKey, [32]byte, error) {
	e, err := take(hash, endorsement)
	if err != nil {
		return nil, hash, err
	}
	if e.Type != evidence.TypeEnclaveKey {
		return nil, hash, fault(FaultEndorsement, "expected %s, got %s", evidence.TypeEnclaveKey, e.Type)
	}
	ek, err := evidence.ParseEnclaveKey(e.Body)
	if err != nil {
		return nil, hash, &Error{FaultEndorsement, err}
	}
	k, err := parseRawKey(ek.Algorithm, ek.Public)
	if err != nil {
		return nil, hash, &Error{FaultEndorsement, err}
	}
	return k, hash, nil
}

// launched reads the level's PCRs: the monitor that was measured, and the one
// key that it made.
func launched(r *Result, level string, key [32]byte) (*evidence.Measured, error) {
	mPCR, kPCR, _ := evidence.EnclavePCRs(level)
	monitors, err := capped(r, mPCR, evidence.KindEnclaveMonitor)
	if err != nil {
		return nil, err
	}
	if len(monitors) != 1 {
		return nil, fault(FaultMonitor, "PCR %d: expected the measurement of one monitor, got %d", mPCR, len(monitors))
	}
	keys, err := capped(r, kPCR, evidence.KindEnclaveKey)
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return nil, fault(FaultEnclaveKey, "PCR %d: expected the record of one monitor key, got %d", kPCR, len(keys))
	}
	if k := keys[0]; k.Name != level || k.SHA256 != key {
		return nil, fault(FaultEnclaveKey, "PCR %d records the monitor key %x of level %s, the evidence is signed with %x of level %s", kPCR, k.SHA256, k.Name, key, level)
	}
	return monitors[0], nil
}

// capped returns the records of a kind in a PCR that the event log explains
// wholly and whose last event is a separator.
func capped(r *Result, pcr uint8, kind string) ([]*evidence.Measured, error) {
	if !slices.ContainsFunc(r.PCRs, func(p PCR) bool { return p.Index == pcr && p.Logged && !weakHash(p.Hash) }) {
		return nil, fault(FaultMonitor, "PCR %d is not quoted in a bank of SHA-256 or longer, or the event logs do not explain it", pcr)
	}
	var out []*evidence.Measured
	last := false
	for i := range r.Events {
		e := &r.Events[i]
		if e.PCR != uint32(pcr) {
			continue
		}
		last = e.Type == eventlog.EvSeparator && e.Bound
		if e.Measured != nil && e.Measured.Kind == kind {
			out = append(out, e.Measured)
		}
	}
	if !last {
		return nil, fault(FaultNotCapped, "PCR %d does not end with a separator: whatever runs now could still unseal the monitor's secrets or add a key", pcr)
	}
	return out, nil
}

// checkStatement: the report is under the root, and the monitor signed it.
func checkStatement(q *evidence.EnclaveQuote, key *rawKey) error {
	root, err := q.Root()
	if err != nil {
		return &Error{FaultEnclaveReport, err}
	}
	if root != q.Statement.Root {
		return fault(FaultEnclaveReport, "the path leads from this REPORT to the root %x, the monitor signed %x", root, q.Statement.Root)
	}
	if !key.verify(q.Statement.SignedBytes(), q.Signature) {
		return fault(FaultSignature, "the statement is not signed by the monitor's key")
	}
	return nil
}

func enclaveOf(q *evidence.EnclaveQuote, r *sgx.Report) *Enclave {
	return &Enclave{
		Level: q.Statement.Level, Mode: q.Mode, MREnclave: r.MREnclave, MRSigner: r.MRSigner, ISVProdID: r.ISVProdID, ISVSVN: r.ISVSVN,
		Debug: r.Attributes.Flags&sgx.FlagDebug != 0, Attributes: r.Attributes, MiscSelect: r.MiscSelect, CPUSVN: r.CPUSVN,
		ConfigID: r.ConfigID, ConfigSVN: r.ConfigSVN, ISVFamilyID: r.ISVFamilyID, ISVExtProdID: r.ISVExtProdID,
	}
}

// inproc checks evidence of a monitor inside the application: it is signed by
// the key that it brings along, so that only its form is proved. The result
// counts as simulated, and its environment is no name that a record can have.
func (v *Verifier) inproc(r evidence.Report, q *evidence.EnclaveQuote, report *sgx.Report, endorsement Lookup) (*Result, error) {
	if len(r.Needs) != 1 {
		return nil, fault(FaultMalformed, "evidence of level %s names the monitor's key as its one endorsement; it names %d", evidence.LevelInproc, len(r.Needs))
	}
	key, _, err := v.enclaveKey(r.Needs[0], endorsement)
	if err != nil {
		return nil, err
	}
	if err := checkStatement(q, key); err != nil {
		return nil, err
	}
	e := enclaveOf(q, report)
	e.KeyAlgorithm = key.alg
	return &Result{Type: r.Type, Simulated: true, Class: ClassEnclave, Environment: fmt.Sprintf("%s/%s", evidence.SimulatedMark, evidence.LevelInproc),
		Signature: key.alg, PQ: key.pq != nil, Made: time.UnixMilli(int64(q.Statement.Made)), Enclave: e}, nil
}
