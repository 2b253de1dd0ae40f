// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/sha3"
	"crypto/sha512"
	"encoding"
	"fmt"
	"io"
)

// EdHash is a running hash of EdDSA over a message that comes in pieces:
// PH(M) of HashEdDSA, or the challenge of a verification. It can be saved.
type EdHash struct {
	curve uint16
	size  int       // octets that Sum returns
	w     io.Writer // *sha512 digest or *sha3.SHAKE
}

// NewEdPrehash starts PH of the curve's HashEdDSA: SHA-512, or 64 octets of
// SHAKE256.
func NewEdPrehash(curve uint16) *EdHash {
	if curve == Curve448 {
		return &EdHash{curve, EdPrehashSize, sha3.NewSHAKE256()}
	}
	return &EdHash{curve, EdPrehashSize, sha512.New()}
}

// EdPrehash is PH of a whole message.
func EdPrehash(curve uint16, parts ...[]byte) []byte {
	h := NewEdPrehash(curve)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum()
}

// NewChallenge starts the challenge of a verification of pure EdDSA, for a
// signature with the given R (its first half): hash of R, the public key and
// the message (RFC 8032, 5.1.7 and 5.2.7, step 2).
func (p *EdPublic) NewChallenge(r []byte) (*EdHash, error) {
	if len(r) != EdSize(p.Curve) {
		return nil, fmt.Errorf("%w: R of %d octets, want %d", ErrEdDSA, len(r), EdSize(p.Curve))
	}
	return p.challenge(r, false), nil
}

func (p *EdPublic) challenge(r []byte, prehashed bool) *EdHash {
	var h *EdHash
	if p.Curve == Curve448 {
		h = &EdHash{p.Curve, 2 * EdSize(Curve448), domain448(prehashed)}
	} else {
		h = &EdHash{p.Curve, sha512.Size, sha512.New()}
		if prehashed { // dom2 of RFC 8032, 2, with an empty context
			h.Write([]byte("SigEd25519 no Ed25519 collisions\x01\x00"))
		}
	}
	h.Write(r)
	h.Write(p.raw)
	return h
}

// Write adds to the message; it never fails.
func (h *EdHash) Write(p []byte) (int, error) { return h.w.Write(p) }

// Sum returns the hash: 64 octets, 114 for a challenge of Curve448. Write and
// Sum may not be called afterwards.
func (h *EdHash) Sum() []byte {
	if x, ok := h.w.(*sha3.SHAKE); ok {
		out := make([]byte, h.size)
		x.Read(out)
		return out
	}
	return h.w.(interface{ Sum([]byte) []byte }).Sum(nil)
}

// MarshalBinary returns the running state, for a saved sequence: curve, size of
// the result, state of the hash.
func (h *EdHash) MarshalBinary() ([]byte, error) {
	b, err := h.w.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil, err
	}
	return append([]byte{byte(h.curve >> 8), byte(h.curve), byte(h.size)}, b...), nil
}

// UnmarshalEdHash is the inverse of MarshalBinary.
func UnmarshalEdHash(b []byte) (*EdHash, error) {
	if len(b) < 3 {
		return nil, ErrEdDSA
	}
	h := &EdHash{curve: uint16(b[0])<<8 | uint16(b[1]), size: int(b[2])}
	switch {
	case h.curve == Curve25519 && h.size == sha512.Size:
		h.w = sha512.New()
	case h.curve == Curve448 && (h.size == EdPrehashSize || h.size == 2*EdSize(Curve448)):
		h.w = sha3.NewSHAKE256()
	default:
		return nil, ErrEdDSA
	}
	if err := h.w.(encoding.BinaryUnmarshaler).UnmarshalBinary(b[3:]); err != nil {
		return nil, err
	}
	return h, nil
}
