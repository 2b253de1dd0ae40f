// SPDX-License-Identifier: Apache-2.0

package quotetest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"

	"filippo.io/mldsa"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/enclave/sgx"
	"holdfast/tpm2"
)

// Monitor is a pretended enclave monitor on a Machine.
type Monitor struct {
	Machine *Machine
	Key     evidence.EnclaveKey
	Mode    string
	// Change is called on the quote before it is encoded, Statement on the
	// statement before it is signed.
	Change    func(*evidence.EnclaveQuote)
	Statement func(*evidence.EnclaveStatement)

	sign func([]byte) []byte
}

// MonitorImage is the record of the pretended monitor's image.
var MonitorImage = evidence.Measured{Kind: evidence.KindEnclaveMonitor, Name: "/usr/bin/holdfast", SHA256: [32]byte{0x40}}

// NewMonitor makes a monitor with a key of the algorithm (ES256 or ML-DSA-65).
// Nothing is measured yet; see Launch.
func (m *Machine) NewMonitor(level, algorithm string) (*Monitor, error) {
	x := &Monitor{Machine: m, Mode: evidence.ModeHU, Key: evidence.EnclaveKey{Algorithm: algorithm, Level: level}}
	if algorithm == evidence.MLDSA65 {
		k, err := mldsa.GenerateKey(mldsa.MLDSA65())
		if err != nil {
			return nil, err
		}
		x.Key.Public = k.PublicKey().Bytes()
		x.sign = func(b []byte) []byte { s, err := k.Sign(nil, b, nil); check(err); return s }
		return x, nil
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if x.Key.Public, err = k.PublicKey.Bytes(); err != nil {
		return nil, err
	}
	x.sign = func(b []byte) []byte {
		h := sha256.Sum256(b)
		r, s, err := ecdsa.Sign(rand.Reader, k, h[:])
		check(err)
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	return x, nil
}

// Launch measures image and key into the level's PCRs and closes them.
func (x *Monitor) Launch() error {
	mp, kp, _ := evidence.EnclavePCRs(x.Key.Level)
	if err := x.Machine.Measure(uint32(mp), &MonitorImage); err != nil {
		return err
	}
	x.Machine.Separator(uint32(mp))
	if err := x.Machine.Measure(uint32(kp), x.Record()); err != nil {
		return err
	}
	x.Machine.Separator(uint32(kp))
	return nil
}

// Record is the record of the monitor's key.
func (x *Monitor) Record() *evidence.Measured {
	return &evidence.Measured{Kind: evidence.KindEnclaveKey, Name: x.Key.Level, SHA256: x.Key.Endorsement().Hash()}
}

// Separator extends a PCR with the separator of the Firmware Profile and logs it.
func (m *Machine) Separator(pcr uint32) {
	e := eventlog.Event{PCR: pcr, Type: eventlog.EvSeparator, Data: make([]byte, 4)}
	e.Digests = []evidence.Digest{{Hash: tpm2.AlgSHA256, Value: tpm2.AlgSHA256.Sum(e.Data)}}
	m.Log.Events = append(m.Log.Events, e)
	m.Extend(pcr, e.Digests[0].Value)
}

// Quote makes evidence of an enclave with this REPORT.
func (x *Monitor) Quote(r *sgx.Report) (*evidence.Bundle, error) {
	body := r.AppendBody(nil)
	root, path := evidence.EnclaveTree([][32]byte{{1}, evidence.EnclaveLeaf(x.Mode, body)})
	q := &evidence.EnclaveQuote{Mode: x.Mode, Report: body, Index: 1, Size: 2, Path: path(1),
		Statement: evidence.EnclaveStatement{Level: x.Key.Level, Made: 1764504000000, Root: root}}
	if x.Statement != nil {
		x.Statement(&q.Statement)
	}
	q.Signature = x.sign(q.Statement.SignedBytes())
	key := x.Key.Endorsement()
	es := []evidence.Endorsement{key}
	if x.Key.Level != evidence.LevelInproc {
		tpm, err := x.Machine.Quote(q.Statement.TPMData(key.Hash()))
		if err != nil {
			return nil, err
		}
		q.TPM = tpm.Report.Body
		es = append([]evidence.Endorsement{tpm.Endorsements[0], key}, tpm.Endorsements[1:]...)
	}
	if x.Change != nil {
		q.Path, q.Report = append([][32]byte(nil), q.Path...), bytes.Clone(q.Report)
		x.Change(q)
	}
	rep := evidence.Report{Type: evidence.TypeEnclaveQuote, Body: q.Encode()}
	for _, e := range es {
		rep.Needs = append(rep.Needs, e.Hash())
	}
	return &evidence.Bundle{Report: rep, Endorsements: es}, nil
}
