// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"crypto"
	_ "crypto/sha1"   // banks of older machines
	_ "crypto/sha256" // linked in, so that crypto.Hash finds them
	_ "crypto/sha3"
	_ "crypto/sha512"
	"fmt"
)

// HashAlg is a TPM_ALG_ID of a hash (TPM Library Part 2, 6.3; TCG Algorithm
// Registry).
type HashAlg uint16

// Hashes that PCR banks and event logs use.
const (
	SHA1     HashAlg = 0x0004
	SHA256   HashAlg = 0x000b
	SHA384   HashAlg = 0x000c
	SHA512   HashAlg = 0x000d
	SHA3_256 HashAlg = 0x0027
	SHA3_384 HashAlg = 0x0028
	SHA3_512 HashAlg = 0x0029
)

var hashes = map[HashAlg]struct {
	name string
	h    crypto.Hash
}{
	SHA1:     {"sha1", crypto.SHA1},
	SHA256:   {"sha256", crypto.SHA256},
	SHA384:   {"sha384", crypto.SHA384},
	SHA512:   {"sha512", crypto.SHA512},
	SHA3_256: {"sha3-256", crypto.SHA3_256},
	SHA3_384: {"sha3-384", crypto.SHA3_384},
	SHA3_512: {"sha3-512", crypto.SHA3_512},
}

// Hash is the function, or 0 if it is not known.
func (a HashAlg) Hash() crypto.Hash { return hashes[a].h }

// Size is the digest's length in bytes, or 0 if the hash is not known.
func (a HashAlg) Size() int {
	if h := hashes[a].h; h != 0 {
		return h.Size()
	}
	return 0
}

// String is the name that policies and tpm2-tools use, such as sha256.
func (a HashAlg) String() string {
	if h, ok := hashes[a]; ok {
		return h.name
	}
	return fmt.Sprintf("hash-%#04x", uint16(a))
}

// ParseHashAlg reads such a name.
func ParseHashAlg(s string) (HashAlg, error) {
	for a, h := range hashes {
		if h.name == s {
			return a, nil
		}
	}
	return 0, fmt.Errorf("hash: expected sha1, sha256, sha384, sha512, sha3-256, sha3-384 or sha3-512, got %q", s)
}

// Digest is a digest with its algorithm.
type Digest struct {
	Hash  HashAlg
	Value []byte
}
