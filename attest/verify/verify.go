// SPDX-License-Identifier: Apache-2.0

// Package verify answers whether evidence is genuine: made by a key that the
// trust file pins, for exactly this report data, with PCR values that the TPM
// signed and an event log that leads to them.
//
// Start with New and call Verify. Add is the seam for further media types. A Result says what is true and nothing
// about what is acceptable; that is attest/policy's question. Every refusal is
// an *Error with a stable Fault. The package does no I/O, and depends on
// neither the TPM engine nor the latch, so that it can be audited alone.
package verify

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/trust"
)

// Lookup finds an endorsement by its hash among those that came.
type Lookup = func([32]byte) (evidence.Endorsement, bool)

// maxCached bounds the endorsements that are kept parsed; an event log has up
// to evidence.MaxEndorsementBody bytes. Only what a trusted key stands for
// gets there, so a stranger cannot fill it.
const maxCached = 64

// Check verifies one report of the media type that it was added for: it says
// what is true of genuine evidence, or an *Error. It must be safe for
// concurrent use, and make no network call: it runs on the path of a connection.
type Check = func(r evidence.Report, endorsement Lookup, data evidence.ReportData, now time.Time) (*Result, error)

// Verifier checks evidence against one set of roots. It is safe for
// concurrent use. Parsed endorsements are kept by hash.
type Verifier struct {
	checks         map[string]Check // by media type
	simulatedRoots []simulatedRoot
	aks            map[[32]byte]*ak   // by the hash of their endorsement
	weak           map[[32]byte]error // pinned, but not fit to be an AK

	mu    sync.RWMutex
	cache map[[32]byte]any
}

type simulatedRoot struct {
	name string
	key  *rawKey
}

// New prepares a Verifier. A pinned key that is malformed or too weak never
// verifies anything; CheckRoots tells.
func New(roots *trust.Roots) *Verifier {
	v := &Verifier{checks: map[string]Check{}, aks: map[[32]byte]*ak{}, weak: map[[32]byte]error{}, cache: map[[32]byte]any{}}
	for i := range roots.AKs() {
		record := &roots.AKs()[i]
		h := trust.PublicHash(record.Public)
		if k, err := parseAK(record); err != nil {
			v.weak[h] = err
		} else {
			v.aks[h] = k
		}
	}
	for _, s := range roots.Simulated() {
		if k, err := parseRawKey(s.Algorithm, s.Public); err == nil {
			v.simulatedRoots = append(v.simulatedRoots, simulatedRoot{name: s.Name, key: k})
		}
	}
	v.checks[evidence.TypeTPMQuote] = func(r evidence.Report, e Lookup, d evidence.ReportData, _ time.Time) (*Result, error) {
		return v.tpmQuote(r, e, d)
	}
	v.checks[evidence.TypeSimulated] = func(r evidence.Report, e Lookup, d evidence.ReportData, _ time.Time) (*Result, error) {
		return v.simulated(r, e, d)
	}
	v.checks[evidence.TypeEnclaveQuote] = func(r evidence.Report, e Lookup, d evidence.ReportData, _ time.Time) (*Result, error) {
		return v.enclaveQuote(r, e, d)
	}
	return v
}

// Add teaches v another media type of evidence. Call it before v is used:
// attest/appraise does, with every verifier of this program.
func (v *Verifier) Add(mediaType string, c Check) error {
	if err := evidence.CheckType(mediaType); err != nil {
		return err
	}
	if c == nil || v.checks[mediaType] != nil {
		return fmt.Errorf("verify: %q has a verifier already, or none was given", mediaType)
	}
	v.checks[mediaType] = c
	return nil
}

// Types lists the media types that v verifies, sorted.
func (v *Verifier) Types() []string { return slices.Sorted(maps.Keys(v.checks)) }

// CheckRoots reports every key in roots that can verify nothing, so that a
// wrong trust file is an error at start and not a refusal later.
func CheckRoots(roots *trust.Roots) error {
	var errs []error
	for i := range roots.AKs() {
		if _, err := parseAK(&roots.AKs()[i]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", roots.AKs()[i].Environment, err))
		}
	}
	for _, s := range roots.Simulated() {
		if _, err := parseRawKey(s.Algorithm, s.Public); err != nil {
			errs = append(errs, fmt.Errorf("simulated root %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Verify checks the report r, made for data. endorsement is asked only for
// endorsements that are not cached. now is used for nothing but evidence
// whose certificates or collateral expire.
//
// The result is nil if and only if the error is not; the error is an *Error.
func (v *Verifier) Verify(r evidence.Report, endorsement func([32]byte) (evidence.Endorsement, bool), data evidence.ReportData, now time.Time) (*Result, error) {
	if err := r.Check(); err != nil {
		return nil, &Error{FaultMalformed, err}
	}
	check := v.checks[r.Type]
	if check == nil {
		return nil, fault(FaultUnknownType, "no verifier for %q; expected one of %s", r.Type, strings.Join(v.Types(), ", "))
	}
	res, err := check(r, endorsement, data, now)
	if err == nil && res == nil {
		err = errors.New("the verifier gave neither a result nor an error")
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			err = &Error{FaultMalformed, err}
		}
		return nil, err
	}
	return res, nil
}

// lookup finds a parsed endorsement.
func (v *Verifier) lookup(key [32]byte) (any, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	c, ok := v.cache[key]
	return c, ok
}

// keep remembers a parsed endorsement.
func (v *Verifier) keep(key [32]byte, parsed any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.cache) >= maxCached {
		clear(v.cache)
	}
	v.cache[key] = parsed
}

// take asks for an endorsement and checks that it is the one.
func take(hash [32]byte, endorsement Lookup) (evidence.Endorsement, error) {
	e, ok := endorsement(hash)
	if !ok {
		return e, fault(FaultNoEndorsement, "the report needs endorsement %x, which did not come", hash)
	}
	if got := e.Hash(); got != hash {
		return e, fault(FaultEndorsement, "expected endorsement %x, got %x", hash, got)
	}
	if err := e.Check(); err != nil {
		return e, &Error{FaultEndorsement, err}
	}
	return e, nil
}
