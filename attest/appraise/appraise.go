// SPDX-License-Identifier: Apache-2.0

// Package appraise assembles the Verifier that the programs use: every kind
// of evidence that Holdfast knows, one entry each in New. A new kind of
// evidence is a media type in attest/evidence, a verify.Check, and a line here.
package appraise

import (
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// New makes a Verifier for all kinds of evidence, with these roots.
func New(roots *trust.Roots) (*verify.Verifier, error) {
	if err := verify.CheckRoots(roots); err != nil {
		return nil, err
	}
	v := verify.New(roots)
	return v, nil
}
