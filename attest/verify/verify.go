// SPDX-License-Identifier: Apache-2.0

// Package verify answers whether evidence is genuine: made by a key that the
// trust file pins, for exactly this report data, with PCR values that the TPM
// signed and an event log that leads to them.
//
// Start with New and call Verify. A Result says what is true and nothing
// about what is acceptable; that is attest/policy's question. Every refusal is
// an *Error with a stable Fault. The package does no I/O, and depends on
// neither the TPM engine nor the latch, so that it can be audited alone.
package verify

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/trust"
)

// Lookup finds an endorsement by its hash among those that came.
type Lookup = func([32]byte) (evidence.Endorsement, bool)

// maxCached bounds the endorsements that are kept parsed. Only endorsements
// of trusted keys get there, so a stranger cannot fill it.
const maxCached = 1024

// Verifier checks evidence against one set of roots. It is safe for
// concurrent use. Parsed endorsements are kept by hash.
type Verifier struct {
	roots          *trust.Roots
	simulatedRoots []simulatedRoot

	mu    sync.RWMutex
	cache map[[32]byte]any
}

type simulatedRoot struct {
	name string
	key  *rawKey
}

// New prepares a Verifier. A simulated root whose key does not parse never
// verifies anything; CheckRoots tells.
func New(roots *trust.Roots) *Verifier {
	v := &Verifier{roots: roots, cache: map[[32]byte]any{}}
	for _, s := range roots.Simulated() {
		if k, err := parseRawKey(s.Algorithm, s.Public); err == nil {
			v.simulatedRoots = append(v.simulatedRoots, simulatedRoot{name: s.Name, key: k})
		}
	}
	return v
}

// CheckRoots reports every key in roots that can verify nothing, so that a
// wrong trust file is an error at start and not a refusal later.
func CheckRoots(roots *trust.Roots) error {
	var errs []error
	for _, s := range roots.Simulated() {
		if _, err := parseRawKey(s.Algorithm, s.Public); err != nil {
			errs = append(errs, fmt.Errorf("simulated root %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Verify checks the report r, made for data. endorsement is asked only for
// endorsements that are not cached. now is used for nothing but evidence
// whose certificates expire; none of the present types has any.
//
// The result is nil if and only if the error is not; the error is an *Error.
func (v *Verifier) Verify(r evidence.Report, endorsement func([32]byte) (evidence.Endorsement, bool), data evidence.ReportData, now time.Time) (*Result, error) {
	if err := r.Check(); err != nil {
		return nil, &Error{FaultMalformed, err}
	}
	switch r.Type {
	case evidence.TypeSimulated:
		return v.simulated(r, endorsement, data)
	}
	return nil, fault(FaultUnknownType, "no verifier for %q; expected %s or %s", r.Type, evidence.TypeTPMQuote, evidence.TypeSimulated)
}

// cached returns the parsed endorsement of that hash, parsing it with parse
// when it is new. What parse refuses is not kept.
func cached[T any](v *Verifier, hash [32]byte, endorsement Lookup, parse func(evidence.Endorsement) (*T, error)) (*T, error) {
	v.mu.RLock()
	c, ok := v.cache[hash]
	v.mu.RUnlock()
	if ok {
		t, ok := c.(*T)
		if !ok {
			return nil, fault(FaultEndorsement, "endorsement %x is of another type than this report needs in this place", hash)
		}
		return t, nil
	}
	e, ok := endorsement(hash)
	if !ok {
		return nil, fault(FaultNoEndorsement, "the report needs endorsement %x, which did not come", hash)
	}
	if got := e.Hash(); got != hash {
		return nil, fault(FaultEndorsement, "expected endorsement %x, got %x", hash, got)
	}
	if err := e.Check(); err != nil {
		return nil, &Error{FaultEndorsement, err}
	}
	t, err := parse(e)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	if len(v.cache) >= maxCached {
		clear(v.cache)
	}
	v.cache[hash] = t
	v.mu.Unlock()
	return t, nil
}
