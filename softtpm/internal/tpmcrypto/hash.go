// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"hash"

	"github.com/emmansun/gmsm/sm3"
)

// Hash is a hash algorithm, named by its TPM_ALG_ID (Part 2, 6.3). Any other
// value, TPM_ALG_NULL included, is not Available and has size 0.
type Hash uint16

// The hash algorithms of this TPM.
const (
	SHA1     Hash = 0x0004
	SHA256   Hash = 0x000B
	SHA384   Hash = 0x000C
	SHA512   Hash = 0x000D
	SM3_256  Hash = 0x0012
	SHA3_256 Hash = 0x0027
	SHA3_384 Hash = 0x0028
	SHA3_512 Hash = 0x0029
)

// MaxDigest is the size in octets of the largest digest of any Hash.
const MaxDigest = 64

// Hashes lists the implemented algorithms in the order of their ids.
func Hashes() []Hash {
	return []Hash{SHA1, SHA256, SHA384, SHA512, SM3_256, SHA3_256, SHA3_384, SHA3_512}
}

// Available reports whether h is implemented.
func (h Hash) Available() bool { return h.Size() != 0 }

// Size returns the size of a digest in octets, 0 if h is not Available.
func (h Hash) Size() int {
	switch h {
	case SHA1:
		return 20
	case SHA256, SM3_256, SHA3_256:
		return 32
	case SHA384, SHA3_384:
		return 48
	case SHA512, SHA3_512:
		return 64
	}
	return 0
}

// BlockSize returns the block size in octets that HMAC uses, 0 if h is not
// Available.
func (h Hash) BlockSize() int {
	switch h {
	case SHA1, SHA256, SM3_256:
		return 64
	case SHA384, SHA512:
		return 128
	case SHA3_256:
		return 136
	case SHA3_384:
		return 104
	case SHA3_512:
		return 72
	}
	return 0
}

// New returns a new running hash, nil if h is not Available.
func (h Hash) New() hash.Hash {
	switch h {
	case SHA1:
		return sha1.New()
	case SHA256:
		return sha256.New()
	case SHA384:
		return sha512.New384()
	case SHA512:
		return sha512.New()
	case SM3_256:
		return sm3.New()
	case SHA3_256:
		return sha3.New256()
	case SHA3_384:
		return sha3.New384()
	case SHA3_512:
		return sha3.New512()
	}
	return nil
}

// Sum returns the digest of the concatenated parts, nil if h is not
// Available.
func (h Hash) Sum(parts ...[]byte) []byte {
	s := h.New()
	if s == nil {
		return nil
	}
	for _, p := range parts {
		s.Write(p)
	}
	return s.Sum(nil)
}

// digestInfo returns the DER prefix of a DigestInfo (RFC 8017, 9.2, note 1;
// the SHA-3 identifiers are those of NIST's CSOR arc 2.16.840.1.101.3.4.2),
// which the digest follows.
func (h Hash) digestInfo() []byte {
	switch h {
	case SHA1: // 1.3.14.3.2.26
		return []byte{0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04, 0x14}
	}
	if h == SM3_256 { // 1.2.156.10197.1.401 (GM/T 0006)
		return []byte{0x30, 0x30, 0x30, 0x0c, 0x06, 0x08, 0x2a, 0x81, 0x1c, 0xcf, 0x55, 0x01, 0x83, 0x11, 0x05, 0x00, 0x04, 0x20}
	}
	oid := h.OID()
	if oid == nil {
		return nil
	}
	n := byte(h.Size())
	p := []byte{0x30, 17 + n, 0x30, 0x0d}
	p = append(p, oid...)
	return append(p, 0x05, 0x00, 0x04, n)
}

// OID returns the DER encoding (tag and length included) of the hash's object
// identifier as HashML-DSA prepends it (FIPS 204, 5.4.1), nil where FIPS 204
// allows none (SHA-1, SM3 and what is not Available).
func (h Hash) OID() []byte {
	last := map[Hash]byte{SHA256: 1, SHA384: 2, SHA512: 3, SHA3_256: 8, SHA3_384: 9, SHA3_512: 10}[h]
	if last == 0 {
		return nil
	}
	return []byte{0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, last}
}
