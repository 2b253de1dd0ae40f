// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/subtle"
	"errors"
	"io"
)

// ErrPadding is the one error of every failed unpadding: a caller cannot tell
// which octet was wrong.
var ErrPadding = errors.New("tpmcrypto: RSA padding is wrong")

// ErrTooLong says that a message does not fit the key and the padding.
var ErrTooLong = errors.New("tpmcrypto: message is too long for this RSA key and scheme")

// EncryptPKCS1 is RSAES-PKCS1-v1_5 encryption (RFC 8017, 7.2.1).
func (p *RSAPublic) EncryptPKCS1(rand io.Reader, msg []byte) ([]byte, error) {
	if len(msg) > p.k-11 {
		return nil, ErrTooLong
	}
	em := make([]byte, p.k)
	defer clear(em)
	em[1] = 2
	ps := em[2 : p.k-len(msg)-1]
	if _, err := io.ReadFull(rand, ps); err != nil {
		return nil, err
	}
	for i := range ps {
		for ps[i] == 0 {
			if _, err := io.ReadFull(rand, ps[i:i+1]); err != nil {
				return nil, err
			}
		}
	}
	copy(em[p.k-len(msg):], msg)
	return p.Raw(em)
}

// DecryptPKCS1 is RSAES-PKCS1-v1_5 decryption (RFC 8017, 7.2.2). The padding
// is examined in constant time, but that the TPM answers with an error at all
// is what the scheme's known attack needs: that is the protocol's property.
func (k *RSAPrivate) DecryptPKCS1(c []byte) ([]byte, error) {
	em, err := k.RawPrivate(c)
	if err != nil {
		return nil, err
	}
	defer clear(em)
	ok := subtle.ConstantTimeByteEq(em[0], 0) & subtle.ConstantTimeByteEq(em[1], 2)
	looking, index := 1, 0
	for i := 2; i < len(em); i++ {
		zero := subtle.ConstantTimeByteEq(em[i], 0)
		index = subtle.ConstantTimeSelect(looking&zero, i, index)
		looking = subtle.ConstantTimeSelect(zero, 0, looking)
	}
	ok &= 1 ^ looking
	ok &= subtle.ConstantTimeLessOrEq(2+8, index)
	if ok != 1 {
		return nil, ErrPadding
	}
	return append([]byte{}, em[index+1:]...), nil
}

// EncryptOAEP is RSAES-OAEP encryption with h for the label and the mask
// (RFC 8017, 7.1.1). label is used as it is: TPM callers give it with its
// final zero octet, or empty (Part 1, "RSAES_OAEP").
func (p *RSAPublic) EncryptOAEP(h Hash, rand io.Reader, msg, label []byte) ([]byte, error) {
	n := h.Size()
	if n == 0 || len(msg) > p.k-2*n-2 {
		return nil, ErrTooLong
	}
	em := make([]byte, p.k)
	defer clear(em)
	seed, db := em[1:1+n], em[1+n:]
	if _, err := io.ReadFull(rand, seed); err != nil {
		return nil, err
	}
	copy(db, h.Sum(label))
	db[len(db)-len(msg)-1] = 1
	copy(db[len(db)-len(msg):], msg)
	subtle.XORBytes(db, db, MGF1(h, seed, len(db)))
	subtle.XORBytes(seed, seed, MGF1(h, db, n))
	return p.Raw(em)
}

// DecryptOAEP is the inverse of EncryptOAEP (RFC 8017, 7.1.2); which check
// failed does not show in the time.
func (k *RSAPrivate) DecryptOAEP(h Hash, c, label []byte) ([]byte, error) {
	n := h.Size()
	if n == 0 || k.k < 2*n+2 {
		return nil, ErrTooLong
	}
	em, err := k.RawPrivate(c)
	if err != nil {
		return nil, err
	}
	defer clear(em)
	seed, db := em[1:1+n], em[1+n:]
	subtle.XORBytes(seed, seed, MGF1(h, db, n))
	subtle.XORBytes(db, db, MGF1(h, seed, len(db)))
	ok := subtle.ConstantTimeByteEq(em[0], 0) & subtle.ConstantTimeCompare(db[:n], h.Sum(label))
	looking, index, bad := 1, 0, 0
	for i := n; i < len(db); i++ {
		one, zero := subtle.ConstantTimeByteEq(db[i], 1), subtle.ConstantTimeByteEq(db[i], 0)
		index = subtle.ConstantTimeSelect(looking&one, i, index)
		looking = subtle.ConstantTimeSelect(one, 0, looking)
		bad = subtle.ConstantTimeSelect(looking&(1^zero), 1, bad)
	}
	if ok&(1^bad)&(1^looking) != 1 {
		return nil, ErrPadding
	}
	return append([]byte{}, db[index+1:]...), nil
}
