// SPDX-License-Identifier: Apache-2.0

// Package tpmquote makes evidence with a TPM 2.0: a quote over chosen PCRs
// for each report, with the attestation key and the event logs as
// endorsements. It works with any tss.Transport: a chip, swtpm or our own
// engine.
//
// Once for each machine: CreateKey, then an enrolment (NewAttester,
// NewChallenge, Answer, Complete), whose record a Verifier pins. Then Open
// gives a provider.Provider. CheckExclusive says whether strangers can reach
// the TPM; call it before Open.
package tpmquote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/tpm2"
	"holdfast/tss"
)

// Options of a Provider.
type Options struct {
	PCRs            []string // selections such as sha256:0,7,14; at least one
	EventLogs       []string // files, in the order in which they were written: firmware first
	EndorsementAuth []byte   // of the endorsement hierarchy; usually empty
}

// Provider makes quotes. It implements provider.Provider.
type Provider struct {
	t      *tss.TPM
	key    *KeyFile
	secret []byte
	sel    []tpm2.PCRSelection
	policy []tpm2.PCRSelection
	hash   tpm2.Alg // of the PCR digest
	auth   []byte   // of the endorsement hierarchy
	ak     evidence.Endorsement

	loaded  *tss.Key // nil: not loaded
	owned   bool
	session *tss.Session
	digest  []byte   // PCR digest that values have
	values  [][]byte // PCR values, in the order of sel
	closed  bool

	mu    sync.Mutex // guards logs, which Endorsements reads at any time
	logs  []*logFile
	needs [][32]byte
}

