// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"

	"holdfast/attest/evidence/internal/det"
)

// SimulatedMark is in every simulated structure and in every result of one:
// nothing in simulated evidence comes from hardware or from a measured
// machine. It stands in for a security processor of known latency in tests
// and benchmarks.
const SimulatedMark = "SIMULATED"

// Signature algorithms of simulated evidence, by their JOSE names.
const (
	ES256   = "ES256"     // ECDSA on P-256 with SHA-256; signature r ‖ s, 64 bytes; public key 04 ‖ X ‖ Y, 65 bytes
	MLDSA65 = "ML-DSA-65" // FIPS 204, empty context; signature 3,309 bytes; public key 1,952 bytes
)

// Domains go before what is signed, so that a signature over one structure is
// none over the other.
const (
	simulatedReportDomain = "holdfast/attest/simulated/report/v1\x00"
	simulatedKeyDomain    = "holdfast/attest/simulated/key/v1\x00"
)

// Simulated is the body of a simulated report: the report key's signature
// over report data, time and counter. CBOR map {1: "SIMULATED", 2: algorithm,
// 3: payload, 4: signature}, payload {1: report data, 2: made, 3: counter}.
type Simulated struct {
	Algorithm string     // ES256 or MLDSA65
	Data      ReportData // what the report is for
	Made      uint64     // milliseconds since 1970 by the simulator's clock
	Counter   uint64     // reports made before this one since the simulator started
	Signature []byte
}

// SignedBytes is what the report key signs.
func (s *Simulated) SignedBytes() []byte {
	return append([]byte(simulatedReportDomain), s.payload()...)
}

func (s *Simulated) payload() []byte {
	var w det.Writer
	w.Map(3)
	w.Uint(1)
	w.Bytes(s.Data[:])
	w.Uint(2)
	w.Uint(s.Made)
	w.Uint(3)
	w.Uint(s.Counter)
	return w.Out()
}

// Encode is the report's body.
func (s *Simulated) Encode() []byte { return encodeSimulated(s.Algorithm, s.payload(), s.Signature) }

// ParseSimulated reads a body of TypeSimulated. It checks no signature.
func ParseSimulated(body []byte) (*Simulated, error) {
	const what = "simulated report"
	alg, payload, sig, err := openSimulated(what, body)
	if err != nil {
		return nil, err
	}
	s := &Simulated{Algorithm: alg, Signature: sig}
	r := det.NewReader(payload)
	needMap(&r, 3)
	r.Key(1)
	fixed(&r, s.Data[:])
	r.Key(2)
	s.Made = r.Uint(1 << 62)
	r.Key(3)
	s.Counter = r.Uint(1 << 62)
	if err := r.Done(); err != nil {
		return nil, malformed(what, err)
	}
	return s, nil
}

// SimulatedKey is an endorsement: a simulated root's signature over the
// report key and the environment's name. Same outer map as Simulated; payload
// {1: name, 2: algorithm of the report key, 3: its public key}.
type SimulatedKey struct {
	RootAlgorithm string // of Signature
	Name          string // of the simulated environment, 1 to 64 bytes
	Algorithm     string // of the report key
	Public        []byte
	Signature     []byte // by the root
}

// SignedBytes is what the root signs.
func (k *SimulatedKey) SignedBytes() []byte {
	return append([]byte(simulatedKeyDomain), k.payload()...)
}

func (k *SimulatedKey) payload() []byte {
	var w det.Writer
	w.Map(3)
	w.Uint(1)
	w.Text(k.Name)
	w.Uint(2)
	w.Text(k.Algorithm)
	w.Uint(3)
	w.Bytes(k.Public)
	return w.Out()
}

// Encode is the endorsement's body.
func (k *SimulatedKey) Encode() []byte {
	return encodeSimulated(k.RootAlgorithm, k.payload(), k.Signature)
}

// ParseSimulatedKey reads a body of TypeSimulatedKey. It checks no signature.
func ParseSimulatedKey(body []byte) (*SimulatedKey, error) {
	const what = "simulated key"
	alg, payload, sig, err := openSimulated(what, body)
	if err != nil {
		return nil, err
	}
	k := &SimulatedKey{RootAlgorithm: alg, Signature: sig}
	r := det.NewReader(payload)
	needMap(&r, 3)
	r.Key(1)
	k.Name = r.Text(64)
	r.Key(2)
	k.Algorithm = r.Text(16)
	r.Key(3)
	k.Public = r.Bytes(4096)
	if r.Err() == nil && (k.Name == "" || len(k.Public) == 0) {
		r.Fail(errors.New("empty name or key"))
	}
	if err := r.Done(); err != nil {
		return nil, malformed(what, err)
	}
	return k, nil
}

func encodeSimulated(alg string, payload, sig []byte) []byte {
	var w det.Writer
	w.Map(4)
	w.Uint(1)
	w.Text(SimulatedMark)
	w.Uint(2)
	w.Text(alg)
	w.Uint(3)
	w.Bytes(payload)
	w.Uint(4)
	w.Bytes(sig)
	return w.Out()
}

func openSimulated(what string, body []byte) (alg string, payload, sig []byte, err error) {
	r := det.NewReader(body)
	needMap(&r, 4)
	r.Key(1)
	if m := r.Text(16); r.Err() == nil && m != SimulatedMark {
		r.Fail(errors.New("without the mark SIMULATED"))
	}
	r.Key(2)
	alg = r.Text(16)
	r.Key(3)
	payload = r.Bytes(8192)
	r.Key(4)
	sig = r.Bytes(8192)
	if err := r.Done(); err != nil {
		return "", nil, nil, malformed(what, err)
	}
	return alg, payload, sig, nil
}

// needMap demands a map of exactly n pairs.
func needMap(r *det.Reader, n int) {
	if got := r.Map(n); r.Err() == nil && got != n {
		r.Fail(errors.New("a field is missing"))
	}
}

// fixed reads a byte string that must fill dst.
func fixed(r *det.Reader, dst []byte) {
	b := r.Bytes(len(dst))
	if r.Err() == nil && len(b) != len(dst) {
		r.Fail(errors.New("a byte string of another length"))
		return
	}
	copy(dst, b)
}
