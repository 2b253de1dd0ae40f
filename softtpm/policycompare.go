// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/tpm2"
)

// operation reads a TPM_EO; TPM_RC_VALUE if it is none.
func operation(r *tpm2.Reader) tpm2.EO {
	op := tpm2.EO(r.U16())
	if r.Code() == tpm2.RCSuccess && op > tpm2.EOBitClear {
		r.Fail(tpm2.RCValue)
	}
	return op
}

// holds says whether "a op b" is true for two big-endian numbers of the same
// size (Part 2, 6.8): a is the TPM's value; an empty number is zero. Signed numbers
// are two's complement; the classic profile compares two negative ones as sign
// and magnitude, as the TPMs of its time do (swtpm is one, and tpm2-tools 5.4
// has a test script that expects that).
func (profile Profile) holds(op tpm2.EO, a, b []byte) bool {
	u := bytes.Compare(a, b)
	s := u
	if len(a) > 0 && ((a[0]^b[0])&0x80 != 0 || a[0]&0x80 != 0 && profile == ProfileClassic) {
		s = -u
	}
	switch op {
	case tpm2.EOEq:
		return u == 0
	case tpm2.EONeq:
		return u != 0
	case tpm2.EOSignedGT:
		return s > 0
	case tpm2.EOUnsignedGT:
		return u > 0
	case tpm2.EOSignedLT:
		return s < 0
	case tpm2.EOUnsignedLT:
		return u < 0
	case tpm2.EOSignedGE:
		return s >= 0
	case tpm2.EOUnsignedGE:
		return u >= 0
	case tpm2.EOSignedLE:
		return s <= 0
	case tpm2.EOUnsignedLE:
		return u <= 0
	case tpm2.EOBitSet: // all bits that are set in b are set in a
		for i := range b {
			if a[i]&b[i] != b[i] {
				return false
			}
		}
		return true
	case tpm2.EOBitClear: // all bits that are set in b are clear in a
		for i := range b {
			if a[i]&b[i] != 0 {
				return false
			}
		}
		return true
	}
	return false
}
