// SPDX-License-Identifier: Apache-2.0

// Package simulated is a security processor that does not exist: it makes one
// report at a time, each after a given latency, signed by a key that its own
// root endorses. Tests and benchmarks use it where hardware is missing or
// must be compared at a fixed latency. Everything it makes says SIMULATED and
// proves nothing about any machine; a policy must allow it by name.
//
// Start with NewRoot, pin Root.Record in a trust file, then call New.
package simulated

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"filippo.io/mldsa"

	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/internal/hot"
)

// signer is a private key of one of the two algorithms.
type signer struct {
	alg string
	ec  *ecdsa.PrivateKey
	pq  *mldsa.PrivateKey
}

func newSigner(alg string) (*signer, error) {
	s := &signer{alg: alg}
	var err error
	switch alg {
	case evidence.ES256:
		s.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case evidence.MLDSA65:
		s.pq, err = mldsa.GenerateKey(mldsa.MLDSA65())
	default:
		return nil, fmt.Errorf("algorithm: expected %s or %s, got %q", evidence.ES256, evidence.MLDSA65, alg)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *signer) public() ([]byte, error) {
	if s.pq != nil {
		return s.pq.PublicKey().Bytes(), nil
	}
	return s.ec.PublicKey.Bytes()
}

func (s *signer) sign(message []byte) ([]byte, error) {
	if s.pq != nil {
		return s.pq.Sign(nil, message, nil)
	}
	h := sha256.Sum256(message)
	r, t, err := ecdsa.Sign(rand.Reader, s.ec, h[:])
	if err != nil {
		return nil, err
	}
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	t.FillBytes(sig[32:])
	return sig, nil
}

// Root endorses the report keys of simulated processors.
type Root struct {
	name string
	key  *signer
}

// NewRoot makes a root with a fresh key; alg is evidence.ES256 or
// evidence.MLDSA65.
func NewRoot(name, alg string) (*Root, error) {
	if err := trust.CheckName(name); err != nil {
		return nil, err
	}
	k, err := newSigner(alg)
	if err != nil {
		return nil, err
	}
	return &Root{name, k}, nil
}

// Record is the root's entry for a trust file.
func (r *Root) Record() (trust.SimulatedRoot, error) {
	pub, err := r.key.public()
	if err != nil {
		return trust.SimulatedRoot{}, err
	}
	return trust.SimulatedRoot{Name: r.name, Algorithm: r.key.alg, Public: pub}, nil
}

// Options of a simulated processor.
type Options struct {
	Name      string        // of the environment
	Algorithm string        // of the report key: evidence.ES256 or evidence.MLDSA65
	Latency   time.Duration // of one report, slept; signing happens within it
}

// Provider is the simulated processor. It implements provider.Provider.
type Provider struct {
	latency     time.Duration
	key         *signer
	endorsement evidence.Endorsement
	needs       [32]byte
	counter     uint64
	busy        chan struct{} // holds one token while no report is being made
}

// New makes a processor whose report key root endorses.
func New(root *Root, o Options) (*Provider, error) {
	if err := trust.CheckName(o.Name); err != nil {
		return nil, err
	}
	if o.Latency < 0 || o.Latency > time.Minute {
		return nil, fmt.Errorf("latency: expected 0 to 1 minute, got %v", o.Latency)
	}
	k, err := newSigner(o.Algorithm)
	if err != nil {
		return nil, err
	}
	pub, err := k.public()
	if err != nil {
		return nil, err
	}
	e := evidence.SimulatedKey{RootAlgorithm: root.key.alg, Name: o.Name, Algorithm: k.alg, Public: pub}
	if e.Signature, err = root.key.sign(e.SignedBytes()); err != nil {
		return nil, err
	}
	p := &Provider{latency: o.Latency, key: k, busy: make(chan struct{}, 1)}
	p.endorsement = evidence.Endorsement{Type: evidence.TypeSimulatedKey, Body: e.Encode()}
	p.needs = p.endorsement.Hash()
	p.busy <- struct{}{}
	return p, nil
}

// Type is evidence.TypeSimulated.
func (p *Provider) Type() string { return evidence.TypeSimulated }

// ErrClosed is the error of a closed provider.
var ErrClosed = errors.New("the SIMULATED security processor is closed")

// short latencies are slept as a device would have its driver wait: the Go
// scheduler is not asked.
const short = 50 * time.Millisecond

// Report makes a report over data after the given latency. Calls that overlap
// wait for each other, as on a real device.
func (p *Provider) Report(ctx context.Context, data evidence.ReportData) (evidence.Report, error) {
	if err := context.Cause(ctx); err != nil {
		return evidence.Report{}, err // select would choose by chance
	}
	select {
	case _, ok := <-p.busy:
		if !ok {
			return evidence.Report{}, ErrClosed
		}
	case <-ctx.Done():
		return evidence.Report{}, context.Cause(ctx)
	}
	defer func() { p.busy <- struct{}{} }()
	end := time.Now().Add(p.latency)
	s := evidence.Simulated{Algorithm: p.key.alg, Data: data, Made: uint64(time.Now().UnixMilli()), Counter: p.counter}
	var err error
	if s.Signature, err = p.key.sign(s.SignedBytes()); err != nil {
		return evidence.Report{}, fmt.Errorf("SIMULATED security processor: %w", err)
	}
	p.counter++
	if d := time.Until(end); d > 0 && d <= short {
		hot.Sleep(d)
	} else if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return evidence.Report{}, context.Cause(ctx)
		}
	}
	return evidence.Report{Type: evidence.TypeSimulated, Body: s.Encode(), Needs: [][32]byte{p.needs}}, nil
}

// Endorsements is the endorsed report key.
func (p *Provider) Endorsements(context.Context) ([]evidence.Endorsement, error) {
	return []evidence.Endorsement{p.endorsement}, nil
}

// Close makes later reports fail. It waits for one that is being made.
func (p *Provider) Close() error {
	if _, ok := <-p.busy; ok {
		close(p.busy)
	}
	return nil
}
