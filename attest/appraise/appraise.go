// SPDX-License-Identifier: Apache-2.0

// Package appraise assembles the Verifier that the programs use: every kind
// of evidence that Holdfast knows, one entry each in build. A new kind of
// evidence is a media type in attest/evidence, a verify.Check, and a line here.
//
// Start with Open, or New for roots that are in memory.
package appraise

import (
	"fmt"

	"holdfast/attest/appraise/csv"
	"holdfast/attest/appraise/snp"
	"holdfast/attest/appraise/tdx"
	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// Open makes a Verifier for all kinds of evidence with the roots of a trust
// file, and with the collateral in a folder; an empty name means no folder.
func Open(trustFile, collateralDir string) (*verify.Verifier, error) {
	roots, err := trust.Load(trustFile)
	if err != nil {
		return nil, err
	}
	if collateralDir == "" {
		return New(roots)
	}
	store, err := collateral.Open(collateralDir)
	if err != nil {
		return nil, err
	}
	return build(roots, store)
}

// New makes a Verifier for all kinds of evidence, with these roots and without
// collateral.
func New(roots *trust.Roots) (*verify.Verifier, error) { return build(roots, nil) }

func build(roots *trust.Roots, store *collateral.Store) (*verify.Verifier, error) {
	if err := verify.CheckRoots(roots); err != nil {
		return nil, err
	}
	v := verify.New(roots)
	hygon, err := csv.New(roots, store)
	if err != nil {
		return nil, err
	}
	for mediaType, check := range map[string]verify.Check{
		evidence.TypeSNP: snp.New(roots, store).Check,
		evidence.TypeTDX: tdx.New(roots, store).Check,
		evidence.TypeCSV: hygon.Check,
	} {
		if err := v.Add(mediaType, check); err != nil {
			return nil, fmt.Errorf("appraise: %w", err)
		}
	}
	return v, nil
}

// Wants lists the addresses of the collateral that a report needs, for
// `holdfast attest collateral fetch`. It verifies nothing.
func Wants(r evidence.Report, endorsement verify.Lookup) ([]string, error) {
	switch r.Type {
	case evidence.TypeSNP:
		return snp.Wants(r, endorsement)
	case evidence.TypeTDX:
		return tdx.Wants(r)
	case evidence.TypeCSV:
		return csv.Wants(r)
	}
	return nil, nil // the others need nothing of a vendor
}
