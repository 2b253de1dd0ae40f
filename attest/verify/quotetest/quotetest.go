// SPDX-License-Identifier: Apache-2.0

// Package quotetest makes quotes for tests, with software keys in place of a
// TPM, so that tests of verification and policy can also make what no TPM
// would sign. Nothing but tests and benchmarks may use it: its keys are in no TPM.
//
// Start with New, change the Machine's fields, and call Quote.
package quotetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"time"

	"filippo.io/mldsa"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/attest/trust"
	"holdfast/tpm2"
)

// Machine is a pretended machine with an AK, PCRs and an event log.
type Machine struct {
	Public    tpm2.Public
	PCRs      map[tpm2.Alg]*[24][]byte
	Selection []tpm2.PCRSelection
	Log       *eventlog.Log // nil: evidence without a log
	Attest    tpm2.Attest   // template; Quote fills ExtraData and the quote
	Mangle    func(*tpm2.Attest, *evidence.TPMQuote)

	sign func(message []byte) tpm2.Signature
}

// Algorithms lists what New accepts.
var Algorithms = []string{"ES256", "ES384", "ES512", "RS256", "PS256", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"}

// akAttributes are those of a proper AK.
const akAttributes = tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectUserWithAuth | tpm2.ObjectRestricted | tpm2.ObjectSignEncrypt

// New makes a machine with a fresh AK and two measured files in PCR 14.
func New(algorithm string) (*Machine, error) {
	m := &Machine{PCRs: map[tpm2.Alg]*[24][]byte{}, Log: eventlog.New(tpm2.AlgSHA256)}
	m.Public = tpm2.Public{NameAlg: tpm2.AlgSHA256, Attributes: akAttributes, AuthPolicy: []byte{}}
	m.Public.Parms.Symmetric, m.Public.Parms.KDF = tpm2.NoSym, tpm2.NoScheme
	if err := m.key(algorithm); err != nil {
		return nil, err
	}
	start, err := eventlog.Replay(tpm2.AlgSHA256)
	if err != nil {
		return nil, err
	}
	m.PCRs[tpm2.AlgSHA256] = &start.Value
	m.Selection = []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 7, 14)}
	m.Attest = tpm2.Attest{Type: tpm2.STAttestQuote, QualifiedSigner: []byte{0, 0x0b, 1, 2}, FirmwareVersion: 0x20240125,
		ClockInfo: tpm2.ClockInfo{Clock: 5000, ResetCount: 3, RestartCount: 1, Safe: true}}
	for i, name := range []string{"/usr/bin/holdfast", "/usr/sbin/nginx"} {
		if err := m.Measure(14, &evidence.Measured{Kind: "file", Name: name, SHA256: [32]byte{byte(i + 1)}}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Measure extends a PCR and logs it.
func (m *Machine) Measure(pcr uint32, x *evidence.Measured) error {
	e, err := eventlog.MeasuredEvent(pcr, x, []tpm2.Alg{tpm2.AlgSHA256})
	if err != nil {
		return err
	}
	m.Log.Events = append(m.Log.Events, e)
	m.Extend(pcr, e.Digest(tpm2.AlgSHA256))
	return nil
}

// Extend extends a PCR of the SHA-256 bank without logging it.
func (m *Machine) Extend(pcr uint32, digest []byte) {
	v := m.PCRs[tpm2.AlgSHA256]
	v[pcr] = tpm2.AlgSHA256.Sum(v[pcr], digest)
}

// PublicBytes is the AK's TPMT_PUBLIC.
func (m *Machine) PublicBytes() []byte {
	b, err := tpm2.Encode(&m.Public)
	if err != nil {
		panic(fmt.Sprintf("quotetest: %v", err)) // a test's own mistake
	}
	return b
}

// Record pins the AK under a name.
func (m *Machine) Record(environment string) trust.AK {
	return trust.AK{Environment: environment, Public: m.PublicBytes(), Method: trust.MethodActivation, Machine: "m-" + environment,
		Enrolled: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), EK: trust.EK{Name: []byte{0, 0x0b, 9}}}
}

// Quote makes a report over data and its endorsements.
func (m *Machine) Quote(data evidence.ReportData) (*evidence.Bundle, error) {
	a := m.Attest
	q := data.QualifyingData()
	a.ExtraData = q[:]
	body := evidence.TPMQuote{}
	a.Quote.PCRSelect = m.Selection
	hash := m.Public.Parms.Scheme.Hash
	if m.Public.Type == tpm2.AlgMLDSA {
		hash = m.Public.NameAlg
	}
	h := hash.New()
	for _, s := range m.Selection {
		for _, i := range s.PCRs() {
			body.PCRs = append(body.PCRs, m.PCRs[s.Hash][i])
			h.Write(m.PCRs[s.Hash][i])
		}
	}
	a.Quote.PCRDigest = h.Sum(nil)
	if m.Mangle != nil {
		m.Mangle(&a, &body)
	}
	var err error
	if body.Attest, err = tpm2.Encode(&a); err != nil {
		return nil, err
	}
	sig := m.sign(body.Attest)
	if body.Signature, err = tpm2.Encode(&sig); err != nil {
		return nil, err
	}
	es := []evidence.Endorsement{{Type: evidence.TypeTPMPublic, Body: m.PublicBytes()}}
	if m.Log != nil {
		es = append(es, evidence.Endorsement{Type: evidence.TypeTCGEventLog, Body: m.Log.Encode()})
	}
	r := evidence.Report{Type: evidence.TypeTPMQuote, Body: body.Encode()}
	for _, e := range es {
		r.Needs = append(r.Needs, e.Hash())
	}
	return &evidence.Bundle{Report: r, Endorsements: es}, nil
}

func (m *Machine) key(algorithm string) error {
	ec := map[string]struct {
		c    elliptic.Curve
		id   tpm2.Curve
		hash tpm2.Alg
	}{
		"ES256": {elliptic.P256(), tpm2.CurveP256, tpm2.AlgSHA256},
		"ES384": {elliptic.P384(), tpm2.CurveP384, tpm2.AlgSHA384},
		"ES512": {elliptic.P521(), tpm2.CurveP521, tpm2.AlgSHA512},
	}
	pq := map[string]struct {
		p   mldsa.Parameters
		set tpm2.MLDSASet
	}{
		"ML-DSA-44": {mldsa.MLDSA44(), tpm2.MLDSA44},
		"ML-DSA-65": {mldsa.MLDSA65(), tpm2.MLDSA65},
		"ML-DSA-87": {mldsa.MLDSA87(), tpm2.MLDSA87},
	}
	if x, ok := pq[algorithm]; ok {
		k, err := mldsa.GenerateKey(x.p)
		if err != nil {
			return err
		}
		m.Public.Type, m.Public.Parms.MLDSA, m.Public.Unique = tpm2.AlgMLDSA, x.set, k.PublicKey().Bytes()
		m.sign = func(msg []byte) tpm2.Signature {
			sig, err := k.Sign(nil, msg, nil)
			check(err)
			return tpm2.Signature{Alg: tpm2.AlgMLDSA, Sig: sig}
		}
		return nil
	}
	if x, ok := ec[algorithm]; ok {
		k, err := ecdsa.GenerateKey(x.c, rand.Reader)
		if err != nil {
			return err
		}
		point, err := k.PublicKey.Bytes()
		if err != nil {
			return err
		}
		n := (len(point) - 1) / 2
		m.Public.Type, m.Public.Parms.Curve, m.Public.Point = tpm2.AlgECC, x.id, tpm2.Point{X: point[1 : 1+n], Y: point[1+n:]}
		m.Public.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: x.hash}
		m.sign = func(msg []byte) tpm2.Signature {
			r, s, err := ecdsa.Sign(rand.Reader, k, x.hash.Sum(msg))
			check(err)
			return tpm2.Signature{Alg: tpm2.AlgECDSA, Hash: x.hash, R: r.Bytes(), S: s.Bytes()}
		}
		return nil
	}
	return m.rsaKey(algorithm)
}