// Open loads the attestation key and makes ready to quote.
func Open(t tss.Transport, k *KeyFile, secret []byte, o Options) (*Provider, error) {
	pub, err := k.public()
	if err != nil {
		return nil, err
	}
	p := &Provider{t: tss.New(t), key: k, secret: bytes.Clone(secret), auth: o.EndorsementAuth, hash: pub.Parms.Scheme.Hash}
	if pub.Type == tpm2.AlgMLDSA {
		p.hash = pub.NameAlg // v1.85 Errata 2.6
	}
	if p.sel, err = ParseSelection(o.PCRs); err != nil {
		return nil, err
	}
	if len(p.sel) == 0 {
		return nil, errors.New("TPM quote: no PCRs are chosen; without them the evidence says nothing about the machine")
	}
	if p.policy, err = ParseSelection(k.PolicyPCRs); err != nil {
		return nil, err
	}
	p.ak = evidence.Endorsement{Type: evidence.TypeTPMPublic, Body: k.Public}
	for _, path := range o.EventLogs {
		p.logs = append(p.logs, &logFile{path: path})
	}
	if err := p.readLogs(); err != nil {
		return nil, err
	}
	if err := p.load(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Type is evidence.TypeTPMQuote.
func (p *Provider) Type() string { return evidence.TypeTPMQuote }

// load makes key and session ready.
func (p *Provider) load() (err error) {
	if p.loaded == nil {
		if p.loaded, p.owned, err = loadKey(p.t, p.key, p.auth); err != nil {
			return err
		}
	}
	if p.session == nil {
		kind := tpm2.SEHMAC
		if len(p.policy) > 0 {
			kind = tpm2.SEPolicy
		}
		// The session proves knowledge of the secret without sending it, so that
		// nobody learns it from the bus or the socket.
		if p.session, err = p.t.StartSession(tss.SessionOptions{Kind: kind}); err != nil {
			return fmt.Errorf("TPM quote: %w", err)
		}
	}
	return nil
}

// unload flushes what was loaded, as far as the TPM still knows it.
func (p *Provider) unload() error {
	var errs []error
	if p.session != nil {
		errs = append(errs, p.t.Close(p.session))
	}
	if p.loaded != nil && p.owned {
		errs = append(errs, p.t.FlushContext(p.loaded.Handle))
	}
	p.session, p.loaded, p.digest = nil, nil, nil
	return errors.Join(errs...)
}

// ErrClosed is the error of a closed provider.
var ErrClosed = errors.New("TPM quote: the provider is closed")

// attempts bounds how often a quote is made again because PCRs changed
// between it and the reading of their values.
const attempts = 5

// Report makes a quote with qualifyingData SHA-256(data). If the TPM lost key
// and session, for example because it was reset, they are loaded once more.
func (p *Provider) Report(ctx context.Context, data evidence.ReportData) (evidence.Report, error) {
	if p.closed {
		return evidence.Report{}, ErrClosed
	}
	for try := 1; ; try++ {
		if err := context.Cause(ctx); err != nil {
			return evidence.Report{}, err
		}
		r, err := p.report(data)
		var lost *tss.Error
		switch {
		case err == nil:
			return r, nil
		case try == attempts:
			return evidence.Report{}, err
		case errors.Is(err, errMoved):
			time.Sleep(time.Duration(try) * 5 * time.Millisecond)
		case errors.As(err, &lost) && try == 1:
			_ = p.unload() // the TPM may know none of it
		default:
			return evidence.Report{}, err
		}
	}
}

// errMoved says that PCRs changed while the evidence was put together.
var errMoved = errors.New("TPM quote: the PCRs kept changing, or an event log does not lead to them")

func (p *Provider) report(data evidence.ReportData) (evidence.Report, error) {
	if err := p.load(); err != nil {
		return evidence.Report{}, err
	}
	if len(p.policy) > 0 {
		if err := p.satisfy(); err != nil {
			return evidence.Report{}, err
		}
	}
	q := data.QualifyingData()
	a, err := p.t.Quote(p.loaded.Use(p.session.With(p.secret)), q[:], tpm2.NoScheme, p.sel)
	if err != nil {
		return evidence.Report{}, fmt.Errorf("TPM quote: %w", err)
	}
	st, _, err := a.Parse(tpm2.STAttestQuote)
	if err != nil {
		return evidence.Report{}, err
	}
	if !bytes.Equal(st.Quote.PCRDigest, p.digest) {
		if err := p.readPCRs(st); err != nil {
			return evidence.Report{}, err
		}
	}
	body := evidence.TPMQuote{Attest: a.Attest, Signature: a.Signature, PCRs: p.values}
	p.mu.Lock()
	defer p.mu.Unlock()
	return evidence.Report{Type: evidence.TypeTPMQuote, Body: body.Encode(), Needs: p.needs}, nil
}

// satisfy runs the key's policy in the session.
func (p *Provider) satisfy() error {
	if err := p.t.PolicyRestart(p.session); err != nil {
		return fmt.Errorf("TPM quote: %w", err)
	}
	if err := p.t.PolicyPCR(p.session, nil, p.policy); err != nil {
		return fmt.Errorf("TPM quote: the policy of the attestation key: %w", err)
	}
	return p.t.PolicyAuthValue(p.session)
}

// readPCRs reads the values that the quote is over, and the event logs that
// lead to them; errMoved if they are of different moments.
func (p *Provider) readPCRs(st *tpm2.Attest) error {
	var values [][]byte
	for _, s := range p.sel {
		v, _, err := p.t.PCRRead(s)
		if err != nil {
			return fmt.Errorf("TPM quote: %w", err)
		}
		for _, i := range s.PCRs() {
			values = append(values, v[i])
		}
	}
	if d := tpm2.PCRDigest(p.hash, values...); !bytes.Equal(d, st.Quote.PCRDigest) {
		return errMoved
	}
	if err := p.readLogs(); err != nil {
		return err
	}
	if err := p.replays(values); err != nil {
		return err
	}
	p.values, p.digest = values, bytes.Clone(st.Quote.PCRDigest)
	return nil
}

// replays checks that the logs lead to the values, so that a launcher which
// has written its event but not yet extended the PCR is waited for, and a
// wrong log is an error here and not at every Verifier.
func (p *Provider) replays(values [][]byte) error {
	if len(p.logs) == 0 {
		return nil
	}
	var logs []*eventlog.Log
	for _, l := range p.logs {
		logs = append(logs, l.log)
	}
	i := 0
	for _, s := range p.sel {
		v, err := eventlog.Replay(s.Hash, logs...)
		if err != nil {
			return err
		}
		for _, pcr := range s.PCRs() {
			if v.Touched[pcr] && !v.Unknown[pcr] && !bytes.Equal(v.Value[pcr], values[i]) {
				return fmt.Errorf("%w: PCR %d of bank %v: the logs lead to %x, the TPM has %x", errMoved, pcr, s.Hash, v.Value[pcr], values[i])
			}
			i++
		}
	}
	return nil
}

// Endorsements are the attestation key's public area and the event logs as
// the newest report needs them.
func (p *Provider) Endorsements(context.Context) ([]evidence.Endorsement, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []evidence.Endorsement{p.ak}
	for _, l := range p.logs {
		out = append(out, l.endorsement)
	}
	return out, nil
}

// Close flushes key and session and erases the secret. The transport stays
// open; it is the caller's.
func (p *Provider) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	clear(p.secret)
	return p.unload()
}
