// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/hmac"
	"crypto/subtle"
	"hash"
)

// NewHMAC returns a running HMAC (FIPS 198-1), nil if h is not Available. The
// key may have any length; h's block size and below is used as it is.
func NewHMAC(h Hash, key []byte) hash.Hash {
	if !h.Available() {
		return nil
	}
	return hmac.New(h.New, key)
}

// HMAC returns the HMAC of the concatenated parts, nil if h is not Available.
func HMAC(h Hash, key []byte, parts ...[]byte) []byte {
	m := NewHMAC(h, key)
	if m == nil {
		return nil
	}
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// Equal compares two byte strings in a time that depends on their lengths
// only. Strings of different lengths are unequal.
func Equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

// Zero overwrites b with zeros.
func Zero(b []byte) { clear(b) }