// rsaKey makes an RSA-2048 AK.
func (m *Machine) rsaKey(algorithm string) error {
	const bits = 2048
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return err
	}
	m.Public.Type, m.Public.Unique = tpm2.AlgRSA, k.N.Bytes()
	m.Public.Parms.KeyBits = bits
	switch algorithm {
	case "RS256":
		m.Public.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgRSASSA, Hash: tpm2.AlgSHA256}
		m.sign = func(msg []byte) tpm2.Signature {
			sig, err := rsa.SignPKCS1v15(nil, k, crypto.SHA256, tpm2.AlgSHA256.Sum(msg))
			check(err)
			return tpm2.Signature{Alg: tpm2.AlgRSASSA, Hash: tpm2.AlgSHA256, Sig: sig}
		}
	case "PS256":
		m.Public.Parms.Scheme = tpm2.Scheme{Alg: tpm2.AlgRSAPSS, Hash: tpm2.AlgSHA256}
		m.sign = func(msg []byte) tpm2.Signature {
			sig, err := rsa.SignPSS(rand.Reader, k, crypto.SHA256, tpm2.AlgSHA256.Sum(msg), nil)
			check(err)
			return tpm2.Signature{Alg: tpm2.AlgRSAPSS, Hash: tpm2.AlgSHA256, Sig: sig}
		}
	default:
		return fmt.Errorf("quotetest: expected one of %v, got %q", Algorithms, algorithm)
	}
	return nil
}

// check panics: signing with a fresh software key does not fail.
func check(err error) {
	if err != nil {
		panic(fmt.Sprintf("quotetest: %v", err))
	}
}
