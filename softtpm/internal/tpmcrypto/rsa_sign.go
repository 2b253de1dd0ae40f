// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/subtle"
	"errors"
	"io"
)

// ErrSignature is the one error of a signature that does not verify.
var ErrSignature = errors.New("tpmcrypto: signature does not verify")

// ErrDigestSize says that a digest does not have the size of its algorithm.
var ErrDigestSize = errors.New("tpmcrypto: digest does not have the size of its hash algorithm")

// SignPKCS1 signs a digest of h with RSASSA-PKCS1-v1_5 (RFC 8017, 8.2.1).
func (k *RSAPrivate) SignPKCS1(h Hash, digest []byte) ([]byte, error) {
	em, err := emsaPKCS1(h, digest, k.k)
	if err != nil {
		return nil, err
	}
	return k.RawPrivate(em)
}

// VerifyPKCS1 verifies an RSASSA-PKCS1-v1_5 signature of exactly Size octets by
// building the one encoding that is right (RFC 8017, 8.2.2).
func (p *RSAPublic) VerifyPKCS1(h Hash, digest, sig []byte) error {
	em, err := emsaPKCS1(h, digest, p.k)
	if err != nil {
		return err
	}
	got, err := p.rawSignature(sig)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(em, got) != 1 {
		return ErrSignature
	}
	return nil
}

func (p *RSAPublic) rawSignature(sig []byte) ([]byte, error) {
	if len(sig) != p.k {
		return nil, ErrSignature
	}
	got, err := p.Raw(sig)
	if err != nil {
		return nil, ErrSignature
	}
	return got, nil
}

func emsaPKCS1(h Hash, digest []byte, k int) ([]byte, error) {
	prefix := h.digestInfo()
	if prefix == nil || len(digest) != h.Size() {
		return nil, ErrDigestSize
	}
	t := len(prefix) + len(digest)
	if k < t+11 {
		return nil, ErrTooLong
	}
	em := make([]byte, k)
	em[1] = 1
	for i := 2; i < k-t-1; i++ {
		em[i] = 0xff
	}
	copy(em[k-t:], prefix)
	copy(em[k-len(digest):], digest)
	return em, nil
}

// SignPSS signs a digest of h with RSASSA-PSS (RFC 8017, 8.1.1). The salt has
// the size of the digest or, where that does not fit, the largest size that
// does (FIPS 186-5, 5.4; Part 1, "RSASSA_PSS").
func (k *RSAPrivate) SignPSS(h Hash, rand io.Reader, digest []byte) ([]byte, error) {
	n := h.Size()
	if n == 0 || len(digest) != n {
		return nil, ErrDigestSize
	}
	// The modulus has its top bit set, so emBits is 8k-1 and emLen k.
	room := k.k - n - 2
	if room < 0 {
		return nil, ErrTooLong
	}
	salt := make([]byte, min(n, room))
	if _, err := io.ReadFull(rand, salt); err != nil {
		return nil, err
	}
	em := make([]byte, k.k)
	db := em[:k.k-n-1]
	m := h.Sum(make([]byte, 8), digest, salt)
	copy(em[k.k-n-1:], m)
	em[k.k-1] = 0xbc
	db[len(db)-len(salt)-1] = 1
	copy(db[len(db)-len(salt):], salt)
	subtle.XORBytes(db, db, MGF1(h, m, len(db)))
	em[0] &= 0x7f
	return k.RawPrivate(em)
}

// VerifyPSS verifies an RSASSA-PSS signature of exactly Size octets with a salt
// of any size (RFC 8017, 8.1.2, salt size recovered).
func (p *RSAPublic) VerifyPSS(h Hash, digest, sig []byte) error {
	n := h.Size()
	if n == 0 || len(digest) != n {
		return ErrDigestSize
	}
	em, err := p.rawSignature(sig)
	if err != nil {
		return err
	}
	if p.k < n+2 || em[p.k-1] != 0xbc || em[0]&0x80 != 0 {
		return ErrSignature
	}
	db, m := em[:p.k-n-1], em[p.k-n-1:p.k-1]
	subtle.XORBytes(db, db, MGF1(h, m, len(db)))
	db[0] &= 0x7f
	i := 0
	for i < len(db) && db[i] == 0 {
		i++
	}
	if i == len(db) || db[i] != 1 {
		return ErrSignature
	}
	if subtle.ConstantTimeCompare(m, h.Sum(make([]byte, 8), digest, db[i+1:])) != 1 {
		return ErrSignature
	}
	return nil
}
